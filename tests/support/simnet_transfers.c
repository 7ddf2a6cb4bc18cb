/* Sends and receives of simnet: matching, and when their bytes move. Invariant: operations of one
 * (sender, receiver, channel) match in the order of posting. Bytes move once, when both sides are
 * posted, the path is up and the time has come. */
#include <stdio.h>
#include <string.h>

#include "core/park.h"
#include "tests/support/simnet_state.h"

/* ---- Matching -------------------------------------------------------------------------------- */

static bool is_eager(const tdm_simnet *net, const sim_operation *send) {
  return send->bytes <= net->options.eager_bytes;
}

static void pair(tdm_simnet *net, sim_operation *send, sim_operation *receive) {
  send->match = receive;
  receive->match = send;
  if (!is_eager(net, send)) send->due_ns = sim_due_ns(net, send->draw, send->bytes);
}

/* Returns the oldest operation of rank, of that kind, that waits for this peer and channel. */
static sim_operation *find_partner(tdm_simnet *net, int rank, tdm_net_kind kind, int peer,
                                   uint32_t channel) {
  sim_operation *found = net->ranks[rank].first;
  while (found &&
         (found->kind != kind || found->match || found->peer != peer || found->channel != channel))
    found = found->next;
  return found;
}

/* Settles an operation whose peer is lost. */
static void settle_lost(tdm_simnet *net, sim_operation *operation, int peer) {
  if (!net->options.loss_is_told || !net->ranks[peer].gone || operation->match) return;
  sim_settle(net, operation, TDM_UNAVAILABLE);
  sim_operation_remove(net, operation);
}

/* Copies the bytes of an eager send, because the sender may reuse its memory before they arrive.
 * Longer sends keep the sender's memory until then. */
static tdm_status copy_eager(sim_endpoint *endpoint, sim_operation *send, const void *memory) {
  tdm_simnet *net = endpoint->net;
  if (!is_eager(net, send)) return TDM_OK;
  if (send->bytes > 0) {
    send->copy = tdm_allocate(&net->allocator, send->bytes, "a message");
    if (!send->copy) {
      (void)snprintf(endpoint->base.message, sizeof endpoint->base.message, "%s",
                     tdm_last_message());
      return TDM_OUT_OF_MEMORY;
    }
    memcpy(send->copy, memory, send->bytes);
    send->from = send->copy;
  }
  send->due_ns = sim_due_ns(net, send->draw, send->bytes);
  return TDM_OK;
}

static tdm_status post_send(sim_endpoint *endpoint, tdm_net_request *request, const void *memory) {
  tdm_simnet *net = endpoint->net;
  TDM_TRY(sim_may_post(endpoint));
  sim_operation *send = sim_operation_add(endpoint, request);
  if (!send) return TDM_OUT_OF_MEMORY;
  tdm_simnet_traffic *traffic = &net->ranks[send->rank].sent[send->peer];
  send->from = memory;
  send->draw = sim_draw(net, (uint64_t)send->rank, (uint64_t)send->peer, traffic->messages);
  const tdm_status status = copy_eager(endpoint, send, memory);
  if (status != TDM_OK) {
    sim_operation_remove(net, send);
    return status;
  }
  traffic->messages++;
  traffic->bytes += send->bytes;
  sim_operation *receive =
      find_partner(net, send->peer, TDM_NET_RECEIVE, send->rank, send->channel);
  if (receive) pair(net, send, receive);
  if (is_eager(net, send)) sim_settle(net, send, TDM_OK);
  settle_lost(net, send, send->peer);
  return TDM_OK;
}

tdm_status sim_send(tdm_endpoint *base, tdm_net_request *request, int peer, uint32_t channel,
                    const void *memory, size_t bytes) {
  (void)peer, (void)channel, (void)bytes; /* the request has them */
  sim_endpoint *endpoint = (sim_endpoint *)base;
  (void)pthread_mutex_lock(&endpoint->net->lock);
  const tdm_status status = post_send(endpoint, request, memory);
  (void)pthread_mutex_unlock(&endpoint->net->lock);
  return status;
}

