/* A page of HTML that draws a plan and its runs by itself: all of its parts are in it, it asks for
 * nothing from elsewhere. Its drawing is page.html's; what it draws is JSON in between. */
#ifndef TANDEM_GRAPH_REPORT_PAGE_H
#define TANDEM_GRAPH_REPORT_PAGE_H

#include <stdio.h>

#include "core/status.h"

/* The parts, in this order: the plan (TDM_PLAN_JSON), then, where there are any, the timeline
 * (TDM_TRACE_CHROME) and its summary, a string. */
#define TDM_PAGE_PLAN "plan"
#define TDM_PAGE_TRACE "trace"
#define TDM_PAGE_SUMMARY "summary"

void tdm_page_begin(FILE *out);
/* JSON, of so many bytes; what HTML would take for its own is escaped. */
void tdm_page_put(FILE *out, const char *part, const char *json, size_t bytes);
/* A string that becomes JSON. */
tdm_status tdm_page_put_text(FILE *out, const char *part, const char *text) TDM_WARN_UNUSED;
/* What print writes: JSON, or, where is_text, a string that becomes JSON. */
tdm_status tdm_page_print(FILE *out, const char *part, bool is_text,
                          tdm_status (*print)(const void *user, FILE *stream),
                          const void *user) TDM_WARN_UNUSED;
void tdm_page_end(FILE *out);

#endif
