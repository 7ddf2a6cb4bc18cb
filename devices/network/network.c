/* The endpoint, and the network's creation and end. Invariant: see network.h. */
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/hash.h"
#include "core/park.h"
#include "devices/network/network_state.h"

enum { ROOM_BYTES = 1 << 20 };
static const uint64_t close_ns = 5000000000u;

/* Networks of jobs that have lost a rank. An engine may still access their memory. */
static _Atomic(tdm_network *) forgotten;

/* ---- The endpoint ---------------------------------------------------------------------------- */

/* The caller holds the lock. */
static tdm_status poll_locked(tdm_network *network) {
  tdm_net_request *settled = NULL;
  const tdm_status status = tdm_endpoint_poll(network->endpoint, &settled);
  for (; settled; settled = settled->next) {
    ((tdm_network_call *)settled)->settled = true;
    if (network->control) tdm_control_settled(network->control);
  }
  return status;
}

/* Fails with the thread's message and names a silent rank. The path to it may be cut, as the
 * engine's is, and the engine cannot wait for the limit of silence. */
static tdm_status fail_with_silent(const tdm_network *network, tdm_status status) {
  uint64_t silent_ns = 0;
  const int rank = tdm_control_most_silent(network->control, &silent_ns);
  if (rank < 0) return status;
  char words[TDM_MESSAGE_BYTES], text[TDM_NET_RANK_TEXT_BYTES];
  (void)snprintf(words, sizeof(words), "%s", tdm_last_message());
  return tdm_fail(status, "%.350s; %s has not been heard of for %.2g s", words,
                  tdm_endpoint_rank_text(network->endpoint, rank, text), (double)silent_ns * 1e-9);
}

/* Handles a failure of the engine for the call. An engine reports that a path is lost, but not to
 * which rank. So *out_settled is false for as long as the control channel may need to name a rank
 * that has ended. All ranks are notified of any failure of the engine, because they may wait for
 * this one. */
static tdm_status tell_engine_failure(tdm_network *network, tdm_network_call *call,
                                      tdm_status status, bool *out_settled) {
  char words[TDM_MESSAGE_BYTES];
  if (status == TDM_INVALID_ARGUMENT) {
    (void)snprintf(words, sizeof(words), "%s", tdm_last_message());
    status = tdm_fail(status, "%.400s: all ranks run the same, in the same order", words);
  }
  if (!network->control) return status;
  TDM_TRY(tdm_network_check_ranks(network));
  uint64_t failing_ns = 0;
  const uint64_t now_ns = tdm_time_ns();
  if (atomic_compare_exchange_strong(&network->failing_ns, &failing_ns, now_ns))
    failing_ns = now_ns;
  if (status == TDM_UNAVAILABLE && now_ns < failing_ns + network->messenger.naming_ns) {
    *out_settled = false;
    return tdm_network_check_left(network, call->request.peer, &call->left_ns);
  }
  if (status == TDM_UNAVAILABLE) status = fail_with_silent(network, status);
  tdm_network_give_up(network, status);
  return status;
}

/* Checks for lost ranks before polling. So the poll sees everything that the rank has sent before,
 * even if this thread loses its core in between. */
tdm_status tdm_network_look_after(tdm_network *network, tdm_network_call *call, bool *out_settled) {
  const bool lost = tdm_network_has_lost(network);
  (void)pthread_mutex_lock(&network->mutex);
  tdm_status status = TDM_OK;
  if (!call->settled) status = poll_locked(network);
  *out_settled = call->settled;
  if (call->settled) {
    status = call->request.status == TDM_OK
                 ? TDM_OK
                 : tdm_net_request_fail(network->endpoint, &call->request);
  }
  (void)pthread_mutex_unlock(&network->mutex);
  if (status != TDM_OK) return tell_engine_failure(network, call, status, out_settled);
  if (*out_settled) return TDM_OK;
  if (lost) TDM_TRY(tdm_network_check_ranks(network));
  TDM_TRY(tdm_network_check_left(network, call->request.peer, &call->left_ns));
  TDM_TRY(tdm_network_check_refused(network, call));
  return tdm_network_check_stall(network, call);
}

/* Records the result of a post, under the lock, before another poll. If the engine refuses it
 * because a path is lost, it is monitored and reported like an outstanding one. */
