/* Parallel regions of 20 and of 64 replicas: over few devices that occur several times in the list,
 * and over 64 devices of one kind; cut along rows, and along a dimension that needs kernels. */
#include <stdio.h>

#include "graph/run/session.h"
#include "tests/graph/support.h"
#include "tests/options.h"

enum { WIDTH = 3, HIDDEN = 5, STEPS = 2, MOST = 64, LIST_BYTES = MOST * 8 };

static tdm_context *make_context(int cpu_devices, int sim_devices) {
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.cpu_devices = cpu_devices, o.sim_devices = sim_devices,
              o.sim = "latency_us=0,gigabytes_per_second=0");
  tdm_context *context = tdm_context_create(&options);
  if (!context) fail_msg("no context: %s", tdm_last_message());
  return context;
}

/* `count` names in turn: kind:0, kind:1, ..., kind:(different - 1), kind:0, ... */
static const char *list_of(char *text, const char *kind, int count, int different) {
  size_t used = 0;
  for (int i = 0; i < count; i++)
    used += (size_t)snprintf(text + used, LIST_BYTES - used, "%s%s:%d", i ? "," : "", kind,
                             i % different);
  return text;
}

/* ---- A model: x (batch, STEPS, WIDTH) or (STEPS, batch, WIDTH) -> in -> [part] -> out -------- */

typedef struct wide_model {
  const char *devices; /* NULL: not wrapped */
  int dimension;       /* dimension that is cut */
  int64_t rows;
} wide_model;

static tdm_value build(tdm_graph *graph, const wide_model *model, tdm_value *out_loss) {
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_shape shape = model->dimension == 0 ? tdm_shape_of(3, batch, STEPS, WIDTH)
                                                : tdm_shape_of(3, STEPS, batch, WIDTH);
  tdm_place(graph, "cpu:0");
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, shape);
  const tdm_value in = tdm_linear(graph, "in", x, WIDTH);
  tdm_scope_push(graph, "part");
  const tdm_value hidden = tdm_tanh(graph, "tanh", tdm_linear(graph, "up", in, HIDDEN));
  const tdm_value out = tdm_linear(graph, "down", hidden, WIDTH);
  tdm_scope_pop(graph);
  const tdm_scatter scatter = {in, model->dimension};
  const tdm_parallel_options options =
      OPTIONS(tdm_parallel_options, o.devices = model->devices, o.output_device = "cpu:0",
              o.scatter = &scatter, o.scatter_count = 1);
  if (model->devices) tdm_data_parallel(graph, "part", &options);
  tdm_output(graph, "y", out);
  *out_loss = tdm_mse(graph, "loss", tdm_linear(graph, "out", out, WIDTH), x);
  return out;
}

/* Returns the state after two steps, and y then. */
static tdm_tensor_list *train(tdm_context *context, const wide_model *model, tdm_tensor **out_y,
                              size_t *out_replicas) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_value loss;
  (void)build(graph, model, &loss);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.seed = 3, o.deterministic = true);
  tdm_session *session = train_session(graph, loss, tdm_sgd(0.1), &options);
  const tdm_shape shape = model->dimension == 0 ? tdm_shape_of(3, model->rows, STEPS, WIDTH)
                                                : tdm_shape_of(3, STEPS, model->rows, WIDTH);
  tdm_tensor *x = tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, shape, 1, -1, 1);
  const tdm_feed feed = {"x", x, false};
  for (int i = 0; i < 2; i++)
    assert_ok(tdm_train_step(session, &feed, 1, NULL, 0, NULL));
  tdm_fetch y = {.name = "y"};
  assert_ok(tdm_run(session, &feed, 1, &y, 1));
  *out_y = y.tensor;
  *out_replicas = 0; /* number of replicas in the plan of that run */
  const tdm_graph *planned = &session->newest->graph;
  TDM_EACH_NODE(planned, node) {
    const size_t replica = node->part.replica;
    if (*out_replicas < replica) *out_replicas = replica;
  }
  tdm_tensor_list *state = state_of(session);
  tdm_tensor_release(x);
  tdm_session_release(session);
  return state;
}

