/* A transport for tests, with all ranks as endpoints of one process. It delays, reorders what may
 * be reordered, shares a bandwidth, counts, and loses ranks and links on demand. Invariant: random
 * choices (delays, the order of sums) depend on the seed, the ranks, and each rank's order of
 * posts, never on thread timing. Any thread may make any call, except that calls of one endpoint
 * must not overlap; each rank's endpoint may have its own thread. */
#ifndef TANDEM_TESTS_SUPPORT_SIMNET_H
#define TANDEM_TESTS_SUPPORT_SIMNET_H

#include "net/transport.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_simnet tdm_simnet;

/* All zeros: a net without delay or limits. */
typedef struct tdm_simnet_options {
  size_t struct_size;
  int rank_count;
  uint64_t seed;
  uint64_t delay_ns;         /* each transfer and collective is delayed by 0 to this */
  uint64_t bytes_per_second; /* bandwidth of the medium that all ranks share; 0: no limit */
  uint64_t burst_bytes; /* bytes that the medium carries at once after a pause (a token bucket) */
  /* Sends of at most this size settle before they are received; longer ones wait for the receive.
   * Endpoints report it as their eager_bytes, and 0 as no limit. */
  size_t eager_bytes;
  /* Requests that wait for a rank that was killed or has abandoned fail with UNAVAILABLE. If false,
   * they wait forever, as in MPI. */
  bool loss_is_told;
} tdm_simnet_options;

/* Creates a net. All endpoints use its allocator too. */
tdm_status tdm_simnet_create(const tdm_allocator *allocator, const tdm_simnet_options *options,
                             tdm_simnet **out_net) TDM_WARN_UNUSED;
/* Releases the net. Open endpoints keep it alive, because the last thread to end a rank may be a
 * thread of the net. net may be NULL. */
void tdm_simnet_release(tdm_simnet *net);

/* The target of tdm_endpoint_options.job. Opening and closing do not wait for the other ranks; each
 * rank is opened once. Hosts are named "sim0", "sim1", ... by rank. */
typedef struct tdm_simnet_place {
  tdm_simnet *net;
  int rank;
} tdm_simnet_place;

extern const tdm_transport tdm_simnet_transport;
/* Opens the endpoint of that rank, without time-out. */
tdm_status tdm_simnet_endpoint(tdm_simnet *net, int rank,
                               tdm_endpoint **out_endpoint) TDM_WARN_UNUSED;

/* ---- Faults ---------------------------------------------------------------------------------- */

/* Kills a rank: its calls fail with UNAVAILABLE and nothing of it moves. Only abandon remains
 * legal. */
void tdm_simnet_kill(tdm_simnet *net, int rank);
/* Kills the rank at its post of that number, counted from 1; that post fails. 0: never. */
void tdm_simnet_kill_at(tdm_simnet *net, int rank, uint64_t post);
/* Stops a rank or lets it continue. While it is stopped, nothing moves to or from it, and its polls
 * return no requests. */
void tdm_simnet_stop(tdm_simnet *net, int rank, bool stopped);
/* Stops the rank from its post of that number on, counted from 1; 0: never. hit (may be NULL) is
 * called then, under a lock, and must not call simnet. */
void tdm_simnet_stop_at(tdm_simnet *net, int rank, uint64_t post, void (*hit)(void *user),
                        void *user);
/* Sets a link up or down. While it is down, nothing moves between the two ranks and no collective
 * moves. Links are up initially. */
void tdm_simnet_link(tdm_simnet *net, int a, int b, bool up);
/* Holds back what one rank sends to another, for as long as needed. tdm_simnet_let_go moves every
 * held transfer with both ends posted within the call, without any poll, like an engine that
 * accesses memory by itself. It returns the number of these transfers. */
void tdm_simnet_hold(tdm_simnet *net, int from, int to);
size_t tdm_simnet_let_go(tdm_simnet *net, int from, int to);

/* ---- Counts ---------------------------------------------------------------------------------- */

typedef struct tdm_simnet_traffic {
  uint64_t messages; /* number of sends that were posted */
  uint64_t bytes;    /* their bytes */
} tdm_simnet_traffic;

tdm_simnet_traffic tdm_simnet_sent(tdm_simnet *net, int from, int to);
/* Returns how many sends, receives and collectives the rank has posted. */
uint64_t tdm_simnet_posts(tdm_simnet *net, int rank);

#ifdef __cplusplus
}
#endif
#endif
