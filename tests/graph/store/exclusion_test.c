/* Saving and loading a store are ordered among the runs: after earlier requests, before later ones.
 * Planning that creates parameters, states or logs waits for no run. A clogged device decides which
 * runs can continue, so nothing is timed. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "graph/run/session.h"
#include "tests/graph/clogged.h"
#include "tests/graph/run_tally.h"
#include "tests/options.h"

enum { RUNNERS = 8, ROUNDS = 5 };

typedef struct scene {
  tdm_context *context;
  tdm_session *session;
  tdm_store *store;
  clog clog;
  test_batch batch;
  test_batch larger;
  tdm_tensor_list *state; /* initial state of the session */
  tdm_tensor_list *dict;
  char checkpoint[512];
  char weights[512];
} scene;

/* ---- Calls that require the store exclusively ------------------------------------------------ */

static void save_store(scene *self) {
  tdm_tensor_list *list = tdm_store_save(self->store, true);
  assert_non_null(list);
  tdm_tensor_list_release(list);
}

static void load_store(scene *self) {
  tdm_tensor_list *list = tdm_tensor_list_create(self->context);
  assert_ok(
      tdm_tensor_list_add(list, "rnn.weight", tdm_tensor_list_find(self->state, "rnn.weight")));
  assert_ok(tdm_store_load(self->store, list));
  tdm_tensor_list_release(list);
}

static void save_session(scene *self) {
  tdm_tensor_list *list;
  assert_ok(tdm_session_save(self->session, &list));
  tdm_tensor_list_release(list);
}

static void load_session(scene *self) {
  assert_ok(tdm_session_load(self->session, self->state));
}

static void save_checkpoint(scene *self) {
  assert_ok(tdm_checkpoint_save(self->session, NULL, self->checkpoint));
}

static void load_checkpoint(scene *self) {
  assert_ok(tdm_checkpoint_load(self->session, NULL, self->checkpoint));
}

static void make_state_dict(scene *self) {
  tdm_tensor_list *list;
  assert_ok(tdm_session_state_dict(self->session, NULL, &list));
  tdm_tensor_list_release(list);
}

static void load_state_dict(scene *self) {
  assert_ok(tdm_session_load_state_dict(self->session, self->dict, NULL));
}

static void save_weights(scene *self) {
  assert_ok(tdm_state_dict_save(self->session, self->weights, NULL));
}

static void load_weights(scene *self) {
  assert_ok(tdm_state_dict_load(self->session, self->weights, NULL));
}