/* Trains over devices and over cpu:0 as often: the same bits, in `replicas` replicas. */
static void expect_same_bits(tdm_context *context, const char *devices, int count, int dimension,
                             int64_t rows, size_t replicas) {
  char text[LIST_BYTES];
  const wide_model spread = {devices, dimension, rows};
  const wide_model together = {list_of(text, "cpu", count, 1), dimension, rows};
  const wide_model plain = {NULL, dimension, rows};
  tdm_tensor *y[3];
  size_t seen;
  tdm_tensor_list *got = train(context, &spread, &y[0], &seen);
  assert_int_equal(seen, replicas);
  tdm_tensor_list *wanted = train(context, &together, &y[1], &seen);
  tdm_tensor_list *state = train(context, &plain, &y[2], &seen);
  assert_same_tensor(y[0], y[1]);
  assert_same_state(got, wanted);
  tdm_tensor_list_release(got);
  tdm_tensor_list_release(wanted);
  tdm_tensor_list_release(state);
  const float *a = tdm_tensor_data(y[0]);
  const float *b = tdm_tensor_data(y[2]);
  for (int64_t i = 0; i < rows * STEPS * WIDTH; i++)
    assert_true(a[i] - b[i] < 1e-4f && b[i] - a[i] < 1e-4f);
  for (int i = 0; i < 3; i++)
    tdm_tensor_release(y[i]);
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void devices_may_stand_many_times(void **unused) {
  (void)unused;
  tdm_context *context = make_context(2, 3);
  static const struct {
    int devices, dimension;
    int64_t rows;
    size_t replicas;
  } cases[] = {{20, 0, 40, 20},  {20, 1, 47, 16},  {64, 0, 64, 64}, {64, 1, 64, 64},
               {64, 0, 100, 50}, {64, 1, 130, 44}, {64, 0, 7, 7}};
  char text[LIST_BYTES];
  for (size_t i = 0; i < TDM_COUNT_OF(cases); i++)
    expect_same_bits(context, list_of(text, i % 2 ? "sim" : "cpu", cases[i].devices, 2 + i % 2),
                     cases[i].devices, cases[i].dimension, cases[i].rows, cases[i].replicas);
  tdm_context_release(context);
}

static void sixty_four_sim_devices_train(void **unused) {
  (void)unused;
  tdm_context *context = make_context(1, MOST);
  char text[LIST_BYTES];
  list_of(text, "sim", MOST, MOST);
  expect_same_bits(context, text, MOST, 0, MOST, MOST);
  expect_same_bits(context, text, MOST, 1, MOST, MOST);
  tdm_context_release(context);
}

static void sixty_four_cpu_devices_train(void **unused) {
  (void)unused;
  tdm_context *context = make_context(MOST, 1);
  char text[LIST_BYTES];
  expect_same_bits(context, list_of(text, "cpu", MOST, MOST), MOST, 0, 2 * MOST, MOST);
  tdm_context_release(context);
}

static void tensors_travel_to_and_from_sixty_four(void **unused) {
  (void)unused;
  tdm_context *context = make_context(2, 2);
  char text[LIST_BYTES];
  for (int dimension = 0; dimension < 2; dimension++) {
    tdm_tensor *whole =
        tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 70, 130), 5, -1, 1);
    tdm_tensor *chunks[MOST];
    size_t count;
    assert_ok(tdm_tensors_scatter(whole, list_of(text, "sim", MOST, 2), dimension, NULL, chunks,
                                  MOST, &count));
    assert_int_equal(count, dimension ? 44 : 35);
    tdm_tensor *back = tdm_tensors_gather(chunks, count, dimension, "cpu:0");
    assert_non_null(back);
    assert_same_tensor(back, whole);
    for (size_t i = 0; i < count; i++)
      tdm_tensor_release(chunks[i]);
    tdm_tensor_release(back);
    tdm_tensor_release(whole);
  }
  tdm_context_release(context);
}

static void more_are_refused(void **unused) {
  (void)unused;
  tdm_context *context = make_context(1, 1);
  tdm_graph *graph = tdm_graph_create(context);
  char text[LIST_BYTES + 8];
  list_of(text, "cpu", MOST, 1);
  strcat(text, ",cpu:0");
  const wide_model model = {text, 0, 1};
  tdm_value loss;
  (void)build(graph, &model, &loss);
  assert_status(tdm_graph_status(graph), TDM_INVALID_ARGUMENT);
  assert_message("64");
  tdm_graph_release(graph);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(devices_may_stand_many_times),
      cmocka_unit_test(sixty_four_sim_devices_train),
      cmocka_unit_test(sixty_four_cpu_devices_train),
      cmocka_unit_test(tensors_travel_to_and_from_sixty_four),
      cmocka_unit_test(more_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
