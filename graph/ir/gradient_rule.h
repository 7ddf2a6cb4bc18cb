/* What a gradient rule works with (graph/operations.h): the node it is asked for, and the adjoints
 * that it contributes to. The walk (graph/gradient) asks rules, and sums what they tell. */
#ifndef TANDEM_GRAPH_IR_GRADIENT_RULE_H
#define TANDEM_GRAPH_IR_GRADIENT_RULE_H

#include "graph/ir/ir.h"

/* One contribution to an adjoint. Dense: dense != 0; sparse: rows, indices, count; added: the same,
 * and the adjoint is dense: the rows are added to what other micro-batches contribute. */
typedef struct tdm_adjoint {
  uint32_t dense;
  uint32_t rows;
  uint32_t indices;
  uint32_t count;
  bool added;
  int16_t device;
  uint16_t replica; /* of the consumer; 0: it is in no replica */
  uint16_t micro;   /* micro-batch of the consumer, from 1; 0: it works on the whole */
  uint32_t next;    /* index in the list, 0: last; earlier consumers stand first */
} tdm_adjoint;

struct tdm_gradient {
  tdm_graph *graph;
  const tdm_ir_node *node;         /* whose rule is asked */
  uint32_t *heads;                 /* per forward value: its first contribution, 0: none */
  uint8_t *wanted;                 /* per forward value */
  TDM_ARRAY(tdm_adjoint) adjoints; /* index 0 unused */
  uint32_t d_outputs[TDM_KERNEL_MAX_OUTPUTS];
  tdm_status status; /* of appending inside rules that return OK */
};

#endif
