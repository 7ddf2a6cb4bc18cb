/* The soak's models and jobs. Invariant: every tensor, list, session and context that a job makes
 * is given back before the job ends. */
#include "bench/soak/work.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/timing.h"

enum { WORDS = 2000, WIDTH = 32, CLASSES = 16, LONGEST = 12, MOST_ROWS = 64, AT_ONCE = 6 };

/* ---- The model ------------------------------------------------------------------------------- */

/* ids (length, batch) -> words -> LSTM -> scores of classes. */
static tdm_session *open_model(tdm_context *context, tdm_store *store, const char *places,
                               bool trains, int depth) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value ids =
      tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(2, TDM_DIM("length"), TDM_DIM("batch")));
  tdm_embedding_options sparse = tdm_embedding_options_default();
  sparse.sparse = true;
  const tdm_value words = tdm_embedding_with(graph, "words", ids, WORDS, WIDTH, &sparse);
  const tdm_value states = tdm_lstm(graph, "lstm", words, WIDTH, NULL, NULL, NULL);
  const tdm_value last = tdm_last_step(graph, "last", states);
  const tdm_value scores = tdm_linear(graph, "scores", last, CLASSES);
  tdm_output(graph, "scores", scores);
  tdm_session_options options = tdm_session_options_default();
  options.store = store;
  options.device_map = places;
  options.depth = depth;
  options.plan_limit = 8;
  options.trace_runs = trains ? 4 : 0;
  const tdm_optimizer optimizer = tdm_sgd(0.01);
  if (trains) {
    const tdm_value targets =
        tdm_input(graph, "targets", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
    options.loss = tdm_cross_entropy(graph, "loss", scores, targets);
    options.optimizer = &optimizer;
  }
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) bench_fail("a session");
  tdm_graph_release(graph);
  return session;
}

void soak_open(soak *it) {
  tdm_context_options options = tdm_context_options_default();
  options.cpu_devices = 1;
  options.sim_devices = 2;
  it->context = tdm_context_create(&options);
  if (!it->context) bench_fail("a context");
  it->trainer = open_model(it->context, NULL, "words=cpu:0,*=sim:0", true, 2);
  it->reader =
      open_model(it->context, tdm_session_store(it->trainer), "scores=cpu:0,*=sim:1", false, 3);
  const char *folder = getenv("TMPDIR");
  (void)snprintf(it->path, sizeof it->path, "%s/soak_%d", folder ? folder : "/tmp", (int)getpid());
}

void soak_close(soak *it) {
  tdm_session_release(it->trainer);
  tdm_session_release(it->reader);
  tdm_context_release(it->context);
  (void)unlink(it->path);
}

/* ---- Batches --------------------------------------------------------------------------------- */

typedef struct batch {
  tdm_tensor *ids, *targets;
  tdm_feed feeds[2];
} batch;

static void batch_make(batch *it, tdm_context *context, uint64_t round) {
  const tdm_random random = {.seed = 1, .stream = round};
  const int64_t length = 1 + tdm_random_uint32(&random, 0) % LONGEST;
  const int64_t rows = 1 + tdm_random_uint32(&random, 1) % MOST_ROWS;
  int64_t ids[LONGEST * MOST_ROWS], targets[MOST_ROWS];
  for (int64_t i = 0; i < length * rows; i++)
    ids[i] = tdm_random_uint32(&random, (uint64_t)i) % WORDS;
  for (int64_t i = 0; i < rows; i++)
    targets[i] = ids[i] % CLASSES;
  it->ids = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(2, length, rows), ids);
  it->targets = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, rows), targets);
  if (!it->ids || !it->targets) bench_fail("a batch");
  it->feeds[0] = (tdm_feed){"ids", it->ids, false};
  it->feeds[1] = (tdm_feed){"targets", it->targets, false};
}

static void batch_release(batch *it) {
  tdm_tensor_release(it->ids);
  tdm_tensor_release(it->targets);
}

/* ---- Jobs ------------------------------------------------------------------------------------ */

void soak_train(soak *it, uint64_t round) {
  batch made;
  double loss;
  batch_make(&made, it->context, 2 * round);
  bench_check(tdm_train_step(it->trainer, made.feeds, 2, NULL, 0, &loss), "a step");
  batch_release(&made);
  it->counts.trained++;
}

void soak_infer(soak *it, uint64_t round) {
  batch made;
  batch_make(&made, it->context, 2 * round + 1);
  tdm_fetch fetch = {"scores", NULL};
  bench_check(tdm_run(it->reader, made.feeds, 1, &fetch, 1), "a run");
  tdm_tensor_release(fetch.tensor);
  batch_release(&made);
  it->counts.inferred++;
}

