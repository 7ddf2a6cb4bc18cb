/* The pass `gradient`: appends the backward pass, gradients that nodes ask for, and updates. It
 * stands behind place, since adjoints are summed per device, and before common_subexpressions. */
#ifndef TANDEM_GRAPH_GRADIENT_GRADIENT_H
#define TANDEM_GRAPH_GRADIENT_GRADIENT_H

#include "graph/describe/update_groups.h"
#include "graph/ir/ir.h"

typedef struct tdm_training {
  uint32_t loss;                   /* a value of the graph */
  const tdm_update_groups *groups; /* NULL: nothing is trained, and there need be no loss */
  bool check_finite;
  bool deterministic;
  int alike_ranks; /* that the plan is one of, in forecasts; 0 or 1: it is all there is */
} tdm_training;

/* Also gives nodes the gradients that they ask for (describe/gradient_of.h): it is for graphs that
 * train or have such. */
tdm_status tdm_pass_gradient(tdm_graph *graph, const tdm_training *training) TDM_WARN_UNUSED;

#endif
