/* The layout pass, with kernels that read and write an opaque blocked format. Reorders are placed
 * where formats differ, once per value. Values that leave a device or the plan are dense. */
#include <stdlib.h>

#include "graph/run/session.h"
#include "tests/graph/support.h"
#include "tests/options.h"
#include "tests/support/faulty_allocator.h"

enum { BLOCKED = 7, LANES = 4, ROWS = 6, COLUMNS = 5 };

/* ---- The format: rows in groups of LANES, padded; within a group the lanes of a column are
 * contiguous ---- */

static int64_t blocked_rows(const tdm_shape *shape) {
  return (shape->dims[0] + LANES - 1) / LANES * LANES;
}

static size_t blocked_bytes(const tdm_shape *shape) {
  return (size_t)(blocked_rows(shape) * shape->dims[1]) * sizeof(float);
}

static int64_t blocked_index(int64_t row, int64_t column, int64_t columns) {
  return row / LANES * LANES * columns + column * LANES + row % LANES;
}

/* ---- Kernels --------------------------------------------------------------------------------- */

static tdm_status prepare_twice(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  answer->input_formats[0] = BLOCKED;
  answer->output_formats[0] = BLOCKED;
  answer->output_bytes[0] = blocked_bytes(&request->outputs[0].shape);
  return TDM_OK;
}

/* Doubles the padding too: the test checks that padding is never read as rows. */
static tdm_status execute_twice(const tdm_kernel_call *call) {
  const float *x = call->inputs[0]; /* blocked (rows, columns) */
  float *y = call->outputs[0];      /* blocked (rows, columns) */
  const size_t count = blocked_bytes(&call->output_specs[0].shape) / sizeof(float);
  for (size_t i = 0; i < count; i++)
    y[i] = 2 * x[i];
  return TDM_OK;
}

static tdm_status prepare_reorder(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  answer->input_formats[0] = request->inputs[0].format;
  answer->output_formats[0] = request->outputs[0].format;
  if (request->outputs[0].format == BLOCKED)
    answer->output_bytes[0] = blocked_bytes(&request->outputs[0].shape);
  return TDM_OK;
}

static tdm_status execute_reorder(const tdm_kernel_call *call) {
  const tdm_shape *shape = &call->output_specs[0].shape;
  const float *from = call->inputs[0]; /* (rows, columns), one of the two blocked */
  float *to = call->outputs[0];
  const bool packs = call->output_specs[0].format == BLOCKED;
  for (int64_t row = 0; row < shape->dims[0]; row++)
    for (int64_t column = 0; column < shape->dims[1]; column++) {
      const int64_t dense = row * shape->dims[1] + column;
      const int64_t blocked = blocked_index(row, column, shape->dims[1]);
      to[packs ? blocked : dense] = from[packs ? dense : blocked];
    }
  return TDM_OK;
}

static const tdm_kernel twice_kernel = {.struct_size = sizeof(tdm_kernel),
                                        .operation = "test_twice",
                                        .executes = "cpu",
                                        .dtype = TDM_FLOAT32,
                                        .prepare = prepare_twice,
                                        .execute = execute_twice};

static const tdm_kernel reorder_kernel = {.struct_size = sizeof(tdm_kernel),
                                          .operation = "reorder",
                                          .executes = "cpu",
                                          .dtype = TDM_FLOAT32,
                                          .prepare = prepare_reorder,
                                          .execute = execute_reorder};

/* ---- The operation --------------------------------------------------------------------------- */

static tdm_status infer_twice(tdm_infer *infer) {
  infer->outputs[0].dtype = infer->inputs[0].dtype;
  infer->outputs[0].shape = infer->inputs[0].shape;
  return TDM_OK;
}

static tdm_status append_gradient(tdm_gradient *gradient);

static const tdm_operation twice_operation = {.struct_size = sizeof(tdm_operation),
                                              .name = "test_twice",
                                              .min_inputs = 1,
                                              .max_inputs = 1,
                                              .output_count = 1,
                                              .infer = infer_twice,
                                              .gradient = append_gradient};

static tdm_value twice(tdm_graph *graph, const char *name, tdm_value x) {
  return tdm_append(graph, &twice_operation, name, NULL, &x, 1, NULL);
}

static tdm_status append_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  tdm_gradient_set(gradient, 0,
                   twice(graph, tdm_gradient_name(gradient), tdm_gradient_of_output(gradient, 0)));
  return tdm_graph_status(graph);
}

/* ---- Helpers --------------------------------------------------------------------------------- */

static tdm_context *context; /* context of the test group, with both kernels */

static int begin_group(void **unused) {
  (void)unused;
  context = graph_context();
  assert_ok(tdm_kernel_register(context, &twice_kernel));
  assert_ok(tdm_kernel_register(context, &reorder_kernel));
  return 0;
}

static int end_group(void **unused) {
  (void)unused;
  tdm_context_release(context);
  return 0;
}

