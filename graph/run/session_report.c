/* Writes a page about a session: its latest plan, and the recorded runs. */
#include "graph/report/explain.h"
#include "graph/report/page.h"
#include "graph/report/report.h"
#include "graph/run/session.h"
#include "graph/run/trace.h"

static tdm_status print_plan(const void *user, FILE *stream) {
  return tdm_explain_json(user, false, stream);
}

static tdm_status print_timeline(const void *user, FILE *stream) {
  return tdm_timeline_json(*(tdm_timeline *const *)user, stream);
}

static tdm_status print_summary(const void *user, FILE *stream) {
  return tdm_timeline_text(*(tdm_timeline *const *)user, stream);
}

static tdm_status write_plan(tdm_session *session, FILE *out) {
  (void)pthread_mutex_lock(&session->lock);
  const tdm_plan *plan = session->last_asked;
  const tdm_status status =
      plan ? tdm_page_print(out, TDM_PAGE_PLAN, false, print_plan, plan)
           : tdm_fail(TDM_INVALID_ARGUMENT, "the session has made no plan yet");
  (void)pthread_mutex_unlock(&session->lock);
  return status;
}

static tdm_status write_runs(tdm_session *session, FILE *out) {
  if (!session->trace || !tdm_trace_has_runs(session->trace)) return TDM_OK;
  tdm_timeline timeline;
  tdm_timeline *collected = &timeline;
  tdm_status status = tdm_trace_collect(session->trace, &timeline);
  if (status == TDM_OK)
    status = tdm_page_print(out, TDM_PAGE_TRACE, false, print_timeline, &collected);
  if (status == TDM_OK)
    status = tdm_page_print(out, TDM_PAGE_SUMMARY, true, print_summary, &collected);
  tdm_timeline_deinit(&timeline);
  return status;
}

tdm_status tdm_session_report(tdm_session *session, FILE *out) {
  if (!session || !out) return tdm_fail(TDM_INVALID_ARGUMENT, "report: no session or no file");
  TDM_TRY(tdm_context_check(session->context));
  tdm_report report;
  tdm_report_begin(&report, out, "the report");
  tdm_page_begin(out);
  tdm_status status = write_plan(session, out);
  if (status == TDM_OK) status = write_runs(session, out);
  if (status == TDM_OK) tdm_page_end(out);
  return tdm_report_end(&report, status);
}
