/* Messages of a rank's queues, sent in pieces, several of which are outstanding at a time.
 * Invariant: a queue has at most one message. Both ends post all of its pieces, whatever has failed
 * on a rank, and it ends when all of them are done, so no piece is left for a later message. If the
 * engine fails, or an unexpected message arrives, no message follows. */
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "devices/network/network_state.h"

enum {
  WORDS_BYTES = TDM_MESSAGE_BYTES, /* size of a reason, for which every message has room */
  /* With its header a piece is sent without a handshake. If two ranks send each other larger ones
   * at once, the handshakes wait for the outgoing data. */
  LEAST_PIECE_BYTES = 4 << 10, /* smaller pieces are not worth their cost */
  MOST_PIECE_BYTES = 1 << 20,
  PIECE_ALIGNMENT = 64,
};

/* Precedes a message's first piece. */
typedef struct message_header {
  uint64_t plan;
  uint64_t run; /* number of the run, and of the training step */
  uint64_t step;
  uint64_t bytes;
  uint32_t number;
  uint32_t status; /* tdm_status; if not OK, the reason follows instead of the data */
} message_header;

/* ---- Pieces ---------------------------------------------------------------------------------- */

size_t tdm_message_piece_bytes(size_t eager_bytes) {
  const size_t most = MOST_PIECE_BYTES + sizeof(message_header);
  const size_t least = LEAST_PIECE_BYTES + sizeof(message_header);
  const size_t whole = eager_bytes > most ? most : eager_bytes < least ? least : eager_bytes;
  return (whole - sizeof(message_header)) / PIECE_ALIGNMENT * PIECE_ALIGNMENT;
}

/* A queue's message in one turn. */
typedef struct transfer {
  tdm_network *network;
  const tdm_message *message;
  tdm_message_progress *progress;
  tdm_flight *flight;
  bool sends;
  bool spoiled; /* the data was not computed */
  bool moved;   /* a piece was posted, or is done */
} transfer;

/* One piece of a message. */
typedef struct cut {
  size_t from;    /* position of the piece in the message, in bytes */
  size_t bytes;   /* bytes of the message in the piece */
  size_t begin;   /* position of these bytes in the buffer: after the header, if it has one */
  size_t carried; /* size on the transport: the first piece has room for a reason */
} cut;

static size_t count_pieces(const tdm_network *network, const tdm_message *message) {
  return message->bytes == 0 ? 1 : (message->bytes - 1) / network->piece_bytes + 1;
}

static cut cut_piece(const tdm_network *network, const tdm_message *message, size_t number) {
  cut piece = {.from = number * network->piece_bytes};
  const size_t left = message->bytes - piece.from;
  piece.bytes = left < network->piece_bytes ? left : network->piece_bytes;
  piece.begin = number == 0 ? sizeof(message_header) : 0;
  piece.carried = piece.begin + piece.bytes;
  if (number == 0 && piece.bytes < WORDS_BYTES) piece.carried = piece.begin + WORDS_BYTES;
  return piece;
}

static tdm_message_piece *piece_of(tdm_message_progress *progress, size_t number) {
  return &progress->pieces[number % TDM_PIECES_OUT];
}

/* Reserves memory for a piece, and for a header and a reason if the buffer is reused for them. */
static tdm_status reserve(const tdm_network *network, tdm_message_piece *piece, size_t bytes) {
  const size_t wanted = sizeof(message_header) + (bytes < WORDS_BYTES ? WORDS_BYTES : bytes);
  if (piece->capacity >= wanted) return TDM_OK;
  tdm_release(&network->allocator, piece->buffer, piece->capacity);
  piece->capacity = 0;
  piece->buffer = tdm_allocate(&network->allocator, wanted, "the network's buffers");
  if (!piece->buffer) return TDM_OUT_OF_MEMORY;
  piece->capacity = wanted;
  return TDM_OK;
}

/* Reserves memory for all pieces that will be outstanding at once, so that a lack of memory is
 * detected before the first one. */
static tdm_status reserve_all(const tdm_network *network, tdm_message_progress *progress,
                              const tdm_message *message) {
  const size_t count = count_pieces(network, message);
  for (size_t i = 0; i < count && i < TDM_PIECES_OUT; i++)
    TDM_TRY(reserve(network, piece_of(progress, i), cut_piece(network, message, i).bytes));
  return TDM_OK;
}

