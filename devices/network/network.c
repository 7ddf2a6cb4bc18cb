/* Messages over an endpoint, and the network's life. Invariant: see network.h; a queue has at most
 * one message, of which at most one piece is out. */
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/hash.h"
#include "core/park.h"
#include "devices/network/network_state.h"

enum {
  /* With its header a piece goes without asking: two ranks that send one another larger ones at
   * once are asked behind what the other sends. */
  LEAST_PIECE_BYTES = 4 << 10, /* less is not worth what a piece costs */
  MOST_PIECE_BYTES = 1 << 20,
  PIECE_ALIGNMENT = 64,
  SUM_PIECE_BYTES = 4 << 20, /* the engine cuts these itself */
  ROOM_BYTES = 1 << 20,
  TEXT_BYTES = 88, /* of a header of 128 */
};
static const uint64_t close_ns = 5000000000u;

typedef struct message_header {
  uint64_t plan;
  uint64_t run; /* of which run it is, and of which step of training */
  uint64_t step;
  uint64_t bytes;
  uint32_t number;
  uint32_t status; /* tdm_status; not OK: what follows means nothing, and no other piece does */
  char text[TEXT_BYTES]; /* of that status */
} message_header;

/* What a job that has lost a rank left to an engine that may still reach into it. */
static _Atomic(tdm_network *) forgotten;

/* ---- The endpoint ---------------------------------------------------------------------------- */

/* Under the lock. */
static tdm_status poll_locked(tdm_network *network) {
  tdm_net_request *settled = NULL;
  const tdm_status status = tdm_endpoint_poll(network->endpoint, &settled);
  for (; settled; settled = settled->next) {
    ((tdm_network_call *)settled)->settled = true;
    if (network->control) tdm_control_settled(network->control);
  }
  return status;
}

/* Whether a rank is lost is asked first: what the rank has sent before that is seen by the poll,
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
  if (!*out_settled && status == TDM_OK && lost) status = tdm_network_check_ranks(network);
  if (!*out_settled && status == TDM_OK)
    status = tdm_network_check_left(network, call->request.peer, &call->left_ns);
  if (!*out_settled && status == TDM_OK) status = tdm_network_check_stall(network, call);
  return status;
}

/* Under the lock, before another poll: the call is out. */
static void note_post(tdm_network *network, tdm_network_call *call, int peer, tdm_control_way way,
                      size_t bytes) {
  if (!network->control) return;
  call->transfer = (tdm_control_transfer){.peer = peer, .way = way, .bytes = bytes};
  tdm_control_posted(network->control, &call->transfer);
}

tdm_status tdm_network_post_send(tdm_network *network, tdm_network_call *call, uint32_t peer,
                                 uint32_t channel, const void *memory, size_t bytes) {
  const bool gathers = channel == TDM_GATHER_CHANNEL;
  TDM_TRY(tdm_network_check_ranks(network));
  call->settled = false;
  call->left_ns = 0;
  (void)pthread_mutex_lock(&network->mutex);
  const tdm_status status =
      tdm_endpoint_send(network->endpoint, &call->request, (int)peer, channel, memory, bytes);
  if (status == TDM_OK)
    note_post(network, call, (int)peer, gathers ? TDM_CONTROL_GATHER_SENDS : TDM_CONTROL_SENDS,
              bytes);
  (void)pthread_mutex_unlock(&network->mutex);
  return status;
}

tdm_status tdm_network_post_receive(tdm_network *network, tdm_network_call *call, uint32_t peer,
                                    uint32_t channel, void *memory, size_t bytes) {
  const bool gathers = channel == TDM_GATHER_CHANNEL;
  TDM_TRY(tdm_network_check_ranks(network));
  call->settled = false;
  call->left_ns = 0;
  (void)pthread_mutex_lock(&network->mutex);
  const tdm_status status =
      tdm_endpoint_receive(network->endpoint, &call->request, (int)peer, channel, memory, bytes);
  if (status == TDM_OK)
    note_post(network, call, (int)peer,
              gathers ? TDM_CONTROL_GATHER_RECEIVES : TDM_CONTROL_RECEIVES, bytes);
  (void)pthread_mutex_unlock(&network->mutex);
  return status;
}

