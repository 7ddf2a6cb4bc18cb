/* Collectives of simnet. The ranks' operations of one number form a round. The first poll after all
 * have joined and the time has come moves the bytes of all ranks. Invariant: sums are added in an
 * order that the seed chooses for each round, and every rank receives the same bits. Ranks that
 * post different collectives all get an error, which real engines do not report. */
#include <string.h>

#include "core/status.h"
#include "tests/support/simnet_state.h"

#define PIECE 256 /* elements that are summed at once */

/* ---- Rounds ---------------------------------------------------------------------------------- */

static size_t round_bytes(const tdm_simnet *net) {
  return sizeof(sim_round) + (size_t)net->options.rank_count * sizeof(sim_operation *);
}

static sim_round *find_round(tdm_simnet *net, uint32_t number) {
  sim_round *round = net->rounds;
  while (round && round->number != number)
    round = round->next;
  if (round) return round;
  round = tdm_allocate(&net->allocator, round_bytes(net), "a collective");
  if (!round) return NULL;
  round->number = number;
  round->next = net->rounds;
  net->rounds = round;
  return round;
}

/* Removes an operation from its round; the last one frees the round. */
static void leave_round(tdm_simnet *net, sim_operation *operation) {
  sim_round *round = operation->round;
  sim_operation_remove(net, operation);
  if (--round->unsettled > 0) return;
  sim_round **link = &net->rounds;
  while (*link != round)
    link = &(*link)->next;
  *link = round->next;
  tdm_release(&net->allocator, round, round_bytes(net));
}

/* Returns the bytes that all ranks together send if all_reduce is a ring. */
static size_t traffic_bytes(const tdm_simnet *net, const sim_operation *operation) {
  const size_t ranks = (size_t)net->options.rank_count;
  const size_t bytes = operation->kind == TDM_NET_ALL_REDUCE
                           ? operation->bytes * tdm_dtype_bytes(operation->dtype)
                           : operation->bytes;
  if (operation->kind == TDM_NET_ALL_REDUCE) return 2 * bytes * (ranks - 1);
  return operation->kind == TDM_NET_ALL_GATHER ? bytes * ranks * (ranks - 1) : bytes * (ranks - 1);
}

static void complete_round(tdm_simnet *net, sim_round *round) {
  const sim_operation *first = round->operations[0];
  for (int rank = net->options.rank_count - 1; rank > 0; rank--) {
    const sim_operation *other = round->operations[rank];
    if (other->kind != first->kind || other->dtype != first->dtype || other->peer != first->peer ||
        other->bytes != first->bytes)
      round->odd_rank = rank;
  }
  const uint64_t draw = sim_draw(net, UINT64_MAX, 0, round->number);
  round->due_ns = sim_due_ns(net, draw, traffic_bytes(net, first));
}

static tdm_status join(sim_endpoint *endpoint, sim_operation *operation) {
  tdm_simnet *net = endpoint->net;
  sim_rank *rank = &net->ranks[operation->rank];
  sim_round *round = find_round(net, rank->collectives);
  if (!round) return TDM_OUT_OF_MEMORY;
  operation->channel = operation->request->channel = rank->collectives++;
  operation->round = round;
  round->operations[operation->rank] = operation;
  round->joined++;
  round->unsettled++;
  if (round->joined == net->options.rank_count) complete_round(net, round);
  return TDM_OK;
}

/* Posts count elements of that dtype, or bytes if it has none. */
static tdm_status post(tdm_endpoint *base, tdm_net_request *request, tdm_dtype dtype, size_t count,
                       const void *from, void *to) {
  sim_endpoint *endpoint = (sim_endpoint *)base;
  tdm_simnet *net = endpoint->net;
  (void)pthread_mutex_lock(&net->lock);
  tdm_status status = sim_may_post(endpoint);
  sim_operation *operation = NULL;
  if (status == TDM_OK) {
    operation = sim_operation_add(endpoint, request);
    if (!operation) status = TDM_OUT_OF_MEMORY;
  }
  if (operation) {
    operation->dtype = dtype;
    operation->bytes = count;
    operation->from = from;
    operation->to = to;
    status = join(endpoint, operation);
    if (status != TDM_OK) {
      sim_operation_remove(net, operation);
      memcpy(base->message, "out of memory", sizeof("out of memory"));
    }
  }
  (void)pthread_mutex_unlock(&net->lock);
  return status;
}

tdm_status sim_all_reduce(tdm_endpoint *endpoint, tdm_net_request *request, tdm_dtype dtype,
                          void *memory, size_t count) {
  return post(endpoint, request, dtype, count, memory, memory);
}

