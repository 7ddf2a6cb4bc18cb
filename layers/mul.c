/* The product of two values, element by element. Invariant: both have one shape and dtype. */
#include "layers/common.h"
#include "layers/layers.h"

static tdm_status infer_mul(tdm_infer *infer) {
  tdm_shape shape;
  TDM_TRY(tdm_expect_floating(infer, 0, "a"));
  TDM_TRY(tdm_expect_dtype_of_first(infer, 1, "a", "b"));
  TDM_TRY(tdm_expect_one_shape(infer, 0, "a", 1, "b", &shape));
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &shape);
  return TDM_OK;
}

/* d_a = d_out b, d_b = d_out a. */
static tdm_status append_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  for (size_t i = 0; i < 2; i++)
    if (tdm_gradient_wanted(gradient, i))
      tdm_gradient_set(gradient, i,
                       tdm_mul(graph, tdm_gradient_name(gradient),
                               tdm_gradient_of_output(gradient, 0),
                               tdm_gradient_input(gradient, 1 - i)));
  return tdm_graph_status(graph);
}

static const tdm_operation mul_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_MUL,
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = infer_mul,
    .gradient = append_gradient,
    .elementwise = true,
};

tdm_value tdm_mul(tdm_graph *graph, const char *name, tdm_value a, tdm_value b) {
  const tdm_value operands[] = {a, b};
  return tdm_append(graph, &mul_operation, name, NULL, operands, 2, NULL);
}
