/* Wrapped models, by the names and intents of PyTorch's test/distributed/test_data_parallel.py:
 * a wrapped module has the results and gradients of the module. */
#include <stdlib.h>

#include "tests/options.h"
#include "tests/parallel/support.h"

#define BOTH FIRST "," SECOND

static tdm_value build_linear(tdm_graph *graph, tdm_value x) {
  return tdm_linear(graph, "fc", x, 5);
}

/* Linear(10, 5). */
static test_model linear_model(void) {
  return (test_model){.build = build_linear,
                      .x = tdm_shape_of(2, TDM_DIM("batch"), 10),
                      .y = tdm_shape_of(2, TDM_DIM("batch"), 5)};
}

static tdm_value build_deep(tdm_graph *graph, tdm_value x) {
  const tdm_value hidden = tdm_relu(graph, "relu", tdm_linear(graph, "in", x, 12));
  const tdm_value sum = tdm_add(graph, "sum", hidden, tdm_sigmoid(graph, "gate", hidden));
  return tdm_linear(graph, "out", sum, 5);
}

static test_model deep_model(void) {
  test_model model = linear_model();
  model.build = build_deep;
  return model;
}

static void data_parallel_small_back(void **unused) {
  (void)unused;
  const test_model model = linear_model();
  assert_like_plain(&model, BOTH, NULL);
}

/* Calls the tutorial's function with every output device. */
static void data_parallel(void **unused) {
  (void)unused;
  const test_model model = deep_model();
  static const char *const outputs[] = {NULL, FIRST, SECOND, "cpu:0", "cpu:1"};
  for (size_t i = 0; i < TDM_COUNT_OF(outputs); i++) {
    assert_like_plain(&model, BOTH, outputs[i]);
    assert_like_plain(&model, FIRST, outputs[i]); /* only one device */
  }
}

/* The wrapped module in use: every run gathers its results on the first device, and there may be
 * fewer rows than devices. */
static void data_parallel_module(void **unused) {
  (void)unused;
  const test_model model = deep_model();
  tdm_session *session = model_session(&model, SECOND "," FIRST ",cpu:1", NULL, NULL);
  for (int64_t rows = 9; rows >= 1; rows -= 2) {
    tdm_tensor_release(model_run(session, &model, rows, 1));
    if (rows > 1) assert_planned(session, "transfer", "module/out", " to " SECOND);
    assert_unplanned(session, "concat");
  }
  tdm_tensor *none = model_run(session, &model, 0, 1);
  assert_int_equal(tdm_tensor_bytes(none), 0);
  tdm_tensor_release(none);
  tdm_session_release(session);
}

/* Devices may be in any order, repeated, or single; invalid lists are refused. */
static void data_parallel_device_args(void **unused) {
  (void)unused;
  const test_model model = linear_model();
  static const char *const lists[] = {FIRST,   FIRST "," FIRST, SECOND "," FIRST,
                                      "cpu:1", "cpu:2," SECOND, FIRST ",cpu:0," SECOND ",cpu:1"};
  for (size_t i = 0; i < TDM_COUNT_OF(lists); i++)
    assert_like_plain(&model, lists[i], NULL);
  static const char *const bad[] = {"", ",", FIRST ",,", "0,1", TEST_KIND ":9", FIRST " " SECOND};
  for (size_t i = 0; i < TDM_COUNT_OF(bad); i++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 3));
    tdm_output(graph, "y", tdm_linear(graph, "fc", x, 3));
    const tdm_parallel_options wrapped = OPTIONS(tdm_parallel_options, o.devices = bad[i]);
    tdm_data_parallel(graph, "fc", &wrapped);
    assert_null(tdm_session_create(graph, NULL));
    assert_message("data parallel over fc");
    tdm_graph_release(graph);
  }
}

/* PyTorch refuses a module that is not on the first device. Here parameters have a home on any
 * device, and replicas read copies. */
static void data_parallel_model_device(void **unused) {
  (void)unused;
  const test_model model = linear_model();
  static const char *const homes[] = {"cpu:0", "cpu:2", FIRST, SECOND};
  tdm_session *plain = model_session(&model, NULL, NULL, NULL);
  for (uint64_t i = 0; i < 3; i++)
    (void)model_train(plain, &model, 8, i);
  tdm_tensor_list *wanted = state_of(plain);
  for (size_t h = 0; h < TDM_COUNT_OF(homes); h++) {
    tdm_store *store = tdm_store_create(context);
    tdm_session *home = model_session(&model, homes[h], NULL, store); /* gives them their home */
    tdm_session *wrapped = model_session(&model, BOTH, NULL, store);
    for (uint64_t i = 0; i < 3; i++)
      (void)model_train(wrapped, &model, 8, i);
    tdm_tensor_list *got = state_of(home);
    assert_near_state(got, wanted, 1e-4);
    tdm_tensor_list_release(got);
    tdm_session_release(home);
    tdm_session_release(wrapped);
    tdm_store_release(store);
  }
  tdm_tensor_list_release(wanted);
  tdm_session_release(plain);
}

