/* Shared by the operations on capsules: checks of shape rules, and a form of gradient rule. */
#ifndef EXAMPLES_CAPSULE_OPERATIONS_H
#define EXAMPLES_CAPSULE_OPERATIONS_H

#include <tandem/tandem.h>

/* Checks that input `index`, named `name` in messages, has that rank, the first input's floating
 * dtype, and sizes in all dimensions except the first. */
tdm_status operation_check_input(const tdm_infer *infer, size_t index, const char *name, int rank);
/* Shape rule of gradient operations: output i has the dtype and shape of input i + 1. */
tdm_status operation_infer_like_operands(tdm_infer *infer);
/* Appends an operation that is given the gradient of the node's output and then its inputs, and
 * makes the gradients of the first of these. */
tdm_status operation_append_gradient(tdm_gradient *gradient, const tdm_operation *operation);

#endif
