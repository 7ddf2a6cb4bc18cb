/* Forecasts: of small models on a described machine by hand, of rings and trees by their formulas,
 * of this machine's devices by what was measured; and what is refused, by name. */
#include <math.h>
#include <stdlib.h>

#include "graph/run/session.h"
#include "tests/graph/forecast/support.h"

static void assert_close(double found, double wanted) {
  if (fabs(found - wanted) > 1e-9 * fabs(wanted)) fail_msg("%.15g, not %.15g", found, wanted);
}

static const tdm_forecast_link *link_of(const tdm_forecast *made, const char *name) {
  for (size_t i = 0; i < made->link_count; i++)
    if (strcmp(made->links[i].name, name) == 0) return &made->links[i];
  fail_msg("there is no traffic on %s", name);
  return NULL;
}

/* ---- A described device ---- */

static tdm_session *linear_session(tdm_context *context, const char *device) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, device);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 4));
  tdm_output(graph, "y", tdm_linear(graph, "fc", x, 3));
  return run_session(graph, NULL);
}

/* x (8, 4) goes up: 128 bytes; y (8, 3) comes down: 96. The kernel does 2 x 8 x 3 x 4 = 192 flops,
 * 96 ns, and reads and writes 128 + 48 + 12 + 96 bytes, 284 ns, which is more. */
static void a_chain_is_what_it_is_by_hand(void **state) {
  (void)state;
  tdm_context *context = described_context();
  tdm_session *session = linear_session(context, "paper:2");
  tdm_tensor *x = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 8, 4));
  const tdm_feed feeds[] = {{"x", x, false}};
  tdm_fetch fetches[] = {{"y", NULL}};
  assert_ok(tdm_session_prepare(session, feeds, 1, fetches, 1, false));
  tdm_forecast *made = forecast(session, TDM_SUM_AS_PLANNED, NULL);
  const double up_ns = 5000 + 128 / 10.0;
  const double kernel_ns = 3000 + 284;
  const double down_ns = 5000 + 96 / 10.0;
  assert_close(made->step_ns, up_ns + kernel_ns + down_ns);
  assert_int_equal(made->modelled_kernels, 1);
  assert_int_equal(made->measured_kernels, 0);
  assert_int_equal(made->queue_count, 3);
  assert_int_equal(made->link_count, 2);
  const tdm_forecast_link *down = link_of(made, "paper:2 up to the host");
  assert_close(down->bytes, 96);
  assert_int_equal(down->copies, 1);
  assert_close(down->busy_ns, down_ns);
  assert_close(link_of(made, "paper:2 down from the host")->critical_ns, up_ns);
  tdm_forecast_release(made);
  /* It is forecast, and not run. */
  assert_int_equal(tdm_run(session, feeds, 1, fetches, 1), TDM_UNSUPPORTED);
  assert_non_null(strstr(tdm_last_message(), "paper:2 is only described"));
  tdm_tensor_release(x);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* ---- Rings and trees ---- */

enum { DEVICES = 4, WIDTH = 8, PARAMETERS = 4 };

/* x (batch, 8) -> two linear layers of 8, wrapped over all four devices, trained. */
static tdm_session *wrapped_session(tdm_context *context, tdm_optimizer optimizer) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, "paper:0");
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  const tdm_value y = tdm_input(graph, "y", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  const tdm_value hidden = tdm_relu(graph, "relu", tdm_linear(graph, "fc1", x, WIDTH));
  const tdm_value out = tdm_linear(graph, "fc2", hidden, WIDTH);
  const tdm_parallel_options wrap = {.struct_size = sizeof wrap,
                                     .devices = "paper:0,paper:1,paper:2,paper:3"};
  tdm_data_parallel(graph, "", &wrap);
  return train_session(graph, tdm_mse(graph, "loss", out, y), optimizer, NULL);
}

static void prepare(tdm_context *context, tdm_session *session) {
  const tdm_shape shape = tdm_shape_of(2, 16, WIDTH);
  tdm_tensor *x = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, shape);
  const tdm_feed feeds[] = {{"x", x, false}, {"y", x, false}};
  assert_ok(tdm_session_prepare(session, feeds, 2, NULL, 0, true));
  tdm_tensor_release(x);
}

