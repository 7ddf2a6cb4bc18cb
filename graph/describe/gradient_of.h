/* Gradients as values of a graph: nodes that ask for one, until the pass gradient has made it. */
#ifndef TANDEM_GRAPH_DESCRIBE_GRADIENT_OF_H
#define TANDEM_GRAPH_DESCRIBE_GRADIENT_OF_H

#include "graph/ir/ir.h"

/* loss, value -> d loss / d value. No kernel: the pass gradient has the next one stand for it. */
extern const tdm_operation tdm_operation_gradient_of;
/* An adjoint, as who asked for it reads it: a view. */
extern const tdm_operation tdm_operation_gradient_view;

enum { TDM_GRADIENT_LOSS, TDM_GRADIENT_VALUE }; /* inputs of the first */

static inline bool tdm_asks_gradient(const tdm_ir_node *node) {
  return node->operation == &tdm_operation_gradient_of;
}
/* The first node that asks for a gradient, in order; NULL: none does. */
tdm_ir_node *tdm_first_asking(const tdm_graph *graph);

/* The operation of a function's gradient, where its record names one in place of a rule. */
static inline const tdm_operation *tdm_function_gradient(const tdm_operation *operation) {
  return TDM_OPERATION_HAS(operation, gradient_reads) ? operation->gradient_operation : NULL;
}
/* Returns true if an adjoint flows back through the operation. */
static inline bool tdm_flows_back(const tdm_operation *operation) {
  return operation->gradient || tdm_function_gradient(operation);
}
/* Returns true if the operation reads the elements of input k, and not its shape alone. */
static inline bool tdm_reads_elements(const tdm_operation *operation, uint32_t k) {
  return !TDM_OPERATION_HAS(operation, shape_inputs) || k >= 32 ||
         (operation->shape_inputs >> k & 1) == 0;
}

#endif
