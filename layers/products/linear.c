/* Linear: x weight^T + bias over the last dimension. Invariant: one operation with an optional
 * third operand. Its gradient is at most two nodes, only for operands that require a gradient. */
#include "layers/common.h"
#include "tandem/layers/layers.h"

#include <math.h>

enum { X, WEIGHT, BIAS };

/* Reports, for example, "weight expects 10 features, x has 32 (x [batch, 32], weight [8, 10])". */
static tdm_status expect_features(const tdm_infer *infer) {
  tdm_shape x = *tdm_infer_shape(infer, X);
  const tdm_shape *weight = tdm_infer_shape(infer, WEIGHT);
  if (tdm_dim_agree(*tdm_shape_last(&x), weight->dims[1])) return TDM_OK;
  char wanted[24];
  char found[24];
  char x_text[TDM_SHAPE_TEXT];
  char weight_text[TDM_SHAPE_TEXT];
  return tdm_fail(TDM_INVALID_ARGUMENT, "weight expects %s features, x has %s (x %s, weight %s)",
                  tdm_dim_text(weight->dims[1], wanted), tdm_dim_text(*tdm_shape_last(&x), found),
                  tdm_shape_text(&x, x_text, sizeof x_text),
                  tdm_shape_text(weight, weight_text, sizeof weight_text));
}

static tdm_status infer_linear(tdm_infer *infer) {
  TDM_TRY(tdm_expect_floating(infer, X, "x"));
  TDM_TRY(tdm_expect_dtype_of_first(infer, WEIGHT, "x", "weight"));
  TDM_TRY(tdm_expect_rank(infer, X, "x", 1, TDM_MAX_RANK));
  TDM_TRY(tdm_expect_rank(infer, WEIGHT, "weight", 2, 2));
  TDM_TRY(expect_features(infer));
  const tdm_shape features = {.rank = 1, .dims = {tdm_infer_shape(infer, WEIGHT)->dims[0]}};
  if (tdm_infer_has(infer, BIAS)) {
    TDM_TRY(tdm_expect_dtype_of_first(infer, BIAS, "x", "bias"));
    TDM_TRY(tdm_expect_shape(infer, BIAS, "bias", &features));
  }
  tdm_shape out = *tdm_infer_shape(infer, X);
  *tdm_shape_last(&out) = features.dims[0];
  tdm_infer_set(infer, 0, infer->inputs[X].dtype, &out);
  return TDM_OK;
}

/* d_out (..., out), weight (out, in) -> d_x (..., in). */
static tdm_status infer_input_gradient(tdm_infer *infer) {
  tdm_shape d_x = *tdm_infer_shape(infer, 0);
  *tdm_shape_last(&d_x) = tdm_infer_shape(infer, 1)->dims[1];
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &d_x);
  return TDM_OK;
}

/* d_out (..., out), x (..., in) -> d_weight (out, in), d_bias (out). */
static tdm_status infer_parameter_gradient(tdm_infer *infer) {
  tdm_shape d_out = *tdm_infer_shape(infer, 0);
  tdm_shape x = *tdm_infer_shape(infer, 1);
  const tdm_shape d_weight = {.rank = 2, .dims = {*tdm_shape_last(&d_out), *tdm_shape_last(&x)}};
  const tdm_shape d_bias = {.rank = 1, .dims = {*tdm_shape_last(&d_out)}};
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &d_weight);
  tdm_infer_set(infer, 1, infer->inputs[0].dtype, &d_bias);
  return TDM_OK;
}

static const tdm_operation linear_input_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_LINEAR_INPUT_GRADIENT,
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = infer_input_gradient,
    .work = tdm_work_products_input,
    .precision = TDM_PRECISION_GIVEN,
};

static const tdm_operation linear_parameter_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_LINEAR_PARAMETER_GRADIENT,
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 2,
    .infer = infer_parameter_gradient,
    .work = tdm_work_products_parameter,
    .precision = TDM_PRECISION_GIVEN,
};

