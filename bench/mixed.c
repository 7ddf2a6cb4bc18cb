/* Mixed work with its stages on one core each: an embedding on cpu:0, its rows copied to sim:0, a
 * dense part there. One run at a time, in micro-batches, and in flight; steps of all ways are taken
 * in turn. Prints "model, way<TAB>nanoseconds a run", medians; bench/peers/mixed.py prints the same
 * for PyTorch. `mixed MODEL` takes one of them; `mixed --busy`: how long each device works a run.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/help.h"
#include "bench/timing.h"

enum { ROUNDS = 5, MOST_RUNS = 64 };
static const double ROUND_NS = 1e8; /* approximate duration of a round of one variant */

/* ---- Models: bench/peers/mixed.py has the same ----------------------------------------------- */

typedef struct mixed_model {
  const char *name;
  int64_t table_rows;
  int64_t width; /* width of the table's rows */
  int64_t ids;   /* number of ids of a sample; the length of a sequence */
  int64_t hidden;
  int64_t classes;
  int64_t batch;
  bool recurrent; /* the main job: an Elman RNN over the ids, Adam, a clipped norm */
} mixed_model;

static const mixed_model models[] = {
    {"balanced", 200000, 128, 8, 32, 10, 4096, false},
    {"dense", 200000, 64, 8, 512, 10, 1024, false},
    {"main job", 60, 32, 9, 128, 8, 256, true},
};

typedef struct way {
  const char *name;
  bool training;
  int micro_batches;
  int depth;
} way;

static const way ways[] = {
    {"forward", false, 1, 1},
    {"forward, 4 micro-batches", false, 4, 1},
    {"forward, 3 in flight", false, 1, 3},
    {"step", true, 1, 1},
    {"step, 2 micro-batches", true, 2, 1},
    {"step, 4 micro-batches", true, 4, 1},
    {"step, 8 micro-batches", true, 8, 1},
    {"step, 2 in flight", true, 1, 2},
    {"step, 4 micro-batches, 2 in flight", true, 4, 2},
};
enum { WAYS = sizeof ways / sizeof *ways };

/* ids (batch, ids) -> embedding -> (batch, ids * width) -> copied -> two linear layers -> scores.
 */
static tdm_value build_wide(tdm_graph *graph, const mixed_model *model) {
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(2, batch, model->ids));
  tdm_place(graph, "cpu:0");
  tdm_embedding_options sparse = tdm_embedding_options_default();
  sparse.sparse = true;
  tdm_value x =
      tdm_embedding_with(graph, "embedding", ids, model->table_rows, model->width, &sparse);
  x = tdm_reshape(graph, "wide", x, tdm_shape_of(2, batch, model->ids * model->width));
  tdm_place(graph, "sim:0");
  x = tdm_relu(graph, "relu", tdm_linear(graph, "hidden", x, model->hidden));
  return tdm_linear(graph, "linear", x, model->classes);
}

/* ids (length, batch) -> embedding -> copied -> rnn -> its last step -> scores. */
static tdm_value build_recurrent(tdm_graph *graph, const mixed_model *model) {
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(2, model->ids, batch));
  tdm_place(graph, "cpu:0");
  tdm_value x = tdm_embedding(graph, "embedding", ids, model->table_rows, model->width);
  tdm_place(graph, "sim:0");
  x = tdm_rnn(graph, "rnn", x, model->hidden, NULL, NULL);
  return tdm_linear(graph, "linear", tdm_last_step(graph, "last", x), model->classes);
}

static tdm_session *create_session(tdm_context *context, tdm_store *store, const mixed_model *model,
                                   const way *chosen, int trace_runs) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value scores =
      model->recurrent ? build_recurrent(graph, model) : build_wide(graph, model);
  const tdm_value targets =
      tdm_input(graph, "targets", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_output(graph, "scores", scores);
  tdm_optimizer optimizer = model->recurrent ? tdm_adam(0.0001) : tdm_sgd(0.0001);
  if (model->recurrent) optimizer.clip_norm = 1;
  tdm_session_options options = tdm_session_options_default();
  options.store = store;
  options.loss = tdm_cross_entropy(graph, "loss", scores, targets);
  options.optimizer = &optimizer;
  options.depth = chosen->depth;
  options.trace_runs = trace_runs;
  options.micro_batches = chosen->micro_batches;
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) bench_fail(model->name);
  tdm_graph_release(graph);
  return session;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

typedef struct subject {
  const way *way;
  tdm_session *session;
  tdm_feed feeds[2];
  int runs_a_round;
  double samples_ns[ROUNDS];
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int landed;
} subject;

static tdm_tensor *draw(tdm_context *context, tdm_shape shape, int64_t below, uint64_t seed) {
  tdm_tensor *tensor = tdm_tensor_create(context, "cpu:0", TDM_INT64, shape);
  if (!tensor) bench_fail("batch");
  int64_t *values = tdm_tensor_data(tensor);
  for (size_t i = 0; i < tdm_tensor_bytes(tensor) / sizeof *values; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX */
    values[i] = (int64_t)((seed >> 33) % (uint64_t)below);
  }
  return tensor;
}

static void on_landed(void *user, tdm_run_result *result) {
  subject *mine = user;
  if (result->status != TDM_OK) {
    fprintf(stderr, "mixed: %s\n", result->message);
    exit(1);
  }
  for (size_t i = 0; i < result->fetch_count; i++)
    tdm_tensor_release(result->fetches[i].tensor);
  (void)pthread_mutex_lock(&mine->lock);
  mine->landed++;
  (void)pthread_cond_signal(&mine->changed);
  (void)pthread_mutex_unlock(&mine->lock);
}

