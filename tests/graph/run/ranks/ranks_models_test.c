/* Models of many kinds over ranks, with delays: tables with sparse gradients, recurrent and
 * convolutional layers, accelerators of several hosts, micro-batches, replicas with exchanged
 * results. All have the bits of one process. */
#include "tests/graph/job.h"
#include "tests/options.h"

enum { ROWS = 12, REPLICAS = 8, NAME = 24 };

/* The device of that kind on the rank that has part `part` of a model. */
static const char *on(const job_rank *rank, int part, const char *device, char *name) {
  (void)snprintf(name, NAME, "host:%d/%s", part % rank->rank_count, device);
  return name;
}

static tdm_value ids_of(tdm_graph *graph) {
  return tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
}

static tdm_value loss_of(tdm_graph *graph, tdm_value scores) {
  const tdm_value targets =
      tdm_input(graph, "targets", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  return tdm_cross_entropy(graph, "loss", scores, targets);
}

/* ---- Placed ---------------------------------------------------------------------------------- */

/* Creates a graph with a sparse table on one rank, an LSTM and constants on the next, the scores on
 * another, on accelerators. */
static tdm_graph *recurrent(job_rank *rank, tdm_value *out_loss) {
  char name[NAME];
  tdm_graph *graph = tdm_graph_create(rank->context);
  const tdm_value ids = ids_of(graph);
  tdm_place(graph, on(rank, 0, "sim:0", name));
  const tdm_embedding_options sparse = OPTIONS(tdm_embedding_options, o.sparse = true);
  const tdm_value words =
      tdm_embedding_with(graph, "embedding", ids, MODEL_ROWS, 6 * MODEL_WIDTH, &sparse);
  const tdm_value steps =
      tdm_reshape(graph, "steps", words, tdm_shape_of(3, TDM_INFER, 6, MODEL_WIDTH));
  tdm_place(graph, on(rank, 1, "sim:0", name));
  const tdm_rnn_options options = OPTIONS(tdm_rnn_options, o.batch_first = true);
  static const float scales[] = {1, -2, 0.5F, 3, 1, 0.25F, -1, 2};
  const tdm_value constant = tdm_constant(graph, "scales", TDM_FLOAT32, tdm_shape_of(1, 8), scales);
  const tdm_value states =
      tdm_mul(graph, "scaled", tdm_lstm(graph, "rnn", steps, 8, &options, NULL, NULL), constant);
  tdm_place(graph, on(rank, 2, "cpu:0", name));
  const tdm_value flat = tdm_reshape(graph, "flat", states, tdm_shape_of(2, TDM_INFER, 48));
  *out_loss = loss_of(graph, tdm_linear(graph, "scores", flat, MODEL_WIDTH));
  return graph;
}

static void tables_and_recurrent_layers_train_alike(void **state) {
  (void)state;
  const job_model model = {.build = recurrent, .optimizer = tdm_sgd(0.1), .rows = ROWS};
  job_trains_alike(&model, 5, &(job_options){.sim_devices = 1});
}

static tdm_graph *convolutional(job_rank *rank, tdm_value *out_loss) {
  char name[NAME];
  tdm_graph *graph = tdm_graph_create(rank->context);
  const tdm_value ids = ids_of(graph);
  tdm_place(graph, on(rank, 1, "cpu:0", name));
  const tdm_value pixels = tdm_embedding(graph, "pixels", ids, MODEL_ROWS, 64);
  const tdm_value images =
      tdm_reshape(graph, "images", pixels, tdm_shape_of(4, TDM_INFER, 1, 8, 8));
  tdm_place(graph, on(rank, 0, "cpu:0", name));
  const tdm_value maps =
      tdm_relu(graph, "relu", tdm_conv2d(graph, "convolution", images, 4, 3, 3, NULL));
  const tdm_value kept = tdm_dropout(graph, "dropout", maps, 0.3);
  tdm_place(graph, on(rank, 3, "cpu:0", name));
  const tdm_value flat = tdm_reshape(graph, "flat", kept, tdm_shape_of(2, TDM_INFER, 4 * 36));
  *out_loss = loss_of(graph, tdm_linear(graph, "scores", flat, MODEL_WIDTH));
  return graph;
}

static void convolutional_layers_train_alike(void **state) {
  (void)state;
  const job_model model = {.build = convolutional, .optimizer = tdm_adam(0.01), .rows = ROWS};
  job_trains_alike(&model, 5, &(job_options){0});
}

static void micro_batches_over_ranks_train_alike(void **state) {
  (void)state;
  const job_model model = {
      .build = convolutional, .optimizer = tdm_adam(0.01), .rows = ROWS, .micro_batches = 3};
  job_trains_alike(&model, 3, &(job_options){0});
}

/* ---- In parallel ----------------------------------------------------------------------------- */

/* The number of replicas does not depend on the number of ranks, each of which has a contiguous
 * range. */
static void wrap(job_rank *rank, tdm_graph *graph, const char *device, const char *scope) {
  char devices[REPLICAS * NAME] = "";
  for (int i = 0; i < REPLICAS; i++) {
    const size_t length = strlen(devices);
    (void)snprintf(devices + length, sizeof devices - length, "%shost:%d/%s", i > 0 ? "," : "",
                   i * rank->rank_count / REPLICAS, device);
  }
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = devices);
  tdm_data_parallel(graph, scope, &options);
}