/* Memory (count) of dtype becomes its sum over the ranks. */
static tdm_status post_sum(tdm_network *network, tdm_network_call *call, tdm_dtype dtype,
                           void *memory, size_t count) {
  TDM_TRY(tdm_network_check_ranks(network));
  call->settled = false;
  call->left_ns = 0;
  (void)pthread_mutex_lock(&network->mutex);
  const tdm_status status =
      tdm_endpoint_all_reduce(network->endpoint, &call->request, dtype, memory, count);
  if (status == TDM_OK)
    note_post(network, call, -1, TDM_CONTROL_COLLECTIVES, 2 * count * tdm_dtype_bytes(dtype));
  (void)pthread_mutex_unlock(&network->mutex);
  return status;
}

/* ---- Messages -------------------------------------------------------------------------------- */

static size_t choose_piece(size_t eager_bytes) {
  const size_t most = MOST_PIECE_BYTES + sizeof(message_header);
  const size_t least = LEAST_PIECE_BYTES + sizeof(message_header);
  const size_t whole = eager_bytes > most ? most : eager_bytes < least ? least : eager_bytes;
  return (whole - sizeof(message_header)) / PIECE_ALIGNMENT * PIECE_ALIGNMENT;
}

static size_t next_piece(const tdm_message_progress *progress, const tdm_message *message,
                         size_t most) {
  const size_t left = message->bytes - progress->passed;
  return left < most ? left : most;
}

/* Room for a header and a piece. */
static tdm_status reserve(const tdm_network *network, tdm_message_progress *progress,
                          size_t piece) {
  const size_t wanted = sizeof(message_header) + piece;
  if (progress->capacity >= wanted) return TDM_OK;
  tdm_release(&network->allocator, progress->buffer, progress->capacity);
  progress->capacity = 0;
  progress->buffer = tdm_allocate(&network->allocator, wanted, "the network's buffers");
  if (!progress->buffer) return TDM_OUT_OF_MEMORY;
  progress->capacity = wanted;
  return TDM_OK;
}

static void *memory_of(const tdm_message *message, const tdm_flight *flight) {
  return (void *)(flight->bases[message->at.base] + message->at.offset);
}

static message_header header_of(const tdm_message *message, tdm_flight *flight, bool spoiled) {
  message_header header = {.plan = message->plan,
                           .run = flight->number,
                           .step = flight->scalars->step,
                           .number = message->number,
                           .bytes = message->bytes};
  if (!spoiled) return header;
  char text[TDM_MESSAGE_BYTES];
  header.status = (uint32_t)tdm_flight_read_failure(flight, text);
  (void)snprintf(header.text, sizeof(header.text), "%.*s", TEXT_BYTES - 1, text);
  return header;
}

/* Where the job has lost a rank, the engine may still have the buffers: they are left alone. */
static tdm_status send_piece(tdm_network *network, const tdm_message *message, tdm_flight *flight,
                             bool spoiled) {
  tdm_message_progress *progress = &network->sending;
  TDM_TRY(tdm_network_check_ranks(network));
  progress->piece = next_piece(progress, message, network->piece_bytes);
  const size_t piece = progress->piece;
  TDM_TRY(reserve(network, progress, piece));
  const size_t begin = progress->passed == 0 ? sizeof(message_header) : 0;
  const bool untold = begin > 0 && spoiled;
  if (begin > 0) {
    const message_header header = header_of(message, flight, spoiled);
    memcpy(progress->buffer, &header, sizeof(header));
  }
  if (untold) {
    memset(progress->buffer + begin, 0, piece);
    progress->piece = message->bytes; /* no other follows */
  } else {
    const unsigned char *from = memory_of(message, flight);
    memcpy(progress->buffer + begin, from + progress->passed, piece);
  }
  TDM_TRY(tdm_network_post_send(network, &progress->call, message->peer, TDM_MESSAGE_CHANNEL,
                                progress->buffer, begin + piece));
  progress->out = true;
  return TDM_OK;
}

