/* Prints a session's latest plan, and its state after one pass. Invariant: a plan is printed under
 * the session's lock, so it is not evicted meanwhile. */
#include <stdio.h>
#include <string.h>

#include "graph/report/explain.h"
#include "graph/report/report.h"
#include "graph/report/summary.h"
#include "graph/run/session.h"

tdm_status tdm_session_explain(tdm_session *session, tdm_plan_format format, FILE *out) {
  if (!session || !out) return tdm_fail(TDM_INVALID_ARGUMENT, "explain: no session or no file");
  TDM_TRY(tdm_context_check(session->context));
  tdm_report report;
  tdm_report_begin(&report, out, "the plan");
  (void)pthread_mutex_lock(&session->lock);
  const tdm_plan *plan = session->last_asked;
  const tdm_status status =
      plan ? tdm_explain_print(plan, false, format, out)
           : tdm_fail(TDM_INVALID_ARGUMENT, "the session has made no plan yet");
  (void)pthread_mutex_unlock(&session->lock);
  return tdm_report_end(&report, status);
}

/* ---- Repeating one pass of planning ---------------------------------------------------------- */

typedef struct pass_printer {
  const char *pass;
  tdm_plan_format format;
  FILE *out;
  tdm_status status;
} pass_printer;

static void print_pass(void *user, const char *pass, const tdm_plan *plan) {
  pass_printer *printer = user;
  if (strcmp(pass, printer->pass) != 0) return;
  printer->status = tdm_explain_print(plan, plan->lowered.schedule.step_count == 0, printer->format,
                                      printer->out);
}

static tdm_status plan_again(tdm_session *session, pass_printer *printer) {
  if (!session->last_asked)
    return tdm_fail(TDM_INVALID_ARGUMENT, "the session has made no plan yet");
  tdm_resolved_run resolved;
  tdm_training training;
  tdm_session_resolve_plan(session, session->last_asked, &resolved);
  tdm_plan_request request = tdm_session_plan_request(session, &resolved, &training);
  request.batching.count = session->last_asked->micro_asked;
  request.profile = request.record = false;
  request.after_pass = print_pass;
  request.user = printer;
  tdm_plan *plan;
  TDM_TRY(tdm_plan_create(&request, &plan));
  tdm_plan_destroy(plan);
  return printer->status;
}

static tdm_status check_pass(const char *pass) {
  char names[TDM_MESSAGE_BYTES / 2];
  size_t used = 0;
  for (size_t i = 0; i < tdm_pass_count; i++) {
    if (strcmp(tdm_passes[i].name, pass) == 0) return TDM_OK;
    const int length =
        snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "", tdm_passes[i].name);
    if (length > 0 && used + (size_t)length < sizeof names) used += (size_t)length;
  }
  return tdm_fail(TDM_INVALID_ARGUMENT, "print_pass: pass is %.64s, expected one of %s", pass,
                  names);
}

tdm_status tdm_session_print_pass(tdm_session *session, const char *pass, tdm_plan_format format,
                                  FILE *out) {
  if (!session || !pass || !out)
    return tdm_fail(TDM_INVALID_ARGUMENT, "print_pass: no session, pass or file");
  TDM_TRY(check_pass(pass));
  TDM_TRY(tdm_context_check(session->context));
  pass_printer printer = {pass, format, out, TDM_OK};
  tdm_report report;
  tdm_report_begin(&report, out, "the plan");
  (void)pthread_mutex_lock(&session->lock);
  const tdm_status status = plan_again(session, &printer);
  (void)pthread_mutex_unlock(&session->lock);
  return tdm_report_end(&report, status);
}

/* ---- A table of layers ----------------------------------------------------------------------- */

static tdm_status print_summary(tdm_session *session, FILE *out) {
  if (!session->last_asked)
    return tdm_fail(TDM_INVALID_ARGUMENT, "the session has made no plan yet");
  tdm_resolved_run resolved;
  tdm_session_resolve_plan(session, session->last_asked, &resolved);
  const tdm_summary_source source = {session->graph, resolved.targets, resolved.target_count,
                                     resolved.specs};
  return tdm_summary_print(&source, session->last_asked, out);
}

tdm_status tdm_session_print_summary(tdm_session *session, FILE *out) {
  if (!session || !out) return tdm_fail(TDM_INVALID_ARGUMENT, "summary: no session or no file");
  TDM_TRY(tdm_context_check(session->context));
  tdm_report report;
  tdm_report_begin(&report, out, "the summary");
  (void)pthread_mutex_lock(&session->lock);
  const tdm_status status = print_summary(session, out);
  (void)pthread_mutex_unlock(&session->lock);
  return tdm_report_end(&report, status);
}
