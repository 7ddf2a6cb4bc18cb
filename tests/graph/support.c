/* See support.h. */
#include "tests/graph/support.h"

#include <stdlib.h>

#include "graph/run/session.h"
#include "graph/store/store.h"
#include "tests/options.h"

tdm_context *graph_context_of(int cpu_devices, int sim_devices) {
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.cpu_devices = cpu_devices, o.sim_devices = sim_devices,
              o.sim = "latency_us=0,gigabytes_per_second=0");
  tdm_context *context = tdm_context_create(&options);
  if (!context) fail_msg("no context: %s", tdm_last_message());
  return context;
}

tdm_context *graph_context(void) {
  return graph_context_of(2, 2);
}

/* ---- Models ---------------------------------------------------------------------------------- */

static void place(tdm_graph *graph, const char *device) {
  if (device) tdm_place(graph, device);
}

static tdm_value ids_of(tdm_graph *graph) {
  return tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
}

static tdm_value judged(tdm_graph *graph, tdm_value scores) {
  const tdm_value targets =
      tdm_input(graph, "targets", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_output(graph, "scores", scores);
  return tdm_cross_entropy(graph, "loss", scores, targets);
}

tdm_graph *seed_graph(tdm_context *context, const char *first, const char *second,
                      tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value ids = ids_of(graph);
  place(graph, first);
  const tdm_value words = tdm_embedding(graph, "embedding", ids, MODEL_ROWS, MODEL_WIDTH);
  place(graph, second);
  const tdm_value scores = tdm_linear(graph, "rnn", words, MODEL_WIDTH);
  const tdm_value loss = judged(graph, scores);
  if (out_loss) *out_loss = loss;
  return graph;
}

tdm_graph *zigzag_graph(tdm_context *context, const char *first, const char *second,
                        tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value ids = ids_of(graph);
  place(graph, first);
  const tdm_value words = tdm_embedding(graph, "embedding", ids, MODEL_ROWS, MODEL_WIDTH);
  place(graph, second);
  const tdm_value there = tdm_tanh(graph, "there", tdm_linear(graph, "hidden1", words, 24));
  place(graph, first);
  const tdm_value back = tdm_relu(graph, "back", tdm_linear(graph, "hidden2", there, 16));
  place(graph, second);
  const tdm_value scores = tdm_linear(graph, "last", back, MODEL_WIDTH);
  const tdm_value loss = judged(graph, scores);
  if (out_loss) *out_loss = loss;
  return graph;
}

tdm_graph *tied_graph(tdm_context *context, const char *first, const char *second,
                      tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value ids = ids_of(graph);
  place(graph, first);
  const tdm_value words = tdm_embedding(graph, "embedding", ids, MODEL_ROWS, MODEL_WIDTH);
  const tdm_value once = tdm_tanh(graph, "once", tdm_linear(graph, "tied", words, MODEL_WIDTH));
  place(graph, second);
  tdm_tie(graph, "tied", "tied");
  const tdm_value twice = tdm_tanh(graph, "twice", tdm_linear(graph, "tied", once, MODEL_WIDTH));
  const tdm_value scores = tdm_linear(graph, "rnn", twice, MODEL_WIDTH);
  const tdm_value loss = judged(graph, scores);
  if (out_loss) *out_loss = loss;
  return graph;
}

static tdm_session *session_of(tdm_graph *graph, const tdm_session_options *options) {
  tdm_session *session = tdm_session_create(graph, options);
  if (!session) fail_msg("no session: %s", tdm_last_message());
  tdm_graph_release(graph);
  return session;
}

tdm_session *train_session(tdm_graph *graph, tdm_value loss, tdm_optimizer optimizer,
                           const tdm_session_options *options) {
  tdm_session_options mine = tdm_session_options_default();
  if (options) mine = *options;
  mine.loss = loss;
  mine.optimizer = &optimizer;
  return session_of(graph, &mine);
}

tdm_session *run_session(tdm_graph *graph, const tdm_session_options *options) {
  tdm_session_options mine = tdm_session_options_default();
  if (options) mine = *options;
  return session_of(graph, &mine);
}

/* ---- Batches --------------------------------------------------------------------------------- */

static tdm_tensor *draw(tdm_context *context, int64_t rows, uint64_t seed, const char *name,
                        uint32_t below) {
  const tdm_random random = {seed, tdm_random_stream(name), 0};
  int64_t *values = malloc(((size_t)rows + 1) * sizeof *values);
  assert_non_null(values);
  for (int64_t i = 0; i < rows; i++)
    values[i] = tdm_random_uint32(&random, (uint64_t)i) % below;
  tdm_tensor *tensor = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, rows), values);
  free(values);
  if (!tensor) fail_msg("no batch: %s", tdm_last_message());
  return tensor;
}

