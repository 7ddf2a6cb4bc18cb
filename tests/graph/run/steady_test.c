/* A hundred thousand runs, blocking and in flight, use no more memory than the first thousand, and
 * neither do runs with new shapes. */
#include <unistd.h>

#include "tests/devices/sanitized.h"
#include "tests/graph/run/counters/counter_model.h"
#include "tests/graph/run_tally.h"
#include "tests/options.h"
#include "tests/support/faulty_allocator.h"

static int run_count(void) {
  return test_is_sanitized() ? 10000 : 100000;
}

typedef struct steady {
  tdm_faulty_allocator *faulty;
  tdm_context *context;
  tdm_session *session;
  test_batch batch;
  _Atomic int landed;
  _Atomic int failed;
} steady;

static void begin(steady *mine, const char *second, int depth) {
  memset(mine, 0, sizeof *mine);
  mine->faulty = tdm_faulty_allocator_create();
  const tdm_allocator allocator = tdm_faulty_allocator_view(mine->faulty);
  mine->context = context_on_loop(NULL, &allocator);
  tdm_value loss;
  tdm_graph *graph = seed_graph(mine->context, "cpu:0", second, &loss);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.depth = depth, o.queue_limit = 60);
  mine->session = train_session(graph, loss, tdm_sgd(0.01), &options);
  test_batch_make(&mine->batch, mine->context, 2, 1);
}

static void end(steady *mine) {
  test_batch_release(&mine->batch);
  tdm_session_release(mine->session);
  tdm_context_close(mine->context, NULL, NULL);
  tdm_context_release(mine->context);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(mine->faulty), 0);
  tdm_faulty_allocator_destroy(mine->faulty);
}

static void blocking_runs_grow_nothing(void **unused) {
  (void)unused;
  steady mine;
  begin(&mine, "cpu:0", 1);
  size_t before = 0;
  for (int i = 0; i < run_count(); i++) {
    if (i == 1000) before = tdm_faulty_allocator_outstanding_bytes(mine.faulty);
    if (i % 2 == 0)
      (void)train_once(mine.session, &mine.batch);
    else
      tdm_tensor_release(run_once(mine.session, &mine.batch, "scores"));
  }
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(mine.faulty), before);
  end(&mine);
}

static void count(void *user, tdm_run_result *result) {
  steady *mine = user;
  atomic_fetch_add(&mine->failed, result->status != TDM_OK);
  for (size_t i = 0; i < result->fetch_count; i++)
    tdm_tensor_release(result->fetches[i].tensor);
  atomic_fetch_add(&mine->landed, 1);
}

/* Returns the memory of the whole process, also outside of the context's allocator. */
static size_t resident_bytes(void) {
  unsigned long total;
  unsigned long resident;
  FILE *file = fopen("/proc/self/statm", "r");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%lu %lu", &total, &resident), 2);
  (void)fclose(file);
  return resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* Submits as many runs as the session accepts concurrently. */
static void submit_many(steady *mine, int from, int until) {
  const tdm_fetch scores = {.name = "scores"};
  for (int i = from; i < until; i++) {
    for (;;) {
      const tdm_status status = tdm_submit(mine->session, i % 8 != 0, mine->batch.feeds,
                                           i % 8 != 0 ? 2 : 1, &scores, 1, count, mine);
      if (status == TDM_OK) break;
      assert_status(status, TDM_RESOURCE_EXHAUSTED);
      usleep(200);
    }
  }
  while (atomic_load(&mine->landed) < until)
    usleep(100);
}

static void submitted_runs_grow_nothing(void **unused) {
  (void)unused;
  steady mine;
  begin(&mine, "sim:0", 2);
  submit_many(&mine, 0, 1000);
  const size_t before = tdm_faulty_allocator_outstanding_bytes(mine.faulty);
  const size_t resident = resident_bytes();
  submit_many(&mine, 1000, run_count());
  /* Every run in flight has separate memory, and the number of concurrent runs varies: a few more
   * may be in use. */
  const size_t after = tdm_faulty_allocator_outstanding_bytes(mine.faulty);
  assert_true(after < before + 200000);
  /* Sanitizers keep freed memory. Elsewhere 40 bytes per run would be too many. */
  if (!test_is_sanitized()) assert_true(resident_bytes() < resident + 4000000);
  assert_int_equal(atomic_load(&mine.failed), 0);
  end(&mine);
}

/* The maximum number of kept plans, and their prepared kernels. Other plans have been released. */
static void shapes_that_change_grow_nothing(void **unused) {
  (void)unused;
  enum { FEW_SHAPES = 40, MANY_SHAPES = 500, MOST_BYTES = 100000 };
  steady mine;
  begin(&mine, "cpu:0", 1);
  tdm_value loss;
  tdm_graph *graph = seed_graph(mine.context, "cpu:0", "cpu:0", &loss);
  const tdm_session_options options = OPTIONS(tdm_session_options, o.plan_limit = 4);
  tdm_session *session = train_session(graph, loss, tdm_sgd(0.01), &options);
  int64_t few = 0;
  for (int rows = 1; rows <= MANY_SHAPES; rows++) {
    test_batch batch;
    test_batch_make(&batch, mine.context, rows, 1);
    (void)train_once(session, &batch);
    test_batch_release(&batch);
    if (rows == FEW_SHAPES) few = tdm_faulty_allocator_outstanding_bytes(mine.faulty);
  }
  assert_true(tdm_faulty_allocator_outstanding_bytes(mine.faulty) < few + MOST_BYTES);
  tdm_session_release(session);
  end(&mine);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(blocking_runs_grow_nothing),
      cmocka_unit_test(submitted_runs_grow_nothing),
      cmocka_unit_test(shapes_that_change_grow_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
