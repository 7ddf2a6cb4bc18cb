/* Functions of one value and numbers, element by element. Invariant: a gradient reads the
 * function's argument, or its result where that says enough. */
#include <math.h>

#include "layers/common.h"
#include "layers/layers.h"

/* ---- Operations ------------------------------------------------------------------------------ */

#define FUNCTION(operation, gradient_rule)                                                         \
  {                                                                                                \
    .struct_size = sizeof(tdm_operation), .name = operation,                                       \
    .attribute_bytes = sizeof(tdm_function_attributes), .min_inputs = 1, .max_inputs = 1,          \
    .output_count = 1, .infer = tdm_infer_floating_like_first, .gradient = gradient_rule,          \
    .row_wise = true,                                                                              \
  }

/* d_y, and x or y, -> d_x. */
#define FUNCTION_GRADIENT(operation)                                                               \
  {                                                                                                \
    .struct_size = sizeof(tdm_operation), .name = operation,                                       \
    .attribute_bytes = sizeof(tdm_function_attributes), .min_inputs = 2, .max_inputs = 2,          \
    .output_count = 1, .infer = tdm_infer_like_first,                                              \
  }

/* The rule of a function whose gradient, an operation, reads the argument or the result. */
#define GRADIENT_OF_ARGUMENT(name, operation)                                                      \
  static const tdm_operation name##_gradient = FUNCTION_GRADIENT(operation);                       \
  static tdm_status append_##name##_gradient(tdm_gradient *gradient) {                             \
    return tdm_append_function_gradient(gradient, &name##_gradient,                                \
                                        tdm_gradient_input(gradient, 0));                          \
  }
#define GRADIENT_OF_RESULT(name, operation)                                                        \
  static const tdm_operation name##_gradient = FUNCTION_GRADIENT(operation);                       \
  static tdm_status append_##name##_gradient(tdm_gradient *gradient) {                             \
    return tdm_append_function_gradient(gradient, &name##_gradient,                                \
                                        tdm_gradient_output(gradient, 0));                         \
  }

GRADIENT_OF_ARGUMENT(abs, TDM_OP_ABS_GRADIENT)
GRADIENT_OF_RESULT(sqrt, TDM_OP_SQRT_GRADIENT)
GRADIENT_OF_RESULT(rsqrt, TDM_OP_RSQRT_GRADIENT)
GRADIENT_OF_ARGUMENT(pow, TDM_OP_POW_GRADIENT)
GRADIENT_OF_ARGUMENT(clamp, TDM_OP_CLAMP_GRADIENT)
GRADIENT_OF_ARGUMENT(softplus, TDM_OP_SOFTPLUS_GRADIENT)
GRADIENT_OF_ARGUMENT(elu, TDM_OP_ELU_GRADIENT)

/* d_x = d_y y */
static tdm_status append_exp_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  tdm_gradient_set(gradient, 0,
                   tdm_mul(graph, tdm_gradient_name(gradient), tdm_gradient_of_output(gradient, 0),
                           tdm_gradient_output(gradient, 0)));
  return tdm_graph_status(graph);
}

/* d_x = d_y / x */
static tdm_status append_log_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  tdm_gradient_set(gradient, 0,
                   tdm_div(graph, tdm_gradient_name(gradient), tdm_gradient_of_output(gradient, 0),
                           tdm_gradient_input(gradient, 0)));
  return tdm_graph_status(graph);
}

/* d_x = d_y scale */
static tdm_status append_affine_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const tdm_function_attributes *attributes = tdm_gradient_attributes(gradient);
  tdm_gradient_set(gradient, 0,
                   tdm_mul_scalar(graph, tdm_gradient_name(gradient),
                                  tdm_gradient_of_output(gradient, 0), attributes->first));
  return tdm_graph_status(graph);
}

