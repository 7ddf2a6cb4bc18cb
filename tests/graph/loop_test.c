/* Submitted runs and their completions, on the library's own loop and on a caller's: order, copies
 * of inputs, blocking runs inside callbacks, failures, closing with work in flight. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <uv.h>

#include "core/allocate.h"
#include "tests/graph/support.h"

enum { MOST_RUNS = 600, ROWS = 8 };

/* What callbacks write down. */
typedef struct run_tally {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int done;
  int failed;
  double losses[MOST_RUNS];
  tdm_tensor *tensors[MOST_RUNS];
  char message[256]; /* of the latest failure */
  tdm_status status;
  bool closed;
} run_tally;

static void tally_init(run_tally *tally) {
  memset(tally, 0, sizeof *tally);
  assert_int_equal(pthread_mutex_init(&tally->lock, NULL), 0);
  assert_int_equal(pthread_cond_init(&tally->changed, NULL), 0);
}

static void tally_deinit(run_tally *tally) {
  for (int i = 0; i < MOST_RUNS; i++)
    tdm_tensor_release(tally->tensors[i]);
  pthread_mutex_destroy(&tally->lock);
  pthread_cond_destroy(&tally->changed);
}

static void note(void *user, tdm_run_result *result) {
  run_tally *tally = user;
  pthread_mutex_lock(&tally->lock);
  const int index = tally->done++;
  tally->losses[index] = result->loss;
  if (result->status == TDM_OK) {
    if (result->fetch_count > 0) tally->tensors[index] = result->fetches[0].tensor;
  } else {
    tally->failed++;
    tally->status = result->status;
    strncpy(tally->message, result->message, sizeof tally->message - 1);
  }
  pthread_cond_broadcast(&tally->changed);
  pthread_mutex_unlock(&tally->lock);
}

static void note_closed(void *user) {
  run_tally *tally = user;
  pthread_mutex_lock(&tally->lock);
  tally->closed = true;
  pthread_cond_broadcast(&tally->changed);
  pthread_mutex_unlock(&tally->lock);
}

/* Waits for `done` completions, no longer than a minute. */
static void await_done(run_tally *tally, int done) {
  struct timespec limit;
  clock_gettime(CLOCK_REALTIME, &limit);
  limit.tv_sec += 60;
  int late = 0;
  pthread_mutex_lock(&tally->lock);
  while (tally->done < done && late == 0)
    late = pthread_cond_timedwait(&tally->changed, &tally->lock, &limit);
  pthread_mutex_unlock(&tally->lock);
  assert_int_equal(late, 0);
}

static tdm_context *context_on(uv_loop_t *loop, const tdm_allocator *allocator) {
  const tdm_context_options options = {.struct_size = sizeof options,
                                       .allocator = allocator,
                                       .loop = loop,
                                       .cpu_devices = 1,
                                       .sim_devices = 1,
                                       .sim = "latency_us=0,gigabytes_per_second=0"};
  tdm_context *context = tdm_context_create(&options);
  if (!context) fail_msg("no context: %s", tdm_last_message());
  return context;
}

static void close_now(tdm_context *context, run_tally *tally) {
  tdm_context_close(context, note_closed, tally);
  assert_true(tally->closed);
  tdm_context_release(context);
}

static tdm_session *trainer_on(tdm_context *context) {
  tdm_value loss;
  tdm_graph *graph = seed_graph(context, "cpu:0", "sim:0", &loss);
  return train_session(graph, loss, tdm_adam(0.01), NULL);
}

static void submit_step(tdm_session *session, const test_batch *batch, run_tally *tally) {
  assert_ok(tdm_submit(session, true, batch->feeds, 2, NULL, 0, note, tally));
}

static void submit_scores(tdm_session *session, const test_batch *batch, run_tally *tally) {
  const tdm_fetch scores = {.name = "scores"};
  assert_ok(tdm_submit(session, false, batch->feeds, 1, &scores, 1, note, tally));
}

/* ---- The library's own loop ---------------------------------------------------------------- */