static tdm_status receive_piece(tdm_network *network, const tdm_message *message) {
  tdm_message_progress *progress = &network->receiving;
  TDM_TRY(tdm_network_check_ranks(network));
  progress->piece = next_piece(progress, message, network->piece_bytes);
  TDM_TRY(reserve(network, progress, progress->piece));
  const size_t begin = progress->passed == 0 ? sizeof(message_header) : 0;
  TDM_TRY(tdm_network_post_receive(network, &progress->call, message->peer, TDM_MESSAGE_CHANNEL,
                                   progress->buffer, begin + progress->piece));
  progress->out = true;
  return TDM_OK;
}

/* Is the first piece of the message that is expected, with what was made? */
static tdm_status check_header(tdm_network *network, const tdm_message *message,
                               const tdm_flight *flight) {
  const tdm_message_progress *progress = &network->receiving;
  message_header header;
  memcpy(&header, progress->buffer, sizeof(header));
  if (header.plan != message->plan || header.number != message->number ||
      header.bytes != message->bytes) {
    const tdm_status status =
        tdm_fail(TDM_INVALID_ARGUMENT,
                 "rank %u sent message %u (%llu bytes) of plan %016llx where message %u (%zu "
                 "bytes) of plan %016llx was expected: all ranks run the same, in the same order",
                 message->peer, header.number, (unsigned long long)header.bytes,
                 (unsigned long long)header.plan, message->number, message->bytes,
                 (unsigned long long)message->plan);
    tdm_network_give_up(network, status);
    return status;
  }
  if (header.run != flight->number || header.step != flight->scalars->step) {
    return tdm_fail(
        TDM_INVALID_ARGUMENT,
        "rank %u is in its run %llu, after %llu steps, and this one in its run %llu, after %llu: "
        "all ranks run the same, in the same order",
        message->peer, (unsigned long long)header.run, (unsigned long long)header.step,
        (unsigned long long)flight->number, (unsigned long long)flight->scalars->step);
  }
  if (header.status == TDM_OK) return TDM_OK;
  return tdm_fail((tdm_status)header.status, "rank %u: %.*s", message->peer, TEXT_BYTES - 1,
                  header.text);
}

/* A piece has arrived. */
static tdm_status take_piece(tdm_network *network, const tdm_message *message,
                             const tdm_flight *flight, bool spoiled) {
  const tdm_message_progress *progress = &network->receiving;
  const size_t begin = progress->passed == 0 ? sizeof(message_header) : 0;
  if (begin > 0) TDM_TRY(check_header(network, message, flight));
  if (spoiled) return TDM_OK;
  unsigned char *to = memory_of(message, flight);
  memcpy(to + progress->passed, progress->buffer + begin, progress->piece);
  return TDM_OK;
}

/* Ends the message when status is a failure, or all of it has passed. */
static tdm_status go_on(tdm_message_progress *progress, tdm_status status, size_t bytes,
                        bool *out_ended) {
  *out_ended = status != TDM_OK || (!progress->out && progress->passed == bytes);
  if (!*out_ended) return TDM_OK;
  progress->passed = 0;
  progress->out = false;
  return status;
}

/* ---- Sums ------------------------------------------------------------------------------------ */

