/* Sums over ranks by each algorithm: close to the sum in order, equal on all ranks, and
 * reproducible. All-reduces in buckets are placed after the gradients that they read and before
 * later ones. */
#include <math.h>

#include "graph/passes/device_sums.h"
#include "graph/run/session.h"
#include "tests/devices/sanitized.h"
#include "tests/graph/job.h"
#include "tests/options.h"

enum { ROWS = 20, LAYERS = 6, WIDTH = 48, WIDE = 160, NAME = 24 };

/* Builds a model of LAYERS layers with `count` replicas on each rank. */
static tdm_graph *deep(const job_rank *rank, const char *device, int count, int64_t width,
                       tdm_value *out_loss) {
  tdm_graph *graph = job_deep_graph(rank, LAYERS, width, tdm_gelu, out_loss);
  job_replicate(rank, graph, "model", count * rank->rank_count, device, NULL);
  return graph;
}

static tdm_graph *on_hosts(job_rank *rank, tdm_value *out_loss) {
  return deep(rank, "cpu:0", 1, WIDTH, out_loss);
}

static tdm_graph *wide_on_hosts(job_rank *rank, tdm_value *out_loss) {
  return deep(rank, "cpu:0", 1, WIDE, out_loss);
}

static tdm_graph *twice_on_hosts(job_rank *rank, tdm_value *out_loss) {
  return deep(rank, "cpu:0", 2, WIDTH, out_loss);
}

static tdm_graph *on_accelerators(job_rank *rank, tdm_value *out_loss) {
  return deep(rank, "sim:0", 1, WIDTH, out_loss);
}

/* Parameters are divided over all ranks, except for some, which each rank updates for itself. */
static tdm_graph *mixed_on_hosts(job_rank *rank, tdm_value *out_loss) {
  tdm_graph *graph = job_deep_graph(rank, LAYERS, WIDTH, tdm_gelu, out_loss);
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = "host:*/cpu:0",
                                               o.sharding = TDM_SHARDING_PARAMETERS);
  tdm_data_parallel(graph, "model", &options);
  return graph;
}

/* Returns the last loss, which is that of all ranks. */
static double train(const job_model *model, int rank_count, uint64_t *out_hash) {
  job_rank ranks[JOB_MOST_RANKS];
  const job_options options = {
      .rank_count = rank_count, .sim_devices = 1, .user = model, .net = {.seed = 3}};
  job_must(&options, job_train, ranks);
  *out_hash = 0;
  for (int r = 0; r < rank_count; r++) {
    if (ranks[r].loss != ranks[0].loss) fail_msg("rank %d has another loss than rank 0", r);
    *out_hash ^= ranks[r].hash;
  }
  return ranks[0].loss;
}

static void each_way_trains_as_the_sum_in_order(const job_model *of, int rank_count) {
  job_model model = *of;
  uint64_t hash;
  const double in_order = train(&model, rank_count, &hash);
  assert_true(isfinite(in_order) && in_order > 0);
  model.any_order = true;
  for (int algorithm = TDM_COLLECTIVE_AUTO; algorithm < TDM_COLLECTIVE_COUNT; algorithm++) {
    uint64_t again;
    model.collective = (tdm_collective)algorithm;
    const double loss = train(&model, rank_count, &hash);
    if (fabs(loss - in_order) > 1e-4 * in_order)
      fail_msg("%d ranks, algorithm %d: loss %.9f, in order %.9f", rank_count, algorithm, loss,
               in_order);
    if (rank_count > 3 || test_is_sanitized()) continue; /* sanitizers have seen it once */
    (void)train(&model, rank_count, &again);
    if (hash != again)
      fail_msg("%d ranks, algorithm %d: other bits when run again", rank_count, algorithm);
  }
}

static void every_way_over_ranks_trains(void **state) {
  (void)state;
  static const int counts[] = {2, 3, 4, 5, 8};
  const job_model model = {.build = on_hosts, .optimizer = tdm_sgd(0.1), .rows = ROWS};
  for (size_t i = 0; i < TDM_COUNT_OF(counts); i += test_is_sanitized() ? 3 : 1)
    each_way_trains_as_the_sum_in_order(&model, counts[i]);
}

/* A requested algorithm is used for all sums. Without a request, the two are used together. */
static void every_way_trains_with_sharded_parameters(void **state) {
  (void)state;
  static const int counts[] = {2, 8, 3};
  tdm_optimizer clipped = tdm_adam(0.01);
  clipped.clip_norm = 0.5;
  clipped.clip_value = 1e-3;
  const job_model model = {.build = mixed_on_hosts, .optimizer = clipped, .rows = ROWS};
  for (size_t i = 0; i < TDM_COUNT_OF(counts); i += test_is_sanitized() ? 2 : 1)
    each_way_trains_as_the_sum_in_order(&model, counts[i]);
}

/* Trains with several replicas of a rank, devices and hosts, optimizers with states,
 * micro-batches. */
