/* Gather and scatter along a dimension by indices, and one-hot encoding. Invariant: gather and
 * scatter_add are each other's gradients. */
#include "layers/common.h"
#include "tandem/layers/layers.h"

/* ---- Shapes ---------------------------------------------------------------------------------- */

/* The result has x's shape with the index's size along the dimension. */
static tdm_status infer_gather(tdm_infer *infer) {
  const tdm_gather_attributes *attributes = infer->attributes;
  TDM_TRY(tdm_expect_ids(infer, 1, "index"));
  tdm_shape y = *tdm_infer_shape(infer, 0);
  const tdm_shape *index = tdm_infer_shape(infer, 1);
  const int dimension = (int)attributes->dimension;
  y.dims[dimension] = index->dims[attributes->whole_rows != 0 ? 0 : dimension];
  if (attributes->whole_rows == 0) TDM_TRY(tdm_expect_shape(infer, 1, "index", &y));
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &y);
  return TDM_OK;
}

/* Inputs: index, source, [x]. Without x the shape is in the attributes. */
static tdm_status infer_scatter_add(tdm_infer *infer) {
  const tdm_gather_attributes *attributes = infer->attributes;
  TDM_TRY(tdm_expect_ids(infer, 0, "index"));
  if (!tdm_dtype_is_floating(infer->inputs[1].dtype))
    TDM_TRY(tdm_expect_ids(infer, 1, "source, if not floating,"));
  tdm_shape y = {.rank = (int32_t)attributes->rank};
  for (int i = 0; i < y.rank; i++)
    y.dims[i] = attributes->dims[i];
  if (tdm_infer_has(infer, 2)) {
    y = *tdm_infer_shape(infer, 2);
    if (infer->inputs[2].dtype != infer->inputs[1].dtype)
      return tdm_fail(TDM_INVALID_ARGUMENT, "x is %s, source is %s",
                      tdm_dtype_name(infer->inputs[2].dtype),
                      tdm_dtype_name(infer->inputs[1].dtype));
  }
  const tdm_shape *index = tdm_infer_shape(infer, 0);
  const int dimension = (int)attributes->dimension;
  tdm_shape source = y;
  source.dims[dimension] = index->dims[attributes->whole_rows != 0 ? 0 : dimension];
  if (attributes->whole_rows == 0) TDM_TRY(tdm_expect_shape(infer, 0, "index", &source));
  TDM_TRY(tdm_expect_shape(infer, 1, "source", &source));
  tdm_infer_set(infer, 0, infer->inputs[1].dtype, &y);
  return TDM_OK;
}

static tdm_status infer_one_hot(tdm_infer *infer) {
  const tdm_one_hot_attributes *attributes = infer->attributes;
  TDM_TRY(tdm_expect_ids(infer, 0, "ids"));
  TDM_TRY(tdm_expect_rank(infer, 0, "ids", 0, TDM_MAX_RANK - 1));
  tdm_shape y = *tdm_infer_shape(infer, 0);
  y.dims[y.rank++] = attributes->classes;
  tdm_infer_set(infer, 0, TDM_INT64, &y);
  return TDM_OK;
}

/* ---- Gradients, micro-batches ---------------------------------------------------------------- */

static tdm_value append_scatter_add(tdm_graph *graph, const char *name,
                                    const tdm_gather_attributes *attributes, tdm_value index,
                                    tdm_value source, tdm_value x);
static tdm_value append_gather(tdm_graph *graph, const char *name,
                               const tdm_gather_attributes *attributes, tdm_value x,
                               tdm_value index);

/* Appends a scatter_add of source into zeros of that shape. */
static tdm_value scatter_into(tdm_graph *graph, const char *name, tdm_gather_attributes attributes,
                              tdm_value index, tdm_value source, const tdm_shape *shape) {
  attributes.rank = shape->rank;
  for (int i = 0; i < shape->rank; i++)
    attributes.dims[i] = shape->dims[i];
  return append_scatter_add(graph, name, &attributes, index, source, TDM_NO_VALUE);
}

tdm_value tdm_scatter_of(tdm_graph *graph, const char *name, int dimension, tdm_value index,
                         tdm_value source, const tdm_shape *shape) {
  return scatter_into(graph, name, (tdm_gather_attributes){.dimension = dimension}, index, source,
                      shape);
}

