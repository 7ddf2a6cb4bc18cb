/* Forecasts of jobs of several ranks: by hand, with given prices; every rank computes the same
 * forecast; and all ranks report an error of one. */
#include "core/hash.h"
#include "devices/links/table.h"
#include "graph/collectives/collectives.h"
#include "graph/forecast/costs.h"
#include "graph/run/session.h"
#include "tests/graph/forecast/support.h"
#include "tests/graph/job.h"
#include "tests/options.h"

enum { IN = 4, ROWS = 4096, KERNEL_NS = 1000 };

/* Returns the time of a message on the assumed links between ranks before a measurement: 50 us, 1
 * Gbit/s. */
static double message_ns(double bytes) {
  return 50000 + bytes / 0.125;
}

/* Each kernel of this rank's steps takes as long. */
static tdm_costs *price(const tdm_session *session) {
  const tdm_plan *plan = session->last_asked;
  tdm_costs *costs = tdm_costs_create(plan->graph.context);
  for (size_t i = 0; costs && i < plan->lowered.schedule.step_count; i++) {
    const tdm_ir_node *node = tdm_ir_node_at(&plan->graph, plan->lowered.sources[i].node);
    char class_name[TDM_COST_CLASS], kernel[TDM_COST_KEY];
    if (!node->operation) continue;
    tdm_cost_class(tdm_context_device(plan->graph.context, (size_t)node->device), class_name);
    tdm_cost_kernel(&plan->graph, node, kernel, sizeof kernel);
    const tdm_cost cost = {.alone_ns = KERNEL_NS};
    if (tdm_costs_put(costs, class_name, kernel, cost) != TDM_OK) return NULL;
  }
  return costs;
}

typedef struct asked {
  tdm_graph *(*build)(job_rank *rank, tdm_value *out_loss);
  const char *also;  /* name of a second output; NULL: none */
  double both_ways;  /* rate of links between ranks; 0: they are not measured */
  double ratio;      /* duration of messages relative to the formula if both ways are busy; 0: 1 */
  double sums_of_ns; /* a byte of the engine's all-reduces, measured; 0: they are not */
  const char *queue; /* queue whose time is written to rank->number, in ns; NULL: none */
  const char *link;  /* link whose bytes are written to rank->number; NULL: none */
  tdm_collective collective;
  bool trains;
  int unpriced;  /* a rank that has no prices; -1: none */
  int more_rows; /* a rank whose latest plan is another one; -1: none */
} asked;

/* Returns a hash of the whole forecast, to compare ranks. */
static uint64_t hash_forecast(const tdm_forecast *made) {
  uint64_t hash = made->measured_kernels;
  for (size_t i = 0; i < made->queue_count; i++) {
    hash = tdm_hash_string(made->queues[i].name, hash);
    hash = tdm_hash_bytes(&made->queues[i].busy_ns, sizeof(double), hash);
  }
  for (size_t i = 0; i < made->link_count; i++) {
    hash = tdm_hash_string(made->links[i].name, hash);
    hash = tdm_hash_bytes(&made->links[i].bytes, sizeof(double), hash);
  }
  return hash;
}

static double busy_ns(const tdm_forecast *made, const char *name) {
  for (size_t i = 0; i < made->queue_count; i++)
    if (strcmp(made->queues[i].name, name) == 0) return made->queues[i].busy_ns;
  return 0;
}

static tdm_status plan_session(const job_rank *rank, tdm_session *session) {
  const asked *wanted = rank->user;
  const int64_t rows = ROWS + (rank->rank == wanted->more_rows);
  if (wanted->trains) {
    test_batch batch;
    test_batch_make(&batch, rank->context, rows, 1);
    const tdm_status status = tdm_session_prepare(session, batch.feeds, 2, NULL, 0, true);
    test_batch_release(&batch);
    return status;
  }
  tdm_fetch fetches[2] = {{"y", NULL}, {wanted->also, NULL}};
  const tdm_feed feed = {
      "x", tdm_tensor_zeros(rank->context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, rows, IN)), false};
  const tdm_status status =
      tdm_session_prepare(session, &feed, 1, fetches, wanted->also ? 2 : 1, false);
  tdm_tensor_release(feed.tensor);
  return status;
}

