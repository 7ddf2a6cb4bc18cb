/* Common code of all reports to a stream: numbers with a decimal point in any locale, and the
 * stream's errors at the end. */
#ifndef TANDEM_GRAPH_REPORT_REPORT_H
#define TANDEM_GRAPH_REPORT_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "core/number.h"
#include "core/status.h"

typedef struct tdm_report {
  FILE *out;
  const char *what; /* "the plan" */
  bool had_failed;  /* the stream's error flag at the beginning */
  tdm_plain_locale locale;
} tdm_report;

/* Every begin is followed by an end on the same thread. */
void tdm_report_begin(tdm_report *report, FILE *out, const char *what);
/* Returns status. If that is OK but not all of the report reached the stream, fails with IO and the
 * system's reason. */
tdm_status tdm_report_end(tdm_report *report, tdm_status status) TDM_WARN_UNUSED;

#endif
