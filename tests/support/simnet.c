/* Creates and ends simnet and its endpoints; polls, faults and counters. Invariant: see simnet.h
 * and simnet_state.h. */
#include "tests/support/simnet.h"

#include <stdio.h>
#include <unistd.h>

#include "core/park.h"
#include "core/status.h"
#include "tests/support/simnet_state.h"

/* ---- The net --------------------------------------------------------------------------------- */

static tdm_status create_rank(tdm_simnet *net, int number) {
  const size_t count = (size_t)net->options.rank_count;
  sim_rank *rank = &net->ranks[number];
  rank->settled_end = &rank->settled;
  rank->sent = tdm_allocate(&net->allocator, count * sizeof *rank->sent, "counts");
  rank->down = tdm_allocate(&net->allocator, count * sizeof *rank->down, "links");
  rank->held = tdm_allocate(&net->allocator, count * sizeof *rank->held, "links");
  if (!rank->sent || !rank->down || !rank->held) return TDM_OUT_OF_MEMORY;
  tdm_rank *named = &net->named[number];
  (void)snprintf(named->host, sizeof named->host, "sim%d", number);
  named->pid = (int64_t)getpid();
  return TDM_OK;
}

tdm_status tdm_simnet_create(const tdm_allocator *allocator, const tdm_simnet_options *options,
                             tdm_simnet **out_net) {
  *out_net = NULL;
  if (options->struct_size != sizeof *options || options->rank_count < 1) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "a simnet of %d ranks, with options of %zu bytes",
                    options->rank_count, options->struct_size);
  }
  const size_t count = (size_t)options->rank_count;
  tdm_simnet *net = tdm_allocate(allocator, sizeof *net, "a simnet");
  if (!net) return TDM_OUT_OF_MEMORY;
  net->allocator = *allocator;
  net->options = *options;
  (void)pthread_mutex_init(&net->lock, NULL); /* glibc's mutexes need no resources */
  atomic_init(&net->references, 1);
  net->named = tdm_allocate(allocator, count * sizeof *net->named, "names of ranks");
  net->ranks = tdm_allocate(allocator, count * sizeof *net->ranks, "ranks");
  tdm_status status = net->named && net->ranks ? TDM_OK : TDM_OUT_OF_MEMORY;
  for (int rank = 0; rank < options->rank_count && status == TDM_OK; rank++)
    status = create_rank(net, rank);
  if (status != TDM_OK) {
    tdm_simnet_release(net);
    return status;
  }
  *out_net = net;
  return TDM_OK;
}

void tdm_simnet_release(tdm_simnet *net) {
  if (!net || atomic_fetch_sub(&net->references, 1) != 1) return;
  const size_t count = (size_t)net->options.rank_count;
  for (size_t i = 0; i < count && net->ranks; i++) {
    sim_rank *rank = &net->ranks[i];
    while (rank->first)
      sim_operation_remove(net, rank->first); /* eager sends that no rank has received */
    tdm_release(&net->allocator, rank->sent, count * sizeof *rank->sent);
    tdm_release(&net->allocator, rank->down, count * sizeof *rank->down);
    tdm_release(&net->allocator, rank->held, count * sizeof *rank->held);
  }
  tdm_release(&net->allocator, net->ranks, count * sizeof *net->ranks);
  tdm_release(&net->allocator, net->named, count * sizeof *net->named);
  (void)pthread_mutex_destroy(&net->lock);
  const tdm_allocator allocator = net->allocator;
  tdm_release(&allocator, net, sizeof *net);
}

/* ---- Endpoints ------------------------------------------------------------------------------- */

