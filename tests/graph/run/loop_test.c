/* Submitted runs and their completions on the library's own loop: order, copies of inputs, depth,
 * failures, threads, closing with work in flight. */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/graph/clogged.h"
#include "tests/graph/run_tally.h"
#include "tests/options.h"
#include "tests/support/faulty_allocator.h"

static void hundreds_of_steps_are_those_of_blocking_runs(void **unused) {
  (void)unused;
  tdm_context *context = context_on_loop(NULL, NULL);
  tdm_session *blocking = train_session_on(context);
  tdm_session *session = train_session_on(context);
  run_tally tally;
  run_tally_init(&tally);
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
  run_tally_await(&tally, steps);
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
  run_tally_deinit(&tally);
  tdm_context_release(context);
}

static void inference_at_every_depth(void **unused) {
  (void)unused;
  for (int depth = 1; depth <= 3; depth++) {
    tdm_context *context = context_on_loop(NULL, NULL);
    const tdm_session_options options = OPTIONS(tdm_session_options, o.depth = depth);
    tdm_session *session = run_session(zigzag_graph(context, "cpu:0", "sim:0", NULL), &options);
    run_tally tally;
    run_tally_init(&tally);
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
    run_tally_await(&tally, runs);
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
    run_tally_deinit(&tally);
    tdm_context_release(context);
  }
}

static void handed_over_inputs_are_read_in_place(void **unused) {
  (void)unused;
  tdm_context *context = context_on_loop(NULL, NULL);
  tdm_session *session = train_session_on(context);
  run_tally tally;
  run_tally_init(&tally);
  test_batch batch;
  test_batch_make(&batch, context, ROWS, 1);
  tdm_tensor *wanted = run_once(session, &batch, "scores");
  batch.feeds[0].handed_over = true;
  submit_scores(session, &batch, &tally);
  test_batch_release(&batch); /* the run holds it */
  run_tally_await(&tally, 1);
  assert_int_equal(tally.failed, 0);
  assert_same_tensor(tally.tensors[0], wanted);
  tdm_tensor_release(wanted);
  tdm_session_release(session);
  run_tally_deinit(&tally);
  tdm_context_release(context);
}

/* Like all others, since the caller's tensor may be modified before the run. */
static void inputs_of_one_byte_are_copied(void **unused) {
  (void)unused;
  enum { RUNS = 40 };
  tdm_context *context = context_on_loop(NULL, NULL);
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_UINT8, tdm_shape_of(1, 1));
  tdm_output(graph, "scores", tdm_cast(graph, "wide", x, TDM_FLOAT32));
  tdm_session *session = run_session(graph, NULL);
  tdm_tensor *fed = tdm_tensor_zeros(context, "cpu:0", TDM_UINT8, tdm_shape_of(1, 1));
  const test_batch batch = {.feeds = {{"x", fed, false}}};
  run_tally tally;
  run_tally_init(&tally);
  for (int i = 0; i < RUNS; i++) {
    *(uint8_t *)tdm_tensor_data(fed) = (uint8_t)(7 + 5 * i);
    submit_scores(session, &batch, &tally);
  }
  run_tally_await(&tally, RUNS);
  assert_int_equal(tally.failed, 0);
  for (int i = 0; i < RUNS; i++)
    assert_true(((const float *)tdm_tensor_data(tally.tensors[i]))[0] == (float)(7 + 5 * i));
  tdm_tensor_release(fed);
  tdm_session_release(session);
  run_tally_deinit(&tally);
  tdm_context_release(context);
}

static uint64_t own_cpu_ns(void) {
  struct timespec time;
  assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time), 0);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void *open_later(void *user) {
  clog *shut = user;
  clog_await(shut, 1);
  usleep(600000);
  atomic_store(&shut->shut, false);
  return NULL;
}

/* The caller of a run that takes long leaves its core to others. */
static void who_waits_long_for_a_run_parks(void **unused) {
  (void)unused;
  tdm_context *context = context_on_loop(NULL, NULL);
  clog_register(context);
  clog mine = {false};
  tdm_session *session = run_session(clogged_graph(context, "sim:0", "sim:0", &mine, NULL), NULL);
  test_batch batch;
  test_batch_make(&batch, context, ROWS, 1);
  tdm_tensor_release(run_once(session, &batch, "scores"));
  atomic_store(&mine.entered, 0);
  atomic_store(&mine.shut, true);
  pthread_t opener;
  assert_int_equal(pthread_create(&opener, NULL, open_later, &mine), 0);
  const uint64_t before_ns = own_cpu_ns();
  tdm_tensor_release(run_once(session, &batch, "scores"));
  assert_in_range(own_cpu_ns() - before_ns, 0, 30000000);
  assert_int_equal(pthread_join(opener, NULL), 0);
  test_batch_release(&batch);
  tdm_session_release(session);
  tdm_context_release(context);
}

