/* A transport of which all ranks are endpoints of one process, for tests: it delays, reorders what
 * may be reordered, shares a bandwidth, counts, and loses ranks and links on demand. Invariant:
 * what it draws (delays, the order of sums) depends on the seed, the ranks, and the order in which
 * each rank posts, never on how threads meet. Every call may be made by any thread, but for an
 * endpoint's, of which each rank's have a thread of their own if wanted. */
#ifndef TANDEM_NET_SIMNET_H
#define TANDEM_NET_SIMNET_H

#include "net/transport.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_simnet tdm_simnet;

/* Zeros: the fastest net there is. */
typedef struct tdm_simnet_options {
  size_t struct_size;
  int rank_count;
  uint64_t seed;
  uint64_t delay_ns;         /* each transfer and collective takes 0 to this longer */
  uint64_t bytes_per_second; /* of the one medium that all ranks share; 0: without limit */
  uint64_t burst_bytes; /* which the medium lets pass at once when it has rested (a token bucket) */
  /* Sends of up to so many bytes settle before they are received; longer ones wait for it, and
   * nothing else does. Endpoints tell it as theirs, and 0 as no limit. */
  size_t eager_bytes;
  /* A rank that is killed or abandons fails the requests that wait for it, with UNAVAILABLE;
   * otherwise these wait for ever, as they do in MPI. */
  bool loss_is_told;
} tdm_simnet_options;

/* The allocator is that of all endpoints, too. */
tdm_status tdm_simnet_create(const tdm_allocator *allocator, const tdm_simnet_options *options,
                             tdm_simnet **out_net) TDM_WARN_UNUSED;
/* Endpoints that are still open keep it: the thread that ends a rank last may be one of its own.
 * net may be NULL. */
void tdm_simnet_release(tdm_simnet *net);

/* What tdm_endpoint_options.job points to. Opening does not wait for the other ranks, nor does
 * closing; each rank is opened once. Hosts are called "sim0", "sim1", ... by rank. */
typedef struct tdm_simnet_place {
  tdm_simnet *net;
  int rank;
} tdm_simnet_place;

extern const tdm_transport tdm_simnet_transport;
/* tdm_endpoint_open of that rank, without time-out. */
tdm_status tdm_simnet_endpoint(tdm_simnet *net, int rank,
                               tdm_endpoint **out_endpoint) TDM_WARN_UNUSED;

/* ---- Faults --------------------------------------------------------------------------------- */

/* From now on the rank's calls fail with UNAVAILABLE and nothing of it moves; only abandon is left
 * to it. */
void tdm_simnet_kill(tdm_simnet *net, int rank);
/* The same at the rank's post of that number, from 1, which fails; 0: never. */
void tdm_simnet_kill_at(tdm_simnet *net, int rank, uint64_t post);
/* Nothing moves to or from a rank that is stopped, and its polls hand nothing back. */
void tdm_simnet_stop(tdm_simnet *net, int rank, bool stopped);
/* The same from the rank's post of that number on, from 1; 0: never. hit (may be NULL) is called
 * then, under a lock: it must not call simnet. */
void tdm_simnet_stop_at(tdm_simnet *net, int rank, uint64_t post, void (*hit)(void *user),
                        void *user);
/* Nothing moves between two ranks while the link is down, nor does any collective. Up at first. */
void tdm_simnet_link(tdm_simnet *net, int a, int b, bool up);
/* What one rank sends another is held back, for whatever time either of them waits for it. Once it
 * is let go, all of it of which both ends are posted moves within the call, although nobody polls,
 * as with engines that reach into memory by themselves; answers how many transfers did. */
void tdm_simnet_hold(tdm_simnet *net, int from, int to);
size_t tdm_simnet_let_go(tdm_simnet *net, int from, int to);

/* ---- Counts --------------------------------------------------------------------------------- */

typedef struct tdm_simnet_traffic {
  uint64_t messages; /* sends that were posted */
  uint64_t bytes;    /* theirs */
} tdm_simnet_traffic;

tdm_simnet_traffic tdm_simnet_sent(tdm_simnet *net, int from, int to);
/* Sends, receives and collectives that the rank has posted. */
uint64_t tdm_simnet_posts(tdm_simnet *net, int rank);

#ifdef __cplusplus
}
#endif
#endif