/* Bytes and copies out of paper:index to its peers. */
static tdm_forecast_link sent_by(const tdm_forecast *made, int index) {
  char name[56];
  (void)snprintf(name, sizeof name, "paper:%d to its peers", index);
  return *link_of(made, name);
}

/* Beside what both ways move (rows of results and of their gradients), a device that is no home
 * sends each gradient once to the home; in a ring 2 (k - 1) pieces of 1 / k of it. */
static void rings_and_trees_move_what_their_formulas_say(void **state) {
  (void)state;
  tdm_context *context = described_context();
  tdm_session *session = wrapped_session(context, tdm_sgd(0.1));
  prepare(context, session);
  tdm_forecast *home = forecast(session, TDM_SUM_AS_PLANNED, NULL);
  tdm_forecast *ring = forecast(session, TDM_SUM_RING, NULL);
  tdm_forecast *tree = forecast(session, TDM_SUM_TREE, NULL);
  assert_int_equal(home->replaced_sums, 0);
  assert_int_equal(ring->replaced_sums, PARAMETERS);
  assert_int_equal(ring->kept_sums, 0);
  assert_int_equal(tree->replaced_sums, PARAMETERS);
  const double gradients = 2 * (WIDTH * WIDTH + WIDTH) * 4.0;
  double totals[3] = {0};
  uint32_t copies[3] = {0};
  for (int d = 0; d < DEVICES; d++) {
    const tdm_forecast_link sent[] = {sent_by(home, d), sent_by(ring, d), sent_by(tree, d)};
    for (int k = 0; k < 3; k++) {
      totals[k] += sent[k].bytes;
      copies[k] += sent[k].copies;
    }
    if (d == 0) continue;
    assert_close(sent[1].bytes - sent[0].bytes,
                 gradients * (2.0 * (DEVICES - 1) / DEVICES) - gradients);
    assert_int_equal(sent[1].copies - sent[0].copies, PARAMETERS * (2 * (DEVICES - 1) - 1));
  }
  /* In all, each way moves 2 (k - 1) times the gradients: the home's with the refreshes. */
  assert_close(totals[1], totals[0]);
  assert_close(totals[2], totals[0]);
  assert_int_equal(copies[1] - copies[0], PARAMETERS * 2 * (DEVICES - 1) * (DEVICES - 1));
  assert_int_equal(copies[2], copies[0]);
  /* Binomial: paper:2 sends the sum of two up, and the whole down to paper:3. */
  assert_close(sent_by(tree, 2).bytes - sent_by(home, 2).bytes, gradients);
  assert_close(sent_by(tree, 1).bytes, sent_by(home, 1).bytes);
  tdm_forecast_release(home);
  tdm_forecast_release(ring);
  tdm_forecast_release(tree);
  tdm_session_release(session);
  tdm_context_release(context);
}

static double busy_of(const tdm_forecast *made, const char *queue) {
  for (size_t i = 0; i < made->queue_count; i++)
    if (strcmp(made->queues[i].name, queue) == 0) return made->queues[i].busy_ns;
  fail_msg("nothing is done on %s", queue);
  return 0;
}

