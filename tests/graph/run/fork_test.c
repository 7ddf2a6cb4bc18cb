/* Children that inherit a context by fork, while other threads use it. Each call in a child fails
 * with a message, releasing is harmless, and a new context works. A child does not affect its
 * parent. */
#include "graph/run/session.h"
#include "tests/graph/support.h"
#include "tests/options.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FORKS = 12, PATIENCE_SECONDS = 200, ROWS = 6 };

/* ---- Inherited state ------------------------------------------------------------------------- */

typedef struct family {
  tdm_context *context;
  tdm_session *session;
  tdm_graph *graph;
  test_batch batch;
  tdm_tensor *fed;    /* on cpu:0, 3 floats */
  tdm_tensor *remote; /* on sim:0 */
  tdm_tensor_list *list;
  tdm_dataset *dataset;
  tdm_loader *loader;
  _Atomic bool stop;
  pthread_t trainer;
} family;

static void *train(void *user) {
  family *all = user;
  while (!atomic_load(&all->stop))
    (void)train_once(all->session, &all->batch);
  return NULL;
}

static void family_init(family *all) {
  *all = (family){.context = graph_context_of(1, 1)};
  tdm_value loss;
  all->graph = tdm_graph_retain(seed_graph(all->context, "cpu:0", "sim:0", &loss));
  all->session = train_session(all->graph, loss, tdm_adam(0.01), NULL);
  test_batch_make(&all->batch, all->context, ROWS, 1);
  const float values[3] = {1, 2, 3};
  all->fed = tdm_tensor_from(all->context, TDM_FLOAT32, tdm_shape_of(1, 3), values);
  all->remote = tdm_tensor_to(all->fed, "sim:0", TDM_DTYPE_NONE);
  all->list = tdm_tensor_list_create(all->context);
  assert_ok(tdm_tensor_list_add(all->list, "fed", all->fed));
  const char *name = "fed";
  all->dataset = tdm_dataset_from_tensors(all->context, &name, &all->fed, 1);
  assert_non_null(all->dataset);
  const tdm_loader_options options = OPTIONS(tdm_loader_options, o.batch_size = 1, o.prefetch = 2);
  all->loader = tdm_loader_create(all->dataset, &options);
  assert_non_null(all->loader);
  assert_ok(tdm_loader_start(all->loader, 0));
  (void)train_once(all->session, &all->batch);
  assert_int_equal(pthread_create(&all->trainer, NULL, train, all), 0);
}

static void release_all(family *all) {
  tdm_loader_release(all->loader);
  tdm_dataset_release(all->dataset);
  tdm_tensor_list_release(all->list);
  tdm_tensor_release(all->remote);
  tdm_tensor_release(all->fed);
  test_batch_release(&all->batch);
  tdm_session_release(all->session);
  tdm_graph_release(all->graph);
  tdm_context_release(all->context);
}

/* ---- In the child, without cmocka, which would continue with the parent's tests -------------- */

static int failures;

static void expect(bool holds, int line) {
  if (holds) return;
  fprintf(stderr, "line %d: %s\n", line, tdm_last_message());
  failures++;
}

/* Returns true if the call failed with a message that has the reason and the remedy. */
static bool is_explained(void) {
  const char *message = tdm_last_message();
  return strstr(message, "inherited by fork") && strstr(message, "make a context after the fork");
}

#define EXPECT(condition) expect((condition), __LINE__)
#define REFUSED(call)                                                                              \
  do {                                                                                             \
    (void)tdm_fail(TDM_INTERNAL, "an older message");                                              \
    EXPECT((call) == TDM_UNAVAILABLE && is_explained());                                           \
  } while (0)
#define REFUSED_NULL(call)                                                                         \
  do {                                                                                             \
    (void)tdm_fail(TDM_INTERNAL, "an older message");                                              \
    EXPECT((call) == NULL && is_explained());                                                      \
  } while (0)

static void never_called(void *user, tdm_run_result *result) {
  (void)user;
  (void)result;
  failures++;
}

static void use_context(const family *all) {
  REFUSED_NULL(tdm_graph_create(all->context));
  REFUSED_NULL(tdm_store_create(all->context));
  REFUSED_NULL(tdm_tensor_list_create(all->context));
  REFUSED_NULL(tdm_tensor_create(all->context, "cpu:0", TDM_FLOAT32, tdm_shape_of(1, 4)));
  REFUSED_NULL(tdm_tensor_zeros(all->context, "sim:0", TDM_FLOAT32, tdm_shape_of(1, 4)));
  REFUSED_NULL(tdm_tensor_staging(all->context, "sim:0", TDM_FLOAT32, tdm_shape_of(1, 4)));
  REFUSED(tdm_device_check(all->context, "cpu:0"));
  REFUSED(tdm_context_calibrate(all->context, NULL));
  EXPECT(tdm_device_count(all->context) == 2);
  EXPECT(strcmp(tdm_accelerator(all->context), "cpu:0") == 0);
  EXPECT(strcmp(tdm_simulator(all->context), "sim:0") == 0);
}

static void use_tensors(const family *all) {
  float values[3];
  EXPECT(((const float *)tdm_tensor_data(all->fed))[2] == 3);
  REFUSED(tdm_tensor_read(all->remote, values, sizeof values));
  REFUSED(tdm_tensor_write(all->remote, values, sizeof values));
  REFUSED_NULL(tdm_tensor_to(all->fed, "sim:0", TDM_DTYPE_NONE));
  tdm_tensor *chunks[2];
  REFUSED(tdm_tensors_scatter(all->fed, "cpu:0,sim:0", 0, NULL, chunks, 2, NULL));
}

