/* Extremes, and running sums and products, along one dimension; sums of exponentials and products
 * over several dimensions, which are merged into one. Invariant: the adjoint of an extreme goes
 * only to the element at the index that was found. */
#include "layers/common.h"
#include "tandem/layers/layers.h"

/* ---- Extremes -------------------------------------------------------------------------------- */

/* Returns x's shape without the dimension, or with a size of 1 there if `keep` is set. */
static tdm_shape reduced(const tdm_shape *x, const tdm_dimension_attributes *attributes) {
  tdm_shape out = {.rank = 0};
  for (int i = 0; i < x->rank; i++)
    if (i != attributes->dimension || attributes->keep != 0)
      out.dims[out.rank++] = i == attributes->dimension ? 1 : x->dims[i];
  return out;
}

static tdm_status infer_extreme(tdm_infer *infer) {
  const tdm_dimension_attributes *attributes = infer->attributes;
  const int dimension = (int)attributes->dimension;
  TDM_TRY(tdm_expect_floating(infer, 0, "x"));
  TDM_TRY(tdm_expect_rank(infer, 0, "x", dimension + 1, TDM_MAX_RANK));
  const tdm_shape *x = tdm_infer_shape(infer, 0);
  if (x->dims[dimension] == 0 && attributes->or_none == 0) {
    char text[TDM_SHAPE_TEXT];
    return tdm_fail(TDM_INVALID_ARGUMENT, "dimension %d of %s has no element to be found",
                    dimension, tdm_shape_text(x, text, sizeof text));
  }
  const tdm_shape out = reduced(x, attributes);
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &out);
  tdm_infer_set(infer, 1, TDM_INT64, &out);
  return TDM_OK;
}

static tdm_status infer_extreme_gradient(tdm_infer *infer) {
  const tdm_dimension_attributes *attributes = infer->attributes;
  const tdm_shape *d_values = tdm_infer_shape(infer, 0);
  const int gone = attributes->keep != 0 ? 0 : 1;
  tdm_shape d_x = {.rank = d_values->rank + gone};
  for (int i = 0; i < d_x.rank; i++) {
    const int from = i > attributes->dimension ? i - gone : i;
    d_x.dims[i] = i == attributes->dimension ? attributes->size : d_values->dims[from];
  }
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &d_x);
  return TDM_OK;
}

static const tdm_operation extreme_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_EXTREME_GRADIENT,
    .attribute_bytes = sizeof(tdm_dimension_attributes),
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = infer_extreme_gradient,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

static tdm_status append_extreme_gradient(tdm_gradient *gradient) {
  const tdm_value d_values = tdm_gradient_of_output(gradient, 0);
  tdm_graph *graph = tdm_gradient_graph(gradient);
  tdm_dimension_attributes attributes =
      *(const tdm_dimension_attributes *)tdm_gradient_attributes(gradient);
  const tdm_shape x = tdm_value_shape(graph, tdm_gradient_input(gradient, 0));
  attributes.size = x.dims[attributes.dimension];
  const tdm_value operands[] = {d_values, tdm_gradient_output(gradient, 1)};
  tdm_gradient_set(gradient, 0,
                   tdm_append(graph, &extreme_gradient, tdm_gradient_name(gradient), &attributes,
                              operands, 2, NULL));
  return tdm_graph_status(graph);
}

static tdm_status chunk_along(tdm_chunked *chunked) {
  const tdm_dimension_attributes *attributes = tdm_chunked_attributes(chunked);
  return tdm_chunked_rows(chunked, (int)attributes->dimension, 0);
}

static const tdm_operation extreme_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_EXTREME,
    .attribute_bytes = sizeof(tdm_dimension_attributes),
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 2,
    .infer = infer_extreme,
    .gradient = append_extreme_gradient,
    .chunk = chunk_along,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

/* Fills the attributes of a function along a dimension of x. Returns false with the graph's error
 * if x lacks the dimension. */
static bool find_dimension(tdm_graph *graph, const char *function, const char *name, tdm_value x,
                           int dimension, tdm_dimension_attributes *out_attributes) {
  if (!tdm_layer_accepts(graph, function, name, x)) return false;
  const tdm_shape shape = tdm_value_shape(graph, x);
  const int counted = tdm_layer_dimension(graph, function, name, &shape, dimension);
  *out_attributes = (tdm_dimension_attributes){.dimension = counted};
  return counted >= 0;
}

