/* Tables with shards on several ranks train to the bits of one process that has all of them: by
 * rows and by tables, with sparse and dense gradients, in models with replicas on every rank. */
#include "tests/graph/job.h"
#include "tests/options.h"

enum { SHARDS = 4, NAME = 24, ROWS = 12 };

/* The number of shards does not depend on the number of ranks, each of which has a contiguous
 * range. */
static const char *devices_of(const job_rank *rank, char *list) {
  list[0] = 0;
  for (int i = 0; i < SHARDS; i++) {
    const size_t length = strlen(list);
    (void)snprintf(list + length, SHARDS * NAME - length, "%shost:%d/cpu:%d", i > 0 ? "," : "",
                   i * rank->rank_count / SHARDS,
                   i - (i * rank->rank_count / SHARDS * SHARDS + rank->rank_count - 1) /
                           rank->rank_count);
  }
  return list;
}

static tdm_value ids_of(tdm_graph *graph) {
  return tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
}

static tdm_value scores_of(tdm_graph *graph, tdm_value words) {
  tdm_scope_push(graph, "model");
  const tdm_value hidden = tdm_tanh(graph, "tanh", tdm_linear(graph, "hidden", words, 24));
  const tdm_value scores = tdm_linear(graph, "scores", hidden, MODEL_WIDTH);
  tdm_scope_pop(graph);
  return scores;
}

static tdm_value loss_of(tdm_graph *graph, tdm_value scores) {
  const tdm_value targets =
      tdm_input(graph, "targets", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  return tdm_cross_entropy(graph, "loss", scores, targets);
}

/* ---- Models ---------------------------------------------------------------------------------- */

static tdm_graph *sharded(job_rank *rank, bool sparse, tdm_shard_by by, tdm_value *out_loss) {
  char list[SHARDS * NAME];
  tdm_graph *graph = tdm_graph_create(rank->context);
  const tdm_embedding_options options = OPTIONS(tdm_embedding_options, o.sparse = sparse);
  const tdm_value ids = ids_of(graph);
  const tdm_value a = tdm_embedding_with(graph, "a", ids, MODEL_ROWS, MODEL_WIDTH, &options);
  const tdm_value b = tdm_embedding_with(graph, "b", ids, MODEL_ROWS, MODEL_WIDTH, &options);
  const tdm_value both[] = {a, b};
  *out_loss = loss_of(graph, scores_of(graph, tdm_concat(graph, "both", both, 2, 1)));
  const tdm_shard_options shards =
      OPTIONS(tdm_shard_options, o.devices = devices_of(rank, list), o.by = by);
  tdm_shard(graph, "a,b", &shards);
  return graph;
}

static tdm_graph *sparse_rows(job_rank *rank, tdm_value *out_loss) {
  return sharded(rank, true, TDM_SHARD_ROWS, out_loss);
}

static tdm_graph *dense_rows(job_rank *rank, tdm_value *out_loss) {
  return sharded(rank, false, TDM_SHARD_ROWS, out_loss);
}

static tdm_graph *sparse_tables(job_rank *rank, tdm_value *out_loss) {
  return sharded(rank, true, TDM_SHARD_TABLES, out_loss);
}

/* Everything is replicated but the table. */
static tdm_graph *replicated(job_rank *rank, tdm_value *out_loss) {
  char list[SHARDS * NAME];
  tdm_graph *graph = tdm_graph_create(rank->context);
  const tdm_embedding_options sparse = OPTIONS(tdm_embedding_options, o.sparse = true);
  const tdm_value ids = ids_of(graph);
  tdm_scope_push(graph, "replicas");
  const tdm_value words = tdm_embedding_with(graph, "table", ids, MODEL_ROWS, MODEL_WIDTH, &sparse);
  const tdm_value scores = scores_of(graph, words);
  tdm_scope_pop(graph);
  const tdm_parallel_options replicas =
      OPTIONS(tdm_parallel_options, o.devices = devices_of(rank, list));
  tdm_data_parallel(graph, "replicas", &replicas);
  const tdm_shard_options shards = OPTIONS(tdm_shard_options, o.devices = replicas.devices);
  tdm_shard(graph, "replicas/table", &shards);
  *out_loss = loss_of(graph, scores);
  return graph;
}

/* ---- Training -------------------------------------------------------------------------------- */

static void train_alike(tdm_graph *(*build)(job_rank *rank, tdm_value *out_loss),
                        tdm_optimizer optimizer, int micro_batches) {
  const job_model model = {
      .build = build, .optimizer = optimizer, .rows = ROWS, .micro_batches = micro_batches};
  job_trains_alike(&model, 4, &(job_options){.cpu_devices = SHARDS});
}

static void sparse_rows_train_alike(void **state) {
  (void)state;
  train_alike(sparse_rows, tdm_adagrad(0.1), 0);
}

static void dense_rows_train_alike_in_micro_batches(void **state) {
  (void)state;
  train_alike(dense_rows, tdm_adam(0.01), 3);
}

static void tables_train_alike(void **state) {
  (void)state;
  train_alike(sparse_tables, tdm_sgd(0.1), 0);
}

static void replicas_of_the_rest_train_alike(void **state) {
  (void)state;
  train_alike(replicated, tdm_adagrad(0.1), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sparse_rows_train_alike),
      cmocka_unit_test(dense_rows_train_alike_in_micro_batches),
      cmocka_unit_test(tables_train_alike),
      cmocka_unit_test(replicas_of_the_rest_train_alike),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