static tdm_status forecast_session(job_rank *rank, tdm_session *session) {
  const asked *wanted = rank->user;
  tdm_costs *costs = rank->rank == wanted->unpriced ? NULL : price(session);
  const tdm_forecast_options options = OPTIONS(tdm_forecast_options, o.costs = costs);
  tdm_forecast *made;
  tdm_status status = tdm_session_forecast(session, &options, &made);
  if (status == TDM_OK) {
    rank->loss = made->step_ns;
    rank->hash = hash_forecast(made);
    if (wanted->queue) rank->number = (uint64_t)busy_ns(made, wanted->queue);
    if (wanted->link) rank->number = (uint64_t)forecast_link(made, wanted->link)->bytes;
    if (made->ranks != (uint32_t)rank->rank_count) status = tdm_fail(TDM_INTERNAL, "other ranks");
  }
  tdm_forecast_release(made);
  tdm_costs_release(costs);
  return status;
}

/* Records the assumed links between ranks as measured, with the ratio for both ways. */
static tdm_status measure_links(tdm_context *context, const asked *wanted) {
  tdm_links *links = tdm_context_links(context);
  for (int a = 0; a < tdm_context_rank_count(context); a++)
    for (int b = 0; b < tdm_context_rank_count(context); b++) {
      tdm_link_estimate *estimate = tdm_links_at(links, tdm_context_host_of(context, a),
                                                 tdm_context_host_of(context, b), false);
      if (!estimate) continue;
      estimate->origin = TDM_LINK_CALIBRATED;
      estimate->both_ways = wanted->both_ways;
      estimate->knot_count = wanted->ratio > 0;
      estimate->knots[0] = (tdm_link_knot){1024, {wanted->ratio, wanted->ratio, wanted->ratio}};
    }
  if (wanted->sums_of_ns > 0)
    *tdm_links_all_reduce(links) =
        (tdm_link_estimate){.origin = TDM_LINK_CALIBRATED,
                            .link = {.latency_ns = 50000, .bytes_per_ns = 1 / wanted->sums_of_ns}};
  return TDM_OK;
}

static tdm_status forecast_rank(job_rank *rank) {
  const asked *wanted = rank->user;
  tdm_value loss = {0};
  if (wanted->both_ways > 0) TDM_TRY(measure_links(rank->context, wanted));
  tdm_graph *graph = wanted->build(rank, &loss);
  const job_model model = {
      .optimizer = tdm_sgd(0.1), .collective = wanted->collective, .any_order = true};
  tdm_session *session = job_session(graph, loss, wanted->trains ? &model : NULL);
  if (!session) return TDM_INTERNAL;
  tdm_status status = plan_session(rank, session);
  if (status == TDM_OK) status = forecast_session(rank, session);
  tdm_session_release(session);
  return status;
}

/* Returns the step duration, which all ranks must agree on, as well as on the rest of the
 * forecast. */
static double step_ns(const asked *wanted, int rank_count, job_rank *ranks) {
  const job_options options = {.rank_count = rank_count, .cpu_devices = 2, .user = wanted};
  job_must(&options, forecast_rank, ranks);
  for (int r = 1; r < rank_count; r++) {
    assert_true(ranks[r].loss == ranks[0].loss);
    assert_true(ranks[r].hash == ranks[0].hash);
  }
  return ranks[0].loss;
}

/* ---- By hand --------------------------------------------------------------------------------- */

static tdm_value input_of(tdm_graph *graph) {
  return tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), IN));
}

/* Builds fc0 on rank 0 and fc1 on rank 1. Both ranks deliver the result of fc1. */
static tdm_graph *build_chain(job_rank *rank, tdm_value *out_loss) {
  (void)out_loss;
  tdm_graph *graph = tdm_graph_create(rank->context);
  tdm_place(graph, "host:0/cpu:0");
  const tdm_value x = tdm_linear(graph, "fc0", input_of(graph), 3);
  tdm_place(graph, "host:1/cpu:0");
  tdm_output(graph, "y", tdm_linear(graph, "fc1", x, 2));
  return graph;
}

static void a_chain_over_two_ranks_is_what_it_is_by_hand(void **state) {
  (void)state;
  job_rank ranks[JOB_MOST_RANKS];
  const asked wanted = {.build = build_chain, .unpriced = -1, .more_rows = -1};
  const double there_ns = message_ns(ROWS * 3 * 4.0), back_ns = message_ns(ROWS * 2 * 4.0);
  assert_close(step_ns(&wanted, 2, ranks), 2 * KERNEL_NS + there_ns + back_ns);
}

