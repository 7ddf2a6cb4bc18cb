/* Elementwise functions of one value, with and without numeric parameters. A line of
 * devices/kernels/elementwise/functions.h defines a function without parameters. A function with
 * parameters is a row of FUNCTIONS and a public function. Invariant: a gradient reads the
 * function's result if that suffices, otherwise its argument. */
#include <math.h>

#include "devices/kernels/elementwise/functions.h"
#include "layers/common.h"
#include "tandem/layers/layers.h"

/* ---- Records --------------------------------------------------------------------------------- */

#define NONE 0
#define NUMBERS sizeof(tdm_function_attributes)

/* X(name, public functions, bytes of attributes, input of the gradient, precision). The kernels are
 * called "name" and "name_gradient". */
#define FUNCTIONS(X)                                                                               \
  X(clamp, "tdm_clamp tdm_hardtanh tdm_relu6", NUMBERS, TDM_READS_X, TDM_PRECISION_GIVEN)          \
  X(elu, "tdm_elu", NUMBERS, TDM_READS_X, TDM_PRECISION_GIVEN)                                     \
  X(gelu, "tdm_gelu tdm_gelu_tanh", sizeof(tdm_gelu_attributes), TDM_READS_X, TDM_PRECISION_GIVEN) \
  X(leaky_relu, "tdm_leaky_relu", sizeof(tdm_leaky_relu_attributes), TDM_READS_X,                  \
    TDM_PRECISION_GIVEN)                                                                           \
  X(pow, "tdm_pow tdm_square", NUMBERS, TDM_READS_X, TDM_PRECISION_FLOAT32)                        \
  X(softplus, "tdm_softplus", NUMBERS, TDM_READS_X, TDM_PRECISION_FLOAT32)

/* The fields that all functions of one value share; the gradient's rule follows at each use. */
#define FUNCTION(function, bytes, class)                                                           \
  FUNCTION_OF(function, bytes, class, tdm_infer_floating_like_first)
#define FUNCTION_OF(function, bytes, class, infer_rule)                                            \
  .struct_size = sizeof(tdm_operation), .name = function, .attribute_bytes = bytes,                \
  .min_inputs = 1, .max_inputs = 1, .output_count = 1, .infer = infer_rule, .row_wise = true,      \
  .elementwise = true, .work = tdm_work_streams, .precision = class

#define RECORD(function, callers, bytes, reads, class)                                             \
  static const tdm_operation function##_gradient = {                                               \
      .struct_size = sizeof(tdm_operation),                                                        \
      .name = #function "_gradient",                                                               \
      .attribute_bytes = bytes,                                                                    \
      .min_inputs = 2,                                                                             \
      .max_inputs = 2,                                                                             \
      .output_count = 1,                                                                           \
      .infer = tdm_infer_like_first,                                                               \
      .elementwise = true,                                                                         \
      .work = tdm_work_streams,                                                                    \
      .precision = TDM_PRECISION_GIVEN,                                                            \
  };                                                                                               \
  static const tdm_operation function##_operation = {                                              \
      FUNCTION(#function, bytes, class),                                                           \
      .gradient_operation = &function##_gradient,                                                  \
      .gradient_reads = reads,                                                                     \
  };
FUNCTIONS(RECORD)

#define RECORD_OF_LINE(function, reads, class)                                                     \
  RECORD(function, , NONE, TDM_READS_##reads, TDM_PRECISION_##class)
TDM_FUNCTIONS(RECORD_OF_LINE)

/* d_x = d_y y */
static const tdm_operation exp_operation = {
    FUNCTION(TDM_OP_EXP, NUMBERS, TDM_PRECISION_FLOAT32),
    .gradient_operation = &tdm_operation_mul,
    .gradient_reads = TDM_READS_Y,
};

/* Step functions, whose gradient is 0. */
#define STEPS(name, function)                                                                      \
  static const tdm_operation function##_operation = {                                              \
      FUNCTION(name, NONE, TDM_PRECISION_GIVEN),                                                   \
  };