static void a_failing_run_tells_its_callback(void **unused) {
  (void)unused;
  tdm_context *context = context_on_loop(NULL, NULL);
  tdm_session *session = train_session_on(context);
  run_tally tally;
  run_tally_init(&tally);
  test_batch good;
  test_batch bad;
  test_batch_make(&good, context, ROWS, 1);
  test_batch_make(&bad, context, ROWS, 2);
  ((int64_t *)tdm_tensor_data(bad.ids))[2] = -77;
  submit_step(session, &good, &tally);
  submit_step(session, &bad, &tally);
  submit_step(session, &good, &tally);
  run_tally_await(&tally, 3);
  assert_int_equal(tally.failed, 1);
  assert_int_equal(tally.status, TDM_INVALID_ARGUMENT);
  assert_non_null(strstr(tally.message, "embedding"));
  assert_non_null(strstr(tally.message, "-77"));
  assert_int_equal(tdm_store_version(tdm_session_store(session)), 2);
  /* Refused immediately: the callback is never called. */
  const tdm_feed unknown = {.name = "nobody", .tensor = good.ids};
  assert_status(tdm_submit(session, true, &unknown, 1, NULL, 0, run_tally_note, &tally),
                TDM_INVALID_ARGUMENT);
  assert_message("nobody");
  assert_status(tdm_submit(session, true, good.feeds, 2, NULL, 0, NULL, NULL),
                TDM_INVALID_ARGUMENT);
  test_batch_release(&good);
  test_batch_release(&bad);
  tdm_session_release(session);
  assert_int_equal(tally.done, 3);
  run_tally_deinit(&tally);
  tdm_context_release(context);
}

/* The run fails, and not the call that submitted it. */
static void a_run_that_fails_at_once_is_no_failure_of_the_caller(void **unused) {
  (void)unused;
  tdm_context *context = context_on_loop(NULL, NULL);
  tdm_session *session = train_session_on(context);
  run_tally tally;
  run_tally_init(&tally);
  test_batch batch;
  test_batch_make(&batch, context, ROWS, 1);
  assert_ok(tdm_session_prepare(session, batch.feeds, 2, NULL, 0, true));
  batch.feeds[0].handed_over = batch.feeds[1].handed_over = true;
  assert_status(tdm_fail(TDM_IO, "an earlier failure"), TDM_IO);
  tdm_faults_arm(tdm_context_faults(context), TDM_FAULT_ALLOCATION, 1, false);
  submit_step(session, &batch, &tally);
  tdm_faults_arm(tdm_context_faults(context), TDM_FAULT_ALLOCATION, 0, false);
  assert_string_equal(tdm_last_message(), "an earlier failure");
  assert_status(tdm_last_status(), TDM_IO);
  run_tally_await(&tally, 1);
  assert_int_equal(tally.failed, 1);
  assert_status(tally.status, TDM_OUT_OF_MEMORY);
  assert_non_null(strstr(tally.message, "activations"));
  test_batch_release(&batch);
  tdm_session_release(session);
  run_tally_deinit(&tally);
  tdm_context_release(context);
}

static void *submit_many(void *user) {
  run_tally *tally = ((void **)user)[0];
  tdm_session *session = ((void **)user)[1];
  test_batch *batch = ((void **)user)[2];
  for (int i = 0; i < 50; i++) {
    const tdm_fetch scores = {.name = "scores"};
    if (tdm_submit(session, false, batch->feeds, 1, &scores, 1, run_tally_note, tally) != TDM_OK)
      break;
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
  tdm_context *context = context_on_loop(NULL, NULL);
  const tdm_session_options options = OPTIONS(tdm_session_options, o.depth = 2);
  tdm_session *session = run_session(seed_graph(context, "cpu:0", "sim:0", NULL), &options);
  run_tally tally;
  run_tally_init(&tally);
  test_batch batch;
  test_batch_make(&batch, context, ROWS, 1);
  void *arguments[3] = {&tally, session, &batch};
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, submit_many, arguments), 0);
  for (int i = 0; i < 4; i++)
    (void)pthread_join(threads[i], NULL);
  run_tally_await(&tally, 200);
  assert_int_equal(tally.failed, 0);
  for (int i = 1; i < 200; i++)
    assert_same_tensor(tally.tensors[i], tally.tensors[0]);
  test_batch_release(&batch);
  tdm_session_release(session);
  run_tally_deinit(&tally);
  tdm_context_release(context);
}

