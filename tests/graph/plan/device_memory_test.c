/* Peak memory of every device with a wrapped model is at most its share of activations. Where
 * results and parameters are at home it also has the gathered outputs and one incoming bucket of
 * gradients. */

#define GROUP_CONTEXT graph_context_of(8, 8)
#include "tests/graph/group.h"
#include "tests/options.h"

enum { INPUT = 40, CLASSES = 700, HIDDEN = 96, OUTPUT = 24, STEPS = 6, WORDS = 50, ROWS = 96 };

/* Rounding of each buffer to the arena's grain, and the tolerance of the search for offsets: 2 %
 * above the bytes that are in use concurrently. */
enum { GRAIN_BYTES = 2048, SEARCHED_SHARE = 50 };

static bool loss_is_wrapped; /* build_classifier replicates the loss with the rest of the model */
/* Writes the list "cpu:0,cpu:1,...". */
static void list_devices(const char *kind, int count, char *list, size_t bytes) {
  size_t used = 0;
  for (int i = 0; i < count; i++)
    used += (size_t)snprintf(list + used, bytes - used, "%s%s:%d", i ? "," : "", kind, i);
}

/* ---- Models: everything below "model" is wrapped --------------------------------------------- */

typedef struct measured_model {
  const char *name;
  tdm_graph *(*build)(const char *kind, const char *devices, tdm_value *out_loss);
  int batch_dimension;
  tdm_dtype input_dtype;
  uint64_t input_row_bytes;
  uint64_t output_row_bytes;
  uint64_t largest_gradient_bytes;
} measured_model;

static void wrap_model(tdm_graph *graph, const char *devices, const tdm_scatter *scatter) {
  const tdm_parallel_options options =
      OPTIONS(tdm_parallel_options, o.devices = devices, o.scatter = scatter,
              o.scatter_count = scatter ? 1 : 0);
  if (devices) tdm_data_parallel(graph, "model", &options);
}

static tdm_graph *build_mlp(const char *kind, const char *devices, tdm_value *out_loss) {
  char home[16];
  (void)snprintf(home, sizeof home, "%s:0", kind);
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, home);
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, batch, INPUT));
  const tdm_value y = tdm_input(graph, "y", TDM_FLOAT32, tdm_shape_of(2, batch, OUTPUT));
  tdm_scope_push(graph, "model");
  tdm_value hidden = tdm_relu(graph, "relu1", tdm_linear(graph, "fc1", x, HIDDEN));
  hidden = tdm_relu(graph, "relu2", tdm_linear(graph, "fc2", hidden, HIDDEN));
  const tdm_value out = tdm_linear(graph, "fc3", hidden, OUTPUT);
  tdm_scope_pop(graph);
  wrap_model(graph, devices, NULL);
  tdm_output(graph, "out", out);
  *out_loss = tdm_mse(graph, "loss", out, y);
  return graph;
}

static tdm_graph *build_rnn(const char *kind, const char *devices, tdm_value *out_loss) {
  char home[16];
  (void)snprintf(home, sizeof home, "%s:0", kind);
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, home);
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_value x = tdm_input(graph, "x", TDM_INT64, tdm_shape_of(2, STEPS, batch));
  const tdm_value y = tdm_input(graph, "y", TDM_FLOAT32, tdm_shape_of(3, STEPS, batch, OUTPUT));
  tdm_scope_push(graph, "model");
  const tdm_value words = tdm_embedding(graph, "embedding", x, WORDS, INPUT);
  const tdm_value hidden = tdm_rnn(graph, "rnn", words, HIDDEN, NULL, NULL);
  const tdm_value out = tdm_linear(graph, "fc", hidden, OUTPUT);
  tdm_scope_pop(graph);
  const tdm_scatter along_1 = {x, 1};
  wrap_model(graph, devices, &along_1);
  tdm_output(graph, "out", out);
  *out_loss = tdm_mse(graph, "loss", out, y);
  return graph;
}