static void use_session(family *all) {
  double loss = 0;
  tdm_fetch fetch = {"scores", NULL};
  REFUSED_NULL(tdm_session_create(all->graph, NULL));
  REFUSED(tdm_graph_status(all->graph));
  REFUSED(tdm_run(all->session, all->batch.feeds, 1, &fetch, 1));
  REFUSED(tdm_train_step(all->session, all->batch.feeds, 2, NULL, 0, &loss));
  REFUSED(tdm_submit(all->session, true, all->batch.feeds, 2, NULL, 0, never_called, NULL));
  REFUSED(tdm_session_prepare(all->session, all->batch.feeds, 2, NULL, 0, true));
  tdm_traffic traffic;
  REFUSED(tdm_session_traffic(all->session, &traffic));
  tdm_memory_use use;
  REFUSED(tdm_session_memory(all->session, "cpu:0", &use));
  REFUSED(tdm_session_explain(all->session, TDM_PLAN_TEXT, stderr));
  REFUSED(tdm_session_print_pass(all->session, "place", TDM_PLAN_TEXT, stderr));
  REFUSED(tdm_session_print_summary(all->session, stderr));
  REFUSED(tdm_session_report(all->session, stderr));
  tdm_tensor_list *list = NULL;
  REFUSED(tdm_session_state_dict(all->session, NULL, &list));
  REFUSED(tdm_session_load_state_dict(all->session, all->list, NULL));
  REFUSED(tdm_session_save(all->session, &list));
  REFUSED(tdm_session_load(all->session, all->list));
  REFUSED(tdm_store_status(tdm_session_store(all->session)));
  REFUSED_NULL(tdm_store_save(tdm_session_store(all->session), true));
  REFUSED(tdm_store_load(tdm_session_store(all->session), all->list));
  REFUSED(tdm_session_set_learning_rate(all->session, 0.5));
  REFUSED(tdm_session_set_momentum(all->session, 0.5));
  EXPECT(tdm_session_step(all->session) > 0);
  EXPECT(!tdm_run_cancel(all->session, 1));
}

static void use_loader(const family *all) {
  tdm_tensor *fields[1];
  int64_t rows = 0;
  const tdm_loader_options options = OPTIONS(tdm_loader_options, o.batch_size = 1);
  REFUSED(tdm_loader_next(all->loader, fields, 1, &rows));
  REFUSED(tdm_loader_start(all->loader, 1));
  REFUSED_NULL(tdm_loader_create(all->dataset, &options));
}

/* Trains some steps in a new context of this process. */
static double train_anew(void) {
  tdm_context *context = graph_context_of(1, 1);
  tdm_value loss;
  tdm_graph *graph = seed_graph(context, "cpu:0", "sim:0", &loss);
  tdm_session *session = train_session(graph, loss, tdm_adam(0.01), NULL);
  const double last = train_steps(session, ROWS, 3);
  tdm_session_release(session);
  tdm_context_release(context);
  return last;
}

static _Noreturn void be_a_child(family *all, double expected) {
  alarm(PATIENCE_SECONDS); /* a child that hangs is ended by a signal, which the parent sees */
  use_context(all);
  use_tensors(all);
  use_session(all);
  use_loader(all);
  release_all(all);
  EXPECT(train_anew() == expected);
  tdm_context_close(all->context, NULL, NULL);
  _exit(failures == 0 ? 0 : 1);
}

/* ---- In the parent --------------------------------------------------------------------------- */

static void wait_for_child(pid_t child) {
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (WIFSIGNALED(status)) fail_msg("the child was ended by signal %d", WTERMSIG(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

/* Holds the locks that a planning thread, or one that starts a run, may hold at the time of a
 * fork. */
static void hold_locks(tdm_session *session) {
  (void)pthread_mutex_lock(&session->lock);
  (void)pthread_mutex_lock(&session->store->lock);
}

static void let_locks_go(tdm_session *session) {
  (void)pthread_mutex_unlock(&session->store->lock);
  (void)pthread_mutex_unlock(&session->lock);
}

static void children_are_told_why(void **state) {
  (void)state;
  const double expected = train_anew();
  family all;
  family_init(&all);
  for (int i = 0; i < FORKS; i++) {
    if (i % 2) hold_locks(all.session);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) be_a_child(&all, expected);
    if (i % 2) let_locks_go(all.session);
    wait_for_child(child);
  }
  atomic_store(&all.stop, true);
  (void)pthread_join(all.trainer, NULL);
  (void)train_once(all.session, &all.batch); /* the parent is not affected */
  release_all(&all);
}

/* Checks a child of a child, which created its context between the forks. */
static void grandchildren_are_told_too(void **state) {
  (void)state;
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child != 0) {
    wait_for_child(child);
    return;
  }
  alarm(PATIENCE_SECONDS);
  tdm_context *context = graph_context_of(1, 1);
  const pid_t grandchild = fork();
  if (grandchild == 0) {
    alarm(PATIENCE_SECONDS);
    REFUSED_NULL(tdm_graph_create(context));
    tdm_context_release(context);
    _exit(failures == 0 ? 0 : 1);
  }
  int status = 1;
  EXPECT(waitpid(grandchild, &status, 0) == grandchild && status == 0);
  tdm_context_release(context);
  _exit(failures == 0 ? 0 : 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(children_are_told_why),
      cmocka_unit_test(grandchildren_are_told_too),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
