/* Nodes that are merged and nodes that must not be merged; unchanged bits; and reports of merged
 * nodes. */
#include <stdlib.h>

#include "graph/run/session.h"
#include "tests/graph/group.h"
#include "tests/options.h"

enum { ROWS = 4, WIDTH = 6, WORDS = 9 };

/* Creates a graph on cpu:0 with the input "x" (ROWS, WIDTH). */
static tdm_graph *begin_graph(tdm_value *out_x) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, "cpu:0");
  *out_x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH));
  return graph;
}

/* Runs with x; the output `name`. */
static tdm_tensor *run_on_x(tdm_session *session, const char *name) {
  tdm_tensor *x =
      tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH), 1, -1, 1);
  const tdm_feed feed = {.name = "x", .tensor = x};
  tdm_fetch fetch = {.name = name};
  assert_ok(tdm_run(session, &feed, 1, &fetch, 1));
  tdm_tensor_release(x);
  return fetch.tensor;
}

static tdm_session *unfused_session(tdm_graph *graph, bool unmerged) {
  tdm_graph_retain(graph);
  return run_session(graph, WITH(tdm_session_options, o.unfused = true, o.unmerged = unmerged));
}

/* The graph's output "y" has the same bits merged and unmerged, and that many nodes are not
 * computed again; releases the graph. */
static void expect_saved(tdm_graph *graph, tdm_value y, uint64_t nodes) {
  tdm_output(graph, "y", y);
  tdm_session *merged = unfused_session(graph, false);
  tdm_session *unmerged = unfused_session(graph, true);
  tdm_tensor *one = run_on_x(merged, "y");
  tdm_tensor *other = run_on_x(unmerged, "y");
  assert_same_tensor(one, other);
  assert_int_equal(merged->newest->common.nodes, nodes);
  assert_int_equal(unmerged->newest->common.nodes, 0);
  assert_int_equal(merged->newest->graph.order.count + nodes, unmerged->newest->graph.order.count);
  tdm_tensor_release(one);
  tdm_tensor_release(other);
  tdm_session_release(merged);
  tdm_session_release(unmerged);
  tdm_graph_release(graph);
}

/* ---- Merged nodes ---------------------------------------------------------------------------- */

static void equal_nodes_are_one(void **unused) {
  (void)unused;
  tdm_value x;
  tdm_graph *graph = begin_graph(&x);
  expect_saved(graph, tdm_add(graph, "sum", tdm_tanh(graph, "a", x), tdm_tanh(graph, "b", x)), 1);
}

static void chains_of_them_are_one(void **unused) {
  (void)unused;
  tdm_value x;
  tdm_graph *graph = begin_graph(&x);
  const tdm_value left = tdm_relu(graph, "left", tdm_tanh(graph, "a", x));
  const tdm_value right = tdm_relu(graph, "right", tdm_tanh(graph, "b", x));
  expect_saved(graph, tdm_mul(graph, "product", left, right), 2);
}

static void casts_are_one(void **unused) {
  (void)unused;
  tdm_value x;
  tdm_graph *graph = begin_graph(&x);
  const tdm_value a = tdm_cast(graph, "a", x, TDM_FLOAT64);
  const tdm_value b = tdm_cast(graph, "b", x, TDM_FLOAT64);
  expect_saved(graph, tdm_sub(graph, "y", a, tdm_exp(graph, "e", b)), 1);
}

/* Two look-ups of one table by one input, forward and back; a step later all bits are those of two
 * sessions that compute each. */