STEPS(TDM_OP_FLOOR, floor)
STEPS(TDM_OP_ROUND, round)
STEPS(TDM_OP_SIGN, sign)

/* d_x = d_y / x */
static const tdm_operation log_operation = {
    FUNCTION(TDM_OP_LOG, NUMBERS, TDM_PRECISION_FLOAT32),
    .gradient_operation = &tdm_operation_div,
    .gradient_reads = TDM_READS_X,
};

/* d_x = d_y scale */
static tdm_status append_affine_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const tdm_function_attributes *attributes = tdm_gradient_attributes(gradient);
  tdm_gradient_set(gradient, 0,
                   tdm_mul_scalar(graph, tdm_gradient_name(gradient),
                                  tdm_gradient_of_output(gradient, 0), attributes->first));
  return tdm_graph_status(graph);
}

static tdm_status infer_affine(tdm_infer *infer) {
  if (!tdm_dtype_is_floating(infer->inputs[0].dtype))
    TDM_TRY(tdm_expect_ids(infer, 0, "x, if not floating,"));
  return tdm_infer_like_first(infer);
}

static const tdm_operation affine_operation = {
    FUNCTION_OF(TDM_OP_AFFINE, NUMBERS, TDM_PRECISION_GIVEN, infer_affine),
    .gradient = append_affine_gradient,
};

