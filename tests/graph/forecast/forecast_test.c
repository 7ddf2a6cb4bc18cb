/* Forecasts of small models on a described machine by hand, and of this machine's devices by
 * measurements; and refusals, by name. */
#include <stdlib.h>

#include "graph/forecast/costs.h"
#include "graph/run/session.h"
#include "tests/graph/forecast/support.h"
#include "tests/options.h"

/* ---- A described device ---------------------------------------------------------------------- */

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
  tdm_forecast *made = forecast(session, NULL);
  const double up_ns = 5000 + 128 / 10.0;
  const double kernel_ns = 3000 + 284;
  const double down_ns = 5000 + 96 / 10.0;
  assert_close(made->step_ns, up_ns + kernel_ns + down_ns);
  assert_int_equal(made->modelled_kernels, 1);
  assert_int_equal(made->measured_kernels, 0);
  assert_int_equal(made->queue_count, 3);
  assert_int_equal(made->link_count, 2);
  const tdm_forecast_link *down = forecast_link(made, "paper:2 up to the host");
  assert_close(down->bytes, 96);
  assert_int_equal(down->copies, 1);
  assert_close(down->busy_ns, down_ns);
  assert_close(forecast_link(made, "paper:2 down from the host")->critical_ns, up_ns);
  tdm_forecast_release(made);
  /* It is forecast, and not run. */
  assert_int_equal(tdm_run(session, feeds, 1, fetches, 1), TDM_UNSUPPORTED);
  assert_non_null(strstr(tdm_last_message(), "paper:2 is only described"));
  tdm_tensor_release(x);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* 64 x 64 by 64 x 64: 2 x 64^3 flops at 2 a ns take longer than 49408 bytes. A dtype without a
 * description has no rate. */
static void a_product_takes_its_flops(void **state) {
  (void)state;
  enum { N = 64 };
  tdm_context *context = described_context();
  for (int wide = 0; wide < 2; wide++) {
    const tdm_dtype dtype = wide ? TDM_FLOAT64 : TDM_FLOAT32;
    tdm_graph *graph = tdm_graph_create(context);
    if (wide) tdm_scope_dtype(graph, dtype);
    tdm_place(graph, "paper:0");
    const tdm_value x = tdm_input(graph, "x", dtype, tdm_shape_of(2, N, N));
    tdm_output(graph, "y", tdm_linear(graph, "fc", x, N));
    tdm_session *session = run_session(graph, NULL);
    tdm_tensor *fed = tdm_tensor_zeros(context, "cpu:0", dtype, tdm_shape_of(2, N, N));
    const tdm_feed feed = {"x", fed, false};
    const tdm_fetch fetch = {"y", NULL};
    assert_ok(tdm_session_prepare(session, &feed, 1, &fetch, 1, false));
    tdm_forecast *made = NULL;
    const tdm_status status = tdm_session_forecast(session, NULL, &made);
    assert_int_equal(status, wide ? TDM_UNSUPPORTED : TDM_OK);
    if (wide) assert_message("is described without flops_per_second of float64");
    const double bytes = N * N * 4, flops = 2.0 * N * N * N;
    if (!wide) assert_close(made->step_ns, 2 * (5000 + bytes / 10) + 3000 + flops / 2);
    tdm_forecast_release(made);
    tdm_tensor_release(fed);
    tdm_session_release(session);
  }
  tdm_context_release(context);
}

/* ---- Micro-batches --------------------------------------------------------------------------- */

enum { STAGES = 4, STAGE_WIDTH = 64, CLASSES = 16, PARTS = 8 };