/* ids -> a table with sparse gradients, which is also read on the other device -> "scores". */
static tdm_session *tables_session(scene *self, const char *name, bool adam) {
  tdm_graph *graph = tdm_graph_create(self->context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_value targets =
      tdm_input(graph, "targets", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_embedding_options sparse = OPTIONS(tdm_embedding_options, o.sparse = true);
  tdm_place(graph, "cpu:0");
  const tdm_value here = tdm_embedding_with(graph, name, ids, MODEL_ROWS, MODEL_WIDTH, &sparse);
  tdm_place(graph, "sim:0");
  tdm_tie(graph, name, name);
  const tdm_value there = tdm_embedding_with(graph, name, ids, MODEL_ROWS, MODEL_WIDTH, &sparse);
  const tdm_value scores = tdm_add(graph, "both", here, there);
  tdm_output(graph, "scores", scores);
  const tdm_session_options options = OPTIONS(tdm_session_options, o.store = self->store);
  return train_session(graph, tdm_cross_entropy(graph, "loss", scores, targets),
                       adam ? tdm_sparse_adam(0.01) : tdm_sgd(0.01), &options);
}

static tdm_session *tables; /* sessions that were made before the runs */
static int tables_made;

/* Adds new parameters to the store. */
static void create_session(scene *self) {
  char name[32];
  (void)snprintf(name, sizeof name, "table%d", tables_made++);
  tdm_session_release(tables_session(self, name, false));
}

/* Adds new states and new logs of rows to the store. */
static void plan_training(scene *self) {
  assert_ok(tdm_session_prepare(tables, self->batch.feeds, 2, NULL, 0, true));
}

/* Requires a longer log. */
static void plan_larger(scene *self) {
  assert_ok(tdm_session_prepare(tables, self->larger.feeds, 2, NULL, 0, true));
}

static const struct operation {
  const char *name;
  void (*perform)(scene *self);
} operations[] = {
    {"tdm_store_save", save_store},
    {"tdm_store_load", load_store},
    {"tdm_session_save", save_session},
    {"tdm_session_load", load_session},
    {"tdm_checkpoint_save", save_checkpoint},
    {"tdm_checkpoint_load", load_checkpoint},
    {"tdm_session_state_dict", make_state_dict},
    {"tdm_session_load_state_dict", load_state_dict},
    {"tdm_state_dict_save", save_weights},
    {"tdm_state_dict_load", load_weights},
    {"tdm_session_create", create_session},
    {"planning of states and logs", plan_training},
    {"planning of longer logs", plan_larger},
};
enum { OPERATIONS = sizeof operations / sizeof operations[0], EXCLUSIVE = OPERATIONS - 3 };

/* ---- Scenes ---------------------------------------------------------------------------------- */

static void scene_open(scene *self, tdm_context *context) {
  memset(self, 0, sizeof *self);
  self->context = context;
  tdm_value loss;
  tdm_graph *graph = clogged_graph(context, "cpu:0", "sim:0", &self->clog, &loss);
  const tdm_session_options options = OPTIONS(tdm_session_options, o.depth = 3);
  self->session = train_session(graph, loss, tdm_adam(0.01), &options);
  self->store = tdm_session_store(self->session);
  test_batch_make(&self->batch, context, ROWS, 1);
  test_batch_make(&self->larger, context, 4 * ROWS, 2);
  (void)train_once(self->session, &self->batch);
  assert_ok(tdm_session_save(self->session, &self->state));
  assert_ok(tdm_session_state_dict(self->session, NULL, &self->dict));
  (void)snprintf(self->checkpoint, sizeof self->checkpoint, "%s/exclusion.checkpoint",
                 getenv("TEST_TMPDIR") ? getenv("TEST_TMPDIR") : "/tmp");
  (void)snprintf(self->weights, sizeof self->weights, "%s/exclusion.weights",
                 getenv("TEST_TMPDIR") ? getenv("TEST_TMPDIR") : "/tmp");
  assert_ok(tdm_checkpoint_save(self->session, NULL, self->checkpoint));
  assert_ok(tdm_state_dict_save(self->session, self->weights, NULL));
  atomic_store(&self->clog.entered, 0);
}

static void scene_close(scene *self) {
  (void)unlink(self->checkpoint);
  (void)unlink(self->weights);
  tdm_tensor_list_release(self->state);
  tdm_tensor_list_release(self->dict);
  test_batch_release(&self->batch);
  test_batch_release(&self->larger);
  tdm_session_release(self->session);
}

/* ---- Runs of every kind ---------------------------------------------------------------------- */

typedef struct runner {
  scene *scene;
  bool training;
  bool submits;
  pthread_t thread;
  _Atomic bool done;
} runner;

static void note_done(void *user, tdm_run_result *result) {
  runner *self = user;
  assert_int_equal(result->status, TDM_OK);
  for (size_t i = 0; i < result->fetch_count; i++)
    tdm_tensor_release(result->fetches[i].tensor);
  atomic_store(&self->done, true);
}

static void run_blocking(const scene *self, bool training) {
  if (training)
    (void)train_once(self->session, &self->batch);
  else
    tdm_tensor_release(run_once(self->session, &self->batch, "scores"));
}

static void *block(void *user) {
  runner *self = user;
  run_blocking(self->scene, self->training);
  atomic_store(&self->done, true);
  return NULL;
}

/* kind: bit 0 trains, bit 1 submits. */
static void start_run(runner *self, scene *on, int kind) {
  *self = (runner){.scene = on, .training = kind & 1, .submits = kind & 2};
  if (!self->submits) {
    assert_int_equal(pthread_create(&self->thread, NULL, block, self), 0);
    return;
  }
  const tdm_fetch scores = {.name = "scores"};
  assert_ok(tdm_submit(on->session, self->training, on->batch.feeds, 2, &scores,
                       self->training ? 0 : 1, note_done, self));
}

static void await_run(runner *self) {
  for (int i = 0; i < 600000 && !atomic_load(&self->done); i++)
    usleep(100);
  assert_true(atomic_load(&self->done));
  if (!self->submits) assert_int_equal(pthread_join(self->thread, NULL), 0);
}

/* ---- The order ------------------------------------------------------------------------------- */

typedef struct asker {
  scene *scene;
  const struct operation *operation;
  pthread_t thread;
  _Atomic bool done;
} asker;

static void *ask(void *user) {
  asker *self = user;
  self->operation->perform(self->scene);
  atomic_store(&self->done, true);
  return NULL;
}

static int count_waiting(tdm_store *store) {
  int count = 0;
  (void)pthread_mutex_lock(&store->lock);
  for (const tdm_admission *at = store->waiting; at; at = at->next)
    count++;
  (void)pthread_mutex_unlock(&store->lock);
  return count;
}

static void await_waiting(tdm_store *store, int count) {
  for (int i = 0; i < 600000 && count_waiting(store) < count; i++)
    usleep(100);
  assert_int_equal(count_waiting(store), count);
}

/* A run of one kind is inside, the operation requests access, then a run of another kind does. */
static void check_order(scene *self, const struct operation *operation, int before, int after) {
  atomic_store(&self->clog.entered, 0);
  atomic_store(&self->clog.passing, 0);
  atomic_store(&self->clog.shut, true);
  runner first, second;
  start_run(&first, self, before);
  clog_await(&self->clog, 1);
  asker asks = {.scene = self, .operation = operation};
  assert_int_equal(pthread_create(&asks.thread, NULL, ask, &asks), 0);
  await_waiting(self->store, 1);
  start_run(&second, self, after);
  await_waiting(self->store, 2); /* although it could run together with the first */
  assert_false(atomic_load(&asks.done));
  atomic_store(&self->clog.passing, 1);
  for (int i = 0; i < 600000 && !atomic_load(&asks.done); i++)
    usleep(100);
  if (!atomic_load(&asks.done)) fail_msg("%s waits for a run that asked later", operation->name);
  assert_int_equal(pthread_join(asks.thread, NULL), 0);
  await_run(&first);
  assert_false(atomic_load(&second.done));
  atomic_store(&self->clog.shut, false);
  await_run(&second);
}

static void saving_and_loading_take_their_place(void **unused) {
  (void)unused;
  tdm_context *context = context_on_loop(NULL, NULL);
  clog_register(context);
  for (size_t o = 0; o < EXCLUSIVE; o++)
    for (int kinds = 0; kinds < 16; kinds++) {
      scene self;
      scene_open(&self, context);
      tables = tables_session(&self, "tables", true);
      if (operations[o].perform == load_session || operations[o].perform == load_checkpoint) {
        tdm_session_release(tables); /* its parameters are not in the loaded list */
        scene_close(&self);
        scene_open(&self, context);
        tables = NULL;
      }
      check_order(&self, &operations[o], kinds % 4, kinds / 4);
      tdm_session_release(tables);
      scene_close(&self);
    }
  tdm_context_release(context);
}

/* A run of a kind is inside, and another waits after a save. The operation ends nevertheless. */
static void check_no_wait(scene *self, const struct operation *operation, int kind) {
  atomic_store(&self->clog.entered, 0);
  atomic_store(&self->clog.passing, 0);
  atomic_store(&self->clog.shut, true);
  runner first, second;
  start_run(&first, self, kind);
  clog_await(&self->clog, 1);
  asker saves = {.scene = self, .operation = &operations[0]};
  assert_int_equal(pthread_create(&saves.thread, NULL, ask, &saves), 0);
  await_waiting(self->store, 1);
  start_run(&second, self, kind);
  await_waiting(self->store, 2);
  operation->perform(self);
  assert_false(atomic_load(&first.done) || atomic_load(&saves.done));
  atomic_store(&self->clog.shut, false);
  assert_int_equal(pthread_join(saves.thread, NULL), 0);
  await_run(&first);
  await_run(&second);
}

static void planning_waits_for_no_run(void **unused) {
  (void)unused;
  tdm_context *context = context_on_loop(NULL, NULL);
  clog_register(context);
  for (size_t o = EXCLUSIVE; o < OPERATIONS; o++)
    for (int kind = 0; kind < 4; kind++) {
      scene self;
      scene_open(&self, context);
      tables = tables_session(&self, "tables", true);
      if (operations[o].perform == plan_larger) plan_training(&self);
      check_no_wait(&self, &operations[o], kind);
      (void)train_once(tables, &self.larger); /* the new entries are complete */
      tdm_session_release(tables);
      scene_close(&self);
    }
  tdm_context_release(context);
}

/* ---- During uninterrupted inference ---------------------------------------------------------- */

typedef struct crowd {
  scene *scene;
  _Atomic bool stop;
} crowd;

static void *run_on_and_on(void *user) {
  crowd *self = user;
  while (!atomic_load(&self->stop))
    run_blocking(self->scene, false);
  return NULL;
}

static void start_crowd(crowd *self, scene *on, pthread_t *threads) {
  *self = (crowd){.scene = on};
  for (int i = 0; i < RUNNERS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, run_on_and_on, self), 0);
}

static void stop_crowd(crowd *self, const pthread_t *threads) {
  atomic_store(&self->stop, true);
  for (int i = 0; i < RUNNERS; i++)
    assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static void nothing_starves(void **unused) {
  (void)unused;
  tdm_context *context = context_on_loop(NULL, NULL);
  clog_register(context);
  scene self;
  scene_open(&self, context);
  crowd inference;
  pthread_t threads[RUNNERS];
  start_crowd(&inference, &self, threads);
  for (int round = 0; round < ROUNDS; round++)
    for (size_t o = 0; operations[o].perform != create_session; o++)
      operations[o].perform(&self);
  for (int round = 0; round < ROUNDS; round++) {
    char name[32];
    create_session(&self);
    (void)snprintf(name, sizeof name, "planned%d", round);
    tables = tables_session(&self, name, true);
    plan_training(&self);
    plan_larger(&self);
    tdm_session_release(tables);
  }
  stop_crowd(&inference, threads);
  scene_close(&self);
  tdm_context_release(context);
}

/* ---- Inside the loop's callbacks ------------------------------------------------------------- */

typedef struct nested {
  scene *scene;
  _Atomic int performed;
  int left;
} nested;

/* The loaded list has all entries of the store, also those created since. */
static void renew_state(scene *self) {
  tdm_tensor_list_release(self->state);
  assert_ok(tdm_session_save(self->session, &self->state));
  assert_ok(tdm_checkpoint_save(self->session, NULL, self->checkpoint));
}

static void perform_inside(void *user, tdm_run_result *result) {
  nested *self = user;
  assert_int_equal(result->status, TDM_OK);
  for (size_t i = 0; i < result->fetch_count; i++)
    tdm_tensor_release(result->fetches[i].tensor);
  const int number = atomic_load(&self->performed);
  renew_state(self->scene);
  operations[number % OPERATIONS].perform(self->scene);
  const tdm_fetch scores = {.name = "scores"};
  const bool training = number % 3 == 0;
  if (self->left-- > 0)
    assert_ok(tdm_submit(self->scene->session, training, self->scene->batch.feeds, 2, &scores,
                         training ? 0 : 1, perform_inside, self));
  atomic_fetch_add(&self->performed, 1);
}

static void callbacks_may_ask(void **unused) {
  (void)unused;
  for (int callers = 0; callers < 2; callers++) {
    uv_loop_t loop;
    if (callers) assert_int_equal(uv_loop_init(&loop), 0);
    tdm_context *context = context_on_loop(callers ? &loop : NULL, NULL);
    clog_register(context);
    scene self;
    scene_open(&self, context);
    tables = tables_session(&self, "tables", true);
    nested inside = {.scene = &self, .left = 3 * OPERATIONS};
    crowd inference;
    pthread_t threads[RUNNERS];
    start_crowd(&inference, &self, threads);
    for (int i = 0; i < 4; i++) {
      const tdm_fetch scores = {.name = "scores"};
      assert_ok(tdm_submit(self.session, false, self.batch.feeds, 2, &scores, 1, perform_inside,
                           &inside));
    }
    if (callers) assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    for (int i = 0; !callers && i < 6000 && inside.performed < 4 + 3 * OPERATIONS; i++)
      usleep(10000);
    assert_int_equal(inside.performed, 4 + 3 * OPERATIONS);
    stop_crowd(&inference, threads);
    tdm_session_release(tables);
    scene_close(&self);
    if (callers) {
      run_tally tally;
      run_tally_init(&tally);
      tdm_context_close(context, run_tally_closed, &tally);
      assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
      assert_int_equal(uv_loop_close(&loop), 0);
      run_tally_deinit(&tally);
    }
    tdm_context_release(context);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(saving_and_loading_take_their_place),
      cmocka_unit_test(planning_waits_for_no_run),
      cmocka_unit_test(nothing_starves),
      cmocka_unit_test(callbacks_may_ask),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
