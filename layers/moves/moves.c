/* Operations composed of views, slices and other copies: dimensions of one element, stacks, pads,
 * triangles; and ranges of numbers. Invariant: a dimension that keeps its size keeps its name. */
#include <math.h>

#include "core/dtype_numbers.h"
#include "graph/passes/chunked.h"
#include "layers/common.h"
#include "tandem/layers/layers.h"

/* ---- Dimensions ------------------------------------------------------------------------------ */

tdm_value tdm_unsqueeze(tdm_graph *graph, const char *name, tdm_value x, int dimension) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_accepts(graph, "unsqueeze", name, x)) return TDM_NO_VALUE;
  const tdm_shape has = tdm_value_shape(graph, x);
  char text[TDM_SHAPE_TEXT];
  const int at = dimension < 0 ? dimension + has.rank + 1 : dimension;
  if (at < 0 || at > has.rank || has.rank == TDM_MAX_RANK)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "unsqueeze %s: x is %s: no dimension can come before its dimension %d, "
                          "ranks being %d at most",
                          name, tdm_shape_text(&has, text, sizeof text), dimension, TDM_MAX_RANK);
  tdm_shape wanted = {.rank = has.rank + 1};
  int8_t sources[TDM_MAX_RANK];
  for (int i = 0; i < wanted.rank; i++) {
    const int from = i < at ? i : i - 1;
    wanted.dims[i] = i == at ? 1 : has.dims[from];
    sources[i] = i == at ? -1 : (int8_t)from;
  }
  return tdm_reshape_from(graph, name, x, wanted, sources);
}

tdm_value tdm_squeeze(tdm_graph *graph, const char *name, tdm_value x, int dimension) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_accepts(graph, "squeeze", name, x)) return TDM_NO_VALUE;
  const tdm_shape has = tdm_value_shape(graph, x);
  const int at = tdm_layer_dimension(graph, "squeeze", name, &has, dimension);
  if (at < 0) return TDM_NO_VALUE;
  char text[TDM_SHAPE_TEXT];
  if (has.dims[at] != 1)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "squeeze %s: x is %s, and dimension %d not 1", name,
                          tdm_shape_text(&has, text, sizeof text), dimension);
  tdm_shape wanted = {.rank = has.rank - 1};
  int8_t sources[TDM_MAX_RANK];
  for (int i = 0; i < wanted.rank; i++) {
    sources[i] = (int8_t)(i < at ? i : i + 1);
    wanted.dims[i] = has.dims[sources[i]];
  }
  return tdm_reshape_from(graph, name, x, wanted, sources);
}

tdm_value tdm_flatten(tdm_graph *graph, const char *name, tdm_value x, int first, int last) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_accepts(graph, "flatten", name, x)) return TDM_NO_VALUE;
  const tdm_shape has = tdm_value_shape(graph, x);
  const int begin = tdm_layer_dimension(graph, "flatten", name, &has, first);
  const int end = begin < 0 ? -1 : tdm_layer_dimension(graph, "flatten", name, &has, last);
  if (end < 0) return TDM_NO_VALUE;
  char text[TDM_SHAPE_TEXT];
  if (begin > end)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "flatten %s: x is %s, and dimension %d precedes dimension %d", name,
                          tdm_shape_text(&has, text, sizeof text), last, first);
  if (begin == end) return x;
  tdm_shape wanted = {.rank = has.rank - (end - begin)};
  int8_t sources[TDM_MAX_RANK];
  for (int i = 0; i < wanted.rank; i++) {
    const int from = i <= begin ? i : i + (end - begin);
    wanted.dims[i] = i == begin ? TDM_INFER : has.dims[from];
    sources[i] = (int8_t)(i == begin ? -1 : from);
  }
  return tdm_reshape_from(graph, name, x, wanted, sources);
}

#define MOST_STACKED 16

tdm_value tdm_stack(tdm_graph *graph, const char *name, const tdm_value *values, size_t count,
                    int dimension) {
  name = tdm_graph_name(graph, name);
  if (count < 1 || count > MOST_STACKED || !values)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "stack %s: %zu values, 1 to %d can be", name,
                          values ? count : 0, MOST_STACKED);
  tdm_value parts[MOST_STACKED];
  for (size_t i = 0; i < count; i++) {
    if (!tdm_layer_accepts(graph, "stack", name, values[i])) return TDM_NO_VALUE;
    parts[i] = tdm_unsqueeze(graph, name, values[i], dimension);
  }
  const tdm_shape shape = tdm_value_shape(graph, parts[0]);
  if (shape.rank < 0) return TDM_NO_VALUE;
  return tdm_concat(graph, name, parts, count, dimension < 0 ? dimension + shape.rank : dimension);
}

/* ---- Numbers in a row ------------------------------------------------------------------------ */

static tdm_status infer_arange(tdm_infer *infer) {
  const tdm_arange_attributes *attributes = infer->attributes;
  tdm_shape y = tdm_shape_of(1, attributes->count);
  if (tdm_infer_has(infer, 0)) y.dims[0] = tdm_infer_shape(infer, 0)->dims[attributes->dimension];
  tdm_infer_set(infer, 0, (tdm_dtype)attributes->dtype, &y);
  return TDM_OK;
}

/* Gives each part of the batch its own copy of the range. Fails if the range runs along the
 * batch. */