/* The end of a language model: many classes, so the loss keeps many bytes per row. */
static tdm_graph *build_classifier(const char *kind, const char *devices, tdm_value *out_loss) {
  char home[16];
  (void)snprintf(home, sizeof home, "%s:0", kind);
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, home);
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, batch, INPUT));
  const tdm_value y = tdm_input(graph, "y", TDM_INT64, tdm_shape_of(1, batch));
  tdm_scope_push(graph, "model");
  const tdm_value hidden = tdm_relu(graph, "relu", tdm_linear(graph, "fc1", x, HIDDEN));
  const tdm_value scores = tdm_linear(graph, "fc2", hidden, CLASSES);
  tdm_scope_pop(graph);
  *out_loss = tdm_cross_entropy(graph, "loss", scores, y);
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = devices);
  if (devices) tdm_data_parallel(graph, loss_is_wrapped ? "" : "model", &options);
  return graph;
}

static const measured_model models[] = {
    {"mlp", build_mlp, 0, TDM_FLOAT32, INPUT * sizeof(float), OUTPUT * sizeof(float),
     HIDDEN *HIDDEN * sizeof(float)},
    {"rnn", build_rnn, 1, TDM_INT64, STEPS * sizeof(int64_t), STEPS *OUTPUT * sizeof(float),
     HIDDEN *HIDDEN * sizeof(float)},
};

/* ---- Measuring ------------------------------------------------------------------------------- */

/* Plans model for a batch of rows. The caller releases the session. */
static tdm_session *planned(const measured_model *model, const char *kind, const char *devices,
                            int64_t rows, bool training) {
  tdm_value loss;
  tdm_graph *graph = model->build(kind, devices, &loss);
  tdm_session *session = train_session(graph, loss, tdm_sgd(0.1), NULL);
  const bool sequence = model->batch_dimension == 1;
  const tdm_shape x_shape = sequence ? tdm_shape_of(2, STEPS, rows) : tdm_shape_of(2, rows, INPUT);
  const tdm_shape y_shape =
      sequence ? tdm_shape_of(3, STEPS, rows, OUTPUT) : tdm_shape_of(2, rows, OUTPUT);
  tdm_tensor *x = tdm_tensor_create(context, "cpu:0", model->input_dtype, x_shape);
  tdm_tensor *y = tdm_tensor_create(context, "cpu:0", TDM_FLOAT32, y_shape);
  const tdm_feed feeds[] = {{"x", x, false}, {"y", y, false}};
  const tdm_fetch fetch = {.name = "out"};
  assert_ok(
      tdm_session_prepare(session, feeds, training ? 2 : 1, &fetch, training ? 0 : 1, training));
  tdm_tensor_release(x);
  tdm_tensor_release(y);
  return session;
}

static uint64_t activations_on(tdm_session *session, const char *kind, int index) {
  char device[16];
  (void)snprintf(device, sizeof device, "%s:%d", kind, index);
  tdm_memory_use use;
  assert_ok(tdm_session_memory(session, device, &use));
  return use.activations_bytes;
}

/* Returns the bytes that the model needs for a replica's rows: its share, with its inputs. */
static uint64_t share_of(const measured_model *model, const char *kind, int64_t rows,
                         bool training) {
  tdm_session *session = planned(model, kind, NULL, rows, training);
  const uint64_t bytes = activations_on(session, kind, 0);
  tdm_session_release(session);
  return bytes + bytes / SEARCHED_SHARE + (uint64_t)rows * model->input_row_bytes + GRAIN_BYTES;
}

static void expect_bounded(const measured_model *model, const char *kind, int count,
                           bool training) {
  char devices[64] = "";
  list_devices(kind, count, devices, sizeof devices);
  tdm_session *session = planned(model, kind, devices, ROWS, training);
  const uint64_t share = share_of(model, kind, ROWS / count, training);
  const uint64_t gathered = ROWS * model->output_row_bytes;
  /* In the backward pass a gathered value has a gradient of its size. */
  const uint64_t at_home =
      training ? share + 2 * gathered + model->largest_gradient_bytes : share + gathered;
  for (int i = 0; i < count; i++) {
    const uint64_t has = activations_on(session, kind, i);
    assert_true(has <= (i == 0 ? at_home : share));
  }
  tdm_session_release(session);
}

static void no_device_holds_more_than_its_share(void **unused) {
  (void)unused;
  static const int counts[] = {1, 2, 3, 4, 8};
  for (size_t m = 0; m < TDM_COUNT_OF(models); m++)
    for (size_t n = 0; n < TDM_COUNT_OF(counts); n++)
      for (int training = 0; training < 2; training++) {
        expect_bounded(&models[m], "cpu", counts[n], training);
        expect_bounded(&models[m], "sim", counts[n], training);
      }
}