static tdm_status open_rank(const tdm_endpoint_options *options, tdm_endpoint **out_endpoint,
                            char *message) {
  const tdm_simnet_place *place = options->job;
  if (!place) {
    (void)snprintf(message, TDM_NET_TEXT_BYTES, "no launcher starts ranks of simnet");
    return TDM_UNAVAILABLE;
  }
  tdm_simnet *net = place->net;
  (void)pthread_mutex_lock(&net->lock);
  const bool legal =
      place->rank >= 0 && place->rank < net->options.rank_count && !net->ranks[place->rank].opened;
  if (legal) net->ranks[place->rank].opened = true;
  (void)pthread_mutex_unlock(&net->lock);
  if (!legal) {
    (void)snprintf(message, TDM_NET_TEXT_BYTES, "there is no rank %d of %d to open", place->rank,
                   net->options.rank_count);
    return TDM_INVALID_ARGUMENT;
  }
  sim_endpoint *endpoint = tdm_allocate(&net->allocator, sizeof *endpoint, "an endpoint");
  if (!endpoint) {
    (void)snprintf(message, TDM_NET_TEXT_BYTES, "%s", tdm_last_message());
    return TDM_OUT_OF_MEMORY;
  }
  endpoint->net = net;
  (void)atomic_fetch_add(&net->references, 1);
  endpoint->base.transport = &tdm_simnet_transport;
  endpoint->base.allocator = net->allocator;
  endpoint->base.rank = place->rank;
  endpoint->base.rank_count = net->options.rank_count;
  endpoint->base.ranks = net->named;
  endpoint->base.eager_bytes = net->options.eager_bytes > 0 ? net->options.eager_bytes : SIZE_MAX;
  *out_endpoint = &endpoint->base;
  return TDM_OK;
}

static void free_endpoint(sim_endpoint *endpoint) {
  tdm_simnet *net = endpoint->net;
  tdm_release(&net->allocator, endpoint, sizeof *endpoint);
  tdm_simnet_release(net);
}

static void abandon_rank(tdm_endpoint *base) {
  sim_endpoint *endpoint = (sim_endpoint *)base;
  (void)pthread_mutex_lock(&endpoint->net->lock);
  sim_lose(endpoint->net, base->rank);
  (void)pthread_mutex_unlock(&endpoint->net->lock);
  free_endpoint(endpoint);
}

/* Eager sends of the rank stay in transit. */
static tdm_status close_rank(tdm_endpoint *base, uint64_t timeout_ns, char *message) {
  (void)timeout_ns;
  sim_endpoint *endpoint = (sim_endpoint *)base;
  (void)pthread_mutex_lock(&endpoint->net->lock);
  const bool killed = endpoint->net->ranks[base->rank].gone;
  (void)pthread_mutex_unlock(&endpoint->net->lock);
  if (killed) (void)snprintf(message, TDM_NET_TEXT_BYTES, "it was killed");
  free_endpoint(endpoint);
  return killed ? TDM_UNAVAILABLE : TDM_OK;
}

static tdm_net_request *take_settled(sim_rank *rank) {
  tdm_net_request *settled = rank->settled;
  rank->settled = NULL;
  rank->settled_end = &rank->settled;
  return settled;
}

static void advance(tdm_simnet *net, sim_rank *rank) {
  const uint64_t now_ns = tdm_time_ns();
  sim_operation *next = NULL;
  for (sim_operation *operation = rank->first; operation; operation = next) {
    next = operation->next; /* advancing removes this operation and one of another rank */
    if (operation->round) {
      sim_collective_advance(net, operation, now_ns);
    } else {
      sim_transfer_advance(net, operation, now_ns);
    }
  }
}

static tdm_status poll_rank(tdm_endpoint *base, tdm_net_request **out_settled) {
  tdm_simnet *net = ((sim_endpoint *)base)->net;
  sim_rank *rank = &net->ranks[base->rank];
  (void)pthread_mutex_lock(&net->lock);
  const bool gone = rank->gone;
  if (gone) (void)snprintf(base->message, sizeof base->message, "it was killed");
  if (!gone && !rank->stopped) {
    advance(net, rank);
    *out_settled = take_settled(rank);
  }
  (void)pthread_mutex_unlock(&net->lock);
  return gone ? TDM_UNAVAILABLE : TDM_OK;
}