/* Evaluating makes no gradients: nothing flows back, and parameters stay. */
static void data_parallel_no_grad(void **unused) {
  (void)unused;
  const test_model model = linear_model();
  tdm_session *session = model_session(&model, BOTH, "cpu:0", NULL);
  (void)model_train(session, &model, 8, 1);
  assert_planned(session, "backward", FIRST, NULL);
  const uint64_t version = tdm_store_version(tdm_session_store(session));
  tdm_tensor *y = model_run(session, &model, 8, 1);
  char *text = printed(session, print_explain, NULL, TDM_PLAN_TEXT);
  assert_null(strstr(text, "backward"));
  assert_int_equal(tdm_store_version(tdm_session_store(session)), version);
  free(text);
  tdm_tensor_release(y);
  tdm_session_release(session);
}

/* ---- Inputs and outputs of several kinds ----------------------------------------------------- */

static tdm_value build_recurrent(tdm_graph *graph, tdm_value x) {
  const tdm_rnn_options two = OPTIONS(tdm_rnn_options, o.layers = 2);
  return tdm_rnn(graph, "rnn", x, 6, &two, NULL);
}

/* The batch is in dimension 1. */
static void data_parallel_rnn(void **unused) {
  (void)unused;
  const test_model model = {.build = build_recurrent,
                            .x = tdm_shape_of(3, 5, TDM_DIM("batch"), 10),
                            .y = tdm_shape_of(3, 5, TDM_DIM("batch"), 6),
                            .dimension = 1};
  assert_like_plain(&model, BOTH, "cpu:0");
}

/* Creates a model with two inputs that are cut along different dimensions, one that every
 * replica reads whole, and three outputs. PyTorch's nested and keyword arguments are values by
 * name here. */
static tdm_session *inputs_session(const char *devices) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_value a = tdm_input(graph, "a", TDM_FLOAT32, tdm_shape_of(2, batch, 3));
  const tdm_value b = tdm_input(graph, "b", TDM_FLOAT32, tdm_shape_of(2, 3, batch));
  const tdm_value whole = tdm_input(graph, "whole", TDM_FLOAT32, tdm_shape_of(2, 4, 3));
  tdm_scope_push(graph, "module");
  const tdm_value sum =
      tdm_add(graph, "sum", a, tdm_swap_first_dimensions(graph, "turned", b)); /* (batch, 3) */
  const tdm_value y = append_product(graph, "product", sum, whole);
  const tdm_value hidden = tdm_linear(graph, "fc", y, 6);
  const tdm_value turned = tdm_swap_first_dimensions(graph, "back", hidden); /* (6, batch) */
  tdm_output(graph, "y", y);
  tdm_output(graph, "probabilities", tdm_softmax(graph, "softmax", hidden, 1));
  tdm_output(graph, "turned", turned);
  tdm_scope_pop(graph);
  const tdm_scatter scatter[] = {{a, 0}, {b, -1}, {whole, TDM_BROADCAST}};
  const tdm_parallel_options wrapped =
      OPTIONS(tdm_parallel_options, o.devices = devices, o.scatter = scatter, o.scatter_count = 3);
  if (devices) tdm_data_parallel(graph, "module", &wrapped);
  const tdm_session_options options = OPTIONS(tdm_session_options, o.seed = 3);
  return run_session(graph, &options);
}

static void run_inputs(const char *devices, int64_t rows, tdm_fetch *fetches) {
  tdm_session *session = inputs_session(devices);
  tdm_tensor *tensors[] = {draw(tdm_shape_of(2, rows, 3), 1), draw(tdm_shape_of(2, 3, rows), 2),
                           draw(tdm_shape_of(2, 4, 3), 3)};
  const tdm_feed feeds[] = {
      {"a", tensors[0], false}, {"b", tensors[1], false}, {"whole", tensors[2], false}};
  assert_ok(tdm_run(session, feeds, 3, fetches, 3));
  release_tensors(tensors, 3);
  tdm_session_release(session);
}