static tdm_value make_extreme(tdm_graph *graph, const char *function, const char *name, tdm_value x,
                              int dimension, bool keep, bool least, tdm_value *out_indices) {
  name = tdm_graph_name(graph, name);
  tdm_value outputs[2] = {{0, 0}, {0, 0}};
  tdm_dimension_attributes attributes;
  if (find_dimension(graph, function, name, x, dimension, &attributes)) {
    attributes.keep = keep;
    attributes.least = least;
    tdm_append(graph, &extreme_operation, name, &attributes, &x, 1, outputs);
  }
  if (out_indices) *out_indices = outputs[1];
  return outputs[0];
}

tdm_value tdm_max(tdm_graph *graph, const char *name, tdm_value x, int dimension, bool keep,
                  tdm_value *out_indices) {
  return make_extreme(graph, "max", name, x, dimension, keep, false, out_indices);
}

tdm_value tdm_min(tdm_graph *graph, const char *name, tdm_value x, int dimension, bool keep,
                  tdm_value *out_indices) {
  return make_extreme(graph, "min", name, x, dimension, keep, true, out_indices);
}

tdm_value tdm_argmax(tdm_graph *graph, const char *name, tdm_value x, int dimension, bool keep) {
  tdm_value indices;
  make_extreme(graph, "argmax", name, x, dimension, keep, false, &indices);
  return indices;
}

tdm_value tdm_argmin(tdm_graph *graph, const char *name, tdm_value x, int dimension, bool keep) {
  tdm_value indices;
  make_extreme(graph, "argmin", name, x, dimension, keep, true, &indices);
  return indices;
}

tdm_value tdm_accuracy(tdm_graph *graph, const char *name, tdm_value scores, tdm_value classes) {
  name = tdm_graph_name(graph, name);
  const tdm_value found = tdm_argmax(graph, name, scores, 1, false);
  if (!tdm_value_is_valid(found) || !tdm_layer_accepts(graph, "accuracy", name, classes))
    return TDM_NO_VALUE;
  const tdm_shape rows = tdm_value_shape(graph, found), given = tdm_value_shape(graph, classes);
  const tdm_dtype dtype = tdm_value_dtype(graph, classes);
  if (rows.rank != given.rank || (dtype != TDM_INT32 && dtype != TDM_INT64)) {
    char text[TDM_SHAPE_TEXT], other[TDM_SHAPE_TEXT];
    return tdm_graph_fail(
        graph, TDM_INVALID_ARGUMENT,
        "accuracy %s: classes are %s %s, and must be int32 or int64, one a row %s", name,
        tdm_dtype_name(dtype), tdm_shape_text(&given, text, sizeof text),
        tdm_shape_text(&rows, other, sizeof other));
  }
  if (dtype == TDM_INT32) classes = tdm_cast(graph, name, classes, TDM_INT64);
  const tdm_value right = tdm_compare(graph, name, found, TDM_EQUAL, classes);
  return tdm_mean(graph, name, tdm_cast(graph, name, right, TDM_FLOAT32), NULL, 0, false);
}

/* ---- Products, sums of exponentials, and running ones -----------------------------------------
 */

static tdm_status append_cumsum_gradient(tdm_gradient *gradient);

static tdm_status infer_reduced(tdm_infer *infer) {
  const tdm_dimension_attributes *attributes = infer->attributes;
  TDM_TRY(tdm_expect_floating(infer, 0, "x"));
  TDM_TRY(tdm_expect_rank(infer, 0, "x", (int)attributes->dimension + 1, TDM_MAX_RANK));
  const tdm_shape y = reduced(tdm_infer_shape(infer, 0), attributes);
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &y);
  return TDM_OK;
}

/* d_x = d_y e^(x - y): each element's share of the sum. */
static tdm_status append_logsumexp_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const char *name = tdm_gradient_name(gradient);
  const tdm_value apart =
      tdm_sub(graph, name, tdm_gradient_input(gradient, 0), tdm_gradient_output(gradient, 0));
  tdm_gradient_set(
      gradient, 0,
      tdm_mul(graph, name, tdm_gradient_of_output(gradient, 0), tdm_exp(graph, name, apart)));
  return tdm_graph_status(graph);
}

