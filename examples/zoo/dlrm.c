/* DLRM (Naumov et al., "Deep learning recommendation model", 2019), small; dlrm.py is the same in
 * PyTorch. */
#include "examples/zoo/zoo.h"

enum { TABLES = 4, ROWS = 50, LOOKUPS = 3, DIM = 8, DENSE = 13 };

static tdm_value perceptron(tdm_graph *graph, const char *name, tdm_value x, const int64_t *widths,
                            int count) {
  tdm_scope_push(graph, name);
  for (int i = 0; i < count; i++)
    x = tdm_relu(graph, NULL, tdm_linear(graph, NULL, x, widths[i]));
  tdm_scope_pop(graph);
  return x;
}

static tdm_value interact(tdm_graph *graph, tdm_value first, tdm_value ids) {
  tdm_embedding_bag_options options = tdm_embedding_bag_options_default();
  options.mode = TDM_BAG_SUM;
  options.sparse = true;
  tdm_value vectors[1 + TABLES] = {first};
  tdm_scope_push(graph, "emb_l");
  for (int i = 0; i < TABLES; i++) {
    const tdm_value bags = tdm_select(graph, "bags", ids, 1, i);
    vectors[1 + i] = tdm_embedding_bag(graph, NULL, bags, ROWS, DIM, &options);
  }
  tdm_scope_pop(graph);
  const tdm_value stacked = tdm_stack(graph, "vectors", vectors, 1 + TABLES, 1);
  const tdm_value parts[] = {first, tdm_dot_interaction(graph, "pairs", stacked, false)};
  return tdm_concat(graph, "interacted", parts, 2, 1);
}

zoo_training zoo_dlrm(tdm_graph *graph) {
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_value dense = tdm_input(graph, "dense", TDM_FLOAT32, tdm_shape_of(2, batch, DENSE));
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(3, batch, TABLES, LOOKUPS));
  const tdm_value clicks = tdm_input(graph, "clicks", TDM_FLOAT32, tdm_shape_of(1, batch));
  const tdm_value first = perceptron(graph, "bot_l", dense, (const int64_t[]){32, 16, DIM}, 3);
  tdm_value x = interact(graph, first, ids);
  x = perceptron(graph, "top_l", x, (const int64_t[]){32, 16}, 2);
  x = tdm_squeeze(graph, "flat", tdm_linear(graph, "click", x, 1), 1);
  tdm_output(graph, "output", x);
  return (zoo_training){tdm_binary_cross_entropy(graph, "loss", x, clicks), tdm_sgd(0.1)};
}