/* Clipping reads all sums before the updates: every device does it for itself. */
static void what_follows_the_sums_is_done_by_all(void **state) {
  (void)state;
  tdm_context *context = described_context();
  tdm_optimizer clipped = tdm_adam(0.1);
  clipped.clip_norm = 1;
  tdm_session *session = wrapped_session(context, clipped);
  prepare(context, session);
  tdm_forecast *home = forecast(session, TDM_SUM_AS_PLANNED, NULL);
  tdm_forecast *ring = forecast(session, TDM_SUM_RING, NULL);
  assert_int_equal(ring->replaced_sums, PARAMETERS);
  assert_int_equal(ring->kept_sums, 0);
  /* A norm for each, their sum, the factor, a scaling for each, an update for each: at least. */
  assert_true(busy_of(ring, "paper:3 compute") >
              busy_of(home, "paper:3 compute") + 3000.0 * (3 * PARAMETERS + 1));
  /* The home does no more of it than the others: what it has to do beside them is as without. */
  tdm_context *other = described_context();
  tdm_session *unclipped = wrapped_session(other, tdm_adam(0.1));
  prepare(other, unclipped);
  tdm_forecast *plain = forecast(unclipped, TDM_SUM_RING, NULL);
  assert_close(busy_of(ring, "paper:0 compute") - busy_of(ring, "paper:3 compute"),
               busy_of(plain, "paper:0 compute") - busy_of(plain, "paper:3 compute"));
  tdm_forecast_release(plain);
  tdm_session_release(unclipped);
  tdm_context_release(other);
  tdm_forecast_release(home);
  tdm_forecast_release(ring);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* A gradient that is put together where its parts lie has no step: its sum stays at home. */
static void a_gradient_in_parts_is_summed_at_home(void **state) {
  (void)state;
  tdm_context *context = described_context();
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, "paper:0");
  const tdm_shape shape = tdm_shape_of(2, TDM_DIM("batch"), WIDTH);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, shape);
  const tdm_value y = tdm_input(graph, "y", TDM_FLOAT32, shape);
  tdm_scope_push(graph, "affine");
  const tdm_value both = tdm_parameter(graph, "both", TDM_FLOAT32, tdm_shape_of(2, 2, WIDTH), NULL);
  const tdm_dim sizes[2] = {1, 1};
  tdm_value parts[2];
  tdm_split(graph, "split", both, 0, sizes, 2, parts);
  const tdm_value scaled = tdm_mul(graph, "scaled", x, parts[0]);
  const tdm_value out = tdm_add(graph, "shifted", scaled, parts[1]);
  tdm_scope_pop(graph);
  const tdm_parallel_options wrap = {.struct_size = sizeof wrap,
                                     .devices = "paper:0,paper:1,paper:2,paper:3"};
  tdm_data_parallel(graph, "affine", &wrap);
  tdm_session *session = train_session(graph, tdm_mse(graph, "loss", out, y), tdm_sgd(0.1), NULL);
  prepare(context, session);
  tdm_forecast *ring = forecast(session, TDM_SUM_RING, NULL);
  assert_int_equal(ring->replaced_sums, 0);
  assert_int_equal(ring->kept_sums, 1);
  tdm_forecast_release(ring);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* Sixteen layers of 4 MiB over the first `devices` of eight: 50 GB/s between peers, 10 GB/s to the
 * host, each as fast in float32 as such machines are. */
static const char eight_text[] =
    "{\"title\": \"eight\", \"sources\": [\"this test\"], \"devices_per_host\": 8, \"device\": "
    "{\"model\": \"toy\", \"flops_per_second\": {\"float32\": 2e13}, "
    "\"memory_bytes_per_second\": 1.5e12, \"launch_us\": 3}, \"peer\": {\"latency_us\": 2, "
    "\"bytes_per_second\": 50e9}, \"host_link\": {\"latency_us\": 5, \"bytes_per_second\": 10e9}}";

enum { LAYERS = 16, LAYER_WIDTH = 1024, LAYER_ROWS = 512, ENDS = 16 };

static tdm_session *deep_session(tdm_context *context, int devices, tdm_collective collective) {
  char list[128] = "";
  for (int d = 0; d < devices; d++)
    (void)snprintf(list + strlen(list), sizeof list - strlen(list), "%spaper:%d", d ? "," : "", d);
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, "paper:0");
  const tdm_shape shape = tdm_shape_of(2, TDM_DIM("batch"), ENDS);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, shape);
  const tdm_value y = tdm_input(graph, "y", TDM_FLOAT32, shape);
  tdm_scope_push(graph, "deep");
  tdm_value value = tdm_linear(graph, "first", x, LAYER_WIDTH);
  for (int i = 0; i < LAYERS; i++) {
    char name[16];
    (void)snprintf(name, sizeof name, "l%d", i);
    value = tdm_relu(graph, "relu", tdm_linear(graph, name, value, LAYER_WIDTH));
  }
  value = tdm_linear(graph, "last", value, ENDS);
  tdm_scope_pop(graph);
  const tdm_value loss = tdm_mse(graph, "loss", value, y);
  const tdm_parallel_options wrap = {.struct_size = sizeof wrap, .devices = list};
  tdm_data_parallel(graph, "deep", &wrap);
  tdm_session *session =
      train_session(graph, loss, tdm_sgd(0.1), &(tdm_session_options){.collective = collective});
  tdm_tensor *fed = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32,
                                     tdm_shape_of(2, (int64_t)devices * LAYER_ROWS, ENDS));
  const tdm_feed feeds[] = {{"x", fed, false}, {"y", fed, false}};
  assert_ok(tdm_session_prepare(session, feeds, 2, NULL, 0, true));
  tdm_tensor_release(fed);
  return session;
}