static void code_text(tdm_endpoint *endpoint, int code, char *text, size_t capacity) {
  char rank[TDM_NET_RANK_TEXT_BYTES];
  (void)snprintf(text, capacity, "%s posted another collective than rank 0",
                 tdm_endpoint_rank_text(endpoint, code, rank));
}

static const char *version(void) {
  return "simnet";
}

const tdm_transport tdm_simnet_transport = {
    .abi = TDM_TRANSPORT_ABI,
    .name = "simnet",
    .version = version,
    .ends_together = false,
    .open = open_rank,
    .close = close_rank,
    .abandon = abandon_rank,
    .send = sim_send,
    .receive = sim_receive,
    .cancel = sim_cancel,
    .all_reduce = sim_all_reduce,
    .broadcast = sim_broadcast,
    .all_gather = sim_all_gather,
    .barrier = sim_barrier,
    .poll = poll_rank,
    .error_text = code_text,
};

tdm_status tdm_simnet_endpoint(tdm_simnet *net, int rank, tdm_endpoint **out_endpoint) {
  const tdm_simnet_place place = {.net = net, .rank = rank};
  const tdm_endpoint_options options = {
      .struct_size = sizeof(options), .allocator = net->allocator, .job = &place};
  return tdm_endpoint_open(&tdm_simnet_transport, &options, out_endpoint);
}

/* ---- Faults and counts ----------------------------------------------------------------------- */

void tdm_simnet_kill(tdm_simnet *net, int rank) {
  (void)pthread_mutex_lock(&net->lock);
  if (!net->ranks[rank].gone) sim_lose(net, rank);
  (void)pthread_mutex_unlock(&net->lock);
}

void tdm_simnet_kill_at(tdm_simnet *net, int rank, uint64_t post) {
  (void)pthread_mutex_lock(&net->lock);
  net->ranks[rank].kill_at = post;
  (void)pthread_mutex_unlock(&net->lock);
}

void tdm_simnet_stop(tdm_simnet *net, int rank, bool stopped) {
  (void)pthread_mutex_lock(&net->lock);
  net->ranks[rank].stopped = stopped;
  (void)pthread_mutex_unlock(&net->lock);
}

void tdm_simnet_stop_at(tdm_simnet *net, int rank, uint64_t post, void (*hit)(void *user),
                        void *user) {
  (void)pthread_mutex_lock(&net->lock);
  net->ranks[rank].stop_at = post;
  net->ranks[rank].stop_hit = hit;
  net->ranks[rank].stop_user = user;
  (void)pthread_mutex_unlock(&net->lock);
}

void tdm_simnet_link(tdm_simnet *net, int a, int b, bool up) {
  (void)pthread_mutex_lock(&net->lock);
  net->ranks[a].down[b] = net->ranks[b].down[a] = !up;
  (void)pthread_mutex_unlock(&net->lock);
}

void tdm_simnet_hold(tdm_simnet *net, int from, int to) {
  (void)pthread_mutex_lock(&net->lock);
  net->ranks[from].held[to] = true;
  (void)pthread_mutex_unlock(&net->lock);
}

size_t tdm_simnet_let_go(tdm_simnet *net, int from, int to) {
  (void)pthread_mutex_lock(&net->lock);
  net->ranks[from].held[to] = false;
  const size_t moved = sim_transfers_push(net, from, to);
  (void)pthread_mutex_unlock(&net->lock);
  return moved;
}

tdm_simnet_traffic tdm_simnet_sent(tdm_simnet *net, int from, int to) {
  (void)pthread_mutex_lock(&net->lock);
  const tdm_simnet_traffic traffic = net->ranks[from].sent[to];
  (void)pthread_mutex_unlock(&net->lock);
  return traffic;
}

uint64_t tdm_simnet_posts(tdm_simnet *net, int rank) {
  (void)pthread_mutex_lock(&net->lock);
  const uint64_t posts = net->ranks[rank].posts;
  (void)pthread_mutex_unlock(&net->lock);
  return posts;
}
