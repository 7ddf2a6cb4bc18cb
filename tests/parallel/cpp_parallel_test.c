/* The parallel interface of PyTorch's C++ side, by the names and intents of
 * test/cpp/api/parallel.cpp: differentiable scatter and gather, replicas, parallel_apply,
 * data_parallel. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/options.h"
#include "tests/parallel/support.h"

#define BOTH FIRST "," SECOND

/* ---- Scatter and gather: the gradient of a sum is ones on every device of the parts ---------- */

/* Adds a parameter of zeros through tanh, whose slope there is 1. After one step of sgd with rate
 * 1/2 it is minus half the gradient of the later layers. */
static tdm_value zeros(tdm_graph *graph, const char *name, tdm_shape shape) {
  const tdm_initializer initializer = {.kind = TDM_INIT_ZEROS, .zero_row = -1};
  return tdm_tanh(graph, name, tdm_parameter(graph, name, TDM_FLOAT32, shape, &initializer));
}

/* Creates a session that minimizes the sum of squares of value - ones, whose gradient at value 0 is
 * -2. */
static tdm_session *step_session(tdm_graph *graph, tdm_value value, tdm_value ones) {
  const tdm_loss_options sum = OPTIONS(tdm_loss_options, o.reduction = TDM_LOSS_SUM);
  const tdm_value loss = tdm_mse_with(graph, "loss", value, ones, &sum);
  return train_session(graph, loss, tdm_sgd(0.5), NULL);
}

static void assert_all(const tdm_tensor_list *state, const char *name, int64_t count, float value) {
  const tdm_tensor *tensor = tdm_tensor_list_find(state, name);
  assert_non_null(tensor);
  assert_int_equal(tdm_tensor_bytes(tensor), (size_t)count * sizeof(float));
  for (int64_t i = 0; i < count; i++)
    assert_true(((const float *)tdm_tensor_data(tensor))[i] == value);
}

static void step_with_ones(tdm_session *session, const char *const *names, const tdm_shape *shapes,
                           size_t count) {
  tdm_tensor *tensors[4];
  tdm_feed feeds[4];
  for (size_t i = 0; i < count; i++) {
    tensors[i] = tdm_tensor_full(context, "cpu:0", TDM_FLOAT32, shapes[i], 1);
    feeds[i] = (tdm_feed){names[i], tensors[i], false};
  }
  double loss;
  assert_ok(tdm_train_step(session, feeds, count, NULL, 0, &loss));
  release_tensors(tensors, count);
}

static void differentiable_scatter(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, "cpu:0");
  const tdm_value x = zeros(graph, "x", tdm_shape_of(2, 10, 5));
  const tdm_dim sizes[] = {5, 5};
  static const char *const names[] = {"ones0", "ones1"};
  static const char *const places[] = {FIRST, SECOND};
  const tdm_shape shapes[] = {tdm_shape_of(2, 5, 5), tdm_shape_of(2, 5, 5)};
  tdm_value parts[2];
  tdm_value losses[2];
  tdm_split(graph, "scatter", x, 0, sizes, 2, parts);
  const tdm_loss_options sum = OPTIONS(tdm_loss_options, o.reduction = TDM_LOSS_SUM);
  for (int i = 0; i < 2; i++) {
    tdm_place(graph, places[i]);
    const tdm_value ones = tdm_input(graph, names[i], TDM_FLOAT32, shapes[i]);
    losses[i] = tdm_mse_with(graph, places[i], parts[i], ones, &sum);
  }
  tdm_place(graph, "cpu:0");
  const tdm_value loss = tdm_add(graph, "loss", losses[0], losses[1]);
  tdm_session *session = train_session(graph, loss, tdm_sgd(0.5), NULL);
  step_with_ones(session, names, shapes, 2);
  assert_planned(session, "mse", FIRST, NULL);
  assert_planned(session, "mse", SECOND, NULL);
  tdm_tensor_list *state = state_of(session);
  assert_all(state, "x", 50, 1); /* every element had the gradient -2 */
  tdm_tensor_list_release(state);
  tdm_session_release(session);
}