/* The record of a function of x along a dimension; what gives its gradient follows. */
#define ALONG(function, infer_rule, ...)                                                           \
  static const tdm_operation function##_operation = {                                              \
      .struct_size = sizeof(tdm_operation),                                                        \
      .name = #function,                                                                           \
      .attribute_bytes = sizeof(tdm_dimension_attributes),                                         \
      .min_inputs = 1,                                                                             \
      .max_inputs = 1,                                                                             \
      .output_count = 1,                                                                           \
      .infer = (infer_rule),                                                                       \
      .chunk = chunk_along,                                                                        \
      .work = tdm_work_streams,                                                                    \
      .precision = TDM_PRECISION_FLOAT32,                                                          \
      __VA_ARGS__,                                                                                 \
  };
/* The same with a kernel FUNCTION_gradient, which has d_y and further inputs. */
#define ALONG_WITH_KERNEL(function, infer_rule, inputs, gradient_infer, reads)                     \
  static const tdm_operation function##_gradient = {                                               \
      .struct_size = sizeof(tdm_operation),                                                        \
      .name = #function "_gradient",                                                               \
      .attribute_bytes = sizeof(tdm_dimension_attributes),                                         \
      .min_inputs = (inputs),                                                                      \
      .max_inputs = (inputs),                                                                      \
      .output_count = 1,                                                                           \
      .infer = (gradient_infer),                                                                   \
      .work = tdm_work_streams,                                                                    \
      .precision = TDM_PRECISION_GIVEN,                                                            \
  };                                                                                               \
  ALONG(function, infer_rule, .gradient_operation = &function##_gradient, .gradient_reads = (reads))
ALONG(cumsum, tdm_infer_floating_like_first, .gradient = append_cumsum_gradient)
ALONG(logsumexp, infer_reduced, .gradient = append_logsumexp_gradient)
ALONG_WITH_KERNEL(prod, infer_reduced, 2, tdm_infer_like_second, TDM_READS_X)
ALONG_WITH_KERNEL(cumprod, tdm_infer_floating_like_first, 3, tdm_infer_like_first,
                  TDM_READS_X | TDM_READS_Y)
ALONG_WITH_KERNEL(logcumsumexp, tdm_infer_floating_like_first, 3, tdm_infer_like_first,
                  TDM_READS_X | TDM_READS_Y)

TDM_RECORDS(dimension,
            {.operation = &extreme_operation,
             .functions = "tdm_max tdm_min tdm_argmax tdm_argmin tdm_accuracy"},
            {.operation = &extreme_gradient},
            {.operation = &prod_operation, .functions = "tdm_prod"}, {.operation = &prod_gradient},
            {.operation = &logsumexp_operation, .functions = "tdm_logsumexp"},
            {.operation = &cumprod_operation, .functions = "tdm_cumprod"},
            {.operation = &cumprod_gradient},
            {.operation = &logcumsumexp_operation, .functions = "tdm_logcumsumexp"},
            {.operation = &logcumsumexp_gradient},
            {.operation = &cumsum_operation, .functions = "tdm_cumsum"});

/* An element contributes to the sums at its own index and after it. */
static tdm_status append_cumsum_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  tdm_dimension_attributes attributes =
      *(const tdm_dimension_attributes *)tdm_gradient_attributes(gradient);
  attributes.reverse = 1;
  const tdm_value d_y = tdm_gradient_of_output(gradient, 0);
  tdm_gradient_set(gradient, 0,
                   tdm_append(graph, &cumsum_operation, tdm_gradient_name(gradient), &attributes,
                              &d_y, 1, NULL));
  return tdm_graph_status(graph);
}

static tdm_value make_running(tdm_graph *graph, const char *function,
                              const tdm_operation *operation, const char *name, tdm_value x,
                              int dimension) {
  name = tdm_graph_name(graph, name);
  tdm_dimension_attributes attributes;
  if (!find_dimension(graph, function, name, x, dimension, &attributes)) return TDM_NO_VALUE;
  return tdm_append(graph, operation, name, &attributes, &x, 1, NULL);
}

tdm_value tdm_cumsum(tdm_graph *graph, const char *name, tdm_value x, int dimension) {
  return make_running(graph, "cumsum", &cumsum_operation, name, x, dimension);
}

/* Multiplies integers in doubling steps (W. D. Hillis, G. L. Steele, "Data parallel algorithms",
 * 1986): each step doubles the number of factors in each element. Has no gradient. */