/* Who has not made what is summed takes part all the same; the vote tells the others. */
static tdm_status reduce_piece(tdm_network *network, const tdm_message *sum,
                               const tdm_flight *flight, bool spoiled) {
  tdm_message_progress *progress = &network->reducing;
  progress->piece = next_piece(progress, sum, SUM_PIECE_BYTES);
  if (spoiled)
    memset(progress->buffer, 0, progress->piece);
  else
    memcpy(progress->buffer, (const unsigned char *)memory_of(sum, flight) + progress->passed,
           progress->piece);
  const tdm_status status = post_sum(network, &progress->call, sum->dtype, progress->buffer,
                                     progress->piece / tdm_dtype_bytes(sum->dtype));
  progress->out = status == TDM_OK;
  return status;
}

static tdm_status advance_sum(tdm_network *network, const tdm_command *command,
                              const tdm_flight *flight, bool spoiled, bool *out_ended) {
  const tdm_message *sum = &command->message;
  tdm_message_progress *progress = &network->reducing;
  tdm_status status = TDM_OK;
  if (progress->out) {
    bool settled = false;
    status = tdm_network_look_after(network, &progress->call, &settled);
    if (!settled) return go_on(progress, status, sum->bytes, out_ended);
    if (status == TDM_OK && !spoiled)
      memcpy((unsigned char *)memory_of(sum, flight) + progress->passed, progress->buffer,
             progress->piece);
    progress->passed += progress->piece;
    progress->out = false;
    if (network->control) tdm_control_progress(network->control, TDM_WATCHED_SEND, sum->number);
    if (status != TDM_OK || progress->passed == sum->bytes)
      return go_on(progress, status, sum->bytes, out_ended);
  }
  status = reduce_piece(network, sum, flight, spoiled);
  return go_on(progress, status, sum->bytes, out_ended);
}

/* ---- Votes ----------------------------------------------------------------------------------- */

static tdm_status cast_vote(tdm_network *network, tdm_flight *flight) {
  const bool failed = atomic_load_explicit(&flight->failed, memory_order_acquire) != 0 ||
                      tdm_flight_close(flight) != TDM_OK;
  network->against = failed ? 1.0f : 0.0f;
  const tdm_status status = post_sum(network, &network->voting, TDM_FLOAT32, &network->against, 1);
  network->votes = status == TDM_OK;
  return status;
}

static tdm_status advance_vote(tdm_network *network, tdm_flight *flight, bool *out_ended) {
  tdm_status status = TDM_OK;
  if (!network->votes) {
    status = cast_vote(network, flight);
    *out_ended = status != TDM_OK;
    return status;
  }
  bool settled = false;
  status = tdm_network_look_after(network, &network->voting, &settled);
  *out_ended = settled || status != TDM_OK;
  if (!*out_ended) return TDM_OK;
  network->votes = false;
  if (status != TDM_OK || network->against == 0) return status;
  return tdm_fail(TDM_CANCELLED, "the step has failed on %.0f of %d ranks: none is updated",
                  (double)network->against, network->endpoint->rank_count);
}

/* ---- Both ------------------------------------------------------------------------------------ */