/* ---- A loss in the part ---------------------------------------------------------------------- */

/* The most and the least that any of `count` devices has. */
static void classify(const char *kind, const char *devices, int count, int64_t rows,
                     uint64_t *out_most, uint64_t *out_least) {
  tdm_value loss;
  tdm_graph *graph = build_classifier(kind, devices, &loss);
  tdm_session *session = train_session(graph, loss, tdm_sgd(0.1), NULL);
  tdm_tensor *x = tdm_tensor_create(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, rows, INPUT));
  tdm_tensor *y = tdm_tensor_create(context, "cpu:0", TDM_INT64, tdm_shape_of(1, rows));
  const tdm_feed feeds[] = {{"x", x, false}, {"y", y, false}};
  assert_ok(tdm_session_prepare(session, feeds, 2, NULL, 0, true));
  *out_most = 0;
  *out_least = UINT64_MAX;
  for (int i = 0; i < count; i++) {
    const uint64_t has = activations_on(session, kind, i);
    if (has > *out_most) *out_most = has;
    if (has < *out_least) *out_least = has;
  }
  tdm_tensor_release(x);
  tdm_tensor_release(y);
  tdm_session_release(session);
}

static void no_device_holds_more_than_its_share_of_a_loss(void **unused) {
  (void)unused;
  static const char *const kinds[] = {"cpu", "sim"};
  const uint64_t scores = ROWS * CLASSES * sizeof(float);
  for (size_t k = 0; k < TDM_COUNT_OF(kinds); k++)
    for (int count = 2; count <= 8; count *= 2) {
      char devices[64] = "";
      list_devices(kinds[k], count, devices, sizeof devices);
      uint64_t most, least, share;
      classify(kinds[k], NULL, 1, ROWS / count, &share, &least);
      /* In addition, counted targets and an incoming gradient. */
      share += share / SEARCHED_SHARE + GRAIN_BYTES + ROWS * sizeof(int64_t) +
               (ROWS / count) * INPUT * sizeof(float) + HIDDEN * CLASSES * sizeof(float);
      loss_is_wrapped = true;
      classify(kinds[k], devices, count, ROWS, &most, &least);
      assert_true(most <= share);
      loss_is_wrapped = false;
      classify(kinds[k], devices, count, ROWS, &most, &least);
      assert_true(most >= 2 * scores); /* gathered, and their logarithms */
    }
}

static void memory_is_told_by_kind(void **unused) {
  (void)unused;
  tdm_session *session = planned(&models[0], "cpu", "cpu:0,cpu:1", ROWS, false);
  const uint64_t parameters =
      (INPUT * HIDDEN + HIDDEN * HIDDEN + HIDDEN * OUTPUT + 2 * HIDDEN + OUTPUT) * sizeof(float);
  tdm_memory_use use;
  assert_ok(tdm_session_memory(session, "cpu:0", &use));
  assert_int_equal(use.parameters_bytes, parameters);
  assert_int_equal(use.copies_bytes, 0);
  assert_int_equal(use.outputs_bytes, ROWS * OUTPUT * sizeof(float));
  assert_ok(tdm_session_memory(session, "cpu:1", &use));
  assert_int_equal(use.parameters_bytes, 0);
  assert_int_equal(use.copies_bytes, parameters);
  assert_int_equal(use.outputs_bytes, 0);
  assert_ok(tdm_session_memory(session, "cpu:2", &use));
  assert_int_equal(use.copies_bytes + use.activations_bytes, 0);
  static const tdm_memory_use nothing;
  memset(&use, 9, sizeof use);
  assert_int_equal(tdm_session_memory(session, "cpu:99", &use), TDM_INVALID_ARGUMENT);
  assert_int_equal(tdm_last_status(), TDM_INVALID_ARGUMENT);
  assert_memory_equal(&use, &nothing, sizeof use);
  memset(&use, 9, sizeof use);
  assert_int_equal(tdm_session_memory(NULL, "cpu:0", &use), TDM_INVALID_ARGUMENT);
  assert_memory_equal(&use, &nothing, sizeof use);
  assert_int_equal(tdm_session_memory(session, "cpu:0", NULL), TDM_INVALID_ARGUMENT);
  tdm_session_release(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_device_holds_more_than_its_share),
      cmocka_unit_test(no_device_holds_more_than_its_share_of_a_loss),
      cmocka_unit_test(memory_is_told_by_kind),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
