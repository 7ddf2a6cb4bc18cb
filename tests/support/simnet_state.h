/* State shared by simnet's files: the net, its ranks, and the operations they posted. Invariant:
 * all of it, including the memory of requests, is read and written under the net's lock. An
 * operation is in the list of the rank that posted it until its request has settled and its bytes
 * are not needed. */
#ifndef TANDEM_TESTS_SUPPORT_SIMNET_STATE_H
#define TANDEM_TESTS_SUPPORT_SIMNET_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/allocate.h"
#include "tests/support/simnet.h"

/* One collective of the job: the ranks' operations with the same number. */
typedef struct sim_round {
  struct sim_round *next;
  uint32_t number;
  int joined;                         /* present ranks that have posted theirs */
  int unsettled;                      /* joined ranks whose operation has not settled */
  bool moved;                         /* the result is in every rank's memory */
  int odd_rank;                       /* first rank whose post differs from rank 0's; 0: none */
  uint64_t due_ns;                    /* set when all have joined */
  struct sim_operation *operations[]; /* (rank_count), NULL: not joined, or no longer present */
} sim_round;

typedef struct sim_operation {
  struct sim_operation *next;
  struct sim_operation *previous;
  tdm_net_request *request; /* NULL: an eager send that has already settled */
  tdm_net_kind kind;
  tdm_dtype dtype;
  int rank;         /* the rank that posted it */
  int peer;         /* or root */
  uint32_t channel; /* or the number of the round */
  size_t bytes;     /* or elements, for an all-reduce */
  const void *from;
  void *to;
  uint64_t draw;               /* random number of a send */
  uint64_t due_ns;             /* arrival time of a send; if not eager, set at the match */
  struct sim_operation *match; /* the matching operation of the other rank */
  sim_round *round;            /* for collectives */
  void *copy;                  /* an eager send's bytes, from the net's allocator */
} sim_operation;

typedef struct sim_endpoint {
  tdm_endpoint base;
  tdm_simnet *net;
} sim_endpoint;
_Static_assert(offsetof(sim_endpoint, base) == 0, "an endpoint is the beginning of simnet's");

typedef struct sim_rank {
  bool opened; /* was opened at some time */
  bool gone;   /* killed or abandoned: nothing of it moves any more */
  bool stopped;
  uint64_t kill_at;
  uint64_t stop_at;
  void (*stop_hit)(void *user);
  void *stop_user;
  uint64_t posts;
  uint32_t collectives;
  sim_operation *first; /* list in the order of posting */
  sim_operation *last;
  tdm_net_request *settled; /* list to return, oldest first */
  tdm_net_request **settled_end;
  tdm_simnet_traffic *sent; /* (rank_count) */
  bool *down;               /* (rank_count) */
  bool *held;               /* (rank_count): transfers to that rank are held */
} sim_rank;

struct tdm_simnet {
  tdm_allocator allocator;
  tdm_simnet_options options;
  pthread_mutex_t lock;
  atomic_size_t references; /* one of the creator, and one of each open endpoint */
  uint64_t medium_free_ns;  /* when the shared medium has carried all bytes so far */
  tdm_rank *named;          /* (rank_count) */
  sim_rank *ranks;          /* (rank_count) */
  sim_round *rounds;
};

/* ---- simnet_operations.c --------------------------------------------------------------------- */

/* Marks the rank as lost, with its operations. Requests that wait for it fail if loss_is_told. The
 * caller holds the lock. */
void sim_lose(tdm_simnet *net, int rank);
/* Checks that this rank may post and counts the post. Kills the rank if this is the chosen post. */
tdm_status sim_may_post(sim_endpoint *endpoint);
/* Appends an operation to the rank's list. If memory is short, returns NULL and sets the endpoint's
 * message. */
sim_operation *sim_operation_add(sim_endpoint *endpoint, tdm_net_request *request);
void sim_operation_remove(tdm_simnet *net, sim_operation *operation);
/* Settles the operation's request, unless that was done; the rank's next poll returns it. */
void sim_settle(tdm_simnet *net, sim_operation *operation, tdm_status status);
bool sim_path_is_up(const tdm_simnet *net, int a, int b);
/* Returns the time at which bytes that start now have arrived. */
uint64_t sim_due_ns(tdm_simnet *net, uint64_t draw, size_t bytes);
uint64_t sim_draw(const tdm_simnet *net, uint64_t from, uint64_t to, uint64_t number);

/* ---- simnet_transfers.c ---------------------------------------------------------------------- */

tdm_status sim_send(tdm_endpoint *endpoint, tdm_net_request *request, int peer, uint32_t channel,
                    const void *memory, size_t bytes);
tdm_status sim_receive(tdm_endpoint *endpoint, tdm_net_request *request, int peer, uint32_t channel,
                       void *memory, size_t bytes);
tdm_status sim_cancel(tdm_endpoint *endpoint, tdm_net_request *request);
/* Moves the bytes of a matched pair that is due. */
void sim_transfer_advance(tdm_simnet *net, sim_operation *operation, uint64_t now_ns);
/* Moves what rank `from` has sent to `to`, ignoring times. Returns the number of transfers. */
size_t sim_transfers_push(tdm_simnet *net, int from, int to);
void sim_transfers_drop(tdm_simnet *net, int rank);

/* ---- simnet_collectives.c -------------------------------------------------------------------- */

tdm_status sim_all_reduce(tdm_endpoint *endpoint, tdm_net_request *request, tdm_dtype dtype,
                          void *memory, size_t count);
tdm_status sim_broadcast(tdm_endpoint *endpoint, tdm_net_request *request, int root, void *memory,
                         size_t bytes);
tdm_status sim_all_gather(tdm_endpoint *endpoint, tdm_net_request *request, const void *own,
                          void *all, size_t bytes);
tdm_status sim_barrier(tdm_endpoint *endpoint, tdm_net_request *request);
void sim_collective_advance(tdm_simnet *net, sim_operation *operation, uint64_t now_ns);
void sim_collectives_drop(tdm_simnet *net, int rank);

#endif
