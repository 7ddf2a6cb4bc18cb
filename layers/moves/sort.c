/* Sorting along a dimension. Invariant: the adjoint of an element goes to the element's original
 * index, so gradients are sums by these indices. */
#include "layers/common.h"
#include "tandem/layers/layers.h"

static tdm_status infer_sort(tdm_infer *infer) {
  const tdm_sort_attributes *attributes = infer->attributes;
  const int dimension = (int)attributes->dimension;
  TDM_TRY(tdm_expect_rank(infer, 0, "x", dimension + 1, TDM_MAX_RANK));
  tdm_shape y = *tdm_infer_shape(infer, 0);
  const tdm_dim size = y.dims[dimension];
  if (attributes->count > 0) y.dims[dimension] = attributes->count;
  if (tdm_dim_is_size(size) && attributes->count > size) {
    char text[TDM_SHAPE_TEXT];
    return tdm_fail(TDM_INVALID_ARGUMENT, "%lld elements of dimension %d of %s, 1 to %lld can be",
                    (long long)attributes->count, dimension,
                    tdm_shape_text(tdm_infer_shape(infer, 0), text, sizeof text), (long long)size);
  }
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &y);
  tdm_infer_set(infer, 1, TDM_INT64, &y);
  return TDM_OK;
}

static tdm_status append_gradient(tdm_gradient *gradient) {
  const tdm_sort_attributes *attributes = tdm_gradient_attributes(gradient);
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const tdm_shape x = tdm_value_shape(graph, tdm_gradient_input(gradient, 0));
  tdm_gradient_set(gradient, 0,
                   tdm_scatter_of(graph, tdm_gradient_name(gradient), (int)attributes->dimension,
                                  tdm_gradient_output(gradient, 1),
                                  tdm_gradient_of_output(gradient, 0), &x));
  return tdm_graph_status(graph);
}

static tdm_status chunk_sort(tdm_chunked *chunked) {
  const tdm_sort_attributes *attributes = tdm_chunked_attributes(chunked);
  return tdm_chunked_rows(chunked, (int)attributes->dimension, 0);
}

static const tdm_operation sort_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_SORT,
    .attribute_bytes = sizeof(tdm_sort_attributes),
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 2,
    .infer = infer_sort,
    .gradient = append_gradient,
    .chunk = chunk_sort,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

TDM_RECORDS(sort, {.operation = &sort_operation,
                   .functions = "tdm_sort tdm_argsort tdm_topk tdm_median"});

/* Returns the first `count` elements in order (0: all), and writes their indices. */
static tdm_value sort_by(tdm_graph *graph, const char *function, const char *name, tdm_value x,
                         int dimension, int64_t count, bool descending, tdm_value *out_indices) {
  name = tdm_graph_name(graph, name);
  tdm_value outputs[2] = {{0, 0}, {0, 0}};
  if (tdm_layer_accepts(graph, function, name, x)) {
    const tdm_shape shape = tdm_value_shape(graph, x);
    const int counted = tdm_layer_dimension(graph, function, name, &shape, dimension);
    const tdm_sort_attributes attributes = {
        .dimension = counted, .count = count, .descending = descending};
    if (counted >= 0) tdm_append(graph, &sort_operation, name, &attributes, &x, 1, outputs);
  }
  if (out_indices) *out_indices = outputs[1];
  return outputs[0];
}

tdm_value tdm_sort(tdm_graph *graph, const char *name, tdm_value x, int dimension, bool descending,
                   tdm_value *out_indices) {
  return sort_by(graph, "sort", name, x, dimension, 0, descending, out_indices);
}

tdm_value tdm_argsort(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                      bool descending) {
  name = tdm_graph_name(graph, name);
  tdm_value indices;
  sort_by(graph, "argsort", name, x, dimension, 0, descending, &indices);
  return indices;
}

tdm_value tdm_topk(tdm_graph *graph, const char *name, tdm_value x, int64_t k, int dimension,
                   bool largest, tdm_value *out_indices) {
  name = tdm_graph_name(graph, name);
  if (out_indices) *out_indices = TDM_NO_VALUE;
  if (k < 1)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "topk %s: k is %lld, and must be 1 or more",
                          name, (long long)k);
  return sort_by(graph, "topk", name, x, dimension, k, largest, out_indices);
}

/* NaN would be sorted after all numbers, so the median of a row with NaN would be a number. */
tdm_value tdm_median(tdm_graph *graph, const char *name, tdm_value x, int dimension, bool keep) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_accepts(graph, "median", name, x)) return TDM_NO_VALUE;
  const tdm_dtype dtype = tdm_value_dtype(graph, x);
  if (!tdm_dtype_is_floating(dtype))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "median %s: x is %s, and must be floating",
                          name, tdm_dtype_name(dtype));
  const tdm_shape shape = tdm_value_shape(graph, x);
  const int counted = tdm_layer_dimension(graph, "median", name, &shape, dimension);
  if (counted < 0) return TDM_NO_VALUE;
  const tdm_dim size = shape.dims[counted];
  char text[TDM_SHAPE_TEXT];
  if (!tdm_dim_is_size(size) || size < 1)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "median %s: dimension %d of x must be a size of 1 or more, x is %s", name,
                          dimension, tdm_shape_text(&shape, text, sizeof text));
  const int64_t middle = (size - 1) / 2;
  const tdm_value lower = tdm_topk(graph, name, x, middle + 1, counted, false, NULL);
  if (!tdm_value_is_valid(lower)) return TDM_NO_VALUE;
  tdm_value median = tdm_slice(graph, name, lower, counted, middle, middle + 1, 1);
  const tdm_value most = tdm_max(graph, name, x, counted, true, NULL);
  const tdm_value is_nan = tdm_compare(graph, name, most, TDM_NOT_EQUAL, most);
  median = tdm_where(graph, name, is_nan, most, median);
  return keep || !tdm_value_is_valid(median) ? median : tdm_squeeze(graph, name, median, counted);
}