/* Checks that runs retain session, graph and context, so that these may be released while runs are
 * in flight. */
static void everything_may_be_let_go_in_flight(void **unused) {
  (void)unused;
  tdm_faulty_allocator *faulty = tdm_faulty_allocator_create();
  const tdm_allocator allocator = tdm_faulty_allocator_view(faulty);
  run_tally tally;
  run_tally_init(&tally);
  tdm_context *context = context_on_loop(NULL, &allocator);
  tdm_session *session = train_session_on(context);
  test_batch batch;
  test_batch_make(&batch, context, ROWS, 1);
  for (int i = 0; i < 20; i++)
    submit_step(session, &batch, &tally);
  test_batch_release(&batch);
  tdm_session_release(session);
  tdm_context_release(context);
  run_tally_await(&tally, 20);
  for (int i = 0; i < 6000 && tdm_faulty_allocator_outstanding_bytes(faulty) != 0; i++)
    usleep(10000); /* the context closes itself on its loop's thread */
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(faulty), 0);
  assert_int_equal(tally.failed, 0);
  run_tally_deinit(&tally);
  tdm_faulty_allocator_destroy(faulty);
}

/* A refused submission releases everything, and its callback is not called. */
static void every_allocation_of_a_submission_can_fail(void **unused) {
  (void)unused;
  tdm_faulty_allocator *faulty = tdm_faulty_allocator_create();
  const tdm_allocator allocator = tdm_faulty_allocator_view(faulty);
  tdm_context *context = context_on_loop(NULL, &allocator);
  int refused = 0;
  int failed = 0;
  for (uint64_t n = 1; n < 1000; n++) {
    run_tally tally;
    run_tally_init(&tally);
    tdm_session *session = train_session_on(context);
    test_batch batch;
    test_batch_make(&batch, context, ROWS, 1);
    tdm_faulty_allocator_arm(faulty, n, false);
    const tdm_status status =
        tdm_submit(session, true, batch.feeds, 2, NULL, 0, run_tally_note, &tally);
    if (status == TDM_OK) run_tally_await(&tally, 1);
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
    run_tally_await(&tally, status == TDM_OK ? 2 : 1);
    test_batch_release(&batch);
    tdm_session_release(session);
    run_tally_deinit(&tally);
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
    tdm_context *context = context_on_loop(NULL, NULL);
    tdm_session *session = train_session_on(context);
    run_tally tally;
    run_tally_init(&tally);
    test_batch batch;
    test_batch_make(&batch, context, ROWS, 1);
    for (int i = 0; i < 30; i++)
      submit_step(session, &batch, &tally);
    tdm_context_close(context, run_tally_closed, &tally);
    assert_int_equal(tally.done, 30); /* exactly once each, before it is closed */
    assert_true(tally.closed);
    if (tally.failed > 0) assert_int_equal(tally.status, TDM_CANCELLED);
    assert_status(tdm_submit(session, true, batch.feeds, 2, NULL, 0, run_tally_note, &tally),
                  TDM_CANCELLED);
    assert_status(tdm_train_step(session, batch.feeds, 2, NULL, 0, NULL), TDM_CANCELLED);
    test_batch_release(&batch);
    tdm_session_release(session);
    tdm_context_release(context);
    run_tally_deinit(&tally);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hundreds_of_steps_are_those_of_blocking_runs),
      cmocka_unit_test(inference_at_every_depth),
      cmocka_unit_test(handed_over_inputs_are_read_in_place),
      cmocka_unit_test(inputs_of_one_byte_are_copied),
      cmocka_unit_test(who_waits_long_for_a_run_parks),
      cmocka_unit_test(a_failing_run_tells_its_callback),
      cmocka_unit_test(a_run_that_fails_at_once_is_no_failure_of_the_caller),
      cmocka_unit_test(any_thread_may_submit),
      cmocka_unit_test(everything_may_be_let_go_in_flight),
      cmocka_unit_test(every_allocation_of_a_submission_can_fail),
      cmocka_unit_test(closing_lets_work_in_flight_settle),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
