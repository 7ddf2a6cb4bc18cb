/* Elementwise functions: relu, tanh, sigmoid. Invariant: a gradient reads the function's
 * output, never its input, so the input's memory is free as soon as the output is there. */
#include "layers/common.h"
#include "layers/layers.h"

static const tdm_operation relu_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_RELU_GRADIENT,
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = tdm_infer_like_first,
    .elementwise = true,
};

static const tdm_operation tanh_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_TANH_GRADIENT,
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = tdm_infer_like_first,
    .elementwise = true,
};

static const tdm_operation sigmoid_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_SIGMOID_GRADIENT,
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = tdm_infer_like_first,
    .elementwise = true,
};

static tdm_status append_relu_gradient(tdm_gradient *gradient) {
  return tdm_append_function_gradient(gradient, &relu_gradient, tdm_gradient_output(gradient, 0));
}

static tdm_status append_tanh_gradient(tdm_gradient *gradient) {
  return tdm_append_function_gradient(gradient, &tanh_gradient, tdm_gradient_output(gradient, 0));
}

static tdm_status append_sigmoid_gradient(tdm_gradient *gradient) {
  return tdm_append_function_gradient(gradient, &sigmoid_gradient,
                                      tdm_gradient_output(gradient, 0));
}

static const tdm_operation relu_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_RELU,
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 1,
    .infer = tdm_infer_floating_like_first,
    .gradient = append_relu_gradient,
    .row_wise = true,
    .elementwise = true,
};

static const tdm_operation tanh_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_TANH,
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 1,
    .infer = tdm_infer_floating_like_first,
    .gradient = append_tanh_gradient,
    .row_wise = true,
    .elementwise = true,
};

static const tdm_operation sigmoid_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_SIGMOID,
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 1,
    .infer = tdm_infer_floating_like_first,
    .gradient = append_sigmoid_gradient,
    .row_wise = true,
    .elementwise = true,
};

tdm_value tdm_relu(tdm_graph *graph, const char *name, tdm_value x) {
  return tdm_append(graph, &relu_operation, name, NULL, &x, 1, NULL);
}

tdm_value tdm_tanh(tdm_graph *graph, const char *name, tdm_value x) {
  return tdm_append(graph, &tanh_operation, name, NULL, &x, 1, NULL);
}

tdm_value tdm_sigmoid(tdm_graph *graph, const char *name, tdm_value x) {
  return tdm_append(graph, &sigmoid_operation, name, NULL, &x, 1, NULL);
}