void tdm_message_free(const tdm_network *network, tdm_message_progress *progress) {
  for (size_t i = 0; i < TDM_PIECES_OUT; i++)
    tdm_release(&network->allocator, progress->pieces[i].buffer, progress->pieces[i].capacity);
}

/* ---- Headers --------------------------------------------------------------------------------- */

/* Writes a reason to words (WORDS_BYTES) if there is nothing to send. */
static message_header header_of(const tdm_message *message, tdm_flight *flight, bool spoiled,
                                char *words) {
  message_header header = {.plan = message->plan,
                           .run = flight->number,
                           .step = flight->scalars->step,
                           .number = message->number,
                           .bytes = message->bytes};
  if (spoiled) header.status = (uint32_t)tdm_flight_read_failure(flight, words);
  return header;
}

/* Checks that it is the expected message. Otherwise only its first piece may have arrived. */
static tdm_status check_message(tdm_network *network, const tdm_message *message,
                                const message_header *header) {
  if (header->plan == message->plan && header->number == message->number &&
      header->bytes == message->bytes)
    return TDM_OK;
  const tdm_status status =
      tdm_fail(TDM_INVALID_ARGUMENT,
               "rank %u sent message %u (%llu bytes) of plan %016llx where message %u (%zu "
               "bytes) of plan %016llx was expected: all ranks run the same, in the same order",
               message->peer, header->number, (unsigned long long)header->bytes,
               (unsigned long long)header->plan, message->number, message->bytes,
               (unsigned long long)message->plan);
  tdm_network_give_up(network, status);
  return status;
}

/* Checks that it belongs to this run and that its data was computed. words (WORDS_BYTES) follow the
 * header. */
static tdm_status check_run(const tdm_message *message, const message_header *header,
                            const char *words, const tdm_flight *flight) {
  if (header->run != flight->number || header->step != flight->scalars->step) {
    return tdm_fail(
        TDM_INVALID_ARGUMENT,
        "rank %u is in its run %llu, after %llu steps, and this one in its run %llu, after %llu: "
        "all ranks run the same, in the same order",
        message->peer, (unsigned long long)header->run, (unsigned long long)header->step,
        (unsigned long long)flight->number, (unsigned long long)flight->scalars->step);
  }
  if (header->status == TDM_OK) return TDM_OK;
  return tdm_fail((tdm_status)header->status, "rank %u: %.*s", message->peer, WORDS_BYTES - 1,
                  words);
}

/* ---- Posting --------------------------------------------------------------------------------- */

/* Fills the buffer of a piece; if the data was not computed, with a reason and zeros. */
static void fill(const transfer *sent, tdm_message_piece *piece, const cut *part) {
  if (sent->spoiled) memset(piece->buffer + part->begin, 0, part->bytes);
  if (part->begin > 0) {
    const message_header header =
        header_of(sent->message, sent->flight, sent->spoiled, (char *)piece->buffer + part->begin);
    memcpy(piece->buffer, &header, sizeof header);
  }
  if (!sent->spoiled)
    memcpy(piece->buffer + part->begin,
           tdm_message_memory(sent->message, sent->flight) + part->from, part->bytes);
}

static tdm_status post(const transfer *posted) {
  tdm_network *network = posted->network;
  const uint32_t peer = posted->message->peer;
  const size_t number = posted->progress->posted;
  tdm_message_piece *piece = piece_of(posted->progress, number);
  const cut part = cut_piece(network, posted->message, number);
  if (!posted->sends)
    return tdm_network_post_receive(network, &piece->call, peer, TDM_MESSAGE_CHANNEL, piece->buffer,
                                    part.carried);
  fill(posted, piece, &part);
  return tdm_network_post_send(network, &piece->call, peer, TDM_MESSAGE_CHANNEL, piece->buffer,
                               part.carried);
}

/* Posts as many pieces as may be outstanding. If the job has lost a rank, the engine may still use
 * the buffers, so they are not touched. */
static tdm_status post_some(transfer *posted) {
  tdm_message_progress *progress = posted->progress;
  const size_t count = count_pieces(posted->network, posted->message);
  if (progress->posted == count || progress->posted - progress->passed == TDM_PIECES_OUT)
    return TDM_OK;
  TDM_TRY(tdm_network_check_ranks(posted->network));
  if (progress->posted == 0) TDM_TRY(reserve_all(posted->network, progress, posted->message));
  while (progress->posted < count && progress->posted - progress->passed < TDM_PIECES_OUT) {
    TDM_TRY(post(posted));
    progress->posted++;
    posted->moved = true;
  }
  return TDM_OK;
}