/* Messages that are quicker than the link's line still are as many bytes. */
static void quick_messages_are_all_of_their_bytes(void **state) {
  (void)state;
  job_rank ranks[JOB_MOST_RANKS];
  const asked wanted = {.build = build_chain,
                        .both_ways = 1,
                        .ratio = 0.5,
                        .link = "host:0 -> host:1",
                        .unpriced = -1,
                        .more_rows = -1};
  const double there_ns = message_ns(ROWS * 3 * 4.0), back_ns = message_ns(ROWS * 2 * 4.0);
  assert_close(step_ns(&wanted, 2, ranks), 2 * KERNEL_NS + (there_ns + back_ns) / 2);
  assert_int_equal(ranks[0].number, ROWS * 3 * 4);
}

/* Builds the same on each rank's second device. The first device delivers the result. */
static tdm_graph *build_second_devices(job_rank *rank, tdm_value *out_loss) {
  (void)out_loss;
  tdm_graph *graph = tdm_graph_create(rank->context);
  tdm_place(graph, "host:0/cpu:1");
  const tdm_value x = tdm_linear(graph, "fc0", input_of(graph), 3);
  tdm_place(graph, "host:1/cpu:1");
  tdm_output(graph, "y", tdm_linear(graph, "fc1", x, 2));
  return graph;
}

static void copies_within_ranks_are_told_alike_by_all(void **state) {
  (void)state;
  job_rank ranks[JOB_MOST_RANKS];
  const asked wanted = {.build = build_second_devices, .unpriced = -1, .more_rows = -1};
  const double there_ns = message_ns(ROWS * 3 * 4.0), back_ns = message_ns(ROWS * 2 * 4.0);
  assert_true(step_ns(&wanted, 2, ranks) >= 2 * KERNEL_NS + there_ns + back_ns);
}

/* Builds fc1 on rank 1 and fc2 on rank 2, whose results rank 0 concatenates. */
static tdm_graph *build_fan(job_rank *rank, tdm_value *out_loss) {
  (void)out_loss;
  tdm_graph *graph = tdm_graph_create(rank->context);
  const tdm_value x = input_of(graph);
  tdm_place(graph, "host:1/cpu:0");
  const tdm_value one = tdm_linear(graph, "fc1", x, 3);
  tdm_place(graph, "host:2/cpu:0");
  const tdm_value two = tdm_linear(graph, "fc2", x, 3);
  tdm_place(graph, "host:0/cpu:0");
  tdm_output(graph, "y", tdm_matmul(graph, "y", tdm_transpose(graph, "t", one, 0, 1), two));
  return graph;
}

/* Checks that both messages to rank 0 flow concurrently and share its receiving rate. Its result,
 * (3, 3), is sent to the other ranks one after the other. */
static void messages_to_one_rank_share_its_port(void **state) {
  (void)state;
  job_rank ranks[JOB_MOST_RANKS];
  const asked wanted = {
      .build = build_fan, .queue = "host:0/cpu:0 compute", .unpriced = -1, .more_rows = -1};
  const double both_ns = message_ns(2 * ROWS * 3 * 4.0), out_ns = message_ns(3 * 3 * 4.0);
  const double found_ns = step_ns(&wanted, 3, ranks);
  const double kernels_ns = KERNEL_NS + (double)ranks[0].number;
  assert_close(found_ns, kernels_ns + both_ns + 2 * out_ns);
}

/* ---- Both directions concurrently ------------------------------------------------------------ */

/* fc0 on rank 0 and fc1, which has half of its columns, on rank 1: both deliver both. */
static tdm_graph *build_exchange(job_rank *rank, tdm_value *out_loss) {
  (void)out_loss;
  tdm_graph *graph = tdm_graph_create(rank->context);
  const tdm_value x = input_of(graph);
  tdm_place(graph, "host:0/cpu:0");
  tdm_output(graph, "y", tdm_linear(graph, "fc0", x, 6));
  tdm_place(graph, "host:1/cpu:0");
  tdm_output(graph, "z", tdm_linear(graph, "fc1", x, 3));
  return graph;
}

/* The smaller message shares the link with as many bytes of the larger one. The other half of that
 * then has the whole link. */
static void what_goes_both_ways_at_once_shares_what_the_link_has(void **state) {
  (void)state;
  job_rank ranks[JOB_MOST_RANKS];
  asked wanted = {.build = build_exchange, .also = "z", .unpriced = -1, .more_rows = -1};
  const double half = ROWS * 3 * 4.0;
  assert_close(step_ns(&wanted, 2, ranks), KERNEL_NS + message_ns(2 * half));
  static const double both_ways[] = {1, 1.6, 2};
  for (size_t i = 0; i < TDM_COUNT_OF(both_ways); i++) {
    wanted.both_ways = both_ways[i];
    assert_close(step_ns(&wanted, 2, ranks), KERNEL_NS + message_ns((both_ways[i] + 1) * half));
  }
}