static void expect_gather(const char *device, int dimension, tdm_shape whole) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, FIRST);
  const tdm_value a = zeros(graph, "a", tdm_shape_of(2, 5, 5));
  tdm_place(graph, SECOND);
  const tdm_value b =
      zeros(graph, "b", dimension == 0 ? tdm_shape_of(2, 3, 5) : tdm_shape_of(2, 5, 3));
  tdm_place(graph, device);
  const tdm_value parts[] = {a, b};
  const tdm_value gathered = tdm_concat(graph, "gather", parts, 2, dimension);
  tdm_session *session =
      step_session(graph, gathered, tdm_input(graph, "ones", TDM_FLOAT32, whole));
  step_with_ones(session, (const char *const[]){"ones"}, &whole, 1);
  if (dimension > 0) assert_planned(session, "concat", "gather", device);
  if (dimension == 0) assert_unplanned(session, "concat"); /* parts are made or copied there */
  char to[32];
  (void)snprintf(to, sizeof to, " to %s,", device);
  assert_planned(session, "transfer", "-> gather", to);
  tdm_tensor_list *state = state_of(session);
  assert_all(state, "a", 25, 1);
  assert_all(state, "b", 15, 1);
  tdm_tensor_list_release(state);
  tdm_session_release(session);
}

static void differentiable_gather(void **unused) {
  (void)unused;
  static const char *const devices[] = {FIRST, SECOND, "cpu:1"};
  for (size_t i = 0; i < TDM_COUNT_OF(devices); i++) {
    expect_gather(devices[i], 0, tdm_shape_of(2, 8, 5));
    expect_gather(devices[i], 1, tdm_shape_of(2, 5, 8));
  }
}

/* ---- Replicas and parallel_apply ------------------------------------------------------------- */

static tdm_value build_linear(tdm_graph *graph, void *user, tdm_value input) {
  (void)user;
  return tdm_linear(graph, "linear", input, 4);
}

/* Creates a session with one Linear(3, 4), replicated over three devices: equal results, where they
 * were made or on another device, and one owner. */
static tdm_session *replicas_session(const char *devices, const char *output_place) {
  tdm_graph *graph = tdm_graph_create(context);
  static const char *const names[] = {"y0", "y1", "y2"};
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 3));
  const tdm_value inputs[] = {x, x, x};
  const tdm_module module = {.name = "module", .build = build_linear};
  tdm_module replicas[3];
  tdm_value outputs[3];
  assert_int_equal(tdm_replicate(graph, &module, devices, replicas, 3), 3);
  tdm_parallel_apply(graph, replicas, inputs, 3, outputs);
  for (int i = 0; i < 3; i++)
    tdm_output_on(graph, names[i], outputs[i], output_place);
  return run_session(graph, NULL);
}

static void expect_equal_replicas(const char *const *places, const char *devices,
                                  const char *output_place) {
  tdm_session *session = replicas_session(devices, output_place);
  tdm_tensor *x = draw(tdm_shape_of(2, 6, 3), 1);
  const tdm_feed feed = {"x", x, false};
  tdm_fetch fetches[] = {{.name = "y0"}, {.name = "y1"}, {.name = "y2"}};
  assert_ok(tdm_run(session, &feed, 1, fetches, 3));
  tdm_tensor_list *state = state_of(session);
  assert_int_equal(tdm_tensor_list_count(state), 2); /* weight and bias: no copy is saved */
  for (int i = 0; i < 3; i++) {
    assert_on(fetches[i].tensor, output_place ? output_place : places[i]);
    fetches[i].tensor = to_host(fetches[i].tensor);
    assert_near_tensor(fetches[i].tensor, fetches[0].tensor, 1e-6);
    assert_planned(session, "module/linear", places[i], NULL);
  }
  for (int i = 0; i < 3; i++)
    tdm_tensor_release(fetches[i].tensor);
  tdm_tensor_list_release(state);
  tdm_tensor_release(x);
  tdm_session_release(session);
}

static void replicate(void **unused) {
  (void)unused;
  expect_equal_replicas((const char *const[]){FIRST, FIRST, SECOND}, FIRST "," BOTH, NULL);
}

static void parallel_apply(void **unused) {
  (void)unused;
  expect_equal_replicas((const char *const[]){"cpu:0", FIRST, SECOND}, "cpu:0," BOTH, NULL);
}