static tdm_value input_x(tdm_graph *graph) {
  return tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("rows"), COLUMNS));
}

static tdm_tensor *draw_x(float *values) {
  for (int i = 0; i < ROWS * COLUMNS; i++)
    values[i] = (float)(i - 7) * 0.25f;
  return tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(2, ROWS, COLUMNS), values);
}

/* Runs "y" and demands x times factor. */
static void expect_times(tdm_session *session, float factor) {
  float values[ROWS * COLUMNS];
  tdm_tensor *x = draw_x(values);
  const tdm_feed feed = {.name = "x", .tensor = x};
  tdm_fetch y = {.name = "y"};
  assert_ok(tdm_run(session, &feed, 1, &y, 1));
  const float *got = tdm_tensor_data(y.tensor);
  for (int i = 0; i < ROWS * COLUMNS; i++)
    assert_true(got[i] == factor * values[i]);
  tdm_tensor_release(y.tensor);
  tdm_tensor_release(x);
}

/* Each reorder reads only the value that it reorders. */
static int count_reorders(const tdm_session *session) {
  const tdm_graph *graph = &session->newest->graph;
  int count = 0;
  TDM_EACH_NODE(graph, node) {
    if (node->role != TDM_ROLE_REORDER) continue;
    assert_int_equal(node->input_count, 1);
    assert_int_equal(node->output_count, 1);
    count++;
  }
  return count;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void a_chain_is_packed_and_unpacked_once(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, "cpu:0");
  tdm_value y = input_x(graph);
  for (int i = 0; i < 4; i++)
    y = twice(graph, "twice", y);
  tdm_output(graph, "y", y);
  tdm_session *session = run_session(graph, NULL);
  expect_times(session, 16);
  assert_int_equal(count_reorders(session), 2);
  tdm_session_release(session);
}

static void readers_of_a_value_share_its_reorder(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, "cpu:0");
  const tdm_value x = input_x(graph);
  /* x is packed once for its two readers; a and b are unpacked, once each, for the dense sums. */
  const tdm_value a = twice(graph, "a", x);
  const tdm_value b = twice(graph, "b", x);
  const tdm_value sum = tdm_add(graph, "sum", tdm_add(graph, "ab", a, b), a);
  tdm_output(graph, "y", sum);
  tdm_session *session = run_session(graph, WITH(tdm_session_options, o.unmerged = true));
  expect_times(session, 6);
  assert_int_equal(count_reorders(session), 3);
  tdm_session_release(session);
}

static void what_crosses_is_dense(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, "cpu:0");
  const tdm_value here = twice(graph, "here", input_x(graph));
  tdm_place(graph, "sim:0");
  tdm_output(graph, "y", twice(graph, "there", here));
  tdm_session *session = run_session(graph, NULL);
  expect_times(session, 4);
  assert_int_equal(count_reorders(session), 4);
  tdm_traffic traffic;
  assert_ok(tdm_session_traffic(session, &traffic));
  assert_int_equal(traffic.edge_transfers, 1);
  assert_int_equal(traffic.edge_bytes, ROWS * COLUMNS * sizeof(float)); /* without padding */
  tdm_session_release(session);
}

/* A value that two devices read packed is packed on each, since packed values are not copied to
 * other devices. */
static void each_device_packs_what_it_reads(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, "cpu:0");
  const tdm_value x = input_x(graph);
  const tdm_value here = twice(graph, "here", x);
  tdm_place(graph, "sim:0");
  const tdm_value there = twice(graph, "there", x);
  tdm_place(graph, "cpu:0");
  tdm_output(graph, "y", tdm_add(graph, "sum", here, there));
  tdm_session *session = run_session(graph, NULL);
  expect_times(session, 4);
  assert_int_equal(count_reorders(session), 4);
  tdm_traffic traffic;
  assert_ok(tdm_session_traffic(session, &traffic));
  assert_int_equal(traffic.edge_transfers, 1); /* back */
  assert_int_equal(traffic.edge_bytes, ROWS * COLUMNS * sizeof(float));
  assert_int_equal(traffic.boundary_bytes, ROWS * COLUMNS * sizeof(float));
  tdm_session_release(session);
}

static double train(tdm_value (*doubled)(tdm_graph *graph, const char *name, tdm_value x),
                    tdm_tensor_list **out_state, int *out_reorders) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, "cpu:0");
  const tdm_value x = input_x(graph);
  const tdm_value hidden = doubled(graph, "double", tdm_linear(graph, "in", x, COLUMNS));
  tdm_place(graph, "sim:0");
  const tdm_value scores = doubled(graph, "again", tdm_linear(graph, "out", hidden, COLUMNS));
  tdm_session *session =
      train_session(graph, tdm_mse(graph, "loss", scores, x), tdm_sgd(0.01), NULL);
  float values[ROWS * COLUMNS];
  tdm_tensor *fed = draw_x(values);
  const tdm_feed feed = {.name = "x", .tensor = fed};
  double loss = 0;
  for (int i = 0; i < 5; i++)
    assert_ok(tdm_train_step(session, &feed, 1, NULL, 0, &loss));
  *out_state = state_of(session);
  *out_reorders = count_reorders(session);
  tdm_tensor_release(fed);
  tdm_session_release(session);
  return loss;
}