static tdm_value multiply_integers(tdm_graph *graph, const char *name, tdm_value x, int dimension) {
  name = tdm_graph_name(graph, name);
  tdm_dimension_attributes attributes;
  if (!find_dimension(graph, "cumprod", name, x, dimension, &attributes)) return TDM_NO_VALUE;
  const tdm_shape shape = tdm_value_shape(graph, x);
  const int counted = tdm_layer_dimension(graph, "cumprod", name, &shape, dimension);
  char text[TDM_SHAPE_TEXT];
  if (!tdm_dim_is_size(shape.dims[counted]))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "cumprod %s: dimension %d of integers x must be a size, x is %s", name,
                          dimension, tdm_shape_text(&shape, text, sizeof text));
  for (int64_t step = 1; step < shape.dims[counted] && tdm_value_is_valid(x); step *= 2) {
    int64_t amounts[2 * TDM_MAX_RANK] = {0}; /* last dimension first */
    amounts[2 * (shape.rank - 1 - counted)] = step;
    amounts[2 * (shape.rank - 1 - counted) + 1] = -step;
    const tdm_value before =
        tdm_pad(graph, name, x, amounts, 2 * (size_t)(shape.rank - counted), TDM_PAD_CONSTANT, 1);
    x = tdm_mul(graph, name, x, before);
  }
  return x;
}

tdm_value tdm_cumprod(tdm_graph *graph, const char *name, tdm_value x, int dimension) {
  const tdm_dtype dtype = tdm_value_dtype(graph, x);
  if (dtype == TDM_INT32 || dtype == TDM_INT64) return multiply_integers(graph, name, x, dimension);
  return make_running(graph, "cumprod", &cumprod_operation, name, x, dimension);
}

tdm_value tdm_logcumsumexp(tdm_graph *graph, const char *name, tdm_value x, int dimension) {
  return make_running(graph, "logcumsumexp", &logcumsumexp_operation, name, x, dimension);
}

/* ---- Over several dimensions ----------------------------------------------------------------- */

/* Moves the dimensions of the mask after the first of them, and merges them into one. */
static tdm_value merge_dimensions(tdm_graph *graph, const char *name, tdm_value x, int64_t mask,
                                  int *out_dimension) {
  const int rank = tdm_value_shape(graph, x).rank;
  int order[TDM_MAX_RANK], count = 0, first = 0, last = -1;
  while (first < rank && (mask >> first & 1) == 0)
    order[count++] = first++;
  *out_dimension = first;
  if (rank == 0) return tdm_unsqueeze(graph, name, x, 0);
  for (int reduced = 1; reduced >= 0; reduced--) {
    for (int i = first; i < rank; i++)
      if ((mask >> i & 1) == reduced) order[count++] = i;
    if (reduced) last = count - 1;
  }
  x = tdm_permute(graph, name, x, order, (size_t)count);
  return tdm_value_is_valid(x) ? tdm_flatten(graph, name, x, first, last) : x;
}

static tdm_value reduce_over(tdm_graph *graph, const char *function, const tdm_operation *operation,
                             const char *name, tdm_value x, const int *dimensions, size_t count,
                             bool keep) {
  name = tdm_graph_name(graph, name);
  int64_t mask;
  if (!tdm_reduced_mask(graph, function, name, x, dimensions, count, &mask)) return TDM_NO_VALUE;
  tdm_dimension_attributes attributes = {.keep = 1}; /* the gradient subtracts y from x */
  int dimension;
  const tdm_value merged = merge_dimensions(graph, name, x, mask, &dimension);
  if (!tdm_value_is_valid(merged)) return TDM_NO_VALUE;
  attributes.dimension = dimension;
  tdm_value y = tdm_append(graph, operation, name, &attributes, &merged, 1, NULL);
  const bool is_one = mask != 0 && (mask & (mask - 1)) == 0;
  if ((keep && is_one) || !tdm_value_is_valid(y)) return y;
  y = tdm_squeeze(graph, name, y, dimension);
  for (int i = 0; keep && i < TDM_MAX_RANK; i++)
    if ((mask >> i & 1) != 0) y = tdm_unsqueeze(graph, name, y, i);
  return y;
}

tdm_value tdm_prod(tdm_graph *graph, const char *name, tdm_value x, const int *dimensions,
                   size_t count, bool keep) {
  return reduce_over(graph, "prod", &prod_operation, name, x, dimensions, count, keep);
}

tdm_value tdm_logsumexp(tdm_graph *graph, const char *name, tdm_value x, const int *dimensions,
                        size_t count, bool keep) {
  return reduce_over(graph, "logsumexp", &logsumexp_operation, name, x, dimensions, count, keep);
}