/* Layers on four devices, one after the other, on rows of a batch in parts. */
static double step_of_stages(tdm_context *context, bool reshaped, int micro_batches) {
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_dim one = 1;
  tdm_graph *graph = tdm_graph_create(context);
  tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, batch, STAGE_WIDTH));
  tdm_value y = tdm_input(graph, "y", TDM_INT64,
                          reshaped ? tdm_shape_of(2, batch, one) : tdm_shape_of(1, batch));
  for (int i = 0; i < STAGES; i++) {
    char name[24];
    (void)snprintf(name, sizeof name, "paper:%d", i);
    tdm_place(graph, name);
    (void)snprintf(name, sizeof name, "fc%d", i);
    x = tdm_linear(graph, name, x, i + 1 < STAGES ? STAGE_WIDTH : CLASSES);
  }
  if (reshaped) y = tdm_reshape(graph, "flat", y, tdm_shape_of(1, TDM_INFER));
  tdm_session *session =
      train_session(graph, tdm_cross_entropy(graph, "loss", x, y), tdm_sgd(0.1),
                    WITH(tdm_session_options, o.micro_batches = OR_ONE(micro_batches)));
  const int64_t rows = 4096;
  tdm_tensor *fed_x =
      tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, rows, STAGE_WIDTH));
  tdm_tensor *fed_y = tdm_tensor_zeros(
      context, "cpu:0", TDM_INT64, reshaped ? tdm_shape_of(2, rows, one) : tdm_shape_of(1, rows));
  const tdm_feed feeds[] = {{"x", fed_x, false}, {"y", fed_y, false}};
  assert_ok(tdm_session_prepare(session, feeds, 2, NULL, 0, true));
  tdm_forecast *made = forecast(session, NULL);
  const double step_ns = made->step_ns;
  tdm_forecast_release(made);
  tdm_tensor_release(fed_x);
  tdm_tensor_release(fed_y);
  tdm_session_release(session);
  return step_ns;
}

/* The divisor counts the targets of all parts, which are reshaped part by part. No part is delayed
 * by this. */
static void targets_that_are_reshaped_hold_no_part_up(void **state) {
  (void)state;
  tdm_context *context = described_context();
  const double whole_ns = step_of_stages(context, true, 0);
  const double flat_ns = step_of_stages(context, false, PARTS);
  const double reshaped_ns = step_of_stages(context, true, PARTS);
  if (reshaped_ns > 1.05 * flat_ns || reshaped_ns > 0.6 * whole_ns)
    fail_msg("%.0f ns; not reshaped %.0f, without parts %.0f", reshaped_ns, flat_ns, whole_ns);
  tdm_context_release(context);
}

/* ---- Measured kernels ------------------------------------------------------------------------ */