/* ---- Progress -------------------------------------------------------------------------------- */

/* Keeps a failure until the rest of the message has arrived. */
static void note_failure(tdm_message_progress *progress, tdm_status status) {
  if (status == TDM_OK) return;
  progress->status = status;
  (void)snprintf(progress->text, sizeof progress->text, "%s", tdm_last_message());
}

/* Handles the piece that arrived last. Fails if no other piece of the message can arrive. */
static tdm_status take_piece(const transfer *received) {
  tdm_message_progress *progress = received->progress;
  const size_t number = progress->passed - 1;
  const tdm_message_piece *piece = piece_of(progress, number);
  const cut part = cut_piece(received->network, received->message, number);
  if (part.begin > 0) {
    message_header header;
    memcpy(&header, piece->buffer, sizeof header);
    TDM_TRY(check_message(received->network, received->message, &header));
    const char *words = (const char *)piece->buffer + part.begin;
    note_failure(progress, check_run(received->message, &header, words, received->flight));
  }
  if (received->spoiled || progress->status != TDM_OK) return TDM_OK;
  memcpy(tdm_message_memory(received->message, received->flight) + part.from,
         piece->buffer + part.begin, part.bytes);
  return TDM_OK;
}

/* Handles the outstanding pieces that are done, oldest first. Fails if the rest may never be. */
static tdm_status pass_some(transfer *passed) {
  tdm_network *network = passed->network;
  tdm_message_progress *progress = passed->progress;
  while (progress->passed < progress->posted) {
    bool settled = false;
    tdm_network_call *call = &piece_of(progress, progress->passed)->call;
    const tdm_status status = tdm_network_look_after(network, call, &settled);
    if (!settled) return status;
    progress->passed++;
    TDM_TRY(status);
    if (!passed->sends) TDM_TRY(take_piece(passed));
    passed->moved = true;
    if (network->control)
      tdm_control_progress(network->control, passed->sends ? TDM_WATCHED_SEND : TDM_WATCHED_RECEIVE,
                           passed->message->number);
  }
  return TDM_OK;
}

/* ---- A turn ---------------------------------------------------------------------------------- */

/* Ends the message. If it leaves pieces outstanding, no message follows. */
static tdm_status end(tdm_message_progress *progress, tdm_status status) {
  progress->stuck = progress->passed < progress->posted;
  if (status == TDM_OK && progress->status != TDM_OK)
    status = tdm_fail(progress->status, "%s", progress->text);
  progress->posted = progress->passed = 0;
  progress->status = TDM_OK;
  return status;
}

/* Checks that the queue can carry a message. */
static tdm_status check_queue(const tdm_network *network, const tdm_message_progress *progress) {
  if (!progress->stuck) return TDM_OK;
  TDM_TRY(tdm_network_check_ranks(network)); /* usually reports the reason */
  return tdm_fail(TDM_UNAVAILABLE, "a message of this rank has failed before");
}

tdm_status tdm_network_message(tdm_network *network, const tdm_command *command, tdm_flight *flight,
                               bool spoiled, bool *out_ended) {
  const bool sends = command->kind == TDM_COMMAND_SEND;
  tdm_message_progress *progress = sends ? &network->sending : &network->receiving;
  transfer turned = {network, &command->message, progress, flight, sends, spoiled, true};
  const size_t count = count_pieces(network, &command->message);
  *out_ended = true;
  TDM_TRY(check_queue(network, progress));
  /* Makes at most as many turns as there are outstanding pieces, so that another queue and its
   * thread get theirs. */
  for (int turn = 0; turn < TDM_PIECES_OUT && turned.moved; turn++) {
    turned.moved = false;
    tdm_status status = pass_some(&turned);
    if (status != TDM_OK) return end(progress, status);
    if (progress->passed == count) return end(progress, TDM_OK);
    status = post_some(&turned);
    tdm_network_give_up(network, status); /* the next message would receive the rest */
    if (status != TDM_OK) return end(progress, status);
  }
  *out_ended = false;
  return TDM_OK;
}
