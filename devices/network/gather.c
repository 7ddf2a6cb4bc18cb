/* Blocking communication between ranks outside of plans. Invariant: calls and their bytes are in
 * the network's memory, which outlives a failure: an engine may access it long after the caller has
 * returned. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/last_failure.h"
#include "devices/network/network_state.h"

enum { GATHER_PAUSE_NS = 50000 };

/* ---- The purpose of communication ------------------------------------------------------------ */

const char *tdm_network_intend(tdm_network *network, const char *intent) {
  const char *before = network ? network->intends : NULL;
  if (network) network->intends = intent;
  return before;
}

static void intend(tdm_network *network, size_t bytes) {
  network->intent = (tdm_network_intent){.bytes = bytes};
  (void)snprintf(network->intent.words, TDM_INTENT_BYTES, "%s",
                 network->intends ? network->intends : "agree");
}

/* Checks that the other rank's purpose is the same. Otherwise the data that follows is not used. */
static tdm_status check_intent(tdm_network *network, int peer) {
  const tdm_network_intent *own = &network->intent, *other = &network->intents[peer];
  if (other->bytes == own->bytes && strncmp(other->words, own->words, TDM_INTENT_BYTES) == 0)
    return TDM_OK;
  const tdm_status status = tdm_fail(
      TDM_INVALID_ARGUMENT,
      "rank %d is about to %.*s (%llu bytes), and rank %d to %s (%llu bytes): all ranks step, "
      "evaluate, save and load the same, in the same order",
      peer, TDM_INTENT_BYTES - 1, other->words, (unsigned long long)other->bytes,
      network->endpoint->rank, own->words, (unsigned long long)own->bytes);
  network->stuck = true;
  tdm_network_give_up(network, status);
  return status;
}

/* ---- Posting and waiting --------------------------------------------------------------------- */

static tdm_status post_receive(tdm_network *network, int peer, bool intent, void *memory,
                               size_t bytes, size_t *posted) {
  const uint32_t channel = intent ? TDM_INTENT_CHANNEL : TDM_GATHER_CHANNEL;
  if (intent) memory = &network->intents[peer];
  if (intent) bytes = sizeof(tdm_network_intent);
  TDM_TRY(tdm_network_post_receive(network, &network->gathering[*posted], (uint32_t)peer, channel,
                                   memory, bytes));
  *posted += 1;
  return TDM_OK;
}

static tdm_status post_send(tdm_network *network, int peer, bool intent, const void *memory,
                            size_t bytes, size_t *posted) {
  const uint32_t channel = intent ? TDM_INTENT_CHANNEL : TDM_GATHER_CHANNEL;
  if (intent) memory = &network->intent;
  if (intent) bytes = sizeof(tdm_network_intent);
  TDM_TRY(tdm_network_post_send(network, &network->gathering[*posted], (uint32_t)peer, channel,
                                memory, bytes));
  *posted += 1;
  return TDM_OK;
}

static tdm_status await(tdm_network *network, tdm_network_call *call) {
  for (;;) {
    bool settled = false;
    const tdm_status status = tdm_network_look_after(network, call, &settled);
    if (!settled && status != TDM_OK) network->stuck = true;
    if (status != TDM_OK || settled) return status;
    const struct timespec pause = {.tv_nsec = GATHER_PAUSE_NS};
    (void)nanosleep(&pause, NULL);
  }
}

/* Waits until calls [begin, end) have settled, or one of them never will. Returns the first
 * failure. */
static tdm_status await_calls(tdm_network *network, size_t begin, size_t end) {
  tdm_status first = TDM_OK;
  tdm_last_failure why = {0};
  for (size_t i = begin; i < end && !network->stuck; i++) {
    const tdm_status status = await(network, &network->gathering[i]);
    if (first != TDM_OK || status == TDM_OK) continue;
    first = status;
    tdm_last_failure_keep(&why);
  }
  if (first != TDM_OK) tdm_last_failure_restore(&why);
  return first;
}

/* Checks the first `intents` posted calls first. All of them are checked before a call with a
 * different purpose is reported, so that the other rank gets this rank's purpose. The calls after
 * them need not arrive in that case. */
static tdm_status await_intents(tdm_network *network, size_t intents) {
  const tdm_status status = await_calls(network, 0, intents);
  for (size_t i = 0; i < intents; i++) {
    const tdm_network_call *call = &network->gathering[i];
    if (call->settled && call->request.status == TDM_OK && call->request.kind == TDM_NET_RECEIVE)
      TDM_TRY(check_intent(network, call->request.peer));
  }
  return status;
}

/* Waits for outstanding calls, which access the room, even after a failure. */
static tdm_status await_behind(tdm_network *network, tdm_status status, size_t begin, size_t end) {
  tdm_last_failure why;
  tdm_last_failure_keep(&why);
  const tdm_status ended = await_calls(network, begin, end);
  if (status == TDM_OK) return ended;
  tdm_last_failure_restore(&why);
  return status;
}

static tdm_status await_all(tdm_network *network, size_t intents, size_t posted) {
  return await_behind(network, await_intents(network, intents), intents, posted);
}

/* Handles a failed post: other ranks would wait for what was not posted. A rank that is gone may
 * have sent before that it has a different purpose. */
static tdm_status give_up_posts(tdm_network *network, tdm_status status, size_t intents,
                                size_t posted) {
  tdm_last_failure why;
  tdm_last_failure_keep(&why);
  if (await_intents(network, intents) == TDM_INVALID_ARGUMENT)
    status = TDM_INVALID_ARGUMENT;
  else
    tdm_last_failure_restore(&why);
  tdm_network_give_up(network, status);
  return await_behind(network, status, intents, posted);
}