tdm_status sim_broadcast(tdm_endpoint *endpoint, tdm_net_request *request, int root, void *memory,
                         size_t bytes) {
  (void)root;
  return post(endpoint, request, TDM_DTYPE_NONE, bytes, memory, memory);
}

tdm_status sim_all_gather(tdm_endpoint *endpoint, tdm_net_request *request, const void *own,
                          void *all, size_t bytes) {
  return post(endpoint, request, TDM_DTYPE_NONE, bytes, own, all);
}

tdm_status sim_barrier(tdm_endpoint *endpoint, tdm_net_request *request) {
  return post(endpoint, request, TDM_DTYPE_NONE, 0, NULL, NULL);
}

/* ---- Moving ---------------------------------------------------------------------------------- */

/* Returns the rank at `position` of the round's order of summation. The seed chooses its start and
 * direction. */
static int rank_at(const tdm_simnet *net, const sim_round *round, int position) {
  const uint64_t draw = sim_draw(net, UINT64_MAX, 1, round->number);
  const int count = net->options.rank_count;
  const int begin = (int)(draw % (uint64_t)count);
  return (draw >> 32) % 2 == 0 ? (begin + position) % count : (begin + count - position) % count;
}

/* Sums elements from `first` on, for both dtypes, each in its own precision. */
static void sum_piece(const tdm_simnet *net, const sim_round *round, size_t first, size_t count) {
  const bool is_double = round->operations[0]->dtype == TDM_FLOAT64;
  const size_t element = is_double ? sizeof(double) : sizeof(float);
  float floats[PIECE] = {0};
  double doubles[PIECE] = {0};
  for (int position = 0; position < net->options.rank_count; position++) {
    const sim_operation *added = round->operations[rank_at(net, round, position)];
    for (size_t i = 0; i < count && is_double; i++)
      doubles[i] += ((const double *)added->from)[first + i];
    for (size_t i = 0; i < count && !is_double; i++)
      floats[i] += ((const float *)added->from)[first + i];
  }
  for (int rank = 0; rank < net->options.rank_count; rank++)
    memcpy((char *)round->operations[rank]->to + first * element,
           is_double ? (const void *)doubles : (const void *)floats, count * element);
}

static void move_round(tdm_simnet *net, sim_round *round) {
  const sim_operation *first = round->operations[0];
  const int count = net->options.rank_count;
  round->moved = true;
  if (round->odd_rank != 0 || first->bytes == 0) return;
  if (first->kind == TDM_NET_ALL_REDUCE) {
    for (size_t i = 0; i < first->bytes; i += PIECE)
      sum_piece(net, round, i, first->bytes - i < PIECE ? first->bytes - i : PIECE);
    return;
  }
  for (int to = 0; to < count; to++) {
    char *memory = round->operations[to]->to;
    if (first->kind == TDM_NET_BROADCAST && to != first->peer)
      memcpy(memory, round->operations[first->peer]->from, first->bytes);
    for (int from = 0; from < count && first->kind == TDM_NET_ALL_GATHER; from++)
      memmove(memory + (size_t)from * first->bytes, round->operations[from]->from, first->bytes);
  }
}

static bool all_are_up(const tdm_simnet *net) {
  for (int a = 0; a < net->options.rank_count; a++)
    for (int b = a; b < net->options.rank_count; b++)
      if (!sim_path_is_up(net, a, b)) return false;
  return true;
}

/* Returns true if a rank has left or was lost before its part in the round. */
static bool is_lost(const tdm_simnet *net, const sim_round *round) {
  for (int rank = 0; rank < net->options.rank_count; rank++)
    if (net->ranks[rank].gone && !round->operations[rank]) return true;
  return false;
}

void sim_collective_advance(tdm_simnet *net, sim_operation *operation, uint64_t now_ns) {
  sim_round *round = operation->round;
  if (!round->moved && round->joined == net->options.rank_count && round->due_ns <= now_ns &&
      all_are_up(net))
    move_round(net, round);
  tdm_status status = TDM_OK;
  if (round->moved && round->odd_rank != 0) {
    status = TDM_INVALID_ARGUMENT;
    operation->request->code = round->odd_rank;
  } else if (!round->moved) {
    if (!net->options.loss_is_told || !is_lost(net, round)) return;
    status = TDM_UNAVAILABLE;
  }
  sim_settle(net, operation, status);
  leave_round(net, operation);
}

void sim_collectives_drop(tdm_simnet *net, int rank) {
  sim_operation *next = NULL;
  for (sim_operation *operation = net->ranks[rank].first; operation; operation = next) {
    next = operation->next;
    if (!operation->round) continue;
    if (!operation->round->moved) {
      operation->round->joined--;
      operation->round->operations[rank] = NULL;
    }
    leave_round(net, operation);
  }
}
