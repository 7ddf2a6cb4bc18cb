/* Reads timelines that were written as Chrome traces. */
#ifndef TANDEM_GRAPH_REPORT_TIMELINE_READ_H
#define TANDEM_GRAPH_REPORT_TIMELINE_READ_H

#include <jansson.h>

#include "graph/report/timeline.h"

/* Reads root, the output of TDM_TRACE_CHROME. Fails with CORRUPT_DATA, naming source, if it is
 * something else. *out_timeline is initialized, filled and sorted; the caller deinits it, also
 * after a failure. */
tdm_status tdm_timeline_read(const json_t *root, const char *source, const tdm_allocator *allocator,
                             tdm_timeline *out_timeline) TDM_WARN_UNUSED;

#endif
