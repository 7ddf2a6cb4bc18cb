/* Softmax and log-softmax along one dimension. Invariant: gradients read only the output. */
#include "layers/common.h"
#include "tandem/layers/layers.h"

static tdm_status infer_softmax(tdm_infer *infer) {
  TDM_TRY(tdm_expect_floating(infer, 0, "x"));
  TDM_TRY(tdm_expect_rank(infer, 0, "x", 1, TDM_MAX_RANK));
  return tdm_infer_like_first(infer);
}

static const tdm_operation softmax_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_SOFTMAX_GRADIENT,
    .attribute_bytes = sizeof(tdm_softmax_attributes),
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = tdm_infer_like_first,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

static const tdm_operation log_softmax_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_LOG_SOFTMAX_GRADIENT,
    .attribute_bytes = sizeof(tdm_softmax_attributes),
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = tdm_infer_like_first,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

/* Appends d_y, y -> d_x, by the given operation and along the same dimension. */
static tdm_status append_gradient(tdm_gradient *gradient, const tdm_operation *operation) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const tdm_value operands[] = {tdm_gradient_of_output(gradient, 0),
                                tdm_gradient_output(gradient, 0)};
  tdm_gradient_set(gradient, 0,
                   tdm_append(graph, operation, tdm_gradient_name(gradient),
                              tdm_gradient_attributes(gradient), operands, 2, NULL));
  return tdm_graph_status(graph);
}

static tdm_status append_softmax_gradient(tdm_gradient *gradient) {
  return append_gradient(gradient, &softmax_gradient);
}

static tdm_status append_log_softmax_gradient(tdm_gradient *gradient) {
  return append_gradient(gradient, &log_softmax_gradient);
}

static tdm_status chunk_softmax(tdm_chunked *chunked) {
  const tdm_softmax_attributes *attributes = tdm_chunked_attributes(chunked);
  return tdm_chunked_rows(chunked, (int)attributes->dimension, 0);
}

static const tdm_operation softmax_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_SOFTMAX,
    .attribute_bytes = sizeof(tdm_softmax_attributes),
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 1,
    .infer = infer_softmax,
    .gradient = append_softmax_gradient,
    .chunk = chunk_softmax,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_FLOAT32,
};

static const tdm_operation log_softmax_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_LOG_SOFTMAX,
    .attribute_bytes = sizeof(tdm_softmax_attributes),
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 1,
    .infer = infer_softmax,
    .gradient = append_log_softmax_gradient,
    .chunk = chunk_softmax,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_FLOAT32,
};

TDM_RECORDS(softmax, {.operation = &softmax_operation, .functions = "tdm_softmax"},
            {.operation = &softmax_gradient},
            {.operation = &log_softmax_operation, .functions = "tdm_log_softmax"},
            {.operation = &log_softmax_gradient});

static tdm_value make_softmax(tdm_graph *graph, const tdm_operation *operation, const char *name,
                              tdm_value x, int dimension) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_accepts(graph, operation->name, name, x)) return TDM_NO_VALUE;
  const tdm_shape shape = tdm_value_shape(graph, x);
  const int counted = tdm_layer_dimension(graph, operation->name, name, &shape, dimension);
  if (counted < 0) return TDM_NO_VALUE;
  const tdm_softmax_attributes attributes = {.dimension = counted};
  return tdm_append(graph, operation, name, &attributes, &x, 1, NULL);
}

tdm_value tdm_softmax(tdm_graph *graph, const char *name, tdm_value x, int dimension) {
  return make_softmax(graph, &softmax_operation, name, x, dimension);
}

tdm_value tdm_log_softmax(tdm_graph *graph, const char *name, tdm_value x, int dimension) {
  return make_softmax(graph, &log_softmax_operation, name, x, dimension);
}
