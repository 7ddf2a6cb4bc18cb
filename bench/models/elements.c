/* A chain of elementwise operations without a product between them, as a description. */
#include "bench/models/models.h"

enum { WIDTH = 256 };

static tdm_tensor *uniform(tdm_context *context, tdm_shape shape, uint64_t seed) {
  return tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, shape, seed, -1, 1);
}

model model_elements(tdm_context *context, int64_t rows) {
  model made = {.graph = tdm_graph_create(context), .output = "y"};
  tdm_graph *graph = made.graph;
  if (!graph) bench_fail("graph");
  tdm_place(graph, model_device);
  const tdm_shape shape = tdm_shape_of(2, rows, WIDTH);
  const tdm_initializer uniform_values = {TDM_INIT_UNIFORM, -1, 1, -1};
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, shape);
  const tdm_value wanted = tdm_input(graph, "wanted", TDM_FLOAT32, shape);
  const tdm_value p = tdm_parameter(graph, "p", TDM_FLOAT32, shape, &uniform_values);
  const tdm_value gate = tdm_sigmoid(graph, "gate", tdm_mul(graph, "scaled", p, x));
  const tdm_value gated = tdm_mul(graph, "gated", tdm_gelu(graph, "gelu", x), gate);
  const tdm_value y = tdm_dropout(graph, "dropout", tdm_add(graph, "sum", gated, x), 0.1);
  tdm_output(graph, "y", y);
  model_finish(&made, tdm_mse(graph, "loss", y, wanted), tdm_sgd(0.01));
  model_feed(&made, "x", uniform(context, shape, 1));
  made.forward_feed_count = made.feed_count;
  model_feed(&made, "wanted", uniform(context, shape, 2));
  return made;
}