/* On one device a step is the sum of its kernels. */
static void a_measured_step_is_the_sum_of_its_kernels(void **state) {
  (void)state;
  tdm_context *context = described_context();
  tdm_value loss;
  tdm_graph *graph = seed_graph(context, "cpu:1", "cpu:1", &loss);
  const tdm_session_options options = OPTIONS(tdm_session_options, o.profile = true);
  tdm_session *session = train_session(graph, loss, tdm_sgd(0.1), &options);
  tdm_costs *costs = tdm_costs_create(context);
  assert_int_equal(tdm_costs_learn(costs, session, false), TDM_INVALID_ARGUMENT);
  (void)train_steps(session, 12, 5);
  tdm_forecast *made;
  assert_int_equal(tdm_session_forecast(session, NULL, &made), TDM_UNSUPPORTED);
  assert_non_null(strstr(tdm_last_message(), "on cpu:1 was not measured: cpu/"));
  assert_null(made);
  assert_ok(tdm_costs_learn(costs, session, false));
  made = forecast(session, costs);
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

/* A host without a description is measured like other present devices. */
static void a_host_that_is_not_described_is_measured(void **state) {
  (void)state;
  tdm_context *context = described_context();
  tdm_value loss;
  tdm_graph *graph = seed_graph(context, "cpu:0", "cpu:0", &loss);
  tdm_session *session = train_session(graph, loss, tdm_sgd(0.1), NULL);
  (void)train_steps(session, 12, 1);
  tdm_forecast *made;
  assert_int_equal(tdm_session_forecast(session, NULL, &made), TDM_UNSUPPORTED);
  assert_message("on cpu:0 was not measured: cpu/");
  assert_null(made);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* ---- Work that a run skips ------------------------------------------------------------------- */

/* A table on paper:0 whose gradients are of rows, read there and on paper:1. */
static tdm_session *rows_session(tdm_context *context, int64_t table_rows) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_embedding_options sparse = OPTIONS(tdm_embedding_options, o.sparse = true);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_place(graph, "paper:0");
  const tdm_value left = tdm_embedding_with(graph, "table", ids, table_rows, 8, &sparse);
  tdm_place(graph, "paper:1");
  tdm_tie(graph, "table", "table");
  const tdm_value right = tdm_embedding_with(graph, "table", ids, table_rows, 8, &sparse);
  return train_session(graph, tdm_mse(graph, "loss", left, right), tdm_sgd(0.1), NULL);
}

/* After one update a copy of the table lacks that update's rows. Only these are transferred, and
 * counted in the plan's traffic, neither the whole table nor the rows of earlier updates. */
static void of_a_table_the_latest_rows_cross(void **state) {
  (void)state;
  static const int64_t table_rows[] = {20, 1000}; /* the first is copied whole */
  for (size_t i = 0; i < TDM_COUNT_OF(table_rows); i++) {
    tdm_context *context = described_context();
    tdm_session *session = rows_session(context, table_rows[i]);
    tdm_tensor *ids = tdm_tensor_zeros(context, "cpu:0", TDM_INT64, tdm_shape_of(1, 6));
    const tdm_feed feed = {"ids", ids, false};
    assert_ok(tdm_session_prepare(session, &feed, 1, NULL, 0, true));
    tdm_forecast *made = forecast(session, NULL);
    tdm_traffic traffic;
    assert_ok(tdm_session_traffic(session, &traffic));
    const tdm_forecast_link *out = forecast_link(made, "paper:0 to its peers");
    const tdm_forecast_link *back = forecast_link(made, "paper:1 to its peers");
    assert_close(out->bytes + back->bytes, (double)(traffic.edge_bytes + traffic.refresh_bytes));
    assert_int_equal(out->copies + back->copies,
                     traffic.edge_transfers + traffic.refresh_transfers);
    tdm_forecast_release(made);
    tdm_tensor_release(ids);
    tdm_session_release(session);
    tdm_context_release(context);
  }
}

/* ---- Measured costs -------------------------------------------------------------------------- */

/* Devices of one class have one cost per kernel: the mean over the steps of all these devices. */
static void devices_of_a_class_are_learned_together(void **state) {
  (void)state;
  tdm_context *context = described_context();
  tdm_graph *graph = tdm_graph_create(context);
  tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 4));
  tdm_place(graph, "cpu:0");
  x = tdm_linear(graph, "fc0", x, 4);
  tdm_place(graph, "cpu:1");
  tdm_output(graph, "y", tdm_linear(graph, "fc1", x, 4));
  tdm_session *session = run_session(graph, WITH(tdm_session_options, o.profile = true));
  for (int i = 0; i < 3; i++)
    tdm_tensor_release(run_on_uniform(session, 8, 4));
  tdm_costs *costs = tdm_costs_create(context);
  assert_ok(tdm_costs_learn(costs, session, false));
  const tdm_plan *plan = session->last_asked;
  double sum_ns = 0;
  int count = 0;
  char class_name[TDM_COST_CLASS], first[TDM_COST_CLASS], kernel[TDM_COST_KEY];
  tdm_cost_class(tdm_context_device(context, 0), first);
  for (size_t i = 0; i < plan->lowered.schedule.step_count; i++) {
    const tdm_ir_node *node = tdm_ir_node_at(&plan->graph, plan->lowered.sources[i].node);
    if (!node->operation) continue;
    tdm_cost_class(tdm_context_device(context, (size_t)node->device), class_name);
    if (strcmp(class_name, first) != 0) skip(); /* an odd number of cores */
    tdm_cost_kernel(&plan->graph, node, kernel, sizeof kernel);
    sum_ns += tdm_profile_median_ns(&plan->profile, i);
    count++;
  }
  assert_int_equal(count, 2);
  assert_close(tdm_costs_find(costs, class_name, kernel).alone_ns, sum_ns / count);
  tdm_costs_release(costs);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* A copy that another session has made new is passed over, as the first command of all. */