static tdm_value added(tdm_graph *graph, const char *name, tdm_value x) {
  return tdm_add(graph, name, x, x);
}

static void training_through_it_gives_the_same_bits(void **unused) {
  (void)unused;
  tdm_tensor_list *blocked;
  tdm_tensor_list *dense;
  int reorders[2];
  const double blocked_loss = train(twice, &blocked, &reorders[0]);
  const double dense_loss = train(added, &dense, &reorders[1]);
  assert_true(blocked_loss == dense_loss);
  assert_same_state(blocked, dense);
  assert_int_equal(reorders[0], 8); /* into and out of each of the four nodes */
  assert_int_equal(reorders[1], 0);
  tdm_tensor_list_release(blocked);
  tdm_tensor_list_release(dense);
}

static void without_a_reorder_kernel_the_value_is_named(void **unused) {
  (void)unused;
  tdm_context *bare = graph_context();
  assert_ok(tdm_kernel_register(bare, &twice_kernel));
  tdm_graph *graph = tdm_graph_create(bare);
  tdm_place(graph, "cpu:0");
  tdm_output(graph, "y", twice(graph, "lonely", input_x(graph)));
  tdm_session *session = run_session(graph, NULL);
  tdm_tensor *x = tdm_tensor_zeros(bare, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, COLUMNS));
  const tdm_feed feed = {.name = "x", .tensor = x};
  const tdm_fetch y = {.name = "y"};
  assert_status(tdm_session_prepare(session, &feed, 1, &y, 1, false), TDM_UNSUPPORTED);
  assert_message("reorder");
  assert_message("cpu:0");
  tdm_tensor_release(x);
  tdm_session_release(session);
  tdm_context_release(bare);
}

/* The Nth allocation of a plan fails, for every N until none does. So many values are packed and
 * unpacked that each list grows during planning. */
static void short_memory_is_told(void **unused) {
  (void)unused;
  enum { PARTS = 64, LAYERS = 8 };
  tdm_faulty_allocator *faulty = tdm_faulty_allocator_create();
  const tdm_allocator allocator = tdm_faulty_allocator_view(faulty);
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.allocator = &allocator, o.cpu_devices = 1, o.sim_devices = 0);
  tdm_context *mine = tdm_context_create(&options);
  assert_non_null(mine);
  assert_ok(tdm_kernel_register(mine, &twice_kernel));
  assert_ok(tdm_kernel_register(mine, &reorder_kernel));
  tdm_graph *graph = tdm_graph_create(mine);
  tdm_value y = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, PARTS, COLUMNS));
  for (int i = 0; i < LAYERS; i++) {
    tdm_value parts[PARTS];
    tdm_split_evenly(graph, "parts", y, 0, PARTS, parts);
    for (int k = 0; k < PARTS; k++)
      parts[k] = twice(graph, "packed", parts[k]);
    y = tdm_concat(graph, "dense", parts, PARTS, 0);
  }
  tdm_output(graph, "y", y);
  tdm_session *session = run_session(graph, NULL);
  tdm_tensor *x = tdm_tensor_zeros(mine, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, PARTS, COLUMNS));
  const tdm_feed feed = {.name = "x", .tensor = x};
  const tdm_fetch fetch = {.name = "y"};
  for (uint64_t n = 1;; n++) {
    tdm_faulty_allocator_arm(faulty, n, false);
    const tdm_status status = tdm_session_prepare(session, &feed, 1, &fetch, 1, false);
    const bool failed = tdm_faulty_allocator_failures(faulty) > 0;
    tdm_faulty_allocator_arm(faulty, 0, false);
    assert_int_equal(status, failed ? TDM_OUT_OF_MEMORY : TDM_OK);
    if (!failed) break;
  }
  assert_int_equal(count_reorders(session), 2 * PARTS * LAYERS);
  tdm_tensor_release(x);
  tdm_session_release(session);
  tdm_context_close(mine, NULL, NULL);
  tdm_context_release(mine);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(faulty), 0);
  tdm_faulty_allocator_destroy(faulty);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_chain_is_packed_and_unpacked_once),
      cmocka_unit_test(readers_of_a_value_share_its_reorder),
      cmocka_unit_test(what_crosses_is_dense),
      cmocka_unit_test(each_device_packs_what_it_reads),
      cmocka_unit_test(training_through_it_gives_the_same_bits),
      cmocka_unit_test(without_a_reorder_kernel_the_value_is_named),
      cmocka_unit_test(short_memory_is_told),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
