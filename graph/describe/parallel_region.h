/* Which nodes of a user's graph a parallel region has, given by the values at its boundary: for the
 * calls that make one (parallel_region.c). */
#ifndef TANDEM_GRAPH_DESCRIBE_PARALLEL_REGION_H
#define TANDEM_GRAPH_DESCRIBE_PARALLEL_REGION_H

#include "graph/ir/ir.h"

typedef struct tdm_boundary {
  const tdm_value *inputs; /* (input_count) */
  size_t input_count;
  const tdm_value *outputs; /* (output_count) */
  size_t output_count;
} tdm_boundary;

/* Sets members (per node of the graph; false before) where outputs need the node and inputs do not.
 * INVALID_ARGUMENT, naming nodes and values, unless they are convex and all that enters (but
 * parameters) and all that leaves is in the boundary. */
tdm_status tdm_boundary_mark(const tdm_graph *graph, const tdm_boundary *boundary,
                             bool *members) TDM_WARN_UNUSED;

#endif
