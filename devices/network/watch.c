/* Checks whether an awaited event can still happen: lost ranks, ranks that have left, stalled
 * transfers, and ranks that wait in different operations. Invariant: the rank that detects it first
 * notifies all ranks. */
#include <stdio.h>
#include <string.h>

#include "core/park.h"
#include "devices/contract/engine.h"
#include "devices/network/network_state.h"

static tdm_status fail_left(const tdm_network *network, int rank) {
  char text[TDM_NET_RANK_TEXT_BYTES], why[TDM_CONTROL_TEXT_BYTES];
  (void)tdm_endpoint_rank_text(network->endpoint, rank, text);
  if (tdm_control_refusal_text(network->control, rank, why))
    return tdm_fail(TDM_UNAVAILABLE,
                    "%s has left the job, and is waited for: it was asked for the run in a wrong "
                    "way: %s",
                    text, why);
  return tdm_fail(TDM_UNAVAILABLE, "%s has left the job, and is waited for: all ranks run the same",
                  text);
}

bool tdm_network_has_lost(const tdm_network *network) {
  return atomic_load_explicit(&network->left, memory_order_relaxed) > 0 ||
         (network->control && tdm_control_failed(network->control, NULL));
}

tdm_status tdm_network_check_ranks(const tdm_network *network) {
  tdm_control_failure failure;
  const int left = atomic_load_explicit(&network->left, memory_order_relaxed);
  if (left > 0) return fail_left(network, left - 1);
  if (!network->control || !tdm_control_failed(network->control, &failure)) return TDM_OK;
  char text[TDM_CONTROL_TEXT_BYTES];
  return tdm_fail(TDM_UNAVAILABLE, "%s", tdm_control_failure_text(&failure, text));
}

tdm_status tdm_network_check_left(tdm_network *network, int peer, uint64_t *left_ns) {
  int left = -1;
  if (!network->control || !tdm_control_left(network->control, peer, &left)) return TDM_OK;
  const uint64_t now_ns = tdm_time_ns();
  if (*left_ns == 0) *left_ns = now_ns;
  if (now_ns - *left_ns < TDM_LEFT_GRACE_NS) return TDM_OK;
  atomic_store(&network->left, left + 1);
  const tdm_status status = fail_left(network, left);
  tdm_control_give_up(network->control, status, tdm_last_message()); /* others may wait */
  return status;
}

tdm_status tdm_network_check_refused(tdm_network *network, const tdm_network_call *call) {
  int rank = -1;
  const bool ahead = call && call->request.channel != TDM_MESSAGE_CHANNEL &&
                     strcmp(network->intent.words, TDM_INTENT_COMPARE) == 0;
  if (!network->control || !tdm_control_refused(network->control, ahead, tdm_time_ns(), &rank))
    return TDM_OK;
  char text[TDM_NET_RANK_TEXT_BYTES], why[TDM_CONTROL_TEXT_BYTES];
  /* the rank no longer refuses: it begins the call now */
  if (!tdm_control_refusal_text(network->control, rank, why)) return TDM_OK;
  const tdm_status status = tdm_fail(
      TDM_UNAVAILABLE, "%s was asked for the run in a wrong way, and takes no part in it: %s",
      tdm_endpoint_rank_text(network->endpoint, rank, text), why);
  tdm_control_give_up(network->control, status, tdm_last_message());
  return status;
}

static tdm_status fail_still(const tdm_network *network, const tdm_network_call *call) {
  const tdm_control_transfer *transfer = &call->transfer;
  char text[TDM_NET_RANK_TEXT_BYTES] = "all ranks";
  if (transfer->peer >= 0) (void)tdm_endpoint_rank_text(network->endpoint, transfer->peer, text);
  static const char *const names[TDM_NET_ALL_REDUCE + 1] = {"send to", "receive from",
                                                            "all-reduce of"};
  return tdm_fail(TDM_UNAVAILABLE,
                  "the %s %s (%zu bytes) is stalled: both ends have waited "
                  "for it for %.3g s and live, so the "
                  "way that the engine takes is cut, or an engine has stopped",
                  names[call->request.kind], text, call->request.bytes,
                  (double)transfer->clock.stalled_ns * 1e-9);
}

/* Fails if two ranks wait, each for an operation that the other one reaches only after its own. */
static tdm_status fail_apart(const tdm_network *network, const tdm_network_call *call) {
  const tdm_control_transfer *transfer = &call->transfer;
  const bool gathers =
      transfer->way == TDM_CONTROL_GATHER_SENDS || transfer->way == TDM_CONTROL_GATHER_RECEIVES;
  tdm_control_peer own, other;
  tdm_control_peer_get(network->control, network->endpoint->rank, &own);
  tdm_control_peer_get(network->control, transfer->apart, &other);
  char text[TDM_NET_RANK_TEXT_BYTES], to[TDM_INTENT_BYTES + 4];
  (void)snprintf(to, sizeof(to), "to %s", network->intent.words);
  return tdm_fail(
      TDM_UNAVAILABLE,
      "rank %d has waited for %.3g s %s, having begun %llu runs, for %s, which waits in "
      "another run, having begun %llu: all ranks step, evaluate, save and load in the same order",
      network->endpoint->rank, (double)transfer->clock.stalled_ns * 1e-9, gathers ? to : "in a run",
      (unsigned long long)own.runs,
      tdm_endpoint_rank_text(network->endpoint, transfer->apart, text),
      (unsigned long long)other.runs);
}

