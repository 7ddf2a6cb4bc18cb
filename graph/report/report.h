/* What every report to a stream has around it: numbers with a point in any locale, and what the
 * stream has to say in the end. */
#ifndef TANDEM_GRAPH_REPORT_REPORT_H
#define TANDEM_GRAPH_REPORT_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "core/number.h"
#include "core/status.h"

typedef struct tdm_report {
  FILE *out;
  const char *what; /* "the plan" */
  bool had_failed;  /* out, before */
  tdm_plain_locale locale;
} tdm_report;

/* Each begin has its end, on the same thread. */
void tdm_report_begin(tdm_report *report, FILE *out, const char *what);
/* status, unless that is OK and not all of the report reached the stream: IO, with the system's
 * reason. */
tdm_status tdm_report_end(tdm_report *report, tdm_status status) TDM_WARN_UNUSED;

#endif