/* Over eight devices a step takes at most 1.1 of what it would if each updated its own copy, with
 * twice the gradients out of the home (its own to the chain, the copies) instead of seven times. */
static void chains_come_close_to_rings(void **state) {
  (void)state;
  tdm_context *context = context_of(eight_text);
  tdm_session *home = deep_session(context, 8, TDM_COLLECTIVE_HOME);
  tdm_session *chosen = deep_session(context, 8, TDM_COLLECTIVE_AUTO);
  tdm_forecast *at_home = forecast(home, TDM_SUM_AS_PLANNED, NULL);
  tdm_forecast *ring = forecast(home, TDM_SUM_RING, NULL);
  tdm_forecast *chain = forecast(chosen, TDM_SUM_AS_PLANNED, NULL);
  if (chain->step_ns > 1.1 * ring->step_ns || at_home->step_ns < 4 * chain->step_ns)
    fail_msg("%.0f us, in a ring %.0f, at home %.0f", chain->step_ns / 1e3, ring->step_ns / 1e3,
             at_home->step_ns / 1e3);
  assert_true(sent_by(chain, 0).bytes < 0.3 * sent_by(at_home, 0).bytes);
  tdm_forecast_release(at_home);
  tdm_forecast_release(ring);
  tdm_forecast_release(chain);
  tdm_session_release(home);
  tdm_session_release(chosen);
  tdm_context_release(context);
}

static void forecasts_repeat(void **state) {
  (void)state;
  tdm_context *context = described_context();
  tdm_session *session = wrapped_session(context, tdm_adam(0.1));
  prepare(context, session);
  for (int s = 0; s < TDM_SUM_COUNT; s++) {
    tdm_forecast *a = forecast(session, (tdm_summation)s, NULL);
    tdm_forecast *b = forecast(session, (tdm_summation)s, NULL);
    assert_true(a->step_ns == b->step_ns);
    assert_int_equal(a->queue_count, b->queue_count);
    assert_memory_equal(a->queues, b->queues, a->queue_count * sizeof *a->queues);
    assert_memory_equal(a->links, b->links, a->link_count * sizeof *a->links);
    double critical_ns = 0;
    for (size_t i = 0; i < a->queue_count; i++)
      critical_ns += a->queues[i].critical_ns;
    assert_close(critical_ns, a->step_ns);
    tdm_forecast_release(a);
    tdm_forecast_release(b);
  }
  tdm_session_release(session);
  tdm_context_release(context);
}

/* ---- Measured kernels ---- */

/* On one device a step is the sum of its kernels. */
static void a_measured_step_is_the_sum_of_its_kernels(void **state) {
  (void)state;
  tdm_context *context = described_context();
  tdm_value loss;
  tdm_graph *graph = seed_graph(context, "cpu:1", "cpu:1", &loss);
  const tdm_session_options options = {.struct_size = sizeof options, .profile = true};
  tdm_session *session = train_session(graph, loss, tdm_sgd(0.1), &options);
  tdm_costs *costs = tdm_costs_create(context);
  assert_int_equal(tdm_costs_learn(costs, session, false), TDM_INVALID_ARGUMENT);
  (void)train_steps(session, 12, 5);
  tdm_forecast *made;
  assert_int_equal(tdm_session_forecast(session, NULL, &made), TDM_UNSUPPORTED);
  assert_non_null(strstr(tdm_last_message(), "on cpu:1 was not measured: cpu/"));
  assert_null(made);
  assert_ok(tdm_costs_learn(costs, session, false));
  made = forecast(session, TDM_SUM_AS_PLANNED, costs);
  double sum_ns = 0;
  const tdm_plan *plan = session->last_asked;
  for (size_t i = 0; i < plan->lowered.schedule.step_count; i++) {
    const tdm_ir_node *node = tdm_ir_node_at(&plan->graph, plan->lowered.sources[i].node);
    if (node->operation) sum_ns += tdm_profile_median_ns(&plan->profile, i);
  }
  double busy_ns = 0;
  for (size_t i = 0; i < made->queue_count; i++)
    if (strcmp(made->queues[i].name, "cpu:1 compute") == 0) busy_ns = made->queues[i].busy_ns;
  double copies_ns = 0;
  for (size_t i = 0; i < made->link_count; i++)
    if (strcmp(made->links[i].name, "cpu:0 -> cpu:1") == 0) copies_ns = made->links[i].busy_ns;
  assert_close(busy_ns - copies_ns, sum_ns);
  assert_true(made->measured_kernels > 5);
  tdm_forecast_release(made);
  tdm_costs_release(costs);
  tdm_session_release(session);
  tdm_context_release(context);
}