static void hundreds_of_steps_are_those_of_blocking_runs(void **unused) {
  (void)unused;
  tdm_context *context = context_on(NULL, NULL);
  tdm_session *blocking = trainer_on(context);
  tdm_session *session = trainer_on(context);
  run_tally tally;
  tally_init(&tally);
  const int steps = 300;
  double wanted[300];
  for (int i = 0; i < steps; i++) {
    test_batch batch;
    test_batch_make(&batch, context, ROWS, (uint64_t)i);
    wanted[i] = train_once(blocking, &batch);
    submit_step(session, &batch, &tally);
    memset(tdm_tensor_data(batch.ids), 0xff, tdm_tensor_bytes(batch.ids)); /* ours again */
    test_batch_release(&batch);
  }
  await_done(&tally, steps);
  assert_int_equal(tally.failed, 0);
  for (int i = 0; i < steps; i++)
    assert_true(tally.losses[i] == wanted[i]); /* so they also came in the order submitted */
  tdm_tensor_list *mine = state_of(session);
  tdm_tensor_list *theirs = state_of(blocking);
  assert_same_state(mine, theirs);
  tdm_tensor_list_release(mine);
  tdm_tensor_list_release(theirs);
  tdm_session_release(session);
  tdm_session_release(blocking);
  tally_deinit(&tally);
  tdm_context_release(context);
}

static void inference_at_every_depth(void **unused) {
  (void)unused;
  for (int depth = 1; depth <= 3; depth++) {
    tdm_context *context = context_on(NULL, NULL);
    const tdm_session_options options = {.depth = depth};
    tdm_session *session = run_session(zigzag_graph(context, "cpu:0", "sim:0", NULL), &options);
    run_tally tally;
    tally_init(&tally);
    const int runs = 200;
    tdm_tensor *wanted[200];
    for (int i = 0; i < runs; i++) {
      test_batch batch;
      test_batch_make(&batch, context, ROWS + i % 3, (uint64_t)i);
      wanted[i] = run_once(session, &batch, "scores");
      test_batch_release(&batch);
    }
    for (int i = 0; i < runs; i++) {
      test_batch batch;
      test_batch_make(&batch, context, ROWS + i % 3, (uint64_t)i);
      submit_scores(session, &batch, &tally);
      test_batch_release(&batch);
    }
    await_done(&tally, runs);
    assert_int_equal(tally.failed, 0);
    for (int i = 0; i < runs; i++) {
      if (depth == 1) { /* with more, a later run may end first */
        assert_same_tensor(tally.tensors[i], wanted[i]);
        continue;
      }
      int k = 0;
      while (k < runs && (!tally.tensors[k] ||
                          tdm_tensor_bytes(tally.tensors[k]) != tdm_tensor_bytes(wanted[i]) ||
                          memcmp(tdm_tensor_data(tally.tensors[k]), tdm_tensor_data(wanted[i]),
                                 tdm_tensor_bytes(wanted[i])) != 0))
        k++;
      assert_true(k < runs);
      tdm_tensor_release(tally.tensors[k]);
      tally.tensors[k] = NULL;
    }
    for (int i = 0; i < runs; i++)
      tdm_tensor_release(wanted[i]);
    tdm_session_release(session);
    tally_deinit(&tally);
    tdm_context_release(context);
  }
}

static void handed_over_inputs_are_read_in_place(void **unused) {
  (void)unused;
  tdm_context *context = context_on(NULL, NULL);
  tdm_session *session = trainer_on(context);
  run_tally tally;
  tally_init(&tally);
  test_batch batch;
  test_batch_make(&batch, context, ROWS, 1);
  tdm_tensor *wanted = run_once(session, &batch, "scores");
  batch.feeds[0].handed_over = true;
  submit_scores(session, &batch, &tally);
  test_batch_release(&batch); /* the run holds it */
  await_done(&tally, 1);
  assert_int_equal(tally.failed, 0);
  assert_same_tensor(tally.tensors[0], wanted);
  tdm_tensor_release(wanted);
  tdm_session_release(session);
  tally_deinit(&tally);
  tdm_context_release(context);
}

