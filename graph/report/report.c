/* Begins and ends reports. Invariant: if a report returns OK, all of it has been passed to the
 * system. */
#include "graph/report/report.h"

#include <errno.h>

#include "core/json_writer.h"

void tdm_report_begin(tdm_report *report, FILE *out, const char *what) {
  *report = (tdm_report){.out = out, .what = what, .had_failed = ferror(out) != 0};
  tdm_plain_locale_enter(&report->locale);
  errno = 0;
}

tdm_status tdm_report_end(tdm_report *report, tdm_status status) {
  tdm_plain_locale_leave(&report->locale);
  if (status == TDM_IO) return tdm_fail_within(status, "%s", report->what);
  if (status != TDM_OK) return status;
  const bool flushed = fflush(report->out) == 0;
  if (flushed && !ferror(report->out)) return TDM_OK;
  /* Other calls may have set errno, too. */
  const bool before = report->had_failed && (errno == 0 || flushed);
  return tdm_fail(TDM_IO, "%s: cannot write: %s", report->what,
                  before ? "the stream has failed before" : tdm_write_reason(errno));
}
