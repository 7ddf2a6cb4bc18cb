/* Runs that a rank has not begun because the call for them was invalid, while other ranks may have
 * begun them. Invariant: a refusal is no failure if all ranks have refused the run, or if the rank
 * begins it soon afterwards after a valid call. It is reported only to ranks that have a run under
 * way, or are about to, and wait for a rank that has none and has refused this one. */
#include <stdio.h>
#include <string.h>

#include "net/control_state.h"

static const uint64_t grace_ns = 500000000; /* grace period for a valid call */

/* ---- Sending refusals ------------------------------------------------------------------------ */

void tdm_control_refuse(tdm_control *control, tdm_status status, const char *reason) {
  (void)pthread_mutex_lock(&control->lock);
  control_refusal *own = &control->refusal;
  own->run = control->runs + 1;
  own->count = ++control->refusals[own->run % CONTROL_RUNS];
  own->status = status;
  (void)snprintf(own->reason, sizeof own->reason, "%s", reason);
  control->refusal_told = false;
  (void)pthread_mutex_unlock(&control->lock);
}

void control_tell_refusal(tdm_control *control, bool waits) {
  control_message message = {.kind = CONTROL_REFUSAL};
  const int code =
      waits ? pthread_mutex_lock(&control->lock) : pthread_mutex_trylock(&control->lock);
  if (code != 0) return;
  const bool untold = control->refusal.run > 0 && !control->refusal_told;
  message.refusal = control->refusal;
  control->refusal_told = true;
  (void)pthread_mutex_unlock(&control->lock);
  if (untold) control_tell_all(control, &message);
}

void control_take_refusal(tdm_control *control, const control_message *message) {
  control_peer *peer = &control->peers[message->from];
  peer->told.refusal = message->refusal;
  control_publish(control, peer);
  atomic_store(&control->any_refused, true);
}

/* ---- Checking refusals ----------------------------------------------------------------------- */

/* Returns how often this rank has refused its own run of that number. */
static uint64_t own_refusals(const tdm_control *control, uint64_t run) {
  const uint64_t next = control->runs + 1;
  return run <= next && next - run < CONTROL_RUNS ? control->refusals[run % CONTROL_RUNS] : 0;
}

/* Returns true if the rank has refused a run that it has not begun since. The beat about the
 * preceding run may not have arrived yet. The caller holds the lock. */
static bool has_refused(const control_told *known) {
  return known->refusal.run > known->peer.runs;
}

static int find_refused(const tdm_control *control, bool ahead, uint64_t now_ns) {
  for (int rank = 0; rank < control->rank_count; rank++) {
    const control_told *known = &control->peers[rank].known;
    if (has_refused(known) && known->peer.under_way == 0 &&
        control_is_heard(control, &known->peer, now_ns) &&
        known->refusal.run <= control->runs + ahead &&
        known->refusal.count > own_refusals(control, known->refusal.run))
      return rank;
  }
  return -1;
}

bool tdm_control_refused(tdm_control *control, bool ahead, uint64_t now_ns, int *out_rank) {
  if (!atomic_load_explicit(&control->any_refused, memory_order_relaxed)) return false;
  tdm_control_clock *clock = &control->refused_clock;
  (void)pthread_mutex_lock(&control->lock);
  if (tdm_control_clock_due(clock, now_ns)) {
    *out_rank = find_refused(control, ahead, now_ns);
    if (*out_rank < 0) clock->stalled_ns = 0;
    control_clock_add(clock, *out_rank >= 0, now_ns);
  }
  const bool refused = *out_rank >= 0 && clock->stalled_ns > grace_ns;
  (void)pthread_mutex_unlock(&control->lock);
  return refused;
}

bool tdm_control_refusal_text(tdm_control *control, int rank, char *text) {
  const control_told *known = &control->peers[rank].known;
  (void)pthread_mutex_lock(&control->lock);
  const bool refused = has_refused(known);
  if (refused)
    (void)snprintf(text, TDM_CONTROL_TEXT_BYTES, "%s: %s", tdm_status_name(known->refusal.status),
                   known->refusal.reason);
  (void)pthread_mutex_unlock(&control->lock);
  return refused;
}
