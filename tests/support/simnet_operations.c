/* Functions that simnet's operations of every kind share: lists, random draws, and time. Invariant:
 * a request is returned exactly once, to the rank that posted it. */
#include <stdio.h>

#include "core/hash.h"
#include "core/park.h"
#include "tests/support/simnet_state.h"

void sim_lose(tdm_simnet *net, int rank) {
  net->ranks[rank].gone = true;
  sim_transfers_drop(net, rank);
  sim_collectives_drop(net, rank);
}

tdm_status sim_may_post(sim_endpoint *endpoint) {
  tdm_simnet *net = endpoint->net;
  const int rank = endpoint->base.rank;
  sim_rank *poster = &net->ranks[rank];
  if (!poster->gone) poster->posts++;
  if (!poster->gone && poster->posts == poster->kill_at) sim_lose(net, rank);
  if (!poster->gone && poster->posts == poster->stop_at) {
    poster->stopped = true;
    if (poster->stop_hit) poster->stop_hit(poster->stop_user);
  }
  if (!poster->gone) return TDM_OK;
  (void)snprintf(endpoint->base.message, sizeof endpoint->base.message, "rank %d was killed", rank);
  return TDM_UNAVAILABLE;
}

sim_operation *sim_operation_add(sim_endpoint *endpoint, tdm_net_request *request) {
  tdm_simnet *net = endpoint->net;
  sim_operation *operation = tdm_allocate(&net->allocator, sizeof *operation, "an operation");
  if (!operation) {
    (void)snprintf(endpoint->base.message, sizeof endpoint->base.message, "%s", tdm_last_message());
    return NULL;
  }
  operation->request = request;
  operation->kind = request->kind;
  operation->rank = endpoint->base.rank;
  operation->peer = request->peer;
  operation->channel = request->channel;
  operation->bytes = request->bytes;
  request->engine[0] = operation;
  sim_rank *rank = &net->ranks[operation->rank];
  operation->previous = rank->last;
  *(rank->last ? &rank->last->next : &rank->first) = operation;
  rank->last = operation;
  return operation;
}

void sim_operation_remove(tdm_simnet *net, sim_operation *operation) {
  sim_rank *rank = &net->ranks[operation->rank];
  *(operation->previous ? &operation->previous->next : &rank->first) = operation->next;
  *(operation->next ? &operation->next->previous : &rank->last) = operation->previous;
  tdm_release(&net->allocator, operation->copy, operation->bytes);
  tdm_release(&net->allocator, operation, sizeof *operation);
}

void sim_settle(tdm_simnet *net, sim_operation *operation, tdm_status status) {
  tdm_net_request *request = operation->request;
  if (!request) return;
  operation->request = NULL;
  request->status = status;
  request->next = NULL;
  request->engine[0] = NULL;
  sim_rank *rank = &net->ranks[operation->rank];
  *rank->settled_end = request;
  rank->settled_end = &request->next;
}

bool sim_path_is_up(const tdm_simnet *net, int a, int b) {
  const sim_rank *one = &net->ranks[a];
  const sim_rank *other = &net->ranks[b];
  return !one->gone && !other->gone && !one->stopped && !other->stopped && !one->down[b];
}

uint64_t sim_draw(const tdm_simnet *net, uint64_t from, uint64_t to, uint64_t number) {
  const uint64_t pair = tdm_hash_mix(tdm_hash_mix(net->options.seed, from), to);
  return tdm_hash_mix(pair, number);
}

uint64_t sim_due_ns(tdm_simnet *net, uint64_t draw, size_t bytes) {
  const tdm_simnet_options *options = &net->options;
  if (options->delay_ns == 0 && options->bytes_per_second == 0) return 0;
  uint64_t across_ns = tdm_time_ns();
  if (options->bytes_per_second > 0) {
    const double byte_ns = 1e9 / (double)options->bytes_per_second;
    const uint64_t burst_ns = (uint64_t)((double)options->burst_bytes * byte_ns);
    const uint64_t now_ns = across_ns;
    const uint64_t rested_ns = now_ns > burst_ns ? now_ns - burst_ns : 0;
    if (net->medium_free_ns < rested_ns) net->medium_free_ns = rested_ns;
    net->medium_free_ns += (uint64_t)((double)bytes * byte_ns);
    if (net->medium_free_ns > now_ns) across_ns = net->medium_free_ns;
  }
  return across_ns + (options->delay_ns > 0 ? draw % (options->delay_ns + 1) : 0);
}