static void look_ups_are_one(void **unused) {
  (void)unused;
  tdm_tensor_list *states[2];
  for (int unmerged = 0; unmerged < 2; unmerged++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
    const tdm_value y = tdm_input(graph, "targets", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
    tdm_place(graph, "cpu:0");
    const tdm_value first = tdm_embedding(graph, "table", ids, MODEL_ROWS, MODEL_WIDTH);
    tdm_tie(graph, "table", "table");
    const tdm_value second = tdm_embedding(graph, "table", ids, MODEL_ROWS, MODEL_WIDTH);
    tdm_place(graph, "sim:0");
    const tdm_value product = tdm_mul(graph, "product", first, tdm_tanh(graph, "tanh", second));
    const tdm_value loss = tdm_cross_entropy(graph, "loss", product, y);
    tdm_session *session = train_session(graph, loss, tdm_adam(0.1),
                                         WITH(tdm_session_options, o.unmerged = unmerged != 0));
    (void)train_steps(session, WORDS, 3);
    assert_int_equal(session->newest->common.nodes, unmerged ? 0 : 1);
    assert_int_equal(session->newest->traffic.edge_transfers, unmerged ? 4 : 3);
    states[unmerged] = state_of(session);
    tdm_session_release(session);
  }
  assert_same_state(states[0], states[1]);
  tdm_tensor_list_release(states[0]);
  tdm_tensor_list_release(states[1]);
}

/* ---- Nodes that are not merged --------------------------------------------------------------- */

static void other_attributes_inputs_or_devices_are_apart(void **unused) {
  (void)unused;
  tdm_value x;
  tdm_graph *graph = begin_graph(&x);
  const tdm_value rows = tdm_sum(graph, "rows", x, (int[]){0}, 1, true);
  const tdm_value columns = tdm_sum(graph, "columns", x, (int[]){1}, 1, true);
  const tdm_value here = tdm_tanh(graph, "here", x);
  tdm_place(graph, "cpu:1");
  const tdm_value there = tdm_tanh(graph, "there", x);
  tdm_place(graph, "cpu:0");
  const tdm_value sums = tdm_add(graph, "sums", rows, columns);
  expect_saved(graph, tdm_mul(graph, "y", sums, tdm_sub(graph, "d", here, there)), 0);
}

static void what_is_delivered_stays(void **unused) {
  (void)unused;
  tdm_value x;
  tdm_graph *graph = begin_graph(&x);
  const tdm_value a = tdm_tanh(graph, "a", x);
  expect_saved(graph, tdm_tanh(graph, "b", x), 0);
  (void)a;
}

static int seen; /* observations; runs block */

static void count_observation(void *user, const tdm_observation *observation) {
  (void)user;
  (void)observation;
  seen++;
}

static void what_is_observed_stays(void **unused) {
  (void)unused;
  tdm_value x;
  tdm_graph *graph = begin_graph(&x);
  const tdm_value a = tdm_observe(graph, "one", tdm_tanh(graph, "a", x));
  const tdm_value b = tdm_observe(graph, "two", tdm_tanh(graph, "b", x));
  tdm_output(graph, "y", tdm_add(graph, "sum", a, b));
  tdm_session *session =
      run_session(graph, WITH(tdm_session_options, o.observer = count_observation));
  seen = 0;
  tdm_tensor_release(run_on_x(session, "y"));
  assert_int_equal(seen, 2);
  assert_int_equal(session->newest->common.nodes, 0);
  tdm_session_release(session);
}

/* Masks are drawn by the names of their layers. */
static void dropouts_are_apart(void **unused) {
  (void)unused;
  tdm_value x;
  tdm_graph *graph = begin_graph(&x);
  const tdm_value hidden = tdm_linear(graph, "linear", x, WIDTH);
  const tdm_value a = tdm_dropout(graph, "a", hidden, 0.5);
  const tdm_value b = tdm_dropout(graph, "b", hidden, 0.5);
  const tdm_value loss = tdm_mse(graph, "loss", tdm_mul(graph, "product", a, b), x);
  tdm_session *session = train_session(graph, loss, tdm_sgd(0.1), NULL);
  tdm_tensor *fed =
      tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH), 1, -1, 1);
  const tdm_feed feed = {.name = "x", .tensor = fed};
  assert_ok(tdm_train_step(session, &feed, 1, NULL, 0, NULL));
  assert_int_equal(session->newest->common.nodes, 0);
  tdm_tensor_release(fed);
  tdm_session_release(session);
}

static int executed; /* number of executions of the kernel below; runs are blocking */

static tdm_status execute_counted(const tdm_kernel_call *call) {
  executed++;
  memcpy(call->outputs[0], call->inputs[0], ROWS * WIDTH * sizeof(float));
  return TDM_OK;
}

static tdm_status infer_same(tdm_infer *infer) {
  infer->outputs[0] = infer->inputs[0];
  return TDM_OK;
}

static const tdm_kernel counted_kernel = {.struct_size = sizeof(tdm_kernel),
                                          .operation = "test_counted",
                                          .executes = "cpu",
                                          .dtype = TDM_FLOAT32,
                                          .execute = execute_counted};

static void effects_happen_each_time(void **unused) {
  (void)unused;
  assert_ok(tdm_kernel_register(context, &counted_kernel));
  /* without effects, with them, and by a struct that ends before it could say */
  for (int effects = 0; effects < 3; effects++) {
    const size_t size = effects == 2 ? offsetof(tdm_operation, has_effects) : sizeof(tdm_operation);
    const tdm_operation counted = {.struct_size = size,
                                   .name = "test_counted",
                                   .min_inputs = 1,
                                   .max_inputs = 1,
                                   .output_count = 1,
                                   .infer = infer_same,
                                   .has_effects = effects == 1};
    tdm_value x;
    tdm_graph *graph = begin_graph(&x);
    const tdm_value a = tdm_append(graph, &counted, "a", NULL, &x, 1, NULL);
    const tdm_value b = tdm_append(graph, &counted, "b", NULL, &x, 1, NULL);
    tdm_output(graph, "y", tdm_add(graph, "sum", a, b));
    tdm_session *session = run_session(graph, NULL);
    executed = 0;
    tdm_tensor_release(run_on_x(session, "y"));
    assert_int_equal(executed, effects ? 2 : 1);
    tdm_session_release(session);
  }
}

/* ---- Reports --------------------------------------------------------------------------------- */

static void plans_tell_what_is_saved(void **unused) {
  (void)unused;
  tdm_value x;
  tdm_graph *graph = begin_graph(&x);
  tdm_output(graph, "y", tdm_add(graph, "y", tdm_tanh(graph, "a", x), tdm_tanh(graph, "b", x)));
  tdm_session *session = run_session(graph, NULL);
  tdm_tensor_release(run_on_x(session, "y"));
  char *text = printed(session, print_explain, NULL, TDM_PLAN_TEXT);
  if (!strstr(text, "common    1 node not computed again, 96 B")) fail_msg("%s", text);
  free(text);
  text = printed(session, print_explain, NULL, TDM_PLAN_JSON);
  if (!strstr(text, "\"common_subexpressions\"")) fail_msg("%s", text);
  free(text);
  tdm_session_release(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equal_nodes_are_one),
      cmocka_unit_test(chains_of_them_are_one),
      cmocka_unit_test(casts_are_one),
      cmocka_unit_test(look_ups_are_one),
      cmocka_unit_test(other_attributes_inputs_or_devices_are_apart),
      cmocka_unit_test(what_is_delivered_stays),
      cmocka_unit_test(what_is_observed_stays),
      cmocka_unit_test(dropouts_are_apart),
      cmocka_unit_test(effects_happen_each_time),
      cmocka_unit_test(plans_tell_what_is_saved),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
