/* Stops runs early: on request, and when their deadline has passed. Invariant: a run that was
 * stopped ends with the status it was stopped with, exactly once, and has written no persistent
 * value. */
#include <stdio.h>

#include "core/park.h"
#include "graph/run/life.h"

static const char *reason_of(tdm_status status) {
  return status == TDM_DEADLINE_EXCEEDED ? "the run's deadline has passed"
                                         : "the run was cancelled";
}

void tdm_run_note_stop(tdm_run_state *run, tdm_status status) {
  run->status = status;
  (void)snprintf(run->message, sizeof run->message, "%s", reason_of(status));
}

bool tdm_run_is_late(const tdm_run_state *run) {
  return run->due_ns != 0 && tdm_time_ns() >= run->due_ns;
}

/* Called while the run is known to be alive. *withdrawn: it was still waiting, and the caller has
 * to complete it; runs that could follow it are in *out_admitted. Otherwise it ends by itself, as
 * do runs that other ranks wait for. */
static bool stop(tdm_run_state *run, tdm_status status, bool *withdrawn,
                 tdm_admission **out_admitted) {
  *withdrawn = false;
  if (!tdm_flight_stop(&run->flight, status)) return false;
  if (tdm_run_is_awaited(run)) return true;
  *withdrawn = tdm_store_withdraw(run->session->store, &run->admission, out_admitted);
  return true;
}

static void complete_withdrawn(tdm_run_state *run, tdm_status status, tdm_admission *admitted) {
  tdm_run_note_stop(run, status);
  tdm_run_complete(run);
  tdm_store_start(admitted);
}

bool tdm_run_cancel(tdm_session *session, uint64_t run_id) {
  if (!session || tdm_context_is_inherited(session->context)) return false;
  bool stopped = false;
  bool withdrawn = false;
  tdm_admission *admitted = NULL;
  (void)pthread_mutex_lock(&session->runs.lock);
  tdm_run_state *run = tdm_run_table_find(&session->runs, run_id);
  if (run) stopped = stop(run, TDM_CANCELLED, &withdrawn, &admitted);
  (void)pthread_mutex_unlock(&session->runs.lock);
  if (withdrawn)
    complete_withdrawn(run, TDM_CANCELLED, admitted);
  else if (stopped)
    tdm_runs_go_on(session->store);
  return stopped;
}

bool tdm_run_enter(tdm_run_state *run) {
  tdm_run_table *runs = &run->session->runs;
  (void)pthread_mutex_lock(&runs->lock);
  const bool stopped = atomic_load(&run->flight.stopped) != 0 && !tdm_run_is_awaited(run);
  const bool admitted = !stopped && tdm_store_enter(run->session->store, &run->admission);
  if (stopped) tdm_store_pass_over(run->session->store);
  (void)pthread_mutex_unlock(&runs->lock);
  if (stopped) complete_withdrawn(run, (tdm_status)atomic_load(&run->flight.stopped), NULL);
  return admitted;
}

/* Called on the loop's thread, which delivers the run: it is alive. */
static void on_deadline(tdm_timer *timer) {
  tdm_run_state *run = (tdm_run_state *)((char *)timer - offsetof(tdm_run_state, deadline));
  tdm_run_table *runs = &run->session->runs;
  bool withdrawn = false;
  tdm_admission *admitted = NULL;
  (void)pthread_mutex_lock(&runs->lock);
  const bool stopped = stop(run, TDM_DEADLINE_EXCEEDED, &withdrawn, &admitted);
  (void)pthread_mutex_unlock(&runs->lock);
  if (withdrawn)
    complete_withdrawn(run, TDM_DEADLINE_EXCEEDED, admitted);
  else if (stopped)
    tdm_runs_go_on(run->session->store); /* this thread delivers the run later */
}

void tdm_run_watch_deadline(tdm_run_state *run) {
  run->deadline.run = on_deadline;
  tdm_loop_timer_start(tdm_context_loop(run->session->context), &run->deadline, run->due_ns);
}