void test_batch_make(test_batch *batch, tdm_context *context, int64_t rows, uint64_t seed) {
  memset(batch, 0, sizeof *batch);
  batch->ids = draw(context, rows, seed, "ids", MODEL_ROWS);
  batch->targets = draw(context, rows, seed, "targets", MODEL_WIDTH);
  batch->feeds[0] = (tdm_feed){.name = "ids", .tensor = batch->ids};
  batch->feeds[1] = (tdm_feed){.name = "targets", .tensor = batch->targets};
}

void test_batch_release(test_batch *batch) {
  tdm_tensor_release(batch->ids);
  tdm_tensor_release(batch->targets);
  memset(batch, 0, sizeof *batch);
}

double train_once(tdm_session *session, const test_batch *batch) {
  double loss = 0;
  assert_ok(tdm_train_step(session, batch->feeds, 2, NULL, 0, &loss));
  return loss;
}

double train_steps(tdm_session *session, int64_t rows, int steps) {
  const tdm_store *store = tdm_session_store(session);
  double loss = 0;
  for (int i = 1; i <= steps; i++) {
    test_batch batch;
    test_batch_make(&batch, store->context, rows, (uint64_t)i);
    loss = train_once(session, &batch);
    test_batch_release(&batch);
  }
  return loss;
}

tdm_tensor *run_once(tdm_session *session, const test_batch *batch, const char *name) {
  tdm_fetch fetch = {.name = name};
  assert_ok(tdm_run(session, batch->feeds, 1, &fetch, 1));
  assert_non_null(fetch.tensor);
  return fetch.tensor;
}

tdm_tensor *run_on_uniform(tdm_session *session, int64_t rows, int64_t width) {
  tdm_tensor *x = tdm_tensor_uniform(session->context, "cpu:0", TDM_FLOAT32,
                                     tdm_shape_of(2, rows, width), 99, -1, 1);
  const tdm_feed feed = {.name = "x", .tensor = x};
  tdm_fetch fetch = {.name = "y"};
  assert_ok(tdm_run(session, &feed, 1, &fetch, 1));
  tdm_tensor_release(x);
  return fetch.tensor;
}

/* ---- Comparing ------------------------------------------------------------------------------- */

void assert_same_tensor(const tdm_tensor *a, const tdm_tensor *b) {
  assert_int_equal(tdm_tensor_dtype(a), tdm_tensor_dtype(b));
  const tdm_shape a_shape = tdm_tensor_shape(a);
  const tdm_shape b_shape = tdm_tensor_shape(b);
  assert_true(tdm_shape_equal(&a_shape, &b_shape));
  assert_memory_equal(tdm_tensor_data(a), tdm_tensor_data(b), tdm_tensor_bytes(a));
}

void assert_same_state(const tdm_tensor_list *a, const tdm_tensor_list *b) {
  assert_int_equal(tdm_tensor_list_count(a), tdm_tensor_list_count(b));
  for (size_t i = 0; i < tdm_tensor_list_count(a); i++) {
    const char *name = tdm_tensor_list_name(a, i);
    const tdm_tensor *other = tdm_tensor_list_find(b, name);
    if (!other) fail_msg("%s is in one state only", name);
    const tdm_tensor *mine = tdm_tensor_list_tensor(a, i);
    assert_int_equal(tdm_tensor_bytes(mine), tdm_tensor_bytes(other));
    if (memcmp(tdm_tensor_data(mine), tdm_tensor_data(other), tdm_tensor_bytes(mine)) != 0)
      fail_msg("%s differs", name);
  }
}

tdm_tensor_list *state_of(tdm_session *session) {
  tdm_tensor_list *list = tdm_store_save(tdm_session_store(session), true);
  if (!list) fail_msg("no state: %s", tdm_last_message());
  return list;
}

char *printed(tdm_session *session, test_printer print, const char *what, tdm_plan_format format) {
  char *text = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&text, &length);
  assert_non_null(out);
  const tdm_status status = print(session, what, format, out);
  assert_int_equal(fclose(out), 0);
  assert_ok(status);
  return text;
}

tdm_status print_explain(tdm_session *session, const char *what, tdm_plan_format format,
                         FILE *out) {
  (void)what;
  return tdm_session_explain(session, format, out);
}