static void write_file(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  (void)fclose(file);
}

static void costs_are_kept_in_a_file(void **state) {
  (void)state;
  tdm_context *context = described_context();
  char path[] = "/tmp/forecast_costs_XXXXXX";
  const int file = mkstemp(path);
  assert_true(file >= 0);
  write_file(path, "{\"format\": \"tandem costs\", \"version\": 1, \"kernels\": [{\"device\": "
                   "\"toy\", \"kernel\": \"linear#0(float32[8, 4], float32[3, 4], float32[3]) -> "
                   "(float32[8, 3])\", \"alone_ns\": 70000}]}");
  tdm_costs *costs = tdm_costs_create(context);
  assert_ok(tdm_costs_load(costs, path));
  assert_ok(tdm_costs_save(costs, path));
  tdm_costs *again = tdm_costs_create(context);
  assert_ok(tdm_costs_load(again, path));
  tdm_session *session = linear_session(context, "paper:0");
  tdm_tensor *x = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 8, 4));
  const tdm_feed feeds[] = {{"x", x, false}};
  const tdm_fetch fetches[] = {{"y", NULL}};
  assert_ok(tdm_session_prepare(session, feeds, 1, fetches, 1, false));
  tdm_forecast *made = forecast(session, TDM_SUM_AS_PLANNED, again);
  assert_int_equal(made->measured_kernels, 1);
  assert_close(made->step_ns, 5000 + 12.8 + 70000 + 5000 + 9.6);
  tdm_forecast_release(made);
  static const struct {
    const char *text;
    const char *named;
  } bad[] = {
      {"{", ":1: is no JSON"},
      {"{}", "is no file of \"tandem costs\""},
      {"{\"format\": \"tandem costs\", \"version\": 2, \"kernels\": []}", "another version"},
      {"{\"format\": \"tandem costs\", \"version\": 1, \"kernels\": [{}]}", "kernel 0: no device"},
      {"{\"format\": \"tandem costs\", \"version\": 1, \"kernels\": [{\"device\": \"a\", "
       "\"kernel\": \"b\", \"alone_ns\": -1}]}",
       "kernel 0: alone_ns is no time"},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(bad); i++) {
    write_file(path, bad[i].text);
    assert_int_equal(tdm_costs_load(costs, path), TDM_CORRUPT_DATA);
    assert_non_null(strstr(tdm_last_message(), bad[i].named));
  }
  (void)remove(path);
  assert_int_equal(tdm_costs_load(costs, path), TDM_UNAVAILABLE);
  tdm_tensor_release(x);
  tdm_session_release(session);
  tdm_costs_release(costs);
  tdm_costs_release(again);
  tdm_context_release(context);
}

/* ---- An operation of a user's own ---- */

static tdm_status infer_as_is(tdm_infer *infer) {
  infer->outputs[0] = infer->inputs[0];
  return TDM_OK;
}

static tdm_status execute_nothing(const tdm_kernel_call *call) {
  (void)call;
  return TDM_OK;
}

static const tdm_kernel own_kernel = {.struct_size = sizeof(tdm_kernel),
                                      .operation = "test_own",
                                      .executes = "cpu",
                                      .dtype = TDM_FLOAT32,
                                      .execute = execute_nothing};