static tdm_status post_receive(sim_endpoint *endpoint, tdm_net_request *request, void *memory) {
  tdm_simnet *net = endpoint->net;
  TDM_TRY(sim_may_post(endpoint));
  sim_operation *receive = sim_operation_add(endpoint, request);
  if (!receive) return TDM_OUT_OF_MEMORY;
  receive->to = memory;
  sim_operation *send =
      find_partner(net, receive->peer, TDM_NET_SEND, receive->rank, receive->channel);
  if (send) pair(net, send, receive);
  settle_lost(net, receive, receive->peer);
  return TDM_OK;
}

tdm_status sim_receive(tdm_endpoint *base, tdm_net_request *request, int peer, uint32_t channel,
                       void *memory, size_t bytes) {
  (void)peer, (void)channel, (void)bytes;
  sim_endpoint *endpoint = (sim_endpoint *)base;
  (void)pthread_mutex_lock(&endpoint->net->lock);
  const tdm_status status = post_receive(endpoint, request, memory);
  (void)pthread_mutex_unlock(&endpoint->net->lock);
  return status;
}

tdm_status sim_cancel(tdm_endpoint *base, tdm_net_request *request) {
  sim_endpoint *endpoint = (sim_endpoint *)base;
  tdm_simnet *net = endpoint->net;
  (void)pthread_mutex_lock(&net->lock);
  sim_operation *operation = request->engine[0]; /* NULL if it has settled */
  if (operation && !operation->match) {
    sim_settle(net, operation, TDM_CANCELLED);
    sim_operation_remove(net, operation);
  }
  (void)pthread_mutex_unlock(&net->lock);
  return TDM_OK;
}

/* ---- Moving ---------------------------------------------------------------------------------- */

/* If the message is larger than the receive, nothing beyond the receive's memory is written, as in
 * real engines. */
static void move(tdm_simnet *net, sim_operation *send, sim_operation *receive) {
  const size_t bytes = send->bytes < receive->bytes ? send->bytes : receive->bytes;
  if (bytes > 0) memcpy(receive->to, send->from, bytes);
  receive->request->arrived_bytes = bytes;
  sim_settle(net, send, TDM_OK);
  sim_settle(net, receive, send->bytes == receive->bytes ? TDM_OK : TDM_INVALID_ARGUMENT);
  sim_operation_remove(net, send);
  sim_operation_remove(net, receive);
}

void sim_transfer_advance(tdm_simnet *net, sim_operation *operation, uint64_t now_ns) {
  if (!operation->match || !sim_path_is_up(net, operation->rank, operation->peer)) return;
  sim_operation *send = operation->kind == TDM_NET_SEND ? operation : operation->match;
  if (net->ranks[send->rank].held[send->peer]) return;
  if (send->due_ns <= now_ns) move(net, send, send->match);
}

size_t sim_transfers_push(tdm_simnet *net, int from, int to) {
  size_t count = 0;
  sim_operation *next = NULL;
  for (sim_operation *send = net->ranks[from].first; send; send = next) {
    next = send->next; /* advancing removes this operation and one of the other rank */
    if (send->kind != TDM_NET_SEND || send->peer != to || !send->match) continue;
    move(net, send, send->match);
    count++;
  }
  return count;
}

/* ---- Loss ------------------------------------------------------------------------------------ */

/* Removes the posts of another rank for a rank that is no longer present. */
static void drop_towards(tdm_simnet *net, sim_rank *other, int gone) {
  sim_operation *next = NULL;
  for (sim_operation *operation = other->first; operation; operation = next) {
    next = operation->next;
    const bool transfer = operation->kind == TDM_NET_SEND || operation->kind == TDM_NET_RECEIVE;
    if (!transfer || operation->peer != gone) continue;
    operation->match = NULL;
    settle_lost(net, operation, gone);
  }
}

void sim_transfers_drop(tdm_simnet *net, int rank) {
  for (int i = 0; i < net->options.rank_count; i++)
    if (i != rank) drop_towards(net, &net->ranks[i], rank);
  sim_operation *next = NULL;
  for (sim_operation *operation = net->ranks[rank].first; operation; operation = next) {
    next = operation->next;
    if (operation->kind == TDM_NET_SEND || operation->kind == TDM_NET_RECEIVE)
      sim_operation_remove(net, operation);
  }
}