static void append_parameter_gradient(tdm_gradient *gradient, tdm_value d_out) {
  const tdm_value operands[] = {d_out, tdm_gradient_input(gradient, X)};
  tdm_value outputs[2];
  tdm_append(tdm_gradient_graph(gradient), &linear_parameter_gradient, tdm_gradient_name(gradient),
             NULL, operands, 2, outputs);
  if (tdm_gradient_wanted(gradient, WEIGHT)) tdm_gradient_set(gradient, WEIGHT, outputs[0]);
  if (tdm_value_is_valid(tdm_gradient_input(gradient, BIAS)) && tdm_gradient_wanted(gradient, BIAS))
    tdm_gradient_set(gradient, BIAS, outputs[1]);
}

static tdm_status append_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const tdm_value d_out = tdm_gradient_of_output(gradient, 0);
  if (tdm_gradient_wanted(gradient, WEIGHT) || tdm_gradient_wanted(gradient, BIAS))
    append_parameter_gradient(gradient, d_out);
  if (tdm_gradient_wanted(gradient, X)) {
    const tdm_value operands[] = {d_out, tdm_gradient_input(gradient, WEIGHT)};
    tdm_gradient_set(gradient, X,
                     tdm_append(graph, &linear_input_gradient, tdm_gradient_name(gradient), NULL,
                                operands, 2, NULL));
  }
  return tdm_graph_status(graph);
}

static const tdm_operation linear = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_LINEAR,
    .min_inputs = 2,
    .max_inputs = 3,
    .output_count = 1,
    .infer = infer_linear,
    .gradient = append_gradient,
    .row_wise = true,
    .work = tdm_work_products,
    .precision = TDM_PRECISION_LOWER,
};

TDM_RECORDS(linear, {.operation = &linear, .functions = "tdm_linear tdm_linear_without_bias"},
            {.operation = &linear_input_gradient}, {.operation = &linear_parameter_gradient});

static tdm_value make_linear(tdm_graph *graph, const char *name, tdm_value x, int64_t out_features,
                             bool has_bias) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_accepts(graph, "linear", name, x) ||
      !tdm_layer_is_size(graph, "linear", name, "out_features", out_features))
    return TDM_NO_VALUE;
  if (!tdm_dtype_is_floating(tdm_value_dtype(graph, x)))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "linear %s: x is %s, and must be float32 or float64", name,
                          tdm_dtype_name(tdm_value_dtype(graph, x)));
  tdm_shape shape = tdm_value_shape(graph, x);
  if (shape.rank == 0 || !tdm_dim_is_size(*tdm_shape_last(&shape))) {
    char text[TDM_SHAPE_TEXT];
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "linear %s: the last dimension of x must be a size, x is %s", name,
                          tdm_shape_text(&shape, text, sizeof text));
  }
  const int64_t in_features = *tdm_shape_last(&shape);
  const double bound = in_features > 0 ? 1.0 / sqrt((double)in_features) : 0.0;
  const tdm_initializer uniform = {TDM_INIT_UNIFORM, -bound, bound, -1};
  tdm_value operands[3] = {x};
  operands[WEIGHT] = tdm_layer_parameter(graph, name, ".weight",
                                         tdm_shape_of(2, out_features, in_features), &uniform);
  if (has_bias)
    operands[BIAS] =
        tdm_layer_parameter(graph, name, ".bias", tdm_shape_of(1, out_features), &uniform);
  /* The operand of a missing bias is passed as invalid, so kernels receive NULL for it. */
  return tdm_append(graph, &linear, name, NULL, operands, 3, NULL);
}

tdm_value tdm_linear_of(tdm_graph *graph, const char *name, tdm_value x, tdm_value weight,
                        tdm_value bias) {
  const tdm_value operands[] = {x, weight, bias};
  return tdm_append(graph, &linear, name, NULL, operands, 3, NULL);
}

tdm_value tdm_linear(tdm_graph *graph, const char *name, tdm_value x, int64_t out_features) {
  return make_linear(graph, name, x, out_features, true);
}

tdm_value tdm_linear_without_bias(tdm_graph *graph, const char *name, tdm_value x,
                                  int64_t out_features) {
  return make_linear(graph, name, x, out_features, false);
}