static void every_way_trains_models_of_many_kinds(void **state) {
  (void)state;
  tdm_optimizer clipped = tdm_adam(0.01);
  clipped.clip_norm = 0.5;
  const job_model twice = {.build = twice_on_hosts, .optimizer = clipped, .rows = ROWS};
  each_way_trains_as_the_sum_in_order(&twice, 3);
  const job_model behind = {.build = on_accelerators, .optimizer = tdm_adam(0.01), .rows = ROWS};
  each_way_trains_as_the_sum_in_order(&behind, 3);
  const job_model cut = {
      .build = on_hosts, .optimizer = tdm_sgd(0.1), .rows = ROWS, .micro_batches = 3};
  each_way_trains_as_the_sum_in_order(&cut, 2);
}

/* ---- Members in micro-batches ---------------------------------------------------------------- */

/* Reads the last parameter and the gradient of the first, whose homes are on two ranks. */
static tdm_status append_read(tdm_update *update) {
  tdm_graph *graph = tdm_update_graph(update);
  const tdm_value last = tdm_update_parameter(update, tdm_update_count(update) - 1);
  (void)tdm_add(graph, "read", last, tdm_update_gradient(update, 0));
  const tdm_optimizer sgd = tdm_sgd(0.1);
  return sgd.rule->append(update);
}

static const tdm_optimizer_rule read_rule = {.name = "read", .append = append_read};

/* Trains a step of sum(x * p0 + ... + x * p3) on a host and on another rank's accelerator. */
static tdm_status train_beside_an_accelerator(job_rank *rank) {
  tdm_graph *graph = tdm_graph_create(rank->context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 4));
  tdm_scope_push(graph, "model");
  tdm_value y = x;
  for (int i = 0; i < 4; i++) {
    char name[NAME];
    (void)snprintf(name, sizeof name, "p%d", i);
    const tdm_value p = tdm_parameter(graph, name, TDM_FLOAT32, tdm_shape_of(1, 4), NULL);
    y = tdm_add(graph, NULL, y, tdm_mul(graph, NULL, x, p));
  }
  tdm_scope_pop(graph);
  const tdm_parallel_options options =
      OPTIONS(tdm_parallel_options, o.devices = "host:0/cpu:0,host:1/sim:0",
              o.sharding = TDM_SHARDING_OPTIMIZER_STATES);
  tdm_data_parallel(graph, "model", &options);
  const tdm_optimizer optimizer =
      OPTIONS(tdm_optimizer, o.rule = &read_rule, o.learning_rate = 0.1);
  tdm_session *session = train_session(
      graph, tdm_sum(graph, "loss", y, NULL, 0, false), optimizer,
      WITH(tdm_session_options, o.micro_batches = 2, o.collective = TDM_COLLECTIVE_ALL_REDUCE));
  tdm_tensor *ones = tdm_tensor_ones(rank->context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, 4));
  const tdm_feed feed = {"x", ones, false};
  const tdm_status status = tdm_train_step(session, &feed, 1, NULL, 0, &rank->loss);
  tdm_tensor_release(ones);
  tdm_session_release(session);
  return status;
}

/* A host ends its backward pass before an accelerator does. Its part of a sum is not read elsewhere
 * before all members have reached the sum. */
static void members_come_to_a_sum_in_one_turn(void **state) {
  (void)state;
  job_rank ranks[2];
  job_must(&(job_options){.rank_count = 2, .sim_devices = 1}, train_beside_an_accelerator, ranks);
  assert_true(ranks[0].loss == 4 * ROWS && ranks[1].loss == 4 * ROWS);
}

/* ---- Buckets --------------------------------------------------------------------------------- */

/* Inspects the plan of a rank. number: all-reduces. loss: commands of the backward pass that are
 * computed after the first all-reduce without waiting for it. hash: bytes in all-reduces. */
static tdm_status look_at_buckets(job_rank *rank) {
  const job_model *model = rank->user;
  tdm_value loss;
  tdm_graph *graph = model->build(rank, &loss);
  tdm_session *session = job_session(graph, loss, model);
  if (!session) return TDM_INTERNAL;
  test_batch batch;
  test_batch_make(&batch, rank->context, model->rows, 1);
  const tdm_status status = tdm_train_step(session, batch.feeds, 2, NULL, 0, NULL);
  test_batch_release(&batch);
  const tdm_plan *plan = session->newest;
  const tdm_schedule *schedule = &plan->lowered.schedule;
  size_t first = schedule->step_count;
  for (size_t s = 0; status == TDM_OK && s < schedule->step_count; s++) {
    const tdm_ir_node *node = tdm_ir_node_at(&plan->graph, plan->lowered.sources[s].node);
    if (tdm_ir_is_all_reduce(node) && s < first) first = s;
    bool waits = false;
    for (uint32_t w = 0; w < schedule->steps[s].wait_count; w++)
      waits |= schedule->waits[schedule->steps[s].first_wait + w].step == first;
    if (waits) break; /* later commands of its queue wait too */
    rank->loss += s > first && node->role == TDM_ROLE_GRADIENT && tdm_ir_has_kernel(node);
  }
  rank->number = plan->network.reduced_sums;
  rank->hash = plan->network.reduced_bytes;
  if (plan->sums.algorithm != TDM_COLLECTIVE_ALL_REDUCE)
    return tdm_fail(TDM_INTERNAL, "sums are not made by all-reduces");
  tdm_session_release(session);
  return status;
}