static void expect_inputs_and_outputs(int64_t rows) {
  tdm_fetch wanted[] = {{.name = "y"}, {.name = "probabilities"}, {.name = "turned"}};
  tdm_fetch got[] = {{.name = "y"}, {.name = "probabilities"}, {.name = "turned"}};
  run_inputs(NULL, rows, wanted);
  run_inputs(BOTH ",cpu:1", rows, got);
  for (int i = 0; i < 3; i++) {
    assert_near_tensor(got[i].tensor, wanted[i].tensor, 1e-5);
    tdm_tensor_release(wanted[i].tensor);
    tdm_tensor_release(got[i].tensor);
  }
}

static void data_parallel_multiple_input(void **unused) {
  (void)unused;
  expect_inputs_and_outputs(11);
}

static void data_parallel_nested_input(void **unused) {
  (void)unused;
  expect_inputs_and_outputs(2); /* fewer rows than devices */
}

static void data_parallel_nested_output(void **unused) {
  (void)unused;
  expect_inputs_and_outputs(1);
}

/* A part that no rows enter runs once, on the first device. */
static void data_parallel_module_zero_inputs(void **unused) {
  (void)unused;
  const tdm_initializer ones = {.kind = TDM_INIT_CONSTANT, .a = 1, .zero_row = -1};
  tdm_graph *graph = tdm_graph_create(context);
  tdm_scope_push(graph, "module");
  const tdm_value t = tdm_parameter(graph, "t", TDM_FLOAT32, tdm_shape_of(2, 2, 3), &ones);
  tdm_output(graph, "y", tdm_add(graph, "twice", t, t));
  tdm_scope_pop(graph);
  const tdm_parallel_options wrapped = OPTIONS(tdm_parallel_options, o.devices = BOTH);
  tdm_data_parallel(graph, "module", &wrapped);
  tdm_session *session = run_session(graph, NULL);
  tdm_fetch y = {.name = "y"};
  assert_ok(tdm_run(session, NULL, 0, &y, 1));
  const tdm_shape shape = tdm_tensor_shape(y.tensor);
  const tdm_shape wanted = tdm_shape_of(2, 2, 3);
  assert_true(tdm_shape_equal(&shape, &wanted));
  for (int i = 0; i < 6; i++)
    assert_true(((float *)tdm_tensor_data(y.tensor))[i] == 2);
  assert_planned(session, "module/twice", FIRST, NULL);
  tdm_tensor_release(y.tensor);
  tdm_session_release(session);
}

/* ---- Sparse gradients ------------------------------------------------------------------------ */

static tdm_tensor_list *train_table(const char *devices, bool sparse) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, "cpu:0");
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_value y = tdm_input(graph, "y", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 2));
  const tdm_embedding_options options = OPTIONS(tdm_embedding_options, o.sparse = sparse);
  const tdm_value rows = tdm_embedding_with(graph, "table", ids, 10, 2, &options);
  const tdm_parallel_options wrapped = OPTIONS(tdm_parallel_options, o.devices = devices);
  if (devices) tdm_data_parallel(graph, "table", &wrapped);
  tdm_session *session = train_session(graph, tdm_mse(graph, "loss", rows, y), tdm_sgd(0.5), NULL);
  static const int64_t drawn[] = {0, 7, 2, 7, 7, 1, 0, 2, 9};
  tdm_tensor *tensors[] = {tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, 9), drawn),
                           draw(tdm_shape_of(2, 9, 2), 5)};
  const tdm_feed feeds[] = {{"ids", tensors[0], false}, {"y", tensors[1], false}};
  for (int i = 0; i < 3; i++)
    assert_ok(tdm_train_step(session, feeds, 2, NULL, 0, NULL));
  tdm_tensor_list *state = state_of(session);
  release_tensors(tensors, 2);
  tdm_session_release(session);
  return state;
}

static void data_parallel_sparse(void **unused) {
  (void)unused;
  tdm_tensor_list *wanted = train_table(NULL, false);
  for (int sparse = 0; sparse < 2; sparse++) {
    tdm_tensor_list *got = train_table(BOTH, sparse);
    assert_near_state(got, wanted, 1e-5);
    tdm_tensor_list_release(got);
  }
  tdm_tensor_list_release(wanted);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(data_parallel_small_back),
      cmocka_unit_test(data_parallel),
      cmocka_unit_test(data_parallel_module),
      cmocka_unit_test(data_parallel_device_args),
      cmocka_unit_test(data_parallel_model_device),
      cmocka_unit_test(data_parallel_no_grad),
      cmocka_unit_test(data_parallel_rnn),
      cmocka_unit_test(data_parallel_multiple_input),
      cmocka_unit_test(data_parallel_nested_input),
      cmocka_unit_test(data_parallel_nested_output),
      cmocka_unit_test(data_parallel_module_zero_inputs),
      cmocka_unit_test(data_parallel_sparse),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