/* Keeps at most twice the depth of requests in flight, as a loader would. */
static void run_in_flight(subject *mine, int runs) {
  const bool training = mine->way->training;
  const tdm_fetch scores = {.name = "scores"};
  mine->landed = 0;
  for (int i = 0; i <= runs; i++) {
    const int wanted = i < runs ? i - 2 * mine->way->depth + 1 : runs;
    (void)pthread_mutex_lock(&mine->lock);
    while (mine->landed < wanted)
      (void)pthread_cond_wait(&mine->changed, &mine->lock);
    (void)pthread_mutex_unlock(&mine->lock);
    if (i == runs) return;
    bench_check(tdm_submit(mine->session, training, mine->feeds, training ? 2 : 1, &scores,
                           training ? 0 : 1, on_landed, mine),
                "submit");
  }
}

static void run_blocking(subject *mine, int runs) {
  for (int i = 0; i < runs; i++) {
    if (mine->way->training) {
      double loss;
      bench_check(tdm_train_step(mine->session, mine->feeds, 2, NULL, 0, &loss), "step");
      continue;
    }
    tdm_fetch scores = {.name = "scores"};
    bench_check(tdm_run(mine->session, mine->feeds, 1, &scores, 1), "run");
    tdm_tensor_release(scores.tensor);
  }
}

static double time_runs(subject *mine, int runs) {
  const uint64_t began_ns = bench_now_ns();
  if (mine->way->depth > 1)
    run_in_flight(mine, runs);
  else
    run_blocking(mine, runs);
  return (double)(bench_now_ns() - began_ns);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static void open_subject(subject *mine, tdm_context *context, tdm_store *store,
                         const mixed_model *model, const way *chosen, int trace_runs) {
  const tdm_shape shape = model->recurrent ? tdm_shape_of(2, model->ids, model->batch)
                                           : tdm_shape_of(2, model->batch, model->ids);
  memset(mine, 0, sizeof *mine);
  mine->way = chosen;
  mine->session = create_session(context, store, model, chosen, trace_runs);
  mine->feeds[0] = (tdm_feed){.name = "ids", .tensor = draw(context, shape, model->table_rows, 1)};
  mine->feeds[1] = (tdm_feed){
      .name = "targets", .tensor = draw(context, tdm_shape_of(1, model->batch), model->classes, 2)};
  (void)pthread_mutex_init(&mine->lock, NULL);
  (void)pthread_cond_init(&mine->changed, NULL);
}

static void close_subject(subject *mine) {
  tdm_session_release(mine->session);
  tdm_tensor_release(mine->feeds[0].tensor);
  tdm_tensor_release(mine->feeds[1].tensor);
  (void)pthread_mutex_destroy(&mine->lock);
  (void)pthread_cond_destroy(&mine->changed);
}

static void measure(tdm_context *context, const mixed_model *model) {
  static subject subjects[WAYS];
  tdm_store *store = tdm_store_create(context);
  if (!store) bench_fail("store");
  for (size_t w = 0; w < WAYS; w++) {
    subject *mine = &subjects[w];
    open_subject(mine, context, store, model, &ways[w], 0);
    (void)time_runs(mine, 3);
    const double runs = ROUND_NS / (time_runs(mine, 8) / 8);
    mine->runs_a_round = runs < 8 ? 8 : (int)runs;
  }
  for (int round = 0; round < ROUNDS; round++)
    for (size_t w = 0; w < WAYS; w++)
      subjects[w].samples_ns[round] =
          time_runs(&subjects[w], subjects[w].runs_a_round) / subjects[w].runs_a_round;
  for (size_t w = 0; w < WAYS; w++) {
    printf("%s, %s\t%.0f\n", model->name, ways[w].name,
           bench_median(subjects[w].samples_ns, ROUNDS));
    close_subject(&subjects[w]);
  }
  tdm_store_release(store);
}

/* Prints busy shares by the devices' timestamps, of single runs and of runs in flight. */
static void show_busy(tdm_context *context, const mixed_model *model) {
  for (size_t w = 0; w < WAYS; w++) {
    subject mine;
    open_subject(&mine, context, NULL, model, &ways[w], MOST_RUNS);
    (void)time_runs(&mine, MOST_RUNS + 3);
    printf("\n%s, %s\n", model->name, ways[w].name);
    bench_check(tdm_session_trace(mine.session, TDM_TRACE_SUMMARY, stdout), "summary");
    close_subject(&mine);
  }
}

int main(int argc, char **argv) {
  bench_help(
      argc, argv,
      "mixed_rows [MODEL] [--busy]: nanoseconds a run of models on cpu:0 and sim:0, one at a\n"
      "time, in micro-batches, and in flight. --busy: how long each device works a run.\n");
  const bool busy = argc > 1 && strcmp(argv[argc - 1], "--busy") == 0;
  const char *only = argc > 1 + busy ? argv[1] : NULL;
  tdm_context_options options = tdm_context_options_default();
  options.cpu_devices = 1;
  options.sim_devices = 1;
  options.sim = "latency_us=0,gigabytes_per_second=0";
  tdm_context *context = tdm_context_create(&options);
  if (!context) bench_fail("context");
  for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
    if (only && strcmp(only, models[m].name) != 0) continue;
    if (busy)
      show_busy(context, &models[m]);
    else
      measure(context, &models[m]);
  }
  tdm_context_release(context);
  return 0;
}