static tdm_status append_gather_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const tdm_gather_attributes *attributes = tdm_gradient_attributes(gradient);
  const tdm_shape x = tdm_value_shape(graph, tdm_gradient_input(gradient, 0));
  tdm_gradient_set(gradient, 0,
                   scatter_into(graph, tdm_gradient_name(gradient), *attributes,
                                tdm_gradient_input(gradient, 1),
                                tdm_gradient_of_output(gradient, 0), &x));
  return tdm_graph_status(graph);
}

static tdm_status append_scatter_add_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const tdm_value d = tdm_gradient_of_output(gradient, 0);
  if (tdm_gradient_wanted(gradient, 1))
    tdm_gradient_set(gradient, 1,
                     append_gather(graph, tdm_gradient_name(gradient),
                                   tdm_gradient_attributes(gradient), d,
                                   tdm_gradient_input(gradient, 0)));
  if (tdm_gradient_wanted(gradient, 2)) tdm_gradient_set(gradient, 2, d);
  return tdm_graph_status(graph);
}

/* Splits operands along the batch. An index selects along one dimension; along the others, elements
 * of all operands correspond, unless the index selects whole rows. So the batch can be split if all
 * operands have it along another dimension. */
static tdm_status chunk_indexed(tdm_chunked *chunked, size_t index, size_t operands) {
  const tdm_gather_attributes *attributes = tdm_chunked_attributes(chunked);
  /* dimension of x or source that is split */
  const int rows = tdm_chunked_cut(chunked, 1 - index).dimension;
  bool alike = rows != attributes->dimension;
  for (size_t i = 0; i < operands; i++) {
    const int wanted = i == index && attributes->whole_rows != 0 ? -1 : rows;
    if (tdm_chunked_shape(chunked, i).rank >= 0)
      alike = alike && tdm_chunked_cut(chunked, i).dimension == wanted;
  }
  if (alike) return tdm_chunked_each(chunked, NULL);
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "it mixes the rows of the batch: along dimension %lld indices are places in the "
                  "whole, and along the others all operands are to be cut alike",
                  (long long)attributes->dimension);
}

/* Splits a gather. If all parts share x, an index may select any of its elements. */
static tdm_status chunk_gather(tdm_chunked *chunked) {
  const tdm_gather_attributes *attributes = tdm_chunked_attributes(chunked);
  const int along = attributes->whole_rows != 0 ? 0 : (int)attributes->dimension;
  if (tdm_chunked_cut(chunked, 0).dimension == -1 && tdm_chunked_cut(chunked, 1).dimension == along)
    return tdm_chunked_each(chunked, NULL);
  return chunk_indexed(chunked, 1, 2);
}

static tdm_status chunk_scatter_add(tdm_chunked *chunked) {
  return chunk_indexed(chunked, 0, 3);
}

/* ---- Operations ------------------------------------------------------------------------------ */

static void work_gather(const tdm_infer *node, tdm_work *work) {
  work->bytes_read = work->bytes_written + tdm_work_bytes(&node->inputs[1]);
}

#define GATHER(called)                                                                             \
  {                                                                                                \
    .struct_size = sizeof(tdm_operation), .name = TDM_OP_GATHER,                                   \
    .attribute_bytes = sizeof(tdm_gather_attributes), .min_inputs = 2, .max_inputs = 2,            \
    .output_count = 1, .infer = infer_gather, .gradient = append_gather_gradient,                  \
    .chunk = chunk_gather, .work = work_gather, .precision = TDM_PRECISION_GIVEN,                  \
    .layer = (called),                                                                             \
  }

static const tdm_operation gather_operation = GATHER(NULL);
static const tdm_operation index_select_operation = GATHER("index_select"); /* whole_rows */

static const tdm_operation scatter_add_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_SCATTER_ADD,
    .attribute_bytes = sizeof(tdm_gather_attributes),
    .min_inputs = 2,
    .max_inputs = 3,
    .output_count = 1,
    .infer = infer_scatter_add,
    .gradient = append_scatter_add_gradient,
    .chunk = chunk_scatter_add,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_FLOAT32,
};

static const tdm_operation one_hot_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_ONE_HOT,
    .attribute_bytes = sizeof(tdm_one_hot_attributes),
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 1,
    .infer = infer_one_hot,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

TDM_RECORDS(gather, {.operation = &gather_operation, .functions = "tdm_gather"},
            {.operation = &index_select_operation, .functions = "tdm_index_select tdm_interpolate"},
            {.operation = &scatter_add_operation, .functions = "tdm_scatter_add tdm_max_unpool"},
            {.operation = &one_hot_operation, .functions = "tdm_one_hot"});

