/* The stages of chained runs. Invariant: stages change, and programs are submitted, under the
 * store's lock only, which makes the order of submission that of the chain. */
#include "graph/run/chain.h"

#include <stdio.h>
#include <string.h>

#include "core/park.h"

static tdm_run_state *ahead_of(const tdm_run_state *run) {
  return (tdm_run_state *)run->admission.ahead;
}

static bool is_stopped(const tdm_run_state *run) {
  const uint32_t stopped = atomic_load(&run->flight.stopped);
  return stopped != 0 && stopped != TDM_FLIGHT_CLOSED;
}

static void fail(tdm_run_state *run, tdm_status status, const char *message) {
  if (run->status != TDM_OK) return;
  run->status = status;
  snprintf(run->message, sizeof run->message, "%s", message);
}

/* Programs [first, end) of the run; a refusal is the run's failure. */
static bool submit(tdm_run_state *run, uint32_t first, uint32_t end) {
  if (first == end) return true;
  const tdm_status status = tdm_context_submit_part(run->session->context, &run->flight,
                                                    run->submissions + first, end - first);
  if (status != TDM_OK) fail(run, status, tdm_last_message());
  return status == TDM_OK;
}

static void submit_early(tdm_run_state *run) {
  const tdm_plan *plan = run->plan;
  atomic_store_explicit(&run->flight.remaining, plan->main_program_count, memory_order_relaxed);
  run->stage = TDM_STAGE_EARLY;
  if (!submit(run, 0, plan->early_program_count)) run->stage = TDM_STAGE_BOUND;
}

/* The late programs will not be submitted: the run ends when the early ones have. */
static void drop_late(tdm_run_state *run) {
  const uint32_t late = run->plan->main_program_count - run->plan->early_program_count;
  run->stage = TDM_STAGE_DROPPED;
  if (atomic_fetch_sub_explicit(&run->flight.remaining, late, memory_order_acq_rel) == late)
    run->settled = true;
}

/* What the run has to wait for of the one ahead; all of it has ended where there is none. */
static void submit_late(tdm_run_state *run) {
  const tdm_plan *plan = run->plan;
  const tdm_run_state *ahead = ahead_of(run);
  const size_t bytes = plan->program_count * sizeof *run->previous;
  if (ahead)
    memcpy(run->previous, ahead->flight.program_bases, bytes);
  else
    memset(run->previous, 0xff, bytes); /* TDM_BASE_NONE each */
  (void)tdm_plan_find_old(plan, ahead != NULL, run->conditions);
  tdm_run_bind_logs(run, ahead != NULL);
  tdm_run_set_step(run, ahead ? ahead->scalars[0].step + 1 : run->session->store->steps);
  run->stage = TDM_STAGE_LATE;
  if (!submit(run, plan->early_program_count, plan->main_program_count)) drop_late(run);
}

/* The main phase has settled and nobody is ahead. False: there is no update phase, the run ends. */
static bool enter_update(tdm_run_state *run) {
  const tdm_plan *plan = run->plan;
  const tdm_store *store = run->session->store;
  if (store->broken != TDM_OK) fail(run, store->broken, store->message);
  if (run->status == TDM_OK && atomic_load(&run->flight.failed)) tdm_run_note_failure(run);
  if (run->status != TDM_OK || tdm_flight_close(&run->flight) != TDM_OK) return false;
  run->stage = TDM_STAGE_UPDATING;
  if (plan->records) run->moments.updating_ns = tdm_time_ns();
  run->settled = false;
  atomic_store_explicit(&run->flight.remaining, plan->program_count - plan->main_program_count,
                        memory_order_relaxed);
  return submit(run, plan->main_program_count, plan->program_count);
}

/* Moves a run on as far as it can go; true: it has ended. */
static bool move(tdm_run_state *run) {
  const tdm_run_state *ahead = ahead_of(run);
  if (run->stage == TDM_STAGE_BOUND) {
    if (run->status != TDM_OK || is_stopped(run)) return true;
    if (!ahead || ahead->stage >= TDM_STAGE_EARLY) submit_early(run);
    if (run->status != TDM_OK) return true;
  }
  if (run->stage == TDM_STAGE_EARLY) {
    if (is_stopped(run))
      drop_late(run);
    else if (!ahead || (ahead->stage == TDM_STAGE_UPDATING && ahead->plan == run->plan))
      submit_late(run);
  }
  if (run->stage == TDM_STAGE_DROPPED) return run->settled;
  if (run->stage == TDM_STAGE_LATE && run->settled && !ahead) return !enter_update(run);
  if (run->stage == TDM_STAGE_UPDATING && run->settled) {
    if (atomic_load(&run->flight.failed)) tdm_run_note_failure(run);
    return true;
  }
  return false;
}

/* Under the lock: whom one lets go on stands behind it, so one pass is enough. Answers those who
 * have ended, and left. */
static tdm_admission *advance(tdm_store *store) {
  tdm_admission *ended = NULL;
  tdm_admission **last = &ended;
  for (tdm_admission *at = store->first_writer, *behind; at; at = behind) {
    behind = at->behind;
    tdm_run_state *run = (tdm_run_state *)at;
    if (!at->chain || !move(run)) continue;
    tdm_store_end_locked(store, at);
    at->next = NULL;
    *last = at;
    last = &at->next;
  }
  return ended;
}

/* Unlocks. */
static void finish(tdm_store *store, tdm_admission *ended) {
  tdm_admission *admitted = ended ? tdm_store_admit_locked(store) : NULL;
  pthread_mutex_unlock(&store->lock);
  for (tdm_admission *next; ended; ended = next) {
    next = ended->next;
    tdm_run_complete((tdm_run_state *)ended);
  }
  tdm_store_start(admitted);
}

void tdm_chain_launch(tdm_run_state *run) {
  tdm_store *store = run->session->store;
  pthread_mutex_lock(&store->lock);
  run->stage = TDM_STAGE_BOUND;
  finish(store, advance(store));
}

void tdm_chain_settled(tdm_run_state *run) {
  tdm_store *store = run->session->store;
  pthread_mutex_lock(&store->lock);
  run->settled = true;
  finish(store, advance(store));
}

void tdm_chain_advance(tdm_store *store) {
  pthread_mutex_lock(&store->lock);
  finish(store, advance(store));
}
