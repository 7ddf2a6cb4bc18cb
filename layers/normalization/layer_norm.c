/* Layer normalization over the last dimensions (Ba, Kiros, Hinton, "Layer normalization", 2016),
 * and RMS normalization, which has no mean and no bias. Invariant: gradients read x and the
 * statistics of the forward node, never y. */
#include <float.h>

#include "layers/common.h"
#include "tandem/layers/layers.h"

enum { X, WEIGHT, BIAS };
enum { Y, MEAN, INVERSE };

/* Returns the last `rank` dimensions of x. */
static tdm_shape normalized_shape(const tdm_shape *x, int rank) {
  tdm_shape shape = {.rank = rank};
  for (int i = 0; i < rank; i++)
    shape.dims[i] = x->dims[x->rank - rank + i];
  return shape;
}

/* Fails if group normalization has one value per group for one image, as PyTorch does. */
static tdm_status expect_several_values(const tdm_shape *x) {
  if (x->dims[0] != 1 || x->dims[2] != 1) return TDM_OK;
  return tdm_fail(
      TDM_INVALID_ARGUMENT,
      "group normalization of one image with one value in each of %lld groups, expected "
      "at least 2 values. Use fewer groups, more images or larger ones",
      (long long)x->dims[1]);
}

static tdm_status infer_layer_norm(tdm_infer *infer) {
  static const char *const names[] = {"x", "weight", "bias"};
  const tdm_layer_norm_attributes *attributes = infer->attributes;
  TDM_TRY(tdm_expect_floating(infer, X, "x"));
  TDM_TRY(tdm_expect_rank(infer, X, "x", (int)attributes->rank, TDM_MAX_RANK));
  const tdm_shape *x = tdm_infer_shape(infer, X);
  if (attributes->is_grouped != 0) TDM_TRY(expect_several_values(x));
  const tdm_shape normalized = normalized_shape(x, (int)attributes->rank);
  for (size_t i = WEIGHT; i <= BIAS; i++) {
    if (!tdm_infer_has(infer, i)) continue;
    TDM_TRY(tdm_expect_dtype_of_first(infer, i, "x", names[i]));
    TDM_TRY(tdm_expect_shape(infer, i, names[i], &normalized));
  }
  tdm_shape rows = *x;
  rows.rank -= (int32_t)attributes->rank;
  tdm_infer_set(infer, Y, infer->inputs[X].dtype, x);
  tdm_infer_set(infer, MEAN, TDM_FLOAT64, &rows);
  tdm_infer_set(infer, INVERSE, infer->inputs[X].dtype, &rows);
  return TDM_OK;
}

/* d_y, x, mean, inverse -> d_weight, d_bias. */
static tdm_status infer_parameter_gradient(tdm_infer *infer) {
  const tdm_layer_norm_attributes *attributes = infer->attributes;
  const tdm_shape shape = normalized_shape(tdm_infer_shape(infer, 1), (int)attributes->rank);
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &shape);
  tdm_infer_set(infer, 1, infer->inputs[0].dtype, &shape);
  return TDM_OK;
}

static const tdm_operation layer_norm_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_LAYER_NORM_GRADIENT,
    .attribute_bytes = sizeof(tdm_layer_norm_attributes),
    .min_inputs = 4,
    .max_inputs = 5,
    .output_count = 1,
    .infer = tdm_infer_like_second,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

static const tdm_operation layer_norm_parameter_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_LAYER_NORM_PARAMETER_GRADIENT,
    .attribute_bytes = sizeof(tdm_layer_norm_attributes),
    .min_inputs = 4,
    .max_inputs = 4,
    .output_count = 2,
    .infer = infer_parameter_gradient,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

static tdm_status append_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const char *name = tdm_gradient_name(gradient);
  const void *attributes = tdm_gradient_attributes(gradient);
  const tdm_value operands[] = {
      tdm_gradient_of_output(gradient, Y), tdm_gradient_input(gradient, X),
      tdm_gradient_output(gradient, MEAN), tdm_gradient_output(gradient, INVERSE),
      tdm_gradient_input(gradient, WEIGHT)};
  if (tdm_gradient_wanted(gradient, WEIGHT) || tdm_gradient_wanted(gradient, BIAS)) {
    tdm_value outputs[2];
    tdm_append(graph, &layer_norm_parameter_gradient, name, attributes, operands, 4, outputs);
    for (size_t i = 0; i < 2; i++)
      if (tdm_gradient_wanted(gradient, WEIGHT + i))
        tdm_gradient_set(gradient, WEIGHT + i, outputs[i]);
  }
  if (tdm_gradient_wanted(gradient, X))
    tdm_gradient_set(gradient, X,
                     tdm_append(graph, &layer_norm_gradient, name, attributes, operands, 5, NULL));
  return tdm_graph_status(graph);
}

/* Splits the rows of the batch, unless the batch is one of the normalized dimensions. */
static tdm_status chunk_layer_norm(tdm_chunked *chunked) {
  const tdm_layer_norm_attributes *attributes = tdm_chunked_attributes(chunked);
  const int rows = tdm_chunked_cut(chunked, X).dimension;
  const int first = tdm_chunked_shape(chunked, X).rank - (int)attributes->rank;
  return rows < first ? tdm_chunked_each(chunked, NULL) : tdm_chunked_rows(chunked, rows, X);
}

