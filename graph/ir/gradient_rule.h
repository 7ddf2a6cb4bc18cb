/* The state of a gradient rule (graph/operations.h): its node, and the adjoints that it contributes
 * to. The traversal in graph/gradient calls the rules and sums their contributions. */
#ifndef TANDEM_GRAPH_IR_GRADIENT_RULE_H
#define TANDEM_GRAPH_IR_GRADIENT_RULE_H

#include "graph/ir/ir.h"

/* One contribution to an adjoint. Dense: dense != 0. Sparse: rows, indices and count are set. If
 * `added` is set too, the adjoint is dense, and the rows are added to the contributions of other
 * micro-batches. */
typedef struct tdm_adjoint {
  uint32_t dense;
  uint32_t rows;
  uint32_t indices;
  uint32_t count;
  bool added;
  int16_t device;
  uint16_t replica; /* replica of the consumer; 0: not in a replica */
  uint16_t micro;   /* micro-batch of the consumer, from 1; 0: the whole batch */
  uint32_t next;    /* index in the list, 0: last; earlier consumers come first */
} tdm_adjoint;

struct tdm_gradient {
  tdm_graph *graph;
  const tdm_ir_node *node;         /* the node of the rule */
  uint32_t *heads;                 /* per forward value: its first contribution, 0: none */
  uint8_t *wanted;                 /* per forward value */
  TDM_ARRAY(tdm_adjoint) adjoints; /* index 0 unused */
  uint32_t d_outputs[TDM_KERNEL_MAX_OUTPUTS];
  tdm_status status; /* status of appending nodes, for rules that return OK */
};

#endif