/* 100 flops an element, and nothing is written. */
static void own_work(const tdm_infer *node, tdm_work *work) {
  work->flops = 100 * (double)tdm_shape_count(&node->inputs[0].shape);
  work->bytes_written = 0;
}

static tdm_forecast *forecast_own(tdm_context *context, const tdm_operation *operation) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, "paper:1");
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(1, 32));
  tdm_output(graph, "y", tdm_append(graph, operation, "own", NULL, &x, 1, NULL));
  tdm_session *session = run_session(graph, NULL);
  tdm_tensor *fed = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(1, 32));
  const tdm_feed feed = {"x", fed, false};
  const tdm_fetch fetch = {"y", NULL};
  assert_ok(tdm_session_prepare(session, &feed, 1, &fetch, 1, false));
  tdm_forecast *made;
  const tdm_status status = tdm_session_forecast(session, NULL, &made);
  assert_int_equal(status, made ? TDM_OK : TDM_UNSUPPORTED);
  tdm_tensor_release(fed);
  tdm_session_release(session);
  return made;
}

/* Its record tells its work; one that ends before that, as an older header has it, tells nothing,
 * whatever lies behind it. */
static void an_own_operation_says_its_work_or_is_refused(void **state) {
  (void)state;
  tdm_context *context = described_context();
  assert_ok(tdm_kernel_register(context, &own_kernel));
  tdm_operation operation = {.struct_size = sizeof operation,
                             .name = "test_own",
                             .min_inputs = 1,
                             .max_inputs = 1,
                             .output_count = 1,
                             .infer = infer_as_is,
                             .work = own_work};
  tdm_forecast *made = forecast_own(context, &operation);
  assert_non_null(made);
  const double kernel_ns = 3000 + 32 * 100 / 2.0;
  assert_close(made->step_ns, 2 * (5000 + 128 / 10.0) + kernel_ns);
  tdm_forecast_release(made);
  operation.struct_size = offsetof(tdm_operation, gradient_operation);
  assert_null(forecast_own(context, &operation));
  assert_non_null(strstr(tdm_last_message(), "own: nothing is known of how much work test_own is"));
  operation = (tdm_operation){.struct_size = sizeof operation,
                              .name = "test_own",
                              .min_inputs = 1,
                              .max_inputs = 1,
                              .output_count = 1,
                              .infer = infer_as_is};
  assert_null(forecast_own(context, &operation));
  tdm_context_release(context);
}

static void what_cannot_be_told_is_refused(void **state) {
  (void)state;
  tdm_context *context = described_context();
  tdm_session *session = linear_session(context, "paper:0");
  tdm_forecast *made;
  assert_int_equal(tdm_session_forecast(NULL, NULL, &made), TDM_INVALID_ARGUMENT);
  assert_int_equal(tdm_session_forecast(session, NULL, &made), TDM_INVALID_ARGUMENT);
  assert_non_null(strstr(tdm_last_message(), "no plan yet"));
  tdm_forecast_options options = {.struct_size = 3};
  assert_int_equal(tdm_session_forecast(session, &options, &made), TDM_INVALID_ARGUMENT);
  options = (tdm_forecast_options){.struct_size = sizeof options, .summation = TDM_SUM_COUNT};
  assert_int_equal(tdm_session_forecast(session, &options, &made), TDM_INVALID_ARGUMENT);
  assert_null(made);
  tdm_session_release(session);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_chain_is_what_it_is_by_hand),
      cmocka_unit_test(rings_and_trees_move_what_their_formulas_say),
      cmocka_unit_test(what_follows_the_sums_is_done_by_all),
      cmocka_unit_test(a_gradient_in_parts_is_summed_at_home),
      cmocka_unit_test(chains_come_close_to_rings),
      cmocka_unit_test(forecasts_repeat),
      cmocka_unit_test(a_measured_step_is_the_sum_of_its_kernels),
      cmocka_unit_test(costs_are_kept_in_a_file),
      cmocka_unit_test(an_own_operation_says_its_work_or_is_refused),
      cmocka_unit_test(what_cannot_be_told_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
