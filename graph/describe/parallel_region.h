/* The nodes of a parallel region, given by the values at its boundary. */
#ifndef TANDEM_GRAPH_DESCRIBE_PARALLEL_REGION_H
#define TANDEM_GRAPH_DESCRIBE_PARALLEL_REGION_H

#include "graph/ir/ir.h"

typedef struct tdm_boundary {
  const tdm_value *inputs; /* (input_count) */
  size_t input_count;
  const tdm_value *outputs; /* (output_count) */
  size_t output_count;
} tdm_boundary;

/* Sets members (per node of the graph; initially false) to true for nodes that outputs depend on
 * and inputs do not. Fails with INVALID_ARGUMENT, naming nodes and values, unless the set is convex
 * and the boundary contains all values that enter it, except parameters, and all that leave it. */
tdm_status tdm_boundary_mark(const tdm_graph *graph, const tdm_boundary *boundary,
                             bool *members) TDM_WARN_UNUSED;

#endif