static tdm_value append_gather(tdm_graph *graph, const char *name,
                               const tdm_gather_attributes *attributes, tdm_value x,
                               tdm_value index) {
  const tdm_value operands[] = {x, index};
  return tdm_append(graph, attributes->whole_rows ? &index_select_operation : &gather_operation,
                    name, attributes, operands, 2, NULL);
}

static tdm_value append_scatter_add(tdm_graph *graph, const char *name,
                                    const tdm_gather_attributes *attributes, tdm_value index,
                                    tdm_value source, tdm_value x) {
  const tdm_value operands[] = {index, source, x};
  return tdm_append(graph, &scatter_add_operation, name, attributes, operands, 3, NULL);
}

/* ---- Public functions ------------------------------------------------------------------------ */

/* Returns true if x and index are of the graph and of one rank, or, for whole rows, index has rank
 * 1. Writes the dimension. Otherwise returns false with the graph's error. */
static bool read_operands(tdm_graph *graph, const char *function, const char *name, tdm_value x,
                          tdm_value index, bool whole_rows, int dimension,
                          tdm_gather_attributes *out_attributes) {
  if (!tdm_layer_accepts(graph, function, name, x) ||
      !tdm_layer_accepts(graph, function, name, index))
    return false;
  const tdm_shape shape = tdm_value_shape(graph, x), indices = tdm_value_shape(graph, index);
  const int counted = tdm_layer_dimension(graph, function, name, &shape, dimension);
  if (counted < 0) return false;
  *out_attributes = (tdm_gather_attributes){.dimension = counted, .whole_rows = whole_rows};
  char text[TDM_SHAPE_TEXT], indices_text[TDM_SHAPE_TEXT];
  if (indices.rank == (whole_rows ? 1 : shape.rank)) return true;
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                 "%s %s: x is %s, index %s, which must have %d "
                 "dimensions",
                 function, name, tdm_shape_text(&shape, text, sizeof text),
                 tdm_shape_text(&indices, indices_text, sizeof indices_text),
                 whole_rows ? 1 : shape.rank);
  return false;
}

/* Returns x cut to the sizes of index, except along dimension. */
static tdm_value cut_to(tdm_graph *graph, const char *name, tdm_value x, const tdm_shape *index,
                        int dimension) {
  const tdm_shape shape = tdm_value_shape(graph, x);
  for (int i = 0; i < shape.rank && i < index->rank; i++) {
    const bool less = tdm_dim_is_size(shape.dims[i]) && tdm_dim_is_size(index->dims[i]) &&
                      index->dims[i] < shape.dims[i];
    if (i != dimension && less) x = tdm_slice(graph, name, x, i, 0, index->dims[i], 1);
  }
  return x;
}

tdm_value tdm_gather(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                     tdm_value index) {
  name = tdm_graph_name(graph, name);
  tdm_gather_attributes attributes;
  if (!read_operands(graph, "gather", name, x, index, false, dimension, &attributes))
    return TDM_NO_VALUE;
  const tdm_shape indices = tdm_value_shape(graph, index);
  x = cut_to(graph, name, x, &indices, (int)attributes.dimension);
  return append_gather(graph, name, &attributes, x, index);
}

tdm_value tdm_index_select(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                           tdm_value index) {
  name = tdm_graph_name(graph, name);
  tdm_gather_attributes attributes;
  if (!read_operands(graph, "index_select", name, x, index, true, dimension, &attributes))
    return TDM_NO_VALUE;
  return append_gather(graph, name, &attributes, x, index);
}

tdm_value tdm_scatter_add(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                          tdm_value index, tdm_value source) {
  name = tdm_graph_name(graph, name);
  tdm_gather_attributes attributes;
  if (!read_operands(graph, "scatter_add", name, x, index, false, dimension, &attributes) ||
      !tdm_layer_accepts(graph, "scatter_add", name, source))
    return TDM_NO_VALUE;
  const tdm_shape indices = tdm_value_shape(graph, index);
  source = cut_to(graph, name, source, &indices, -1);
  return append_scatter_add(graph, name, &attributes, index, source, x);
}

tdm_value tdm_one_hot(tdm_graph *graph, const char *name, tdm_value ids, int64_t classes) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_accepts(graph, "one_hot", name, ids) ||
      !tdm_layer_is_at_least(graph, "one_hot", name, "classes", classes, 1))
    return TDM_NO_VALUE;
  const tdm_one_hot_attributes attributes = {.classes = classes};
  return tdm_append(graph, &one_hot_operation, name, &attributes, &ids, 1, NULL);
}
