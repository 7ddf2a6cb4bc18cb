/* Select, and swapping of the first two dimensions; reshape.c has reshape. Invariant: each element
 * of an output is an element of the input, so gradients only move elements. */
#include "layers/common.h"
#include "tandem/layers/layers.h"

/* ---- Select ---------------------------------------------------------------------------------- */

static tdm_status infer_select(tdm_infer *infer) {
  const tdm_select_attributes *attributes = infer->attributes;
  const tdm_shape *x = tdm_infer_shape(infer, 0);
  const int dimension = (int)attributes->dimension;
  TDM_TRY(tdm_expect_rank(infer, 0, "x", dimension + 1, TDM_MAX_RANK));
  const tdm_dim size = x->dims[dimension];
  if (tdm_dim_is_size(size) && (attributes->index >= size || attributes->index < -size)) {
    char text[TDM_SHAPE_TEXT];
    return tdm_fail(TDM_INVALID_ARGUMENT, "index %lld is outside dimension %d of %s",
                    (long long)attributes->index, dimension, tdm_shape_text(x, text, sizeof text));
  }
  tdm_shape out = {.rank = x->rank - 1};
  for (int i = 0; i < out.rank; i++)
    out.dims[i] = x->dims[i < dimension ? i : i + 1];
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &out);
  return TDM_OK;
}

static tdm_status infer_select_gradient(tdm_infer *infer) {
  const tdm_select_attributes *attributes = infer->attributes;
  const tdm_shape *d_out = tdm_infer_shape(infer, 0);
  const int dimension = (int)attributes->dimension;
  tdm_shape d_x = {.rank = d_out->rank + 1};
  for (int i = 0; i < d_x.rank; i++)
    d_x.dims[i] = i == dimension ? attributes->size : d_out->dims[i < dimension ? i : i - 1];
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &d_x);
  return TDM_OK;
}

static const tdm_operation select_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_SELECT_GRADIENT,
    .attribute_bytes = sizeof(tdm_select_attributes),
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 1,
    .infer = infer_select_gradient,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

static tdm_status append_select_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const tdm_select_attributes *forward = tdm_gradient_attributes(gradient);
  const tdm_shape x = tdm_value_shape(graph, tdm_gradient_input(gradient, 0));
  tdm_select_attributes attributes = *forward;
  attributes.size = x.dims[attributes.dimension];
  const tdm_value d_out = tdm_gradient_of_output(gradient, 0);
  tdm_gradient_set(gradient, 0,
                   tdm_append(graph, &select_gradient, tdm_gradient_name(gradient), &attributes,
                              &d_out, 1, NULL));
  return tdm_graph_status(graph);
}

static tdm_status chunk_select(tdm_chunked *chunked) {
  const tdm_select_attributes *attributes = tdm_chunked_attributes(chunked);
  return tdm_chunked_rows(chunked, (int)attributes->dimension, 0);
}

static const tdm_operation select_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_SELECT,
    .attribute_bytes = sizeof(tdm_select_attributes),
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 1,
    .infer = infer_select,
    .gradient = append_select_gradient,
    .chunk = chunk_select,
    .work = tdm_work_moves,
    .precision = TDM_PRECISION_GIVEN,
};

tdm_value tdm_select(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                     int64_t index) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_accepts(graph, "select", name, x)) return TDM_NO_VALUE;
  const tdm_shape shape = tdm_value_shape(graph, x);
  const int counted = tdm_layer_dimension(graph, "select", name, &shape, dimension);
  if (counted < 0) return TDM_NO_VALUE;
  const tdm_select_attributes attributes = {.dimension = counted, .index = index};
  return tdm_append(graph, &select_operation, name, &attributes, &x, 1, NULL);
}

tdm_value tdm_last_step(tdm_graph *graph, const char *name, tdm_value x) {
  return tdm_select(graph, name, x, 0, -1);
}

/* ---- Exchange of the first two dimensions ---------------------------------------------------- */

static tdm_status infer_swap(tdm_infer *infer) {
  TDM_TRY(tdm_expect_rank(infer, 0, "x", 2, TDM_MAX_RANK));
  const tdm_shape *x = tdm_infer_shape(infer, 0);
  tdm_shape out = *x;
  out.dims[0] = x->dims[1];
  out.dims[1] = x->dims[0];
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &out);
  return TDM_OK;
}

static tdm_status append_swap_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  tdm_gradient_set(gradient, 0,
                   tdm_swap_first_dimensions(graph, tdm_gradient_name(gradient),
                                             tdm_gradient_of_output(gradient, 0)));
  return tdm_graph_status(graph);
}

static const tdm_operation swap_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_SWAP_FIRST_DIMENSIONS,
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 1,
    .infer = infer_swap,
    .gradient = append_swap_gradient,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

TDM_RECORDS(shape,
            {.operation = &select_operation, .functions = "tdm_select tdm_last_step tdm_unbind"},
            {.operation = &select_gradient},
            {.operation = &swap_operation, .functions = "tdm_swap_first_dimensions"});

tdm_value tdm_swap_first_dimensions(tdm_graph *graph, const char *name, tdm_value x) {
  return tdm_append(graph, &swap_operation, name, NULL, &x, 1, NULL);
}
