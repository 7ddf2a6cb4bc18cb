/* Describes the model. Names are those that PyTorch gives a module with attributes tables (a
 * ModuleList of EmbeddingBag), bottom and top (modules with attributes hidden and out). */
#include "examples/recommender/model.h"

#include <math.h>
#include <stdio.h>

#include "examples/common/common_options.h"

enum { NAME_TEXT = 32 };

/* A table whose rows begin small, as DLRM's do: uniform within 1 / sqrt(rows). */
static tdm_value look_up(tdm_graph *graph, const recommender_sizes *sizes, int64_t table,
                         tdm_value ids) {
  const double bound = 1 / sqrt((double)sizes->rows);
  const tdm_initializer small = {TDM_INIT_UNIFORM, -bound, bound, -1};
  tdm_embedding_bag_options bag = tdm_embedding_bag_options_default();
  bag.mode = TDM_BAG_SUM;
  bag.sparse = true;
  char weight[NAME_TEXT], name[NAME_TEXT];
  (void)snprintf(name, sizeof name, "%lld", (long long)table);
  (void)snprintf(weight, sizeof weight, "%lld.weight", (long long)table);
  tdm_parameter(graph, weight, TDM_FLOAT32, tdm_shape_of(2, sizes->rows, sizes->dim), &small);
  return tdm_embedding_bag(graph, name, ids, sizes->rows, sizes->dim, &bag);
}

/* ids (batch, tables lookups) -> a vector (batch, dim) of each table. */
static void look_up_all(tdm_graph *graph, const recommender_sizes *sizes, tdm_value ids,
                        tdm_value *out_vectors) {
  tdm_value parts[MOST_TABLES] = {ids};
  tdm_dim widths[MOST_TABLES];
  for (int64_t i = 0; i < sizes->tables; i++)
    widths[i] = sizes->lookups;
  tdm_scope_push(graph, "tables");
  if (sizes->tables > 1) tdm_split(graph, "ids", ids, 1, widths, (size_t)sizes->tables, parts);
  for (int64_t i = 0; i < sizes->tables; i++)
    out_vectors[i] = look_up(graph, sizes, i, parts[i]);
  tdm_scope_pop(graph);
}

static tdm_value perceptron(tdm_graph *graph, const char *name, tdm_value x, int64_t hidden,
                            int64_t out) {
  tdm_scope_push(graph, name);
  x = tdm_relu(graph, "relu", tdm_linear(graph, "hidden", x, hidden));
  x = tdm_linear(graph, "out", x, out);
  tdm_scope_pop(graph);
  return x;
}

/* vectors (batch, dim), count of them -> with the first one, the products of all pairs. */
static tdm_value interact(tdm_graph *graph, const tdm_value *vectors, int64_t count, int64_t dim) {
  tdm_scope_push(graph, "interaction");
  tdm_value x = tdm_concat(graph, "all", vectors, (size_t)count, 1);
  x = tdm_reshape(graph, "vectors", x, tdm_shape_of(3, TDM_INFER, count, dim));
  const tdm_value parts[] = {vectors[0], tdm_dot_interaction(graph, "pairs", x, false)};
  x = tdm_concat(graph, "features", parts, 2, 1);
  tdm_scope_pop(graph);
  return x;
}

tdm_value recommender_describe(tdm_graph *graph, const recommender_sizes *sizes, tdm_value dense,
                               tdm_value ids, tdm_value clicks, const char *accelerator,
                               const char *parallel, tdm_value *out_logits) {
  tdm_value vectors[1 + MOST_TABLES];
  char first[DEVICE_TEXT];
  tdm_place(graph, "cpu:0");
  look_up_all(graph, sizes, ids, vectors + 1);
  if (accelerator) tdm_place(graph, accelerator);
  if (parallel) tdm_place(graph, first_device(parallel, first));
  vectors[0] =
      tdm_relu(graph, "relu", perceptron(graph, "bottom", dense, sizes->hidden, sizes->dim));
  const tdm_value features = interact(graph, vectors, 1 + sizes->tables, sizes->dim);
  *out_logits = perceptron(graph, "top", features, sizes->hidden, 1);
  if (parallel) {
    tdm_parallel_options wrapped = tdm_parallel_options_default();
    wrapped.devices = parallel;
    tdm_data_parallel(
        graph, sizes->shards ? "tables,bottom,relu,interaction,top" : "bottom,relu,interaction,top",
        &wrapped);
  }
  if (sizes->shards) {
    tdm_shard_options shards = tdm_shard_options_default();
    shards.devices = sizes->shards;
    shards.by = sizes->whole_tables ? TDM_SHARD_TABLES : TDM_SHARD_ROWS;
    tdm_shard(graph, "tables", &shards);
  }
  return tdm_binary_cross_entropy(graph, "loss", *out_logits, clicks);
}
