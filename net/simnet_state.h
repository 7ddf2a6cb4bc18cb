/* What simnet's files share: the net, its ranks, and the operations they posted. Invariant: all of
 * it is read and written under the net's lock, memory of requests too; an operation is in the list
 * of the rank that posted it until its request has settled and its bytes are not needed. */
#ifndef TANDEM_NET_SIMNET_STATE_H
#define TANDEM_NET_SIMNET_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/allocate.h"
#include "net/simnet.h"

/* One collective of the job: the ranks' operations of the same number. */
typedef struct sim_round {
  struct sim_round *next;
  uint32_t number;
  int joined;      /* ranks that have posted theirs, and are not gone since */
  int unsettled;   /* of these, those that have not settled */
  bool moved;      /* the result is in everybody's memory */
  int odd_rank;    /* the first that posted something else than rank 0 did; 0: none */
  uint64_t due_ns; /* once all have joined */
  struct sim_operation *operations[]; /* (rank_count), NULL: not joined, or gone */
} sim_round;

typedef struct sim_operation {
  struct sim_operation *next;
  struct sim_operation *previous;
  tdm_net_request *request; /* NULL: an eager send that has settled already */
  tdm_net_kind kind;
  tdm_dtype dtype;
  int rank;         /* that posted it */
  int peer;         /* or root */
  uint32_t channel; /* or the number of the round */
  size_t bytes;     /* or elements, of an all-reduce */
  const void *from;
  void *to;
  uint64_t draw;               /* what chance gives a send */
  uint64_t due_ns;             /* when a send has arrived: if not eager, once it is matched */
  struct sim_operation *match; /* the other side's */
  sim_round *round;            /* of collectives */
  void *copy;                  /* an eager send's bytes, of the net's allocator */
} sim_operation;

typedef struct sim_endpoint {
  tdm_endpoint base;
  tdm_simnet *net;
} sim_endpoint;
_Static_assert(offsetof(sim_endpoint, base) == 0, "an endpoint is the beginning of simnet's");

typedef struct sim_rank {
  bool opened; /* ever */
  bool gone;   /* killed or abandoned: nothing of it moves any more */
  bool stopped;
  uint64_t kill_at;
  uint64_t stop_at;
  void (*stop_hit)(void *user);
  void *stop_user;
  uint64_t posts;
  uint32_t collectives;
  sim_operation *first; /* in the order of posting */
  sim_operation *last;
  tdm_net_request *settled; /* to hand back, oldest first */
  tdm_net_request **settled_end;
  tdm_simnet_traffic *sent; /* (rank_count) */
  bool *down;               /* (rank_count) */
  bool *held;               /* (rank_count): what it sends to that rank */
} sim_rank;

struct tdm_simnet {
  tdm_allocator allocator;
  tdm_simnet_options options;
  pthread_mutex_t lock;
  atomic_size_t references; /* the maker's, and one of each endpoint that is open */
  uint64_t medium_free_ns;  /* when the shared medium has carried all that it was given */
  tdm_rank *named;          /* (rank_count) */
  sim_rank *ranks;          /* (rank_count) */
  sim_round *rounds;
};

/* ---- simnet_operations.c ---- */

/* Under the lock: the rank is gone, its operations too, and what waits for it fails if loss is
 * told. */
void sim_lose(tdm_simnet *net, int rank);
/* May this rank's thread post? Counts it, and kills the rank whose turn it is. */
tdm_status sim_may_post(sim_endpoint *endpoint);
/* Appended to the rank's list; NULL with the endpoint's message set when memory is short. */
sim_operation *sim_operation_add(sim_endpoint *endpoint, tdm_net_request *request);
void sim_operation_remove(tdm_simnet *net, sim_operation *operation);
/* The operation's request, if it has not settled, is handed back by the rank's next poll. */
void sim_settle(tdm_simnet *net, sim_operation *operation, tdm_status status);
bool sim_path_is_up(const tdm_simnet *net, int a, int b);
/* When bytes that start now are across. */
uint64_t sim_due_ns(tdm_simnet *net, uint64_t draw, size_t bytes);
uint64_t sim_draw(const tdm_simnet *net, uint64_t from, uint64_t to, uint64_t number);

/* ---- simnet_transfers.c ---- */

tdm_status sim_send(tdm_endpoint *endpoint, tdm_net_request *request, int peer, uint32_t channel,
                    const void *memory, size_t bytes);
tdm_status sim_receive(tdm_endpoint *endpoint, tdm_net_request *request, int peer, uint32_t channel,
                       void *memory, size_t bytes);
tdm_status sim_cancel(tdm_endpoint *endpoint, tdm_net_request *request);
/* Moves the bytes of a pair that is due. */
void sim_transfer_advance(tdm_simnet *net, sim_operation *operation, uint64_t now_ns);
/* Moves what rank `from` has sent to `to`, whatever its time; answers how many transfers. */
size_t sim_transfers_push(tdm_simnet *net, int from, int to);
void sim_transfers_drop(tdm_simnet *net, int rank);

/* ---- simnet_collectives.c ---- */

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