static const tdm_operation affine_operation = FUNCTION(TDM_OP_AFFINE, append_affine_gradient);
static const tdm_operation abs_operation = FUNCTION(TDM_OP_ABS, append_abs_gradient);
static const tdm_operation exp_operation = FUNCTION(TDM_OP_EXP, append_exp_gradient);
static const tdm_operation log_operation = FUNCTION(TDM_OP_LOG, append_log_gradient);
static const tdm_operation sqrt_operation = FUNCTION(TDM_OP_SQRT, append_sqrt_gradient);
static const tdm_operation rsqrt_operation = FUNCTION(TDM_OP_RSQRT, append_rsqrt_gradient);
static const tdm_operation pow_operation = FUNCTION(TDM_OP_POW, append_pow_gradient);
static const tdm_operation clamp_operation = FUNCTION(TDM_OP_CLAMP, append_clamp_gradient);
static const tdm_operation softplus_operation = FUNCTION(TDM_OP_SOFTPLUS, append_softplus_gradient);
static const tdm_operation elu_operation = FUNCTION(TDM_OP_ELU, append_elu_gradient);

/* ---- Functions ------------------------------------------------------------------------------- */

static tdm_value make(tdm_graph *graph, const tdm_operation *operation, const char *name,
                      tdm_value x, double first, double second) {
  const tdm_function_attributes attributes = {.first = first, .second = second};
  return tdm_append(graph, operation, name, &attributes, &x, 1, NULL);
}

tdm_value tdm_affine(tdm_graph *graph, const char *name, tdm_value x, double scale, double shift) {
  return make(graph, &affine_operation, name, x, scale, shift);
}

tdm_value tdm_add_scalar(tdm_graph *graph, const char *name, tdm_value x, double number) {
  return make(graph, &affine_operation, name, x, 1, number);
}

/* Adding -0 changes nothing, not even the sign of a zero. */
tdm_value tdm_mul_scalar(tdm_graph *graph, const char *name, tdm_value x, double number) {
  return make(graph, &affine_operation, name, x, number, -0.0);
}

tdm_value tdm_neg(tdm_graph *graph, const char *name, tdm_value x) {
  return tdm_mul_scalar(graph, name, x, -1);
}

tdm_value tdm_abs(tdm_graph *graph, const char *name, tdm_value x) {
  return make(graph, &abs_operation, name, x, 0, 0);
}

tdm_value tdm_exp(tdm_graph *graph, const char *name, tdm_value x) {
  return make(graph, &exp_operation, name, x, 0, 0);
}

tdm_value tdm_log(tdm_graph *graph, const char *name, tdm_value x) {
  return make(graph, &log_operation, name, x, 0, 0);
}

tdm_value tdm_sqrt(tdm_graph *graph, const char *name, tdm_value x) {
  return make(graph, &sqrt_operation, name, x, 0, 0);
}

tdm_value tdm_rsqrt(tdm_graph *graph, const char *name, tdm_value x) {
  return make(graph, &rsqrt_operation, name, x, 0, 0);
}

tdm_value tdm_pow(tdm_graph *graph, const char *name, tdm_value x, double exponent) {
  return make(graph, &pow_operation, name, x, exponent, 0);
}

tdm_value tdm_square(tdm_graph *graph, const char *name, tdm_value x) {
  return tdm_pow(graph, name, x, 2);
}

static tdm_value make_clamp(tdm_graph *graph, const char *function, const char *name, tdm_value x,
                            double least, double most, bool open) {
  if (isnan(least) || isnan(most))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: an end is no number", function,
                          name ? name : "?");
  const tdm_function_attributes attributes = {.first = least, .second = most, .open = open};
  return tdm_append(graph, &clamp_operation, name, &attributes, &x, 1, NULL);
}

tdm_value tdm_clamp(tdm_graph *graph, const char *name, tdm_value x, double least, double most) {
  return make_clamp(graph, "clamp", name, x, least, most, false);
}

tdm_value tdm_hardtanh(tdm_graph *graph, const char *name, tdm_value x, double least, double most) {
  if (!(least < most))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "hardtanh %s: its ends are %g and %g, and must ascend", name ? name : "?",
                          least, most);
  return make_clamp(graph, "hardtanh", name, x, least, most, true);
}

tdm_value tdm_relu6(tdm_graph *graph, const char *name, tdm_value x) {
  return tdm_hardtanh(graph, name, x, 0, 6);
}

tdm_value tdm_softplus(tdm_graph *graph, const char *name, tdm_value x, double beta,
                       double threshold) {
  if (!(beta > 0))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "softplus %s: beta is %g, and must be positive", name ? name : "?", beta);
  return make(graph, &softplus_operation, name, x, beta, threshold);
}

tdm_value tdm_elu(tdm_graph *graph, const char *name, tdm_value x, double alpha) {
  return make(graph, &elu_operation, name, x, alpha, 0);
}