static tdm_status chunk_arange(tdm_chunked *chunked) {
  const tdm_arange_attributes *attributes = tdm_chunked_attributes(chunked);
  TDM_TRY(tdm_chunked_rows(chunked, (int)attributes->dimension, 0));
  tdm_chunked_set_cut(chunked, 0, (tdm_cut){TDM_CUT_REPEATED, 1});
  return TDM_OK;
}

static const tdm_operation arange_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_ARANGE,
    .attribute_bytes = sizeof(tdm_arange_attributes),
    .min_inputs = 0,
    .max_inputs = 1,
    .output_count = 1,
    .infer = infer_arange,
    .chunk = chunk_arange,
    .work = tdm_work_writes,
    .precision = TDM_PRECISION_GIVEN,
    .shape_inputs = 1u << 0,
};

TDM_RECORDS(moves, {.operation = &arange_operation,
                    .functions = "tdm_arange tdm_arange_like tdm_triu tdm_tril"});

#define MOST_COUNTED 0x1p53 /* larger doubles skip integers */

tdm_value tdm_arange(tdm_graph *graph, const char *name, tdm_dtype dtype, double start, double end,
                     double step) {
  name = tdm_graph_name(graph, name);
  const bool counts = dtype == TDM_INT32 || dtype == TDM_INT64;
  if (!counts && dtype != TDM_FLOAT32 && dtype != TDM_FLOAT64)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "arange %s: of %s; float32, float64, int32 and int64 can be", name,
                          tdm_dtype_name(dtype));
  const double count = ceil((end - start) / step);
  if (!(count >= 0 && count <= MOST_COUNTED) ||
      (counts && (start != floor(start) || step != floor(step))))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "arange %s: from %g to %g by %g: the step must lead to the end%s", name,
                          start, end, step, counts ? ", and both be whole numbers" : "");
  if (tdm_dtype_check_range(dtype, start, step, (int64_t)count) != TDM_OK)
    return tdm_graph_fail_message(graph, tdm_fail_within(TDM_INVALID_ARGUMENT, "arange %s", name));
  const tdm_arange_attributes attributes = {
      .start = start, .step = step, .dtype = dtype, .count = (int64_t)count};
  return tdm_append(graph, &arange_operation, name, &attributes, NULL, 0, NULL);
}

/* Returns start, start + 1, ... along a dimension that is already counted from 0. */
static tdm_value places(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                        int64_t start) {
  const tdm_arange_attributes attributes = {
      .start = (double)start, .step = 1, .dtype = TDM_INT64, .dimension = dimension};
  return tdm_append(graph, &arange_operation, name, &attributes, &x, 1, NULL);
}

tdm_value tdm_arange_like(tdm_graph *graph, const char *name, tdm_value x, int dimension) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_accepts(graph, "arange_like", name, x)) return TDM_NO_VALUE;
  const tdm_shape shape = tdm_value_shape(graph, x);
  const int counted = tdm_layer_dimension(graph, "arange_like", name, &shape, dimension);
  return counted < 0 ? TDM_NO_VALUE : places(graph, name, x, counted, 0);
}

/* ---- Filled ---------------------------------------------------------------------------------- */

static tdm_value fill_like(tdm_graph *graph, const char *function, const char *name, tdm_value x,
                           double value) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_accepts(graph, function, name, x) ||
      !tdm_layer_holds(graph, function, name, tdm_value_dtype(graph, x), "value", value))
    return TDM_NO_VALUE;
  const tdm_fill_attributes attributes = {.value = value};
  return tdm_append(graph, &tdm_operation_fill, name, &attributes, &x, 1, NULL);
}

tdm_value tdm_full_like(tdm_graph *graph, const char *name, tdm_value x, double value) {
  return fill_like(graph, "full_like", name, x, value);
}

tdm_value tdm_zeros_like(tdm_graph *graph, const char *name, tdm_value x) {
  return fill_like(graph, "zeros_like", name, x, 0);
}

tdm_value tdm_ones_like(tdm_graph *graph, const char *name, tdm_value x) {
  return fill_like(graph, "ones_like", name, x, 1);
}

/* ---- Triangles ------------------------------------------------------------------------------- */

/* Returns x with zeros where column `relation` row + diagonal holds. */
static tdm_value triangle(tdm_graph *graph, const char *function, const char *name, tdm_value x,
                          tdm_relation relation, int64_t diagonal) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_accepts(graph, function, name, x)) return TDM_NO_VALUE;
  const tdm_shape shape = tdm_value_shape(graph, x);
  char text[TDM_SHAPE_TEXT];
  if (shape.rank < 2)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "%s %s: x is %s, and must have two dimensions or more", function, name,
                          tdm_shape_text(&shape, text, sizeof text));
  const tdm_value rows =
      tdm_unsqueeze(graph, name, places(graph, name, x, shape.rank - 2, diagonal), 1);
  const tdm_value columns = places(graph, name, x, shape.rank - 1, 0);
  if (!tdm_value_is_valid(rows)) return TDM_NO_VALUE;
  const tdm_value outside = tdm_compare(graph, name, columns, relation, rows);
  return tdm_masked_fill(graph, name, x, outside, 0);
}

tdm_value tdm_triu(tdm_graph *graph, const char *name, tdm_value x, int64_t diagonal) {
  return triangle(graph, "triu", name, x, TDM_LESS, diagonal);
}

tdm_value tdm_tril(tdm_graph *graph, const char *name, tdm_value x, int64_t diagonal) {
  return triangle(graph, "tril", name, x, TDM_GREATER, diagonal);
}
