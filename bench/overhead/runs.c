/* Measures the overhead of a run: models so small that their arithmetic takes almost no time. */
#include "bench/overhead/rows.h"

enum { ROWS = 30, WORDS = 1000, WIDTH = 10, CHAIN = 100 };

/* A session, the feeds and fetches of its runs, and their status. */
typedef struct bench_model {
  tdm_status status; /* status of the first run that failed */
  tdm_graph *graph;
  tdm_session *session;
  tdm_feed feeds[2];
  size_t feed_count;
  tdm_fetch fetch;
} bench_model;

static void run_forward(void *user) {
  bench_model *model = user;
  if (model->status != TDM_OK) return;
  model->status = tdm_run(model->session, model->feeds, 1, &model->fetch, 1);
  tdm_tensor_release(model->fetch.tensor);
  model->fetch.tensor = NULL;
}

static void run_training_step(void *user) {
  bench_model *model = user;
  if (model->status != TDM_OK) return;
  model->status = tdm_train_step(model->session, model->feeds, model->feed_count, NULL, 0, NULL);
}

/* Embedding(1000, 10) and Linear(10, 10), the linear layer on `second`; (30) ids. */
static bench_model make_small(tdm_context *context, const char *second) {
  bench_model made = {.graph = tdm_graph_create(context), .fetch = {"scores", NULL}};
  tdm_graph *graph = made.graph;
  const tdm_shape batch = tdm_shape_of(1, TDM_DIM("batch"));
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, batch);
  const tdm_value classes = tdm_input(graph, "classes", TDM_INT64, batch);
  tdm_place(graph, "cpu:0");
  const tdm_value words = tdm_embedding(graph, "embedding", ids, WORDS, WIDTH);
  tdm_place(graph, second);
  const tdm_value scores = tdm_linear(graph, "linear", words, WIDTH);
  tdm_output(graph, "scores", scores);
  const tdm_optimizer sgd = tdm_sgd(0.01);
  tdm_session_options options = tdm_session_options_default();
  options.loss = tdm_cross_entropy(graph, "loss", scores, classes);
  options.optimizer = &sgd;
  made.session = tdm_session_create(graph, &options);
  if (!made.session) made.status = TDM_INVALID_ARGUMENT;
  int64_t id_values[ROWS];
  int64_t class_values[ROWS];
  for (int i = 0; i < ROWS; i++) {
    id_values[i] = i * 31 % WORDS;
    class_values[i] = i % WIDTH;
  }
  const tdm_shape rows = tdm_shape_of(1, ROWS);
  made.feeds[0] = (tdm_feed){"ids", tdm_tensor_from(context, TDM_INT64, rows, id_values), false};
  made.feeds[1] =
      (tdm_feed){"classes", tdm_tensor_from(context, TDM_INT64, rows, class_values), false};
  made.feed_count = 2;
  return made;
}

/* 100 times Linear(10, 10); (30, 10) rows. */
static bench_model make_chain(tdm_context *context) {
  bench_model made = {.graph = tdm_graph_create(context), .fetch = {"y", NULL}};
  tdm_graph *graph = made.graph;
  tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  tdm_place(graph, "cpu:0");
  for (int i = 0; i < CHAIN; i++) {
    const char name[] = {'l', (char)('0' + i / 10), (char)('0' + i % 10), '\0'};
    x = tdm_linear(graph, name, x, WIDTH);
  }
  tdm_output(graph, "y", x);
  made.session = tdm_session_create(graph, NULL);
  if (!made.session) made.status = TDM_INVALID_ARGUMENT;
  made.feeds[0] = (tdm_feed){
      "x",
      tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH), 1, -1, 1),
      false};
  made.feed_count = 1;
  return made;
}

static void drop(bench_model *model) {
  for (size_t i = 0; i < model->feed_count; i++)
    tdm_tensor_release(model->feeds[i].tensor);
  tdm_session_release(model->session);
  tdm_graph_release(model->graph);
}

/* Measures a model in one way; nothing once it has failed. */
static void measure(const overhead_listener *to, const char *row, bench_model *model,
                    double (*time)(void (*work)(void *user), void *user),
                    void (*work)(void *user)) {
  if (model->status != TDM_OK) return;
  to->begins(to->user, row);
  const double ns = time(work, model);
  if (model->status == TDM_OK) to->row(to->user, row, ns);
}

static tdm_status rows_on_cpu(const overhead_listener *to) {
  tdm_context *context = tdm_context_create(NULL);
  if (!context) return TDM_UNAVAILABLE;
  bench_model small = make_small(context, "cpu:0");
  measure(to, "forward", &small, bench_hot_ns, run_forward);
  measure(to, "training step", &small, bench_hot_ns, run_training_step);
  tdm_status status = small.status;
  drop(&small);
  if (status == TDM_OK) {
    bench_model chain = make_chain(context);
    measure(to, "chain of 100", &chain, bench_hot_ns, run_forward);
    status = chain.status;
    drop(&chain);
  }
  tdm_context_release(context);
  return status;
}

static tdm_status rows_on_two_devices(const overhead_listener *to) {
  tdm_context_options ideal = tdm_context_options_default();
  ideal.sim_devices = 1;
  ideal.sim = "latency_us=0,gigabytes_per_second=0";
  tdm_context *context = tdm_context_create(&ideal);
  if (!context) return TDM_UNAVAILABLE;
  bench_model mixed = make_small(context, "sim:0");
  measure(to, "mixed forward, hot", &mixed, bench_hot_ns, run_forward);
  measure(to, "mixed forward, cold", &mixed, bench_cold_ns, run_forward);
  measure(to, "mixed training step, hot", &mixed, bench_hot_ns, run_training_step);
  const tdm_status status = mixed.status;
  drop(&mixed);
  tdm_context_release(context);
  return status;
}

tdm_status rows_of_runs(const overhead_listener *to) {
  const tdm_status status = rows_on_cpu(to);
  return status == TDM_OK ? rows_on_two_devices(to) : status;
}