#define LAYER_NORM                                                                                 \
  .struct_size = sizeof(tdm_operation), .name = TDM_OP_LAYER_NORM,                                 \
  .attribute_bytes = sizeof(tdm_layer_norm_attributes), .min_inputs = 1, .max_inputs = 3,          \
  .output_count = 3, .infer = infer_layer_norm, .gradient = append_gradient,                       \
  .chunk = chunk_layer_norm, .work = tdm_work_streams, .precision = TDM_PRECISION_FLOAT32

static const tdm_operation layer_norm_operation = {LAYER_NORM};
static const tdm_operation group_norm_operation = {LAYER_NORM, .layer = "group_norm"};

TDM_RECORDS(layer_norm,
            {.operation = &layer_norm_operation, .functions = "tdm_layer_norm tdm_rms_norm"},
            {.operation = &group_norm_operation, .functions = "tdm_group_norm tdm_instance_norm"},
            {.operation = &layer_norm_gradient}, {.operation = &layer_norm_parameter_gradient});

/* ---- Public ---------------------------------------------------------------------------------- */

/* Returns true if x has the last `rank` dimensions and they are sizes; otherwise false with an
 * error. */
static bool has_sizes(tdm_graph *graph, const char *function, const char *name,
                      const tdm_shape *shape, int rank) {
  bool fits = rank > 0 && rank <= shape->rank;
  for (int i = 0; fits && i < rank; i++)
    fits = tdm_dim_is_size(shape->dims[shape->rank - 1 - i]);
  if (fits) return true;
  char text[TDM_SHAPE_TEXT];
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                 "%s %s: the last %d dimensions of x must be sizes, x is %s", function, name, rank,
                 tdm_shape_text(shape, text, sizeof text));
  return false;
}

/* Appends the operation. A bias requires a weight; x is a value of the graph. */
static tdm_value append_norm(tdm_graph *graph, const char *function, const char *name, tdm_value x,
                             bool has_weight, bool has_bias,
                             const tdm_layer_norm_attributes *attributes) {
  const tdm_shape shape = tdm_value_shape(graph, x);
  const int rank = (int)attributes->rank;
  if (!has_sizes(graph, function, name, &shape, rank)) return TDM_NO_VALUE;
  const tdm_shape normalized = normalized_shape(&shape, rank);
  const tdm_initializer ones = {TDM_INIT_CONSTANT, 1.0, 0.0, -1};
  const tdm_initializer zeros = {TDM_INIT_ZEROS, 0.0, 0.0, -1};
  tdm_value operands[3] = {x};
  if (has_weight) operands[WEIGHT] = tdm_layer_parameter(graph, name, ".weight", normalized, &ones);
  if (has_weight && has_bias)
    operands[BIAS] = tdm_layer_parameter(graph, name, ".bias", normalized, &zeros);
  return tdm_append(graph, attributes->is_grouped ? &group_norm_operation : &layer_norm_operation,
                    name, attributes, operands, 3, NULL);
}

tdm_value tdm_normalize_groups(tdm_graph *graph, const char *name, tdm_value x, double epsilon) {
  const tdm_layer_norm_attributes attributes = {.epsilon = epsilon, .rank = 1, .is_grouped = 1};
  return append_norm(graph, "group_norm", name, x, false, false, &attributes);
}

tdm_value tdm_layer_norm_with(tdm_graph *graph, const char *name, tdm_value x, int rank,
                              const tdm_layer_norm_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_layer_norm_options chosen;
  if (!tdm_layer_options(graph, "layer_norm", name, layer_norm, options, &chosen) ||
      !tdm_layer_epsilon(graph, "layer_norm", name, chosen.epsilon) ||
      !tdm_layer_accepts(graph, "layer_norm", name, x))
    return TDM_NO_VALUE;
  const tdm_layer_norm_attributes attributes = {.epsilon = chosen.epsilon, .rank = rank};
  return append_norm(graph, "layer_norm", name, x, !chosen.without_affine, !chosen.without_bias,
                     &attributes);
}

tdm_value tdm_layer_norm(tdm_graph *graph, const char *name, tdm_value x, int rank) {
  return tdm_layer_norm_with(graph, name, x, rank, NULL);
}

/* Returns the distance from 1 to the next larger number of the dtype. */
static double epsilon_of(tdm_dtype dtype) {
  switch (dtype) {
  case TDM_FLOAT64:
    return DBL_EPSILON;
  case TDM_FLOAT16:
    return 0x1p-10;
  case TDM_BFLOAT16:
    return 0x1p-7;
  default:
    return FLT_EPSILON;
  }
}

tdm_value tdm_rms_norm_with(tdm_graph *graph, const char *name, tdm_value x, int rank,
                            const tdm_rms_norm_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_rms_norm_options chosen;
  if (!tdm_layer_options(graph, "rms_norm", name, rms_norm, options, &chosen) ||
      !tdm_layer_accepts(graph, "rms_norm", name, x))
    return TDM_NO_VALUE;
  const double epsilon = tdm_or_default(chosen.epsilon, epsilon_of(tdm_value_dtype(graph, x)));
  if (!tdm_layer_epsilon(graph, "rms_norm", name, epsilon)) return TDM_NO_VALUE;
  const tdm_layer_norm_attributes attributes = {.epsilon = epsilon, .rank = rank, .uncentered = 1};
  return append_norm(graph, "rms_norm", name, x, !chosen.without_affine, false, &attributes);
}

tdm_value tdm_rms_norm(tdm_graph *graph, const char *name, tdm_value x, int rank) {
  return tdm_rms_norm_with(graph, name, x, rank, NULL);
}
