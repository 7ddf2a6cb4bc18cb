/* The pass `gradient`: appends the backward pass, gradients that nodes request, and updates. It
 * comes after place, since adjoints are summed per device, and before common_subexpressions. */
#ifndef TANDEM_GRAPH_GRADIENT_GRADIENT_H
#define TANDEM_GRAPH_GRADIENT_GRADIENT_H

#include "graph/describe/update_groups.h"
#include "graph/ir/ir.h"

typedef struct tdm_training {
  uint32_t loss;                   /* a value of the graph */
  const tdm_update_groups *groups; /* NULL: nothing is trained, and a loss is not required */
  bool check_finite;
  bool deterministic;
  int alike_ranks; /* forecasts: number of identical ranks; 0 or 1: one */
} tdm_training;

/* Appends the nodes. Required for graphs that train and for graphs with requested gradients
 * (describe/gradient_of.h). */
tdm_status tdm_pass_gradient(tdm_graph *graph, const tdm_training *training) TDM_WARN_UNUSED;

#endif