static void runs_that_pass_over_their_first_command_are_learned(void **state) {
  (void)state;
  tdm_context *context = graph_context();
  tdm_graph *graph = tied_graph(context, "cpu:0", "sim:0", NULL);
  tdm_graph_retain(graph);
  tdm_session *first = run_session(graph, NULL);
  test_batch batch;
  test_batch_make(&batch, context, 6, 1);
  tdm_tensor_release(run_once(first, &batch, "scores"));
  tdm_session *session = run_session(
      graph, WITH(tdm_session_options, o.profile = true, o.store = tdm_session_store(first)));
  tdm_tensor_release(run_once(session, &batch, "scores"));
  assert_true(tdm_profile_median_ns(&session->last_asked->profile, 0) < 0);
  tdm_costs *costs = tdm_costs_create(context);
  assert_ok(tdm_costs_learn(costs, session, false));
  tdm_costs_release(costs);
  test_batch_release(&batch);
  tdm_session_release(session);
  tdm_session_release(first);
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
  tdm_forecast *made = forecast(session, again);
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

/* ---- An operation of a user's own ------------------------------------------------------------ */

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

/* 100 flops per element, and no writes. */
static void own_work(const tdm_infer *node, tdm_work *work) {
  work->flops = 100 * (double)tdm_shape_count(&node->inputs[0].shape);
  work->bytes_written = 0;
}

/* Returns a forecast of the operation, or of it and another operation that states its work. */
static tdm_forecast *forecast_own(tdm_context *context, const tdm_operation *operation,
                                  bool alone) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, "paper:1");
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(1, 32));
  const tdm_value own = tdm_append(graph, operation, "own", NULL, &x, 1, NULL);
  tdm_output(graph, "y", alone ? own : tdm_tanh(graph, "bent", own));
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

/* Checks that an operation's record can define its work. A shorter record, from an older header,
 * defines none, for any bytes after it. */
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
  tdm_forecast *made = forecast_own(context, &operation, true);
  assert_non_null(made);
  const double kernel_ns = 3000 + 32 * 100 / 2.0;
  assert_close(made->step_ns, 2 * (5000 + 128 / 10.0) + kernel_ns);
  tdm_forecast_release(made);
  operation.struct_size = offsetof(tdm_operation, gradient_operation);
  assert_null(forecast_own(context, &operation, true));
  assert_non_null(strstr(tdm_last_message(), "own: nothing is known of how much work test_own is"));
  operation = (tdm_operation){.struct_size = sizeof operation,
                              .name = "test_own",
                              .min_inputs = 1,
                              .max_inputs = 1,
                              .output_count = 1,
                              .infer = infer_as_is};
  assert_null(forecast_own(context, &operation, true));
  tdm_context_release(context);
}

static tdm_status execute_no_part(const tdm_kernel_call *call, int64_t begin, int64_t end) {
  (void)call;
  (void)begin;
  (void)end;
  return TDM_OK;
}

static const tdm_kernel part_kernel = {.struct_size = sizeof(tdm_kernel),
                                       .operation = "test_part",
                                       .executes = "cpu",
                                       .dtype = TDM_FLOAT32,
                                       .execute = execute_nothing,
                                       .execute_part = execute_no_part};

/* It is computed together with what reads it, and refused for itself. */
static void a_member_that_does_not_say_its_work_is_refused(void **state) {
  (void)state;
  tdm_context *context = described_context();
  assert_ok(tdm_kernel_register(context, &part_kernel));
  const tdm_operation operation = {.struct_size = sizeof operation,
                                   .name = "test_part",
                                   .min_inputs = 1,
                                   .max_inputs = 1,
                                   .output_count = 1,
                                   .infer = infer_as_is,
                                   .elementwise = true};
  assert_null(forecast_own(context, &operation, false));
  assert_message("own+bent: nothing is known of how much work test_part is");
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
  assert_int_equal(tdm_session_forecast(session, UNMADE(tdm_forecast_options), &made),
                   TDM_INVALID_ARGUMENT);
  assert_non_null(strstr(tdm_last_message(), "tdm_forecast_options_default()"));
  assert_null(made);
  tdm_session_release(session);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_chain_is_what_it_is_by_hand),
      cmocka_unit_test(a_product_takes_its_flops),
      cmocka_unit_test(targets_that_are_reshaped_hold_no_part_up),
      cmocka_unit_test(a_measured_step_is_the_sum_of_its_kernels),
      cmocka_unit_test(a_host_that_is_not_described_is_measured),
      cmocka_unit_test(of_a_table_the_latest_rows_cross),
      cmocka_unit_test(devices_of_a_class_are_learned_together),
      cmocka_unit_test(runs_that_pass_over_their_first_command_are_learned),
      cmocka_unit_test(costs_are_kept_in_a_file),
      cmocka_unit_test(an_own_operation_says_its_work_or_is_refused),
      cmocka_unit_test(a_member_that_does_not_say_its_work_is_refused),
      cmocka_unit_test(what_cannot_be_told_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