#define LISTED(function, callers, bytes, reads, class)                                             \
  {.operation = &function##_operation, .functions = callers}, {.operation = &function##_gradient},
#define LISTED_LINE(function, reads, class) LISTED(function, "tdm_" #function, , , )
TDM_RECORDS(function,
            FUNCTIONS(LISTED)
                TDM_FUNCTIONS(LISTED_LINE){.operation = &exp_operation, .functions = "tdm_exp"},
            {.operation = &floor_operation, .functions = "tdm_floor"},
            {.operation = &round_operation, .functions = "tdm_round"},
            {.operation = &sign_operation, .functions = "tdm_sign"},
            {.operation = &log_operation, .functions = "tdm_log"},
            {.operation = &affine_operation,
             .functions = "tdm_affine tdm_add_scalar tdm_mul_scalar tdm_neg"});

/* ---- Without numbers ------------------------------------------------------------------------- */

/* Returns true if x's dtype can represent the number, or if the function does not accept that
 * dtype. */
static bool holds(tdm_graph *graph, const tdm_operation *operation, const char *name, tdm_value x,
                  double number) {
  const tdm_dtype dtype = tdm_value_dtype(graph, x);
  const bool is_integer = dtype == TDM_INT32 || dtype == TDM_INT64;
  return !(tdm_dtype_is_floating(dtype) || (is_integer && operation == &affine_operation)) ||
         tdm_layer_holds(graph, operation->name, name, dtype, "a number of it", number);
}

static tdm_value make(tdm_graph *graph, const tdm_operation *operation, const char *name,
                      tdm_value x, double first, double second) {
  name = tdm_graph_name(graph, name);
  if (!holds(graph, operation, name, x, first) || !holds(graph, operation, name, x, second))
    return TDM_NO_VALUE;
  const tdm_function_attributes attributes = {.first = first, .second = second};
  return tdm_append(graph, operation, name, &attributes, &x, 1, NULL);
}

#define PUBLIC(function, reads, class)                                                             \
  tdm_value tdm_##function(tdm_graph *graph, const char *name, tdm_value x) {                      \
    return tdm_append(graph, &function##_operation, name, NULL, &x, 1, NULL);                      \
  }
TDM_FUNCTIONS(PUBLIC)

tdm_value tdm_floor(tdm_graph *graph, const char *name, tdm_value x) {
  return tdm_append(graph, &floor_operation, name, NULL, &x, 1, NULL);
}

tdm_value tdm_round(tdm_graph *graph, const char *name, tdm_value x) {
  return tdm_append(graph, &round_operation, name, NULL, &x, 1, NULL);
}

tdm_value tdm_sign(tdm_graph *graph, const char *name, tdm_value x) {
  return tdm_append(graph, &sign_operation, name, NULL, &x, 1, NULL);
}

tdm_value tdm_exp(tdm_graph *graph, const char *name, tdm_value x) {
  return make(graph, &exp_operation, name, x, 0, 0);
}

tdm_value tdm_log(tdm_graph *graph, const char *name, tdm_value x) {
  return make(graph, &log_operation, name, x, 0, 0);
}

tdm_value tdm_gelu(tdm_graph *graph, const char *name, tdm_value x) {
  const tdm_gelu_attributes attributes = {.by_tanh = 0};
  return tdm_append(graph, &gelu_operation, name, &attributes, &x, 1, NULL);
}

tdm_value tdm_gelu_tanh(tdm_graph *graph, const char *name, tdm_value x) {
  const tdm_gelu_attributes attributes = {.by_tanh = 1};
  return tdm_append(graph, &gelu_operation, name, &attributes, &x, 1, NULL);
}

/* ---- With numbers ---------------------------------------------------------------------------- */

tdm_value tdm_affine(tdm_graph *graph, const char *name, tdm_value x, double scale, double shift) {
  return make(graph, &affine_operation, name, x, scale, shift);
}

tdm_value tdm_add_scalar(tdm_graph *graph, const char *name, tdm_value x, double number) {
  return make(graph, &affine_operation, name, x, 1, number);
}

/* Adds -0, which changes nothing, not even the sign of a zero. */
tdm_value tdm_mul_scalar(tdm_graph *graph, const char *name, tdm_value x, double number) {
  return make(graph, &affine_operation, name, x, number, -0.0);
}

tdm_value tdm_neg(tdm_graph *graph, const char *name, tdm_value x) {
  return tdm_mul_scalar(graph, name, x, -1);
}

tdm_value tdm_leaky_relu(tdm_graph *graph, const char *name, tdm_value x, double slope) {
  const tdm_leaky_relu_attributes attributes = {.slope = slope};
  name = tdm_graph_name(graph, name);
  if (!holds(graph, &leaky_relu_operation, name, x, slope)) return TDM_NO_VALUE;
  return tdm_append(graph, &leaky_relu_operation, name, &attributes, &x, 1, NULL);
}

tdm_value tdm_pow(tdm_graph *graph, const char *name, tdm_value x, double exponent) {
  return make(graph, &pow_operation, name, x, exponent, 0);
}

tdm_value tdm_square(tdm_graph *graph, const char *name, tdm_value x) {
  return tdm_pow(graph, name, x, 2);
}

tdm_value tdm_elu(tdm_graph *graph, const char *name, tdm_value x, double alpha) {
  return make(graph, &elu_operation, name, x, alpha, 0);
}

tdm_value tdm_softplus(tdm_graph *graph, const char *name, tdm_value x, double beta,
                       double threshold) {
  name = tdm_graph_name(graph, name);
  if (!(beta > 0))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "softplus %s: beta is %g, and must be positive", name, beta);
  return make(graph, &softplus_operation, name, x, beta, threshold);
}

static tdm_value make_clamp(tdm_graph *graph, const char *function, const char *name, tdm_value x,
                            double least, double most) {
  name = tdm_graph_name(graph, name);
  if (isnan(least) || isnan(most))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: an end is no number", function,
                          name);
  return make(graph, &clamp_operation, name, x, least, most);
}

tdm_value tdm_clamp(tdm_graph *graph, const char *name, tdm_value x, double least, double most) {
  return make_clamp(graph, "clamp", name, x, least, most);
}

tdm_value tdm_hardtanh(tdm_graph *graph, const char *name, tdm_value x, double least, double most) {
  name = tdm_graph_name(graph, name);
  if (!(least < most))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "hardtanh %s: its ends are %g and %g, and must ascend", name, least,
                          most);
  return make_clamp(graph, "hardtanh", name, x, least, most);
}

tdm_value tdm_relu6(tdm_graph *graph, const char *name, tdm_value x) {
  return tdm_hardtanh(graph, name, x, 0, 6);
}
