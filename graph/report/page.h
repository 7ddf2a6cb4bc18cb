/* An HTML page that draws a plan and its runs. It contains all of its parts and loads nothing. The
 * drawing code is page.html's; the data is JSON in between. */
#ifndef TANDEM_GRAPH_REPORT_PAGE_H
#define TANDEM_GRAPH_REPORT_PAGE_H

#include <stdio.h>

#include "core/status.h"

/* The parts, in this order: the plan (TDM_PLAN_JSON), then, if available, the timeline
 * (TDM_TRACE_CHROME) and its summary, a string. */
#define TDM_PAGE_PLAN "plan"
#define TDM_PAGE_TRACE "trace"
#define TDM_PAGE_SUMMARY "summary"

void tdm_page_begin(FILE *out);
/* Writes JSON of that many bytes, and escapes characters that are special in HTML. */
void tdm_page_put(FILE *out, const char *part, const char *json, size_t bytes);
/* Writes a text as a JSON string. */
tdm_status tdm_page_put_text(FILE *out, const char *part, const char *text) TDM_WARN_UNUSED;
/* Writes the output of print: JSON or, if is_text, text that becomes a JSON string. */
tdm_status tdm_page_print(FILE *out, const char *part, bool is_text,
                          tdm_status (*print)(const void *user, FILE *stream),
                          const void *user) TDM_WARN_UNUSED;
void tdm_page_end(FILE *out);

#endif