/* With more bytes than latencies there are several buckets, each of several gradients, in the order
 * of the backward pass, which continues during the first transfer. */
static void buckets_travel_under_the_backward_pass(void **state) {
  (void)state;
  const job_model model = {.build = wide_on_hosts,
                           .optimizer = tdm_sgd(0.1),
                           .rows = ROWS,
                           .collective = TDM_COLLECTIVE_ALL_REDUCE,
                           .any_order = true};
  job_rank ranks[3];
  job_must(&(job_options){.rank_count = 3, .user = &model}, look_at_buckets, ranks);
  const uint64_t parameters =
      (uint64_t)(MODEL_ROWS * WIDE + LAYERS * WIDE * (WIDE + 1) + (WIDE + 1) * MODEL_WIDTH);
  for (int r = 0; r < 3; r++) {
    assert_int_equal(ranks[r].hash, parameters * sizeof(float));
    assert_int_equal(ranks[r].number, ranks[0].number);
    assert_in_range(ranks[r].number, 2, 2 * LAYERS); /* the graph has 2 * LAYERS + 3 gradients */
    if (ranks[r].loss < LAYERS) fail_msg("%.0f gradients behind the first bucket", ranks[r].loss);
  }
}

/* ---- Copies on the way ----------------------------------------------------------------------- */

/* number: bytes that the last of some steps has refreshed. hash: those that the plan states for a
 * step. */
static tdm_status look_at_refreshes(job_rank *rank) {
  const job_model *model = rank->user;
  tdm_value loss;
  tdm_graph *graph = model->build(rank, &loss);
  tdm_session *session = job_session(graph, loss, model);
  if (!session) return TDM_INTERNAL;
  tdm_status status = TDM_OK;
  for (uint64_t step = 1; step <= 3 && status == TDM_OK; step++) {
    test_batch batch;
    test_batch_make(&batch, rank->context, model->rows, step);
    status = tdm_train_step(session, batch.feeds, 2, NULL, 0, NULL);
    test_batch_release(&batch);
  }
  uint64_t transfers;
  if (status == TDM_OK) status = tdm_session_refreshed(session, &transfers, &rank->number);
  rank->hash = session->newest->traffic.refresh_bytes;
  tdm_session_release(session);
  return status;
}

/* Devices that update for themselves are not refreshed, nor are the hosts on the way to such
 * copies. Devices that read the home's updates are refreshed, as are the hosts before them. */
static void hosts_on_the_way_are_refreshed_for_others_alone(void **state) {
  (void)state;
  job_model model = {.build = on_accelerators,
                     .optimizer = tdm_adam(0.01),
                     .rows = ROWS,
                     .collective = TDM_COLLECTIVE_ALL_REDUCE,
                     .any_order = true};
  job_rank ranks[2];
  const job_options options = {.rank_count = 2, .sim_devices = 1, .user = &model};
  job_must(&options, look_at_refreshes, ranks);
  for (int r = 0; r < 2; r++) {
    assert_int_equal(ranks[r].number, 0);
    assert_int_equal(ranks[r].hash, 0);
  }
  model.collective = TDM_COLLECTIVE_HOME;
  job_must(&options, look_at_refreshes, ranks);
  const uint64_t parameters =
      (uint64_t)(MODEL_ROWS * WIDTH + LAYERS * WIDTH * (WIDTH + 1) + (WIDTH + 1) * MODEL_WIDTH);
  for (int r = 0; r < 2; r++) {
    assert_int_equal(ranks[r].number,
                     3 * parameters * sizeof(float)); /* device, host, host, device */
    assert_int_equal(ranks[r].hash, ranks[r].number);
  }
}

static void deterministic_refuses_all_reduces(void **state) {
  (void)state;
  job_rank rank = {.context = graph_context_of(1, 0), .rank_count = 1};
  tdm_value loss;
  tdm_graph *graph = on_hosts(&rank, &loss);
  const job_model model = {.optimizer = tdm_sgd(0.1), .collective = TDM_COLLECTIVE_ALL_REDUCE};
  assert_null(job_session(graph, loss, &model));
  assert_non_null(strstr(tdm_last_message(), "an all-reduce does not add in the order"));
  tdm_context_release(rank.context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_way_over_ranks_trains),
      cmocka_unit_test(every_way_trains_with_sharded_parameters),
      cmocka_unit_test(every_way_trains_models_of_many_kinds),
      cmocka_unit_test(members_come_to_a_sum_in_one_turn),
      cmocka_unit_test(buckets_travel_under_the_backward_pass),
      cmocka_unit_test(hosts_on_the_way_are_refreshed_for_others_alone),
      cmocka_unit_test(deterministic_refuses_all_reduces),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