static void a_failing_run_tells_its_callback(void **unused) {
  (void)unused;
  tdm_context *context = context_on(NULL, NULL);
  tdm_session *session = trainer_on(context);
  run_tally tally;
  tally_init(&tally);
  test_batch good;
  test_batch bad;
  test_batch_make(&good, context, ROWS, 1);
  test_batch_make(&bad, context, ROWS, 2);
  ((int64_t *)tdm_tensor_data(bad.ids))[2] = -77;
  submit_step(session, &good, &tally);
  submit_step(session, &bad, &tally);
  submit_step(session, &good, &tally);
  await_done(&tally, 3);
  assert_int_equal(tally.failed, 1);
  assert_int_equal(tally.status, TDM_INVALID_ARGUMENT);
  assert_non_null(strstr(tally.message, "embedding"));
  assert_non_null(strstr(tally.message, "-77"));
  assert_int_equal(tdm_store_version(tdm_session_store(session)), 2);
  /* Refused at once: the callback is never called. */
  const tdm_feed unknown = {.name = "nobody", .tensor = good.ids};
  assert_status(tdm_submit(session, true, &unknown, 1, NULL, 0, note, &tally),
                TDM_INVALID_ARGUMENT);
  assert_message("nobody");
  assert_status(tdm_submit(session, true, good.feeds, 2, NULL, 0, NULL, NULL),
                TDM_INVALID_ARGUMENT);
  test_batch_release(&good);
  test_batch_release(&bad);
  tdm_session_release(session);
  assert_int_equal(tally.done, 3);
  tally_deinit(&tally);
  tdm_context_release(context);
}

static void *submit_many(void *user) {
  run_tally *tally = ((void **)user)[0];
  tdm_session *session = ((void **)user)[1];
  test_batch *batch = ((void **)user)[2];
  for (int i = 0; i < 50; i++) {
    const tdm_fetch scores = {.name = "scores"};
    if (tdm_submit(session, false, batch->feeds, 1, &scores, 1, note, tally) != TDM_OK) break;
    if (i % 10 == 0) {
      tdm_fetch fetch = {.name = "scores"};
      if (tdm_run(session, batch->feeds, 1, &fetch, 1) != TDM_OK) break;
      tdm_tensor_release(fetch.tensor);
    }
  }
  return NULL;
}

static void any_thread_may_submit(void **unused) {
  (void)unused;
  tdm_context *context = context_on(NULL, NULL);
  const tdm_session_options options = {.depth = 2};
  tdm_session *session = run_session(seed_graph(context, "cpu:0", "sim:0", NULL), &options);
  run_tally tally;
  tally_init(&tally);
  test_batch batch;
  test_batch_make(&batch, context, ROWS, 1);
  void *arguments[3] = {&tally, session, &batch};
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, submit_many, arguments), 0);
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
  await_done(&tally, 200);
  assert_int_equal(tally.failed, 0);
  for (int i = 1; i < 200; i++)
    assert_same_tensor(tally.tensors[i], tally.tensors[0]);
  test_batch_release(&batch);
  tdm_session_release(session);
  tally_deinit(&tally);
  tdm_context_release(context);
}

/* The runs hold what they need: the session, the graph and the context may be let go at once. */
static void everything_may_be_let_go_in_flight(void **unused) {
  (void)unused;
  tdm_faulty_allocator *faulty = tdm_faulty_allocator_create();
  const tdm_allocator allocator = tdm_faulty_allocator_view(faulty);
  run_tally tally;
  tally_init(&tally);
  tdm_context *context = context_on(NULL, &allocator);
  tdm_session *session = trainer_on(context);
  test_batch batch;
  test_batch_make(&batch, context, ROWS, 1);
  for (int i = 0; i < 20; i++)
    submit_step(session, &batch, &tally);
  test_batch_release(&batch);
  tdm_session_release(session);
  tdm_context_release(context);
  await_done(&tally, 20);
  for (int i = 0; i < 6000 && tdm_faulty_allocator_outstanding_bytes(faulty) != 0; i++)
    usleep(10000); /* the context closes itself on its loop's thread */
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(faulty), 0);
  assert_int_equal(tally.failed, 0);
  usleep(1000); /* the thread that closed it is about to end */
  tally_deinit(&tally);
  tdm_faulty_allocator_destroy(faulty);
}