static tdm_status note_post(tdm_network *network, tdm_network_call *call, tdm_status status,
                            int peer, tdm_control_way way, size_t bytes) {
  if (!network->control) return status;
  if (status == TDM_UNAVAILABLE) {
    call->request.status = status;
    call->settled = true;
    return TDM_OK;
  }
  if (status != TDM_OK) return status;
  call->transfer = (tdm_control_transfer){.peer = peer, .way = way, .bytes = bytes};
  tdm_control_posted(network->control, &call->transfer);
  return TDM_OK;
}

tdm_status tdm_network_post_send(tdm_network *network, tdm_network_call *call, uint32_t peer,
                                 uint32_t channel, const void *memory, size_t bytes) {
  const bool gathers = channel != TDM_MESSAGE_CHANNEL;
  TDM_TRY(tdm_network_check_ranks(network));
  call->settled = false;
  call->left_ns = 0;
  (void)pthread_mutex_lock(&network->mutex);
  tdm_status status =
      tdm_endpoint_send(network->endpoint, &call->request, (int)peer, channel, memory, bytes);
  status = note_post(network, call, status, (int)peer,
                     gathers ? TDM_CONTROL_GATHER_SENDS : TDM_CONTROL_SENDS, bytes);
  (void)pthread_mutex_unlock(&network->mutex);
  return status;
}

tdm_status tdm_network_post_receive(tdm_network *network, tdm_network_call *call, uint32_t peer,
                                    uint32_t channel, void *memory, size_t bytes) {
  const bool gathers = channel != TDM_MESSAGE_CHANNEL;
  TDM_TRY(tdm_network_check_ranks(network));
  call->settled = false;
  call->left_ns = 0;
  (void)pthread_mutex_lock(&network->mutex);
  tdm_status status =
      tdm_endpoint_receive(network->endpoint, &call->request, (int)peer, channel, memory, bytes);
  status = note_post(network, call, status, (int)peer,
                     gathers ? TDM_CONTROL_GATHER_RECEIVES : TDM_CONTROL_RECEIVES, bytes);
  (void)pthread_mutex_unlock(&network->mutex);
  return status;
}

tdm_status tdm_network_post_sum(tdm_network *network, tdm_network_call *call, tdm_dtype dtype,
                                void *memory, size_t count) {
  TDM_TRY(tdm_network_check_ranks(network));
  call->settled = false;
  call->left_ns = 0;
  (void)pthread_mutex_lock(&network->mutex);
  tdm_status status =
      tdm_endpoint_all_reduce(network->endpoint, &call->request, dtype, memory, count);
  status = note_post(network, call, status, -1, TDM_CONTROL_COLLECTIVES,
                     2 * count * tdm_dtype_bytes(dtype));
  (void)pthread_mutex_unlock(&network->mutex);
  return status;
}

/* ---- Life ------------------------------------------------------------------------------------ */

int tdm_network_rank(const tdm_network *network) {
  return network->endpoint->rank;
}

int tdm_network_rank_count(const tdm_network *network) {
  return network->endpoint->rank_count;
}

const char *tdm_network_host(const tdm_network *network, int rank) {
  return network->endpoint->ranks[rank].host;
}

uint64_t tdm_network_hash(const tdm_network *network, uint64_t hash) {
  hash = tdm_hash_string(network->endpoint->transport->name, hash);
  for (int r = 0; r < network->endpoint->rank_count; r++)
    hash = tdm_hash_string(tdm_network_host(network, r), hash);
  return hash;
}

tdm_messenger *tdm_network_messenger(tdm_network *network) {
  return &network->messenger;
}

static tdm_status advance(tdm_messenger *messenger, const tdm_command *command, tdm_flight *flight,
                          bool spoiled, bool *out_ended) {
  tdm_network *network = (tdm_network *)messenger;
  if (command->kind == TDM_COMMAND_VOTE) return tdm_network_vote(network, flight, out_ended);
  if (command->kind == TDM_COMMAND_ALL_REDUCE)
    return tdm_network_sum(network, command, flight, spoiled, out_ended);
  return tdm_network_message(network, command, flight, spoiled, out_ended);
}

/* The endpoint is already closed. */
static void free_network(tdm_network *network, size_t ranks) {
  (void)pthread_mutex_destroy(&network->mutex);
  const tdm_allocator allocator = network->allocator;
  tdm_message_free(network, &network->sending);
  tdm_message_free(network, &network->receiving);
  tdm_release(&allocator, network->reducing.buffer, TDM_SUM_PIECE_BYTES);
  tdm_release(&allocator, network->gathering, TDM_GATHER_CALLS * ranks * sizeof(tdm_network_call));
  tdm_release(&allocator, network->intents, ranks * sizeof(tdm_network_intent));
  tdm_release(&allocator, network->room, network->room_bytes);
  tdm_release(&allocator, network->reports, ranks * sizeof(tdm_rank_report));
  tdm_release(&allocator, network, sizeof *network);
}

