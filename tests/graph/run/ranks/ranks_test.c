/* Runs over several ranks of a job: models with layers on other ranks, trained or parallel over
 * ranks, have the bits of one process. */
#include <math.h>

#include "graph/run/session.h"
#include "tests/graph/job.h"
#include "tests/options.h"

enum { ROWS = 12 };

/* ---- One layer on another rank --------------------------------------------------------------- */

static tdm_status run_layer(job_rank *rank) {
  tdm_graph *graph = seed_graph(rank->context, "host:0/cpu:0", "host:1/cpu:0", NULL);
  tdm_session *session = job_session(graph, (tdm_value){0, 0}, NULL);
  if (!session) return TDM_INTERNAL;
  test_batch batch;
  test_batch_make(&batch, rank->context, ROWS, 1);
  tdm_fetch fetch = {.name = "scores"};
  const tdm_status status = tdm_run(session, batch.feeds, 1, &fetch, 1);
  if (status == TDM_OK) {
    const float *scores = tdm_tensor_data(fetch.tensor);
    for (int64_t i = 0; i < ROWS * MODEL_WIDTH; i++)
      rank->loss += (double)scores[i];
    tdm_tensor_release(fetch.tensor);
  }
  test_batch_release(&batch);
  tdm_session_release(session);
  return status;
}

static double scores_of_one_process(void) {
  job_rank rank = {.context = graph_context_of(2, 1)};
  tdm_graph *graph = seed_graph(rank.context, "cpu:0", "cpu:1", NULL);
  tdm_session *session = job_session(graph, (tdm_value){0, 0}, NULL);
  assert_non_null(session);
  test_batch batch;
  test_batch_make(&batch, rank.context, ROWS, 1);
  tdm_tensor *scores = run_once(session, &batch, "scores");
  const float *data = tdm_tensor_data(scores);
  double sum = 0;
  for (int64_t i = 0; i < ROWS * MODEL_WIDTH; i++)
    sum += (double)data[i];
  tdm_tensor_release(scores);
  test_batch_release(&batch);
  tdm_session_release(session);
  tdm_context_release(rank.context);
  return sum;
}

static void a_layer_on_another_rank_gives_every_rank_its_result(void **state) {
  (void)state;
  const double expected = scores_of_one_process();
  job_rank ranks[3];
  for (int count = 2; count <= 3; count++) {
    job_must(&(job_options){.rank_count = count}, run_layer, ranks);
    for (int r = 0; r < count; r++)
      assert_true(ranks[r].loss == expected);
  }
}

/* ---- Training -------------------------------------------------------------------------------- */

static const char *device_of_part(const job_rank *rank, int part, char *name) {
  const int on = part % rank->rank_count;
  (void)snprintf(name, 24, "host:%d/cpu:0", on);
  return name;
}

static tdm_graph *zigzag_over_ranks(job_rank *rank, tdm_value *out_loss) {
  char first[24], second[24];
  return zigzag_graph(rank->context, device_of_part(rank, 0, first),
                      device_of_part(rank, 1, second), out_loss);
}

static tdm_graph *tied_over_ranks(job_rank *rank, tdm_value *out_loss) {
  char first[24], second[24];
  return tied_graph(rank->context, device_of_part(rank, 1, first), device_of_part(rank, 2, second),
                    out_loss);
}

static void what_is_placed_on_ranks_trains_as_in_one_process(void **state) {
  (void)state;
  const job_model model = {.build = zigzag_over_ranks, .optimizer = tdm_sgd(0.1), .rows = ROWS};
  job_trains_alike(&model, 4, &(job_options){0});
}

static void a_parameter_that_two_ranks_read_is_refreshed(void **state) {
  (void)state;
  const job_model model = {.build = tied_over_ranks, .optimizer = tdm_adam(0.01), .rows = ROWS};
  job_trains_alike(&model, 4, &(job_options){0});
}

/* ---- In parallel ----------------------------------------------------------------------------- */

enum { REPLICAS = 4 };