/* Traffic in one direction changes nothing. */
static void a_chain_of_messages_is_no_exchange(void **state) {
  (void)state;
  job_rank ranks[JOB_MOST_RANKS];
  const asked wanted = {.build = build_chain, .both_ways = 2, .unpriced = -1, .more_rows = -1};
  const double there_ns = message_ns(ROWS * 3 * 4.0), back_ns = message_ns(ROWS * 2 * 4.0);
  assert_close(step_ns(&wanted, 2, ranks), 2 * KERNEL_NS + there_ns + back_ns);
}

/* Rank 1 sends rank 0 what that judges, and rank 0 rank 2. */
static tdm_graph *build_relay(job_rank *rank, tdm_value *out_loss) {
  (void)out_loss;
  tdm_graph *graph = tdm_graph_create(rank->context);
  const tdm_value x = input_of(graph);
  tdm_place(graph, "host:1/cpu:0");
  const tdm_value one = tdm_linear(graph, "fc1", x, 3);
  tdm_place(graph, "host:0/cpu:0");
  const tdm_value zero = tdm_linear(graph, "fc0", x, 3);
  tdm_output(graph, "y", tdm_mean(graph, "y", one, &(int){0}, 1, false));
  tdm_place(graph, "host:2/cpu:0");
  tdm_output(graph, "z", tdm_mean(graph, "z", zero, &(int){0}, 1, false));
  return graph;
}

/* Checks that one machine's sent and received messages share one rate, for all peers. The means, of
 * 3 numbers each, are sent to two ranks one after the other. */
static void a_machine_that_sends_and_receives_has_one_rate_for_both(void **state) {
  (void)state;
  job_rank ranks[JOB_MOST_RANKS];
  asked wanted = {.build = build_relay, .also = "z", .unpriced = -1, .more_rows = -1};
  const double bytes = ROWS * 3 * 4.0, small_ns = message_ns(12);
  double found_ns[2];
  for (int i = 0; i < 2; i++) {
    wanted.both_ways = i == 0 ? 0 : 1.6;
    found_ns[i] = step_ns(&wanted, 3, ranks);
  }
  const double alone_ns = 2 * KERNEL_NS + message_ns(bytes) + 2 * small_ns;
  if (found_ns[0] < alone_ns || found_ns[0] > alone_ns + 5 * KERNEL_NS)
    fail_msg("%.0f ns, by hand %.0f", found_ns[0], alone_ns);
  const double more_ns = message_ns(1.6 * bytes) - message_ns(bytes);
  if (found_ns[1] < found_ns[0] + more_ns - 1 || found_ns[1] > found_ns[0] + more_ns + KERNEL_NS)
    fail_msg("%.0f ns, by hand %.0f", found_ns[1], found_ns[0] + more_ns);
}

/* ---- Training -------------------------------------------------------------------------------- */

static tdm_graph *build_replicas(job_rank *rank, tdm_value *out_loss) {
  tdm_graph *graph = seed_graph(rank->context, "host:0/cpu:0", "host:0/cpu:0", out_loss);
  return graph;
}

static tdm_graph *build_parallel(job_rank *rank, tdm_value *out_loss) {
  tdm_graph *graph = build_replicas(rank, out_loss);
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = "host:*/cpu:0");
  tdm_data_parallel(graph, "", &options);
  return graph;
}

/* Reports the prediction for a ring, and the selected algorithm. */
static tdm_status choose_rank(job_rank *rank) {
  const asked *wanted = rank->user;
  tdm_value loss = {0};
  TDM_TRY(measure_links(rank->context, wanted));
  tdm_graph *graph = wanted->build(rank, &loss);
  const job_model model = {.optimizer = tdm_sgd(0.1), .any_order = true};
  tdm_session *session = job_session(graph, loss, &model);
  if (!session) return TDM_INTERNAL;
  const tdm_status status = plan_session(rank, session);
  if (status == TDM_OK) {
    rank->loss = session->last_asked->sums.predicted_ns[TDM_COLLECTIVE_RING];
    rank->number = session->last_asked->sums.algorithm;
    rank->hash = session->last_asked->sums.bytes;
  }
  tdm_session_release(session);
  return status;
}

enum { WIDE = 512 };

