/* Shared rules. Invariant: a gradient operation takes its forward operation's attributes. */
#include "examples/capsule/operations.h"

enum { MOST_OPERANDS = 3 };

tdm_status operation_check_input(const tdm_infer *infer, size_t index, const char *name, int rank) {
  const tdm_spec *spec = &infer->inputs[index];
  char text[TDM_SHAPE_TEXT];
  bool fits = tdm_dtype_is_floating(spec->dtype) && spec->dtype == infer->inputs[0].dtype &&
              spec->shape.rank == rank;
  for (int i = 1; fits && i < rank; i++)
    fits = tdm_dim_is_size(spec->shape.dims[i]);
  if (fits) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s is %s %s, and must be floating with %d dimensions",
                  name, tdm_dtype_name(spec->dtype),
                  tdm_shape_text(&spec->shape, text, sizeof text), rank);
}

tdm_status operation_infer_like_operands(tdm_infer *infer) {
  for (size_t i = 0; i < infer->output_count; i++)
    infer->outputs[i] = infer->inputs[i + 1];
  return TDM_OK;
}

tdm_status operation_append_gradient(tdm_gradient *gradient, const tdm_operation *operation) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  tdm_value operands[MOST_OPERANDS] = {tdm_gradient_of_output(gradient, 0)};
  tdm_value made[MOST_OPERANDS];
  for (size_t i = 1; i < operation->max_inputs; i++)
    operands[i] = tdm_gradient_input(gradient, i - 1);
  (void)tdm_append(graph, operation, tdm_gradient_name(gradient),
                   operation->attribute_bytes ? tdm_gradient_attributes(gradient) : NULL, operands,
                   operation->max_inputs, made);
  for (size_t i = 0; i < operation->output_count; i++)
    tdm_gradient_set(gradient, i, made[i]);
  return tdm_graph_status(graph);
}
