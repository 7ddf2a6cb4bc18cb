/* The stages of runs. Invariant: see life.h. A run that is a chain of one may end and be
 * freed as soon as its submitted programs can end, so it is not accessed after that. */
#include "graph/run/life.h"

#include <stdio.h>
#include <string.h>

#include "core/last_failure.h"
#include "core/park.h"
#include "core/untold.h"

typedef enum outcome {
  WAITS, /* waits for an event; a chain of one may have been freed */
  GOES_ON,
  ENDS,
} outcome;

static tdm_run_state *ahead_of(const tdm_run_state *run) {
  return (tdm_run_state *)run->admission.ahead;
}

static bool is_alone(const tdm_run_state *run) {
  return !run->admission.chain;
}

static bool is_stopped(const tdm_run_state *run) {
  const uint32_t stopped = atomic_load(&run->flight.stopped);
  return stopped != 0 && stopped != TDM_FLIGHT_CLOSED;
}

static void fail(tdm_run_state *run, tdm_status status, const char *message) {
  if (run->status != TDM_OK) return;
  run->status = status;
  (void)snprintf(run->message, sizeof run->message, "%s", message);
}

/* Submits programs [first, end) of the run. A refusal is the run's failure. If other ranks wait for
 * the run, it is also the job's, because otherwise they would not be notified. */
static bool submit(tdm_run_state *run, uint32_t first, uint32_t end, bool adopt) {
  if (first == end) return true;
  const tdm_status status = tdm_context_submit_part(run->session->context, &run->flight,
                                                    run->submissions + first, end - first, adopt);
  if (status == TDM_OK) return true;
  fail(run, status, tdm_last_message());
  if (tdm_run_is_awaited(run)) tdm_run_give_up(run->session, status);
  return false;
}

static void expect(tdm_run_state *run, uint32_t submissions) {
  atomic_store_explicit(&run->flight.remaining, submissions, memory_order_relaxed);
}

/* ---- Transitions ----------------------------------------------------------------------------- */

static outcome end(tdm_run_state *run) {
  if (run->status == TDM_OK && atomic_load(&run->flight.failed)) tdm_run_note_failure(run);
  return ENDS;
}

static outcome leave(tdm_run_state *run) {
  run->stage = TDM_STAGE_LEFT;
  return GOES_ON;
}

/* If other ranks wait for a run that failed before it began, it runs with all its commands failed:
 * its messages and its vote notify them. */
static void fail_commands(tdm_run_state *run) {
  memset(run->flight.failed_ids, 1, run->plan->command_count);
  tdm_flight_fail(&run->flight, 0, run->status, run->message);
}

static outcome upload(tdm_run_state *run) {
  const tdm_run_state *ahead = ahead_of(run);
  const bool over = run->status != TDM_OK || is_stopped(run);
  if (over && !tdm_run_is_awaited(run)) return leave(run);
  if (ahead && ahead->stage < TDM_STAGE_UPLOADING) return WAITS;
  if (run->status != TDM_OK) fail_commands(run);
  expect(run, run->plan->main_program_count);
  run->stage = TDM_STAGE_UPLOADING;
  return submit(run, 0, run->plan->early_program_count, false) ? GOES_ON : leave(run);
}

/* Skips the rest of the main phase: the run ends when the early programs have ended. */
static outcome drop(tdm_run_state *run) {
  const uint32_t late = run->plan->main_program_count - run->plan->early_program_count;
  run->stage = TDM_STAGE_DROPPED;
  const uint32_t left =
      atomic_fetch_sub_explicit(&run->flight.remaining, late, memory_order_acq_rel);
  return left == late ? leave(run) : WAITS;
}

/* Returns true if the run's main phase may be queued after that of the preceding run on all queues.
 * A run that only reads follows any run that has submitted its main phase. */
static bool may_follow(const tdm_run_state *run, const tdm_run_state *ahead) {
  if (!run->admission.writes) return ahead->stage >= TDM_STAGE_DROPPED;
  return ahead->stage == TDM_STAGE_UPDATING && ahead->plan == run->plan;
}

/* Sets the run's view of the store, and its waits for the preceding run. */
static void follow(tdm_run_state *run, const tdm_run_state *ahead) {
  const tdm_plan *plan = run->plan;
  run->flight.previous_bases = NULL;
  if (ahead) {
    memcpy(run->previous, ahead->flight.program_bases, plan->program_count * sizeof *run->previous);
    run->flight.previous_bases = run->previous;
  }
  (void)tdm_plan_find_old(plan, ahead != NULL, run->conditions);
  tdm_run_bind_logs(run, ahead != NULL);
  tdm_run_set_step(run, ahead ? ahead->scalars[0].step + 1 : run->session->store->steps);
}

static outcome compute(tdm_run_state *run, bool adopt) {
  const tdm_plan *plan = run->plan;
  const tdm_run_state *ahead = ahead_of(run);
  if (is_stopped(run) && !tdm_run_is_awaited(run)) return drop(run);
  if (ahead && !may_follow(run, ahead)) return WAITS;
  follow(run, run->admission.writes ? ahead : NULL);
  if (plan->main_program_count == 0) {
    run->stage = TDM_STAGE_COMPUTED;
    return GOES_ON;
  }
  run->stage = TDM_STAGE_COMPUTING;
  return submit(run, plan->early_program_count, plan->main_program_count, adopt) ? WAITS
                                                                                 : drop(run);
}