/* Nothing that a refused submission took stays behind, and its callback is not called. */
static void every_allocation_of_a_submission_can_fail(void **unused) {
  (void)unused;
  tdm_faulty_allocator *faulty = tdm_faulty_allocator_create();
  const tdm_allocator allocator = tdm_faulty_allocator_view(faulty);
  tdm_context *context = context_on(NULL, &allocator);
  int refused = 0;
  int failed = 0;
  for (uint64_t n = 1; n < 1000; n++) {
    run_tally tally;
    tally_init(&tally);
    tdm_session *session = trainer_on(context);
    test_batch batch;
    test_batch_make(&batch, context, ROWS, 1);
    tdm_faulty_allocator_arm(faulty, n, false);
    const tdm_status status = tdm_submit(session, true, batch.feeds, 2, NULL, 0, note, &tally);
    if (status == TDM_OK) await_done(&tally, 1);
    const bool struck = tdm_faulty_allocator_failures(faulty) > 0;
    tdm_faulty_allocator_arm(faulty, 0, false);
    if (status != TDM_OK) {
      refused++;
      assert_message("memory");
      assert_int_equal(tally.done, 0);
    }
    if (status == TDM_OK && tally.failed) failed++;
    assert_true(struck == (status != TDM_OK || tally.failed == 1));
    submit_step(session, &batch, &tally);
    await_done(&tally, status == TDM_OK ? 2 : 1);
    test_batch_release(&batch);
    tdm_session_release(session);
    tally_deinit(&tally);
    if (!struck) break;
  }
  assert_true(refused > 10);
  assert_true(failed > 0);
  tdm_context_close(context, NULL, NULL); /* the last callback may be on its way out */
  tdm_context_release(context);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(faulty), 0);
  tdm_faulty_allocator_destroy(faulty);
}

static void closing_lets_work_in_flight_settle(void **unused) {
  (void)unused;
  for (int round = 0; round < 20; round++) {
    tdm_context *context = context_on(NULL, NULL);
    tdm_session *session = trainer_on(context);
    run_tally tally;
    tally_init(&tally);
    test_batch batch;
    test_batch_make(&batch, context, ROWS, 1);
    for (int i = 0; i < 30; i++)
      submit_step(session, &batch, &tally);
    tdm_context_close(context, note_closed, &tally);
    assert_int_equal(tally.done, 30); /* exactly once each, before it is closed */
    assert_true(tally.closed);
    if (tally.failed > 0) assert_int_equal(tally.status, TDM_CANCELLED);
    assert_status(tdm_submit(session, true, batch.feeds, 2, NULL, 0, note, &tally), TDM_CANCELLED);
    assert_status(tdm_train_step(session, batch.feeds, 2, NULL, 0, NULL), TDM_CANCELLED);
    test_batch_release(&batch);
    tdm_session_release(session);
    tdm_context_release(context);
    tally_deinit(&tally);
  }
}

/* ---- A caller's loop ----------------------------------------------------------------------- */

static void close_on_loop(tdm_context *context, uv_loop_t *loop, run_tally *tally) {
  tdm_context_close(context, note_closed, tally);
  assert_int_equal(uv_run(loop, UV_RUN_DEFAULT), 0);
  assert_true(tally->closed);
  assert_int_equal(uv_loop_close(loop), 0);
  tdm_context_release(context);
}

static void uv_run_returns_when_nothing_is_in_flight(void **unused) {
  (void)unused;
  uv_loop_t loop;
  assert_int_equal(uv_loop_init(&loop), 0);
  tdm_context *context = context_on(&loop, NULL);
  tdm_session *session = trainer_on(context);
  run_tally tally;
  tally_init(&tally);
  test_batch batch;
  test_batch_make(&batch, context, ROWS, 1);
  assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0); /* at once */
  for (int round = 1; round <= 5; round++) {
    for (int i = 0; i < 20; i++)
      submit_step(session, &batch, &tally);
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(tally.done, 20 * round);
  }
  assert_int_equal(tally.failed, 0);
  test_batch_release(&batch);
  tdm_session_release(session);
  close_on_loop(context, &loop, &tally);
  tally_deinit(&tally);
}