static tdm_status advance_message(tdm_messenger *messenger, const tdm_command *command,
                                  tdm_flight *flight, bool spoiled, bool *out_ended) {
  tdm_network *network = (tdm_network *)messenger;
  if (command->kind == TDM_COMMAND_VOTE) return advance_vote(network, flight, out_ended);
  if (command->kind == TDM_COMMAND_ALL_REDUCE)
    return advance_sum(network, command, flight, spoiled, out_ended);
  const tdm_message *message = &command->message;
  const bool sends = command->kind == TDM_COMMAND_SEND;
  tdm_message_progress *progress = sends ? &network->sending : &network->receiving;
  tdm_status status = TDM_OK;
  if (progress->out) {
    bool settled = false;
    status = tdm_network_look_after(network, &progress->call, &settled);
    if (!settled) return go_on(progress, status, message->bytes, out_ended);
    if (status == TDM_OK && !sends) status = take_piece(network, message, flight, spoiled);
    progress->passed += progress->piece;
    progress->out = false;
    if (network->control)
      tdm_control_progress(network->control, sends ? TDM_WATCHED_SEND : TDM_WATCHED_RECEIVE,
                           message->number);
    if (status != TDM_OK || progress->passed == message->bytes)
      return go_on(progress, status, message->bytes, out_ended);
  }
  status = sends ? send_piece(network, message, flight, spoiled) : receive_piece(network, message);
  tdm_network_give_up(network, status); /* what is not passed, the next message would meet */
  return go_on(progress, status, message->bytes, out_ended);
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

/* The endpoint is gone already. */
static void free_network(tdm_network *network, size_t ranks) {
  (void)pthread_mutex_destroy(&network->mutex);
  const tdm_allocator allocator = network->allocator;
  tdm_release(&allocator, network->sending.buffer, network->sending.capacity);
  tdm_release(&allocator, network->receiving.buffer, network->receiving.capacity);
  tdm_release(&allocator, network->reducing.buffer, network->reducing.capacity);
  tdm_release(&allocator, network->gathering, 2 * ranks * sizeof(tdm_network_call));
  tdm_release(&allocator, network->room, network->room_bytes);
  tdm_release(&allocator, network->reports, ranks * sizeof(tdm_rank_report));
  tdm_release(&allocator, network, sizeof(*network));
}

tdm_status tdm_network_create(const tdm_allocator *allocator, tdm_endpoint *endpoint,
                              tdm_network **out_network) {
  *out_network = NULL;
  tdm_network *network = tdm_allocate(allocator, sizeof(*network), "the network");
  if (network) network->allocator = *allocator;
  if (!network || reserve(network, &network->reducing, SUM_PIECE_BYTES) != TDM_OK) {
    tdm_release(allocator, network, sizeof(*network));
    tdm_endpoint_abandon(endpoint);
    return TDM_OUT_OF_MEMORY;
  }
  network->messenger = (tdm_messenger){.advance = advance_message,
                                       .check = tdm_network_check_all,
                                       .give_up = tdm_network_resign,
                                       .begun = tdm_network_begun,
                                       .check_group = tdm_network_check_group};
  network->endpoint = endpoint;
  network->piece_bytes = choose_piece(endpoint->eager_bytes);
  (void)pthread_mutex_init(&network->mutex, NULL); /* glibc's cannot fail */
  const size_t ranks = (size_t)endpoint->rank_count;
  network->gathering = tdm_allocate(allocator, 2 * ranks * sizeof(tdm_network_call), "gathers");
  network->reports = tdm_allocate(allocator, ranks * sizeof(tdm_rank_report), "reports of ranks");
  const size_t reports_bytes = (ranks + 1) * sizeof(tdm_rank_report);
  network->room_bytes = reports_bytes > ROOM_BYTES ? reports_bytes : ROOM_BYTES;
  network->room = tdm_allocate(allocator, network->room_bytes, "gathers");
  if (!network->gathering || !network->reports || !network->room) {
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
  /* One that has left is named when its last messages have had their time. */
  const uint64_t naming_ns = tdm_control_naming_ns(network->control);
  const uint64_t left_ns = TDM_LEFT_GRACE_NS + TDM_LEFT_GRACE_NS / 2;
  network->messenger.naming_ns = naming_ns > left_ns ? naming_ns : left_ns;
  return TDM_OK;
}

tdm_control *tdm_network_control(tdm_network *network) {
  return network->control;
}

/* The endpoint is gone afterwards. Answers whether an engine may still reach into the buffers. */
static bool leave(tdm_network *network) {
  const bool lost = tdm_network_check_ranks(network) != TDM_OK;
  const bool out = network->endpoint->posted_count > 0;
  tdm_control_leave(network->control);
  if (lost) {
    tdm_endpoint_abandon(network->endpoint);
  } else {
    const tdm_status left = tdm_endpoint_close(network->endpoint, close_ns);
    (void)left; /* it is gone either way */
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