static outcome update(tdm_run_state *run) {
  const tdm_plan *plan = run->plan;
  const tdm_store *store = run->session->store;
  if (ahead_of(run) && run->admission.writes) return WAITS;
  const uint32_t updates = plan->program_count - plan->main_program_count;
  if (updates > 0 && store->broken != TDM_OK) fail(run, store->broken, store->message);
  if (run->status == TDM_OK && atomic_load(&run->flight.failed)) tdm_run_note_failure(run);
  if (updates == 0 || run->status != TDM_OK || tdm_flight_close(&run->flight) != TDM_OK)
    return ENDS;
  if (plan->records) run->moments.updating_ns = tdm_time_ns();
  expect(run, updates);
  run->stage = TDM_STAGE_UPDATING;
  if (submit(run, plan->main_program_count, plan->program_count, false)) return WAITS;
  run->stage = TDM_STAGE_COMPUTED;
  return ENDS;
}

/* Executes the part of a stage that needs no event. */
static outcome step(tdm_run_state *run, bool adopt) {
  switch (run->stage) {
  case TDM_STAGE_BOUND:
    return upload(run);
  case TDM_STAGE_UPLOADING:
    return compute(run, adopt);
  case TDM_STAGE_COMPUTED:
    return update(run);
  case TDM_STAGE_LEFT:
  case TDM_STAGE_UPDATED:
    return end(run);
  case TDM_STAGE_ADMITTED:
  case TDM_STAGE_DROPPED:
  case TDM_STAGE_COMPUTING:
  case TDM_STAGE_UPDATING:
    break;
  }
  return WAITS;
}

/* The stage after the event that a stage waits for. */
static const tdm_run_stage after[] = {
    [TDM_STAGE_ADMITTED] = TDM_STAGE_BOUND,
    [TDM_STAGE_DROPPED] = TDM_STAGE_LEFT,
    [TDM_STAGE_COMPUTING] = TDM_STAGE_COMPUTED,
    [TDM_STAGE_UPDATING] = TDM_STAGE_UPDATED,
};

/* ---- Events ---------------------------------------------------------------------------------- */

/* Advances a run as far as possible. Returns true if it has ended. */
static bool go_on(tdm_run_state *run, bool adopt) {
  outcome found;
  do {
    found = step(run, adopt);
  } while (found == GOES_ON);
  return found == ENDS;
}

/* Advances all runs under the lock. A run only enables those after it, so one pass is enough.
 * Returns those that have ended and left. */
static tdm_admission *go_on_together(tdm_store *store) {
  tdm_admission *ended = NULL;
  tdm_admission **last = &ended;
  for (tdm_admission *at = store->first_chained, *behind; at; at = behind) {
    behind = at->behind;
    tdm_run_state *run = (tdm_run_state *)at;
    if (is_alone(run) || !go_on(run, false)) continue;
    tdm_store_end_locked(store, at);
    at->next = NULL;
    *last = at;
    last = &at->next;
  }
  return ended;
}

/* Unlocks, delivers the runs that have ended, and starts those that could follow them. */
static void finish(tdm_store *store, tdm_admission *ended) {
  tdm_admission *admitted = ended ? tdm_store_admit_locked(store) : NULL;
  (void)pthread_mutex_unlock(&store->lock);
  for (tdm_admission *following; ended; ended = following) {
    following = ended->next;
    tdm_run_complete((tdm_run_state *)ended);
  }
  tdm_store_start(admitted);
}

/* Handles the event that the run waits for. */
static void take_event(tdm_run_state *run, bool adopt) {
  tdm_store *store = run->session->store;
  if (is_alone(run)) {
    run->stage = after[run->stage];
    if (!go_on(run, adopt)) return;
    (void)pthread_mutex_lock(&store->lock);
    tdm_store_end_locked(store, &run->admission);
    run->admission.next = NULL;
    finish(store, &run->admission);
    return;
  }
  (void)pthread_mutex_lock(&store->lock);
  run->stage = after[run->stage];
  finish(store, go_on_together(store));
}

static void launch(tdm_run_state *run, bool adopt) {
  run->flight.number = run->admission.number;
  if (tdm_run_is_late(run)) (void)tdm_flight_stop(&run->flight, TDM_DEADLINE_EXCEEDED);
  if (run->plan->records) run->moments.launched_ns = tdm_time_ns();
  if (run->plan->tuning) run->began_ns = tdm_time_ns();
  if (run->status == TDM_OK && !is_stopped(run)) {
    const tdm_status status = tdm_run_bind(run);
    if (status != TDM_OK) fail(run, status, tdm_last_message());
  }
  take_event(run, adopt);
}

/* A submitted run reports its failure to its callback; for the calling thread it is no failure. */
void tdm_run_launch(tdm_run_state *run, bool adopt) {
  if (!run->asynchronous) {
    launch(run, adopt);
    return;
  }
  tdm_last_failure before;
  tdm_last_failure_keep(&before);
  const uint32_t told = tdm_told_count();
  launch(run, adopt);
  if (tdm_told_count() != told) tdm_last_failure_restore(&before);
}

void tdm_run_settled(tdm_flight *flight) {
  take_event(flight->user, false);
}

void tdm_runs_go_on(tdm_store *store) {
  (void)pthread_mutex_lock(&store->lock);
  finish(store, go_on_together(store));
}