tdm_status tdm_network_check_stall(tdm_network *network, tdm_network_call *call) {
  if (!network->control) return TDM_OK;
  const tdm_control_stall stall =
      tdm_control_stalls(network->control, &call->transfer, tdm_time_ns());
  if (stall == TDM_CONTROL_MOVES) return TDM_OK;
  const tdm_status status =
      stall == TDM_CONTROL_APART ? fail_apart(network, call) : fail_still(network, call);
  tdm_control_give_up(network->control, status, tdm_last_message());
  return status;
}

void tdm_network_begin_run(tdm_network *network, uint64_t what) {
  if (network->control) tdm_control_begun(network->control, what);
}

void tdm_network_end_run(tdm_network *network) {
  if (network->control) tdm_control_ended(network->control);
}

void tdm_network_refuse_run(tdm_network *network, tdm_status status) {
  if (network->control) tdm_control_refuse(network->control, status, tdm_last_message());
}

/* ---- Devices --------------------------------------------------------------------------------- */

/* Returns true if beats report the device's progress; they have room for a limited number of
 * devices. */
static bool is_told(uint32_t slot) {
  return slot < TDM_CONTROL_QUEUES - TDM_WATCHED_DEVICES;
}

void tdm_network_begun(tdm_messenger *messenger, uint32_t slot, uint64_t position) {
  const tdm_network *network = (const tdm_network *)messenger;
  if (network->control && is_told(slot))
    tdm_control_progress(network->control, TDM_WATCHED_DEVICES + (int)slot, position);
}

static bool has_come(const tdm_network *network, const tdm_group_wait *wait, size_t member) {
  const uint32_t slot = wait->group->slots[member];
  return is_told(slot) && tdm_control_has_come(network->control, wait->group->devices[member]->rank,
                                               TDM_WATCHED_DEVICES + (int)slot, wait->position);
}

static bool all_have_come(const tdm_network *network, const tdm_group_wait *wait) {
  if (wait->position == 0) return true;
  if (wait->between)
    return has_come(network, wait, wait->members[0]) && has_come(network, wait, wait->members[1]);
  for (size_t i = 0; i < wait->group->count; i++)
    if (!has_come(network, wait, i)) return false;
  return true;
}

tdm_status tdm_network_check_group(tdm_messenger *messenger, tdm_group_wait *wait) {
  const tdm_network *network = (const tdm_network *)messenger;
  tdm_control_clock clock = {wait->looked_ns, wait->stalled_ns};
  const uint64_t now_ns = tdm_time_ns();
  if (!network->control || !tdm_control_clock_due(&clock, now_ns)) return TDM_OK;
  const bool out = tdm_control_clock_runs_out(network->control, &clock,
                                              all_have_come(network, wait), wait->bytes, now_ns);
  wait->looked_ns = clock.looked_ns;
  wait->stalled_ns = clock.stalled_ns;
  if (!out) return TDM_OK;
  const tdm_group *group = wait->group;
  char in[48] = "";
  if (wait->position > 0)
    (void)snprintf(in, sizeof(in), " in step %llu", (unsigned long long)wait->step + 1);
  const tdm_status status =
      tdm_fail(TDM_UNAVAILABLE,
               "%s %s of %s to %s (%zu devices, %zu bytes) is stalled%s: all have waited for it "
               "for %.3g s "
               "and live, so the way that their engine takes is cut, or it has stopped",
               wait->what, wait->name ? wait->name : "",
               group->devices[wait->between ? wait->members[0] : 0]->name,
               group->devices[wait->between ? wait->members[1] : group->count - 1]->name,
               wait->between ? 2 : group->count, wait->bytes, in, (double)wait->stalled_ns * 1e-9);
  tdm_control_give_up(network->control, status, tdm_last_message());
  return status;
}

/* ---- Giving up ------------------------------------------------------------------------------- */

void tdm_network_give_up(tdm_network *network, tdm_status status) {
  if (status == TDM_OK || !network->control || tdm_network_has_lost(network)) return;
  tdm_control_give_up(network->control, status, tdm_last_message());
}

tdm_status tdm_network_check_all(tdm_messenger *messenger, uint64_t *left_ns) {
  tdm_network *network = (tdm_network *)messenger;
  TDM_TRY(tdm_network_check_ranks(network));
  TDM_TRY(tdm_network_check_refused(network, NULL));
  return tdm_network_check_left(network, -1, left_ns);
}

void tdm_network_resign(tdm_messenger *messenger, tdm_status status) {
  tdm_network *network = (tdm_network *)messenger;
  if (network->control) tdm_control_give_up(network->control, status, tdm_last_message());
}