/* Checks that the room may be written. */
static tdm_status check_room(const tdm_network *network) {
  if (!network->stuck) return TDM_OK;
  TDM_TRY(tdm_network_check_ranks(network)); /* usually reports the reason */
  return tdm_fail(TDM_UNAVAILABLE, "the exchange between ranks has failed before");
}

/* ---- Gather ---------------------------------------------------------------------------------- */

/* Returns a slot of the room. The rank's outgoing data comes first, then one slot per rank for
 * incoming data. */
static unsigned char *slot_of(const tdm_network *network, size_t slot) {
  const size_t ranks = (size_t)network->endpoint->rank_count;
  return network->room + slot * (network->room_bytes / (ranks + 1));
}

/* Posts the exchange of the purpose, or of the data itself. The first is checked before the
 * second. */
static tdm_status post_gather(tdm_network *network, bool intent, size_t bytes, size_t *posted) {
  for (int r = 0; r < network->endpoint->rank_count; r++) {
    if (r == network->endpoint->rank) continue;
    TDM_TRY(post_receive(network, r, intent, slot_of(network, 1 + (size_t)r), bytes, posted));
    TDM_TRY(post_send(network, r, intent, slot_of(network, 0), bytes, posted));
  }
  return TDM_OK;
}

/* Gathers at most the bytes of a slot. In `all` the ranks' pieces are `stride` apart. */
static tdm_status gather_piece(tdm_network *network, const unsigned char *own, size_t bytes,
                               unsigned char *all, size_t stride) {
  size_t posted = 0;
  memcpy(slot_of(network, 0), own, bytes);
  intend(network, bytes);
  tdm_status status = post_gather(network, true, bytes, &posted);
  const size_t intents = posted;
  if (status == TDM_OK) status = post_gather(network, false, bytes, &posted);
  if (status != TDM_OK) return give_up_posts(network, status, intents, posted);
  TDM_TRY(await_all(network, intents, posted));
  for (int r = 0; r < network->endpoint->rank_count; r++) {
    const bool is_own = r == network->endpoint->rank;
    memcpy(all + (size_t)r * stride, slot_of(network, is_own ? 0 : 1 + (size_t)r), bytes);
  }
  return TDM_OK;
}

tdm_status tdm_network_gather(tdm_network *network, const void *own, size_t bytes, void *all) {
  const size_t most = (size_t)(slot_of(network, 1) - slot_of(network, 0));
  TDM_TRY(check_room(network));
  for (size_t at = 0; at < bytes; at += most) {
    const size_t piece = bytes - at < most ? bytes - at : most;
    TDM_TRY(gather_piece(network, (const unsigned char *)own + at, piece, (unsigned char *)all + at,
                         bytes));
  }
  return TDM_OK;
}

static tdm_status first_failure(const tdm_rank_report *reports, int count) {
  for (int r = 0; r < count; r++)
    if (reports[r].status != TDM_OK)
      return tdm_fail((tdm_status)reports[r].status, "rank %d: %.*s", r, TDM_MESSAGE_BYTES - 1,
                      reports[r].text);
  return TDM_OK;
}

tdm_status tdm_network_agree(tdm_network *network, tdm_status status) {
  tdm_rank_report own = {.status = (uint32_t)status};
  if (status != TDM_OK) (void)snprintf(own.text, sizeof own.text, "%s", tdm_last_message());
  TDM_TRY(tdm_network_gather(network, &own, sizeof own, network->reports));
  return first_failure(network->reports, network->endpoint->rank_count);
}

/* ---- Pass ------------------------------------------------------------------------------------ */

static bool receives(const tdm_network *network, int from, int to) {
  const int rank = network->endpoint->rank;
  return rank != from && (to < 0 || to == rank);
}

/* Posts like post_gather. */
static tdm_status post_pass(tdm_network *network, bool intent, int from, int to, size_t bytes,
                            size_t *posted) {
  if (receives(network, from, to))
    TDM_TRY(post_receive(network, from, intent, network->room, bytes, posted));
  for (int r = 0; network->endpoint->rank == from && r < network->endpoint->rank_count; r++) {
    if (r == from || (to >= 0 && r != to)) continue;
    TDM_TRY(post_send(network, r, intent, network->room, bytes, posted));
  }
  return TDM_OK;
}

/* Passes at most the bytes of the room. */
static tdm_status pass_piece(tdm_network *network, int from, int to, unsigned char *memory,
                             size_t bytes) {
  size_t posted = 0;
  if (network->endpoint->rank == from) memcpy(network->room, memory, bytes);
  intend(network, bytes);
  tdm_status status = post_pass(network, true, from, to, bytes, &posted);
  const size_t intents = posted;
  if (status == TDM_OK) status = post_pass(network, false, from, to, bytes, &posted);
  if (status != TDM_OK) return give_up_posts(network, status, intents, posted);
  TDM_TRY(await_all(network, intents, posted));
  if (receives(network, from, to)) memcpy(memory, network->room, bytes);
  return TDM_OK;
}

tdm_status tdm_network_pass(tdm_network *network, int from, int to, void *memory, size_t bytes) {
  TDM_TRY(check_room(network));
  for (size_t at = 0; at < bytes; at += network->room_bytes) {
    const size_t left = bytes - at;
    const size_t piece = left < network->room_bytes ? left : network->room_bytes;
    TDM_TRY(pass_piece(network, from, to, (unsigned char *)memory + at, piece));
  }
  return TDM_OK;
}