tdm_status tdm_network_create(const tdm_allocator *allocator, tdm_endpoint *endpoint,
                              tdm_network **out_network) {
  *out_network = NULL;
  tdm_network *network = tdm_allocate(allocator, sizeof *network, "the network");
  if (network) network->allocator = *allocator;
  if (network)
    network->reducing.buffer =
        tdm_allocate_room(allocator, TDM_SUM_PIECE_BYTES, "the network's buffers");
  if (!network || !network->reducing.buffer) {
    tdm_release(allocator, network, sizeof *network);
    tdm_endpoint_abandon(endpoint);
    return TDM_OUT_OF_MEMORY;
  }
  network->messenger = (tdm_messenger){.advance = advance,
                                       .check = tdm_network_check_all,
                                       .give_up = tdm_network_resign,
                                       .begun = tdm_network_begun,
                                       .check_group = tdm_network_check_group};
  network->endpoint = endpoint;
  network->piece_bytes = tdm_message_piece_bytes(endpoint->eager_bytes);
  (void)pthread_mutex_init(&network->mutex, NULL); /* glibc's mutexes cannot fail */
  const size_t ranks = (size_t)endpoint->rank_count;
  network->gathering =
      tdm_allocate(allocator, TDM_GATHER_CALLS * ranks * sizeof(tdm_network_call), "gathers");
  network->intents = tdm_allocate(allocator, ranks * sizeof(tdm_network_intent), "gathers");
  network->reports = tdm_allocate(allocator, ranks * sizeof(tdm_rank_report), "reports of ranks");
  const size_t reports_bytes = (ranks + 1) * sizeof(tdm_rank_report);
  network->room_bytes = reports_bytes > ROOM_BYTES ? reports_bytes : ROOM_BYTES;
  network->room = tdm_allocate_room(allocator, network->room_bytes, "gathers");
  if (!network->gathering || !network->intents || !network->reports || !network->room) {
    tdm_endpoint_abandon(endpoint);
    free_network(network, ranks);
    return TDM_OUT_OF_MEMORY;
  }
  *out_network = network;
  return TDM_OK;
}

tdm_status tdm_network_watch(tdm_network *network, const tdm_control_options *options) {
  tdm_control_options known = *options;
  known.queue_count = TDM_WATCHED_DEVICES;
  TDM_TRY(tdm_control_start(network->endpoint, &known, &network->control));
  /* A rank that has left is named after its last messages have had time to arrive. */
  const uint64_t naming_ns = tdm_control_naming_ns(network->control);
  const uint64_t left_ns = TDM_LEFT_GRACE_NS + TDM_LEFT_GRACE_NS / 2;
  network->messenger.naming_ns = naming_ns > left_ns ? naming_ns : left_ns;
  return TDM_OK;
}

tdm_control *tdm_network_control(tdm_network *network) {
  return network->control;
}

/* Closes the endpoint. Returns true if an engine may still access the buffers. The thread's message
 * is kept, because it is the reason for leaving after a failure. */
static bool leave(tdm_network *network) {
  char words[TDM_MESSAGE_BYTES];
  const tdm_status before = tdm_last_status();
  (void)snprintf(words, sizeof(words), "%s", tdm_last_message());
  bool lost = tdm_network_has_lost(network);
  const bool out = network->endpoint->posted_count > 0;
  if (!lost && !out && network->control && network->endpoint->transport->ends_together)
    lost = !tdm_control_part(network->control);
  tdm_control_leave(network->control);
  if (lost) {
    tdm_endpoint_abandon(network->endpoint);
  } else {
    const tdm_status left = tdm_endpoint_close(network->endpoint, close_ns);
    /* the endpoint is closed even if an error is reported */
    if (left != TDM_OK && before != TDM_OK) (void)tdm_fail(before, "%s", words);
  }
  return out;
}

void tdm_network_destroy(tdm_network *network) {
  if (!network) return;
  const size_t ranks = (size_t)network->endpoint->rank_count;
  if (leave(network)) {
    network->next = atomic_load(&forgotten);
    while (!atomic_compare_exchange_weak(&forgotten, &network->next, network))
      continue;
    return;
  }
  free_network(network, ranks);
}