typedef struct landing {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int landed, stopped, failed;
} landing;

static void on_landed(void *user, tdm_run_result *result) {
  landing *it = user;
  const bool stopped = result->status == TDM_CANCELLED || result->status == TDM_DEADLINE_EXCEEDED;
  for (size_t i = 0; i < result->fetch_count; i++)
    tdm_tensor_release(result->fetches[i].tensor);
  (void)pthread_mutex_lock(&it->lock);
  it->landed++;
  it->stopped += stopped;
  it->failed += !stopped && result->status != TDM_OK;
  (void)pthread_cond_signal(&it->changed);
  (void)pthread_mutex_unlock(&it->lock);
}

static void await(landing *it, int wanted) {
  (void)pthread_mutex_lock(&it->lock);
  while (it->landed < wanted)
    (void)pthread_cond_wait(&it->changed, &it->lock);
  (void)pthread_mutex_unlock(&it->lock);
}

/* Submits training and inference, and stops every other: by id, or by a deadline. */
void soak_stop(soak *it, uint64_t round) {
  landing ground = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0};
  batch batches[AT_ONCE];
  for (int i = 0; i < AT_ONCE; i++) {
    const bool trains = i % 3 == 0;
    tdm_session *session = trains ? it->trainer : it->reader;
    tdm_submit_options options = tdm_submit_options_default();
    options.training = trains;
    options.callback = on_landed;
    options.user = &ground;
    if (i == 3) options.deadline_ns = 1 + round % 500000;
    const tdm_fetch fetch = {"scores", NULL};
    uint64_t id;
    batch_make(&batches[i], it->context, AT_ONCE * round + (uint64_t)i);
    bench_check(
        tdm_submit_with(session, &options, batches[i].feeds, trains ? 2 : 1, &fetch, 1, &id),
        "submitting");
    if (i % 2 == 1) (void)tdm_run_cancel(session, id);
  }
  await(&ground, AT_ONCE);
  for (int i = 0; i < AT_ONCE; i++)
    batch_release(&batches[i]);
  if (ground.failed > 0) bench_fail("a submitted run");
  it->counts.stopped += (uint64_t)ground.stopped;
}

/* A list of everything in memory, put back half of the time; or a checkpoint in a file. */
void soak_save(soak *it, uint64_t round) {
  if (round % 2) {
    bench_check(tdm_checkpoint_save(it->trainer, NULL, it->path), "a checkpoint");
  } else {
    tdm_store *store = tdm_session_store(it->trainer);
    tdm_tensor_list *list = tdm_store_save(store, true);
    if (!list) bench_fail("a list");
    if (round % 4 == 0) bench_check(tdm_store_load(store, list), "loading a list");
    tdm_tensor_list_release(list);
  }
  it->counts.saved++;
}

/* Creates a new context, trains a model in it, saves it and loads it in a second session, submits
 * and cancels a run, and releases everything. */
void soak_make_context(soak *it, uint64_t round) {
  tdm_context_options options = tdm_context_options_default();
  options.cpu_devices = 1 + (int)(round % 2);
  options.sim_devices = 1;
  tdm_context *context = tdm_context_create(&options);
  if (!context) bench_fail("another context");
  char path[sizeof it->path + 8];
  (void)snprintf(path, sizeof path, "%s.other", it->path);
  tdm_session *first = open_model(context, NULL, "words=cpu:0,*=sim:0", true, 1);
  tdm_session *second = open_model(context, NULL, "*=cpu:0", true, 1);
  batch made;
  batch_make(&made, context, round);
  landing ground = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0};
  tdm_submit_options submit = tdm_submit_options_default();
  submit.training = true;
  submit.callback = on_landed;
  submit.user = &ground;
  uint64_t id;
  bench_check(tdm_train_step(first, made.feeds, 2, NULL, 0, NULL), "a step");
  bench_check(tdm_checkpoint_save(first, NULL, path), "a checkpoint");
  bench_check(tdm_checkpoint_load(second, NULL, path), "taking up a checkpoint");
  bench_check(tdm_submit_with(second, &submit, made.feeds, 2, NULL, 0, &id), "submitting");
  (void)tdm_run_cancel(second, id);
  batch_release(&made);
  tdm_session_release(first);
  tdm_session_release(second); /* the run holds it until it has landed */
  await(&ground, 1);
  tdm_context_release(context);
  (void)unlink(path);
  if (ground.failed > 0) bench_fail("a run of another context");
  it->counts.contexts++;
}