/* The number of replicas does not depend on the number of ranks, each of which has neighbours. */
static tdm_graph *parallel_over_ranks(job_rank *rank, tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(rank->context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_value targets =
      tdm_input(graph, "targets", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_scope_push(graph, "model");
  const tdm_value words = tdm_embedding(graph, "embedding", ids, MODEL_ROWS, MODEL_WIDTH);
  const tdm_value hidden = tdm_gelu(graph, "gelu", tdm_linear(graph, "hidden", words, 24));
  const tdm_value kept = tdm_dropout(graph, "dropout", hidden, 0.2);
  const tdm_value scores = tdm_linear(graph, "scores", kept, MODEL_WIDTH);
  tdm_scope_pop(graph);
  *out_loss = tdm_cross_entropy(graph, "loss", scores, targets);
  job_replicate(rank, graph, "model", REPLICAS, "cpu:0", NULL);
  return graph;
}

static void replicas_on_ranks_train_as_in_one_process(void **state) {
  (void)state;
  const job_model model = {.build = parallel_over_ranks, .optimizer = tdm_adam(0.01), .rows = ROWS};
  job_trains_alike(&model, 4, &(job_options){0});
}

/* Rows of both inputs are not the first dimension: each rank copies the parts of its feeds. */
static tdm_graph *columns_over_ranks(job_rank *rank, tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(rank->context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(2, 1, TDM_DIM("batch")));
  const tdm_value targets =
      tdm_input(graph, "targets", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_scope_push(graph, "model");
  const tdm_value words = tdm_embedding(graph, "embedding", ids, MODEL_ROWS, MODEL_WIDTH);
  const tdm_value steps = tdm_rnn(graph, "rnn", words, MODEL_WIDTH, NULL, NULL);
  const tdm_value last = tdm_last_step(graph, "last", steps);
  tdm_scope_pop(graph);
  *out_loss = tdm_cross_entropy(graph, "loss", last, targets);
  const tdm_scatter scatter = {ids, 1};
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = "host:*/cpu:0",
                                               o.scatter = &scatter, o.scatter_count = 1);
  tdm_data_parallel(graph, "model", &options);
  return graph;
}

/* Messages of integers: only inputs are such. */
static uint64_t count_inputs_sent(const tdm_graph *graph) {
  uint64_t count = 0;
  TDM_EACH_NODE(graph, node) {
    if (tdm_ir_is_message(graph, node))
      count += tdm_ir_value_at(graph, node->inputs[0])->spec->dtype == TDM_INT64;
  }
  return count;
}

static tdm_status train_columns(job_rank *rank) {
  const job_model model = {.optimizer = tdm_sgd(0.1)};
  tdm_value loss;
  tdm_graph *graph = columns_over_ranks(rank, &loss);
  tdm_session *session = job_session(graph, loss, &model);
  if (!session) return TDM_INTERNAL;
  test_batch batch;
  test_batch_make(&batch, rank->context, ROWS, 1);
  tdm_tensor *ids = tdm_tensor_view(batch.feeds[0].tensor, tdm_shape_of(2, 1, ROWS));
  const tdm_feed feeds[] = {{"ids", ids, false}, batch.feeds[1]};
  const tdm_status status = tdm_train_step(session, feeds, 2, NULL, 0, &rank->loss);
  if (status == TDM_OK) rank->number = count_inputs_sent(&session->newest->graph);
  tdm_tensor_release(ids);
  test_batch_release(&batch);
  tdm_session_release(session);
  return status;
}

static void parts_of_inputs_do_not_cross(void **state) {
  (void)state;
  job_rank alone[1], ranks[3];
  job_must(&(job_options){.rank_count = 1}, train_columns, alone);
  job_must(&(job_options){.rank_count = 3}, train_columns, ranks);
  for (int r = 0; r < 3; r++) {
    assert_int_equal(ranks[r].number, 0);
    assert_true(fabs(ranks[r].loss - alone->loss) < 1e-5);
  }
}

/* ---- Plain names -------------------------------------------------------------------------------
 */

/* Builds a graph on devices whose names do not contain a rank. For layers, such names mean devices
 * of rank 0; for tensors, devices of the calling rank. */
static tdm_graph *plain_names(job_rank *rank, tdm_value *out_loss) {
  return zigzag_graph(rank->context, "cpu:0", "cpu:1", out_loss);
}

static void plain_names_train_on_rank_0_as_in_one_process(void **state) {
  (void)state;
  const job_model model = {.build = plain_names, .optimizer = tdm_adam(0.01), .rows = ROWS};
  job_trains_alike(&model, 3, &(job_options){.cpu_devices = 2});
}

/* ---- Every device of every rank ----------------------------------------------------------------
 */

typedef struct wanted_devices {
  const char *list;
  const char *expected; /* devices of two ranks with two cpu and one sim each */
} wanted_devices;

static tdm_status find_wanted(job_rank *rank) {
  const wanted_devices *wanted = rank->user;
  tdm_device *devices[JOB_MOST_RANKS];
  size_t count;
  TDM_TRY(
      tdm_context_find_placements(rank->context, wanted->list, JOB_MOST_RANKS, devices, &count));
  char names[JOB_MOST_RANKS * 24] = "";
  for (size_t i = 0; i < count; i++) {
    const size_t length = strlen(names);
    (void)snprintf(names + length, sizeof names - length, "%s ", devices[i]->name);
  }
  if (strcmp(names, wanted->expected) == 0) return TDM_OK;
  return tdm_fail(TDM_INTERNAL, "%s: %s", wanted->list, names);
}

static void lists_of_devices_have_those_of_every_rank(void **state) {
  (void)state;
  static const wanted_devices lists[] = {
      {"cpu:*", "host:0/cpu:0 host:0/cpu:1 "},
      {"host:*/cpu:0", "host:0/cpu:0 host:1/cpu:0 "},
      {"host:*/cpu:*", "host:0/cpu:0 host:0/cpu:1 host:1/cpu:0 host:1/cpu:1 "},
      {"host:1/cpu:*,sim:0", "host:1/cpu:0 host:1/cpu:1 host:0/sim:0 "},
  };
  job_rank ranks[2];
  for (size_t i = 0; i < TDM_COUNT_OF(lists); i++)
    job_must(&(job_options){.rank_count = 2, .cpu_devices = 2, .sim_devices = 1, .user = &lists[i]},
             find_wanted, ranks);
}

/* The program's own words are the same for any number of ranks. */
static tdm_graph *over_all_devices(job_rank *rank, tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(rank->context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_value targets =
      tdm_input(graph, "targets", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_value words = tdm_embedding(graph, "embedding", ids, MODEL_ROWS, MODEL_WIDTH);
  const tdm_value scores = tdm_linear(graph, "scores", words, MODEL_WIDTH);
  *out_loss = tdm_cross_entropy(graph, "loss", scores, targets);
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = "host:*/cpu:*");
  tdm_data_parallel(graph, "scores", &options);
  return graph;
}

/* Checks two ranks with three devices each, and three with two: six replicas, and one sum. */
static void every_device_of_every_rank_is_a_replica(void **state) {
  (void)state;
  const job_model model = {.build = over_all_devices, .optimizer = tdm_adam(0.01), .rows = ROWS};
  job_rank two[2], three[3];
  job_must(&(job_options){.rank_count = 2, .cpu_devices = 3, .user = &model}, job_train, two);
  job_must(&(job_options){.rank_count = 3, .cpu_devices = 2, .user = &model}, job_train, three);
  assert_true(two[0].loss == three[0].loss);
  assert_true((two[0].hash ^ two[1].hash) == (three[0].hash ^ three[1].hash ^ three[2].hash));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parts_of_inputs_do_not_cross),
      cmocka_unit_test(a_layer_on_another_rank_gives_every_rank_its_result),
      cmocka_unit_test(what_is_placed_on_ranks_trains_as_in_one_process),
      cmocka_unit_test(a_parameter_that_two_ranks_read_is_refreshed),
      cmocka_unit_test(replicas_on_ranks_train_as_in_one_process),
      cmocka_unit_test(plain_names_train_on_rank_0_as_in_one_process),
      cmocka_unit_test(lists_of_devices_have_those_of_every_rank),
      cmocka_unit_test(every_device_of_every_rank_is_a_replica),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
