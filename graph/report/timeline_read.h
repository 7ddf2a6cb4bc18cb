/* Timelines that were written as Chrome traces, read again. */
#ifndef TANDEM_GRAPH_REPORT_TIMELINE_READ_H
#define TANDEM_GRAPH_REPORT_TIMELINE_READ_H

#include <jansson.h>

#include "graph/report/timeline.h"

/* root is what TDM_TRACE_CHROME wrote; CORRUPT_DATA names source where it is something else.
 * *out_timeline is initialised, filled and sorted; the caller deinits it, also after a failure. */
tdm_status tdm_timeline_read(const json_t *root, const char *source, const tdm_allocator *allocator,
                             tdm_timeline *out_timeline) TDM_WARN_UNUSED;

#endif
