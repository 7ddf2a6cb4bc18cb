/* GELU, SiLU and leaky ReLU. Invariant: a gradient reads the function's input, which therefore
 * stays in memory until then. */
#include "layers/common.h"
#include "layers/layers.h"

static const tdm_operation silu_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_SILU_GRADIENT,
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = tdm_infer_like_first,
    .elementwise = true,
};

static const tdm_operation gelu_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_GELU_GRADIENT,
    .attribute_bytes = sizeof(tdm_gelu_attributes),
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = tdm_infer_like_first,
    .elementwise = true,
};

static const tdm_operation leaky_relu_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_LEAKY_RELU_GRADIENT,
    .attribute_bytes = sizeof(tdm_leaky_relu_attributes),
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = tdm_infer_like_first,
    .elementwise = true,
};

static tdm_status append_silu_gradient(tdm_gradient *gradient) {
  return tdm_append_function_gradient(gradient, &silu_gradient, tdm_gradient_input(gradient, 0));
}

static tdm_status append_gelu_gradient(tdm_gradient *gradient) {
  return tdm_append_function_gradient(gradient, &gelu_gradient, tdm_gradient_input(gradient, 0));
}

static tdm_status append_leaky_relu_gradient(tdm_gradient *gradient) {
  return tdm_append_function_gradient(gradient, &leaky_relu_gradient,
                                      tdm_gradient_input(gradient, 0));
}

static const tdm_operation silu_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_SILU,
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 1,
    .infer = tdm_infer_floating_like_first,
    .gradient = append_silu_gradient,
    .elementwise = true,
};

static const tdm_operation gelu_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_GELU,
    .attribute_bytes = sizeof(tdm_gelu_attributes),
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 1,
    .infer = tdm_infer_floating_like_first,
    .gradient = append_gelu_gradient,
    .elementwise = true,
};

static const tdm_operation leaky_relu_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_LEAKY_RELU,
    .attribute_bytes = sizeof(tdm_leaky_relu_attributes),
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 1,
    .infer = tdm_infer_floating_like_first,
    .gradient = append_leaky_relu_gradient,
    .elementwise = true,
};

tdm_value tdm_silu(tdm_graph *graph, const char *name, tdm_value x) {
  return tdm_append(graph, &silu_operation, name, NULL, &x, 1, NULL);
}

tdm_value tdm_gelu(tdm_graph *graph, const char *name, tdm_value x) {
  const tdm_gelu_attributes attributes = {.by_tanh = 0};
  return tdm_append(graph, &gelu_operation, name, &attributes, &x, 1, NULL);
}

tdm_value tdm_gelu_tanh(tdm_graph *graph, const char *name, tdm_value x) {
  const tdm_gelu_attributes attributes = {.by_tanh = 1};
  return tdm_append(graph, &gelu_operation, name, &attributes, &x, 1, NULL);
}

tdm_value tdm_leaky_relu(tdm_graph *graph, const char *name, tdm_value x, double slope) {
  const tdm_leaky_relu_attributes attributes = {.slope = slope};
  return tdm_append(graph, &leaky_relu_operation, name, &attributes, &x, 1, NULL);
}