static void parallel_apply_with_different_output_device(void **unused) {
  (void)unused;
  static const char *const places[] = {"cpu:0", FIRST, SECOND};
  expect_equal_replicas(places, "cpu:0," BOTH, "cpu:2");
  expect_equal_replicas(places, "cpu:0," BOTH, SECOND);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

/* Two replicas of three fail: the first in order is reported with number, device and cause. */
static void parallel_apply_rethrows_exception(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_output(graph, "y", tdm_embedding(graph, "table", ids, 10, 3));
  const tdm_parallel_options wrapped = OPTIONS(tdm_parallel_options, o.devices = "cpu:0," BOTH);
  tdm_data_parallel(graph, "table", &wrapped);
  tdm_session *session = run_session(graph, NULL);
  tdm_tensor *fed = count_on("cpu:0", TDM_INT64, tdm_shape_of(1, 9));
  int64_t *id = tdm_tensor_data(fed);
  id[4] = 321; /* replica 1 */
  id[7] = 654; /* replica 2 */
  const tdm_feed feed = {"ids", fed, false};
  tdm_fetch y = {.name = "y"};
  assert_status(tdm_run(session, &feed, 1, &y, 1), TDM_INVALID_ARGUMENT);
  assert_message("replica 1");
  assert_message(FIRST);
  assert_message("321");
  assert_null(y.tensor);
  id[4] = id[7] = 0;
  assert_ok(tdm_run(session, &feed, 1, &y, 1));
  tdm_tensor_release(y.tensor);
  tdm_tensor_release(fed);
  tdm_session_release(session);
}

/* ---- data_parallel --------------------------------------------------------------------------- */

static tdm_value build_small(tdm_graph *graph, tdm_value x) {
  return tdm_linear(graph, "fc", x, 4);
}

static void data_parallel_places_the_output_on_the_requested_device(void **unused) {
  (void)unused;
  const test_model model = {.build = build_small,
                            .x = tdm_shape_of(2, TDM_DIM("batch"), 3),
                            .y = tdm_shape_of(2, TDM_DIM("batch"), 4)};
  static const char *const outputs[] = {FIRST, SECOND, "cpu:0", "cpu:2"};
  for (size_t i = 0; i < TDM_COUNT_OF(outputs); i++) {
    tdm_session *session = model_session(&model, BOTH, outputs[i], NULL);
    tdm_tensor_release(model_run(session, &model, 10, 1));
    char to[32];
    (void)snprintf(to, sizeof to, " to %s,", outputs[i]);
    assert_planned(session, "transfer", "module/fc ->", to);
    assert_unplanned(session, "concat");
    tdm_session_release(session);
  }
}

static void see_replica(void *user, const tdm_observation *observation) {
  bool *seen = user;
  assert_in_range(observation->replica, 0, 3);
  seen[observation->replica] = true;
}

static void data_parallel_uses_all_available_devices(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 3));
  tdm_scope_push(graph, "module");
  tdm_output(graph, "y", tdm_observe(graph, "place", tdm_tanh(graph, "tanh", x)));
  tdm_scope_pop(graph);
  const tdm_parallel_options wrapped =
      OPTIONS(tdm_parallel_options, o.devices = BOTH ",cpu:0,cpu:1");
  tdm_data_parallel(graph, "module", &wrapped);
  bool seen[4] = {false};
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.observer = see_replica, o.observer_user = seen);
  tdm_session *session = run_session(graph, &options);
  tdm_tensor *fed = draw(tdm_shape_of(2, 4, 3), 1);
  const tdm_feed feed = {"x", fed, false};
  tdm_fetch y = {.name = "y"};
  assert_ok(tdm_run(session, &feed, 1, &y, 1));
  static const char *const devices[] = {FIRST, SECOND, "cpu:0", "cpu:1"};
  for (int i = 0; i < 4; i++) {
    assert_true(seen[i]);
    assert_planned(session, "module/tanh", devices[i], NULL);
  }
  tdm_tensor_release(y.tensor);
  tdm_tensor_release(fed);
  tdm_session_release(session);
}

/* Adds a model of several layers; tests train it on batches of several sizes, wrapped or not. */
static tdm_value build_perceptron(tdm_graph *graph, tdm_value x) {
  tdm_value y = tdm_relu(graph, "relu1", tdm_linear(graph, "fc1", x, 16));
  y = tdm_sigmoid(graph, "sigmoid", tdm_linear(graph, "fc2", y, 12));
  y = tdm_tanh(graph, "tanh", tdm_linear(graph, "fc3", y, 12));
  return tdm_linear(graph, "fc4", y, 6);
}

static void data_parallel_numerical_equivalence(void **unused) {
  (void)unused;
  const test_model model = {.build = build_perceptron,
                            .x = tdm_shape_of(2, TDM_DIM("batch"), 8),
                            .y = tdm_shape_of(2, TDM_DIM("batch"), 6)};
  assert_like_plain(&model, BOTH, NULL);
  assert_like_plain(&model, "cpu:1," SECOND "," FIRST, "cpu:0");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(differentiable_scatter),
      cmocka_unit_test(differentiable_gather),
      cmocka_unit_test(replicate),
      cmocka_unit_test(parallel_apply),
      cmocka_unit_test(parallel_apply_with_different_output_device),
      cmocka_unit_test(parallel_apply_rethrows_exception),
      cmocka_unit_test(data_parallel_places_the_output_on_the_requested_device),
      cmocka_unit_test(data_parallel_uses_all_available_devices),
      cmocka_unit_test(data_parallel_numerical_equivalence),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
