/* A model's layers as a table, with data from a plan of a run for each. */
#ifndef TANDEM_GRAPH_REPORT_SUMMARY_H
#define TANDEM_GRAPH_REPORT_SUMMARY_H

#include "graph/plan/plan.h"

/* The source of a plan: values of the user's graph, and the shapes that were fed. */
typedef struct tdm_summary_source {
  const tdm_graph *graph;
  const uint32_t *targets; /* (target_count) */
  size_t target_count;
  const struct tdm_feed_spec *feeds; /* per input */
} tdm_summary_source;

tdm_status tdm_summary_print(const tdm_summary_source *source, const tdm_plan *plan,
                             FILE *out) TDM_WARN_UNUSED;

#endif