/* What a callback that runs and submits needs. */
typedef struct nested_runs {
  tdm_session *session;
  test_batch *batch;
  tdm_tensor *wanted;
  _Atomic int runs;
  int left;
} nested_runs;

static void run_inside(void *user, tdm_run_result *result) {
  nested_runs *nested = user;
  assert_int_equal(result->status, TDM_OK);
  tdm_tensor_release(result->fetches[0].tensor);
  tdm_fetch fetch = {.name = "scores"};
  assert_ok(tdm_run(nested->session, nested->batch->feeds, 1, &fetch, 1));
  assert_same_tensor(fetch.tensor, nested->wanted);
  tdm_tensor_release(fetch.tensor);
  const tdm_fetch scores = {.name = "scores"};
  if (nested->left-- > 0)
    assert_ok(tdm_submit(nested->session, false, nested->batch->feeds, 1, &scores, 1, run_inside,
                         nested));
  atomic_fetch_add(&nested->runs, 1);
}

static void blocking_runs_inside_callbacks(void **unused) {
  (void)unused;
  for (int callers = 0; callers < 2; callers++) {
    uv_loop_t loop;
    if (callers) assert_int_equal(uv_loop_init(&loop), 0);
    tdm_context *context = context_on(callers ? &loop : NULL, NULL);
    tdm_session *session = trainer_on(context);
    run_tally tally;
    tally_init(&tally);
    test_batch batch;
    test_batch_make(&batch, context, ROWS, 1);
    nested_runs nested = {session, &batch, run_once(session, &batch, "scores"), 0, 40};
    for (int i = 0; i < 8; i++) { /* more in flight than the session's depth */
      const tdm_fetch scores = {.name = "scores"};
      assert_ok(tdm_submit(session, false, batch.feeds, 1, &scores, 1, run_inside, &nested));
    }
    if (callers) assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    for (int i = 0; !callers && i < 6000 && nested.runs < 48; i++)
      usleep(10000);
    assert_int_equal(nested.runs, 48);
    tdm_tensor_release(nested.wanted);
    test_batch_release(&batch);
    tdm_session_release(session);
    if (callers)
      close_on_loop(context, &loop, &tally);
    else
      close_now(context, &tally);
    tally_deinit(&tally);
  }
}

static void closing_a_callers_loop_with_work_in_flight(void **unused) {
  (void)unused;
  for (int round = 0; round < 20; round++) {
    uv_loop_t loop;
    assert_int_equal(uv_loop_init(&loop), 0);
    tdm_context *context = context_on(&loop, NULL);
    tdm_session *session = trainer_on(context);
    run_tally tally;
    tally_init(&tally);
    test_batch batch;
    test_batch_make(&batch, context, ROWS, 1);
    for (int i = 0; i < 30; i++)
      submit_step(session, &batch, &tally);
    test_batch_release(&batch);
    if (round % 2 == 0) {
      tdm_session_release(session);
      close_on_loop(context, &loop, &tally);
    } else {
      close_on_loop(context, &loop, &tally);
      tdm_session_release(session);
    }
    assert_int_equal(tally.done, 30);
    if (tally.failed > 0) assert_int_equal(tally.status, TDM_CANCELLED);
    tally_deinit(&tally);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hundreds_of_steps_are_those_of_blocking_runs),
      cmocka_unit_test(inference_at_every_depth),
      cmocka_unit_test(handed_over_inputs_are_read_in_place),
      cmocka_unit_test(a_failing_run_tells_its_callback),
      cmocka_unit_test(any_thread_may_submit),
      cmocka_unit_test(everything_may_be_let_go_in_flight),
      cmocka_unit_test(every_allocation_of_a_submission_can_fail),
      cmocka_unit_test(closing_lets_work_in_flight_settle),
      cmocka_unit_test(uv_run_returns_when_nothing_is_in_flight),
      cmocka_unit_test(blocking_runs_inside_callbacks),
      cmocka_unit_test(closing_a_callers_loop_with_work_in_flight),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