static tdm_graph *build_wide(job_rank *rank, tdm_value *out_loss) {
  tdm_graph *graph = job_deep_graph(rank, 1, WIDE, tdm_relu, out_loss);
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = "host:*/cpu:0");
  tdm_data_parallel(graph, "model", &options);
  return graph;
}

/* Checks a ring of two that sends in both directions concurrently. Its bytes, with the pieces of
 * the last sum that still circulate, take 1.6 times as long, so all-reduces at 13 ns per byte are
 * faster. */
static void rings_are_chosen_by_what_links_have_both_ways(void **state) {
  (void)state;
  job_rank ranks[JOB_MOST_RANKS];
  asked wanted = {.build = build_wide,
                  .both_ways = 1,
                  .sums_of_ns = 13,
                  .trains = true,
                  .unpriced = -1,
                  .more_rows = -1};
  const job_options options = {.rank_count = 2, .user = &wanted};
  job_must(&options, choose_rank, ranks);
  assert_int_equal(ranks[0].number, TDM_COLLECTIVE_RING);
  const double alone_ns = ranks[0].loss;
  const double bytes = (double)ranks[0].hash, longest = MODEL_ROWS * WIDE * 4.0;
  assert_true(bytes > longest);
  wanted.both_ways = 1.6;
  job_must(&options, choose_rank, ranks);
  assert_int_equal(ranks[0].number, TDM_COLLECTIVE_ALL_REDUCE);
  assert_close(ranks[0].loss - alone_ns, 0.6 * (bytes + longest / 2) / 0.125);
}

/* Inspects the plan of rank 1 on rank 0. The engine's sums take their predicted time. The step
 * takes at least that, the update, and the vote. */
static void all_reduces_and_the_vote_hold_up_all_ranks(void **state) {
  (void)state;
  job_rank ranks[JOB_MOST_RANKS];
  asked wanted = {.build = build_parallel,
                  .queue = "all ranks",
                  .collective = TDM_COLLECTIVE_ALL_REDUCE,
                  .trains = true,
                  .unpriced = -1,
                  .more_rows = -1};
  for (int count = 2; count <= 4; count++) {
    const double found_ns = step_ns(&wanted, count, ranks);
    const double rounds = count == 2 ? 1 : 2;
    const double sums_ns = (double)ranks[0].number, vote_ns = 2 * rounds * 50000;
    assert_true(sums_ns >= vote_ns); /* the latencies of one all-reduce at least */
    assert_true(found_ns > sums_ns + vote_ns + 2 * KERNEL_NS);
    assert_true(found_ns < 10 * (sums_ns + vote_ns));
  }
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static void must_fail(const asked *wanted, tdm_status status, const char *text) {
  job_rank ranks[JOB_MOST_RANKS];
  const job_options options = {.rank_count = 2, .user = wanted};
  job_run(&options, forecast_rank, ranks);
  for (int r = 0; r < 2; r++) {
    assert_int_equal(ranks[r].status, status);
    if (!strstr(ranks[r].message, text)) fail_msg("rank %d: %s", r, ranks[r].message);
  }
}

static void what_was_not_measured_on_one_rank_all_are_told(void **state) {
  (void)state;
  asked wanted = {.build = build_chain, .unpriced = 1, .more_rows = -1};
  must_fail(&wanted, TDM_UNSUPPORTED, "rank 1: fc1: what it takes on");
}

static void other_plans_are_refused(void **state) {
  (void)state;
  asked wanted = {.build = build_chain, .unpriced = -1, .more_rows = 1};
  must_fail(&wanted, TDM_INVALID_ARGUMENT, "the latest plan of rank 1 is another");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_chain_over_two_ranks_is_what_it_is_by_hand),
      cmocka_unit_test(quick_messages_are_all_of_their_bytes),
      cmocka_unit_test(copies_within_ranks_are_told_alike_by_all),
      cmocka_unit_test(messages_to_one_rank_share_its_port),
      cmocka_unit_test(what_goes_both_ways_at_once_shares_what_the_link_has),
      cmocka_unit_test(a_chain_of_messages_is_no_exchange),
      cmocka_unit_test(a_machine_that_sends_and_receives_has_one_rate_for_both),
      cmocka_unit_test(rings_are_chosen_by_what_links_have_both_ways),
      cmocka_unit_test(all_reduces_and_the_vote_hold_up_all_ranks),
      cmocka_unit_test(what_was_not_measured_on_one_rank_all_are_told),
      cmocka_unit_test(other_plans_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
