/* What ranks tell one another outside of plans, blocking. Invariant: calls, and the bytes that they
 * send and receive, lie in the network's memory, which outlives a failure: an engine may reach into
 * it long after whoever asked has gone. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "devices/network/network_state.h"

enum { GATHER_PAUSE_NS = 50000 };

/* Until all have settled, or one never will. */
static tdm_status await_all(tdm_network *network, size_t count) {
  tdm_status first = TDM_OK;
  for (size_t i = 0; i < count; i++) {
    for (;;) {
      bool settled = false;
      const tdm_status status = tdm_network_look_after(network, &network->gathering[i], &settled);
      if (first == TDM_OK) first = status;
      if (!settled && status != TDM_OK) network->stuck = true;
      if (settled || status != TDM_OK) break;
      const struct timespec pause = {.tv_nsec = GATHER_PAUSE_NS};
      (void)nanosleep(&pause, NULL);
    }
  }
  return first;
}

/* May the room be written to? */
static tdm_status check_room(const tdm_network *network) {
  if (!network->stuck) return TDM_OK;
  TDM_TRY(tdm_network_check_ranks(network)); /* which mostly knows why */
  return tdm_fail(TDM_UNAVAILABLE, "what ranks tell one another has failed before");
}

/* ---- Of all, to all -------------------------------------------------------------------------- */

/* What a rank sends stands first in the room, then what it receives, a slot a rank. */
static unsigned char *slot_of(const tdm_network *network, size_t slot) {
  const size_t ranks = (size_t)network->endpoint->rank_count;
  return network->room + slot * (network->room_bytes / (ranks + 1));
}

static tdm_status post_gather(tdm_network *network, size_t bytes, size_t *posted) {
  tdm_network_call *calls = network->gathering;
  for (int r = 0; r < network->endpoint->rank_count; r++) {
    if (r == network->endpoint->rank) continue;
    TDM_TRY(tdm_network_post_receive(network, &calls[*posted], (uint32_t)r, TDM_GATHER_CHANNEL,
                                     slot_of(network, 1 + (size_t)r), bytes));
    *posted += 1;
    TDM_TRY(tdm_network_post_send(network, &calls[*posted], (uint32_t)r, TDM_GATHER_CHANNEL,
                                  slot_of(network, 0), bytes));
    *posted += 1;
  }
  return TDM_OK;
}

/* As many bytes as a slot has, at most; in `all` a rank's stand `stride` behind the one's before.
 */
static tdm_status gather_piece(tdm_network *network, const unsigned char *own, size_t bytes,
                               unsigned char *all, size_t stride) {
  size_t posted = 0;
  memcpy(slot_of(network, 0), own, bytes);
  const tdm_status status = post_gather(network, bytes, &posted);
  tdm_network_give_up(network, status); /* what is not posted, others would wait for */
  const tdm_status ended = await_all(network, posted);
  TDM_TRY(status);
  TDM_TRY(ended);
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
  if (status != TDM_OK) (void)snprintf(own.text, sizeof(own.text), "%s", tdm_last_message());
  TDM_TRY(tdm_network_gather(network, &own, sizeof(own), network->reports));
  return first_failure(network->reports, network->endpoint->rank_count);
}

/* ---- Of one, to another or to all ------------------------------------------------------------ */

static bool receives(const tdm_network *network, int from, int to) {
  const int rank = network->endpoint->rank;
  return rank != from && (to < 0 || to == rank);
}

static tdm_status post_pass(tdm_network *network, int from, int to, size_t bytes, size_t *posted) {
  tdm_network_call *calls = network->gathering;
  if (receives(network, from, to)) {
    TDM_TRY(tdm_network_post_receive(network, &calls[0], (uint32_t)from, TDM_GATHER_CHANNEL,
                                     network->room, bytes));
    *posted = 1;
  }
  for (int r = 0; network->endpoint->rank == from && r < network->endpoint->rank_count; r++) {
    if (r == from || (to >= 0 && r != to)) continue;
    TDM_TRY(tdm_network_post_send(network, &calls[*posted], (uint32_t)r, TDM_GATHER_CHANNEL,
                                  network->room, bytes));
    *posted += 1;
  }
  return TDM_OK;
}

/* As many bytes as the room has, at most. */
static tdm_status pass_piece(tdm_network *network, int from, int to, unsigned char *memory,
                             size_t bytes) {
  size_t posted = 0;
  if (network->endpoint->rank == from) memcpy(network->room, memory, bytes);
  const tdm_status status = post_pass(network, from, to, bytes, &posted);
  tdm_network_give_up(network, status); /* as for a gather */
  const tdm_status ended = await_all(network, posted);
  TDM_TRY(status);
  TDM_TRY(ended);
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