static tdm_graph *replicated(job_rank *rank, const char *device, const char *scope,
                             tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(rank->context);
  const tdm_value ids = ids_of(graph);
  tdm_scope_push(graph, "model");
  const tdm_value words = tdm_embedding(graph, "embedding", ids, MODEL_ROWS, MODEL_WIDTH);
  const tdm_value hidden = tdm_gelu(graph, "gelu", tdm_linear(graph, "hidden", words, 24));
  const tdm_value kept = tdm_dropout(graph, "dropout", hidden, 0.2);
  const tdm_value scores = tdm_linear(graph, "scores", kept, MODEL_WIDTH);
  tdm_scope_pop(graph);
  *out_loss = loss_of(graph, scores);
  wrap(rank, graph, device, scope);
  return graph;
}

static tdm_graph *replicas_on_hosts(job_rank *rank, tdm_value *out_loss) {
  return replicated(rank, "cpu:0", "model", out_loss);
}

static tdm_graph *replicas_on_accelerators(job_rank *rank, tdm_value *out_loss) {
  return replicated(rank, "sim:0", "model", out_loss);
}

/* The loss is each replica's share of the whole batch's. */
static tdm_graph *replicas_with_loss(job_rank *rank, tdm_value *out_loss) {
  return replicated(rank, "cpu:0", "", out_loss);
}

static void replicas_train_alike_on_up_to_eight_ranks(void **state) {
  (void)state;
  const job_model model = {.build = replicas_on_hosts,
                           .optimizer = tdm_adam(0.01),
                           .rows = 20,
                           .collective = TDM_COLLECTIVE_CHAIN};
  job_trains_alike(&model, 8, &(job_options){0});
}

static void replicas_on_accelerators_of_ranks_train_alike(void **state) {
  (void)state;
  const job_model model = {
      .build = replicas_on_accelerators, .optimizer = tdm_adam(0.01), .rows = 20};
  job_trains_alike(&model, 4, &(job_options){.sim_devices = 1});
}

static void every_deterministic_way_of_summing_trains_alike(void **state) {
  (void)state;
  static const tdm_collective algorithms[] = {TDM_COLLECTIVE_AUTO, TDM_COLLECTIVE_HOME,
                                              TDM_COLLECTIVE_CHAIN};
  for (size_t i = 0; i < TDM_COUNT_OF(algorithms); i++) {
    const job_model model = {.build = replicas_on_hosts,
                             .optimizer = tdm_adam(0.01),
                             .rows = 20,
                             .collective = algorithms[i]};
    job_trains_alike(&model, 3, &(job_options){0});
  }
}

static void losses_in_the_part_train_alike(void **state) {
  (void)state;
  for (int micro_batches = 1; micro_batches <= 2; micro_batches++) {
    const job_model model = {.build = replicas_with_loss,
                             .optimizer = tdm_adam(0.01),
                             .rows = 20,
                             .micro_batches = micro_batches};
    job_trains_alike(&model, 5, &(job_options){0});
  }
}

/* Ranks without rows, and a rank that has nothing to do but to hear of the loss. */
static void fewer_rows_than_ranks_train_alike(void **state) {
  (void)state;
  const job_model model = {.build = replicas_on_hosts, .optimizer = tdm_adam(0.01), .rows = 3};
  job_trains_alike(&model, 6, &(job_options){0});
}

/* ---- Under delays ---------------------------------------------------------------------------- */

/* Messages take their time, and large ones wait for who receives them. */
static void delays_change_no_bit(void **state) {
  (void)state;
  const job_model model = {.build = replicas_on_hosts, .optimizer = tdm_adam(0.01), .rows = 20};
  job_rank ranks[JOB_MOST_RANKS];
  uint64_t first = 0;
  for (uint64_t seed = 1; seed <= 8; seed++) {
    const job_options options = {
        .rank_count = 3,
        .user = &model,
        .net = {.seed = seed, .delay_ns = seed % 2 * 100000, .eager_bytes = seed % 3 * 1000}};
    job_must(&options, job_train, ranks);
    const uint64_t hash = ranks[0].hash ^ ranks[1].hash ^ ranks[2].hash;
    if (seed == 1) first = hash;
    assert_int_equal(hash, first);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tables_and_recurrent_layers_train_alike),
      cmocka_unit_test(convolutional_layers_train_alike),
      cmocka_unit_test(micro_batches_over_ranks_train_alike),
      cmocka_unit_test(replicas_train_alike_on_up_to_eight_ranks),
      cmocka_unit_test(every_deterministic_way_of_summing_trains_alike),
      cmocka_unit_test(replicas_on_accelerators_of_ranks_train_alike),
      cmocka_unit_test(losses_in_the_part_train_alike),
      cmocka_unit_test(fewer_rows_than_ranks_train_alike),
      cmocka_unit_test(delays_change_no_bit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
