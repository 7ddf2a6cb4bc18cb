/* Gradients as values of a graph: nodes that represent one until the gradient pass computes it. */
#ifndef TANDEM_GRAPH_DESCRIBE_GRADIENT_OF_H
#define TANDEM_GRAPH_DESCRIBE_GRADIENT_OF_H

#include "graph/ir/ir.h"

/* loss, value -> d loss / d value. It has no kernel: the gradient pass replaces it by the next
 * operation. */
extern const tdm_operation tdm_operation_gradient_of;
/* An adjoint as consumers of the gradient read it: a view. */
extern const tdm_operation tdm_operation_gradient_view;

enum { TDM_GRADIENT_LOSS, TDM_GRADIENT_VALUE }; /* inputs of the first */

static inline bool tdm_asks_gradient(const tdm_ir_node *node) {
  return node->operation == &tdm_operation_gradient_of;
}
/* Returns the first node in order that represents a gradient, or NULL. */
tdm_ir_node *tdm_first_asking(const tdm_graph *graph);

/* Returns the operation of a function's gradient if its record names one instead of a rule,
 * otherwise NULL. */
static inline const tdm_operation *tdm_function_gradient(const tdm_operation *operation) {
  return TDM_OPERATION_HAS(operation, gradient_reads) ? operation->gradient_operation : NULL;
}
/* Returns true if the operation propagates adjoints to its inputs. */
static inline bool tdm_flows_back(const tdm_operation *operation) {
  return operation->gradient || tdm_function_gradient(operation);
}
/* Returns true if the operation reads the elements of input k, not only its shape. */
static inline bool tdm_reads_elements(const tdm_operation *operation, uint32_t k) {
  return !TDM_OPERATION_HAS(operation, shape_inputs) || k >= 32 ||
         (operation->shape_inputs >> k & 1) == 0;
}

#endif
