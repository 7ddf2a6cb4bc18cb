/* Submitted runs whose completions arrive on the caller's own loop, and blocking runs inside
 * callbacks of either loop. */
#include <unistd.h>

#include "tests/graph/run_tally.h"
#include "tests/options.h"

static void close_now(tdm_context *context, run_tally *tally) {
  tdm_context_close(context, run_tally_closed, tally);
  assert_true(tally->closed);
  tdm_context_release(context);
}

static void close_on_loop(tdm_context *context, uv_loop_t *loop, run_tally *tally) {
  tdm_context_close(context, run_tally_closed, tally);
  assert_int_equal(uv_run(loop, UV_RUN_DEFAULT), 0);
  assert_true(tally->closed);
  assert_int_equal(uv_loop_close(loop), 0);
  tdm_context_release(context);
}

static void uv_run_returns_when_nothing_is_in_flight(void **unused) {
  (void)unused;
  uv_loop_t loop;
  assert_int_equal(uv_loop_init(&loop), 0);
  tdm_context *context = context_on_loop(&loop, NULL);
  tdm_session *session = train_session_on(context);
  run_tally tally;
  run_tally_init(&tally);
  test_batch batch;
  test_batch_make(&batch, context, ROWS, 1);
  assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0); /* returns immediately */
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
  run_tally_deinit(&tally);
}

/* Deadlines pass on the caller's loop, and a timer that is far off does not keep uv_run. */
static void deadlines_on_a_callers_loop(void **unused) {
  (void)unused;
  uv_loop_t loop;
  assert_int_equal(uv_loop_init(&loop), 0);
  tdm_context *context = context_on_loop(&loop, NULL);
  tdm_session *session = train_session_on(context);
  run_tally tally;
  run_tally_init(&tally);
  test_batch batch;
  test_batch_make(&batch, context, ROWS, 1);
  tdm_submit_options options =
      OPTIONS(tdm_submit_options, o.training = true, o.callback = run_tally_note, o.user = &tally,
              o.deadline_ns = 1);
  assert_ok(tdm_submit_with(session, &options, batch.feeds, 2, NULL, 0, NULL));
  options.deadline_ns = 3600000000000;
  assert_ok(tdm_submit_with(session, &options, batch.feeds, 2, NULL, 0, NULL));
  assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
  assert_int_equal(tally.done, 2);
  assert_int_equal(tally.failed, 1);
  assert_status(tally.status, TDM_DEADLINE_EXCEEDED);
  assert_int_equal(tdm_store_version(tdm_session_store(session)), 1);
  test_batch_release(&batch);
  tdm_session_release(session);
  close_on_loop(context, &loop, &tally);
  run_tally_deinit(&tally);
}

/* The state of a callback that runs and submits. */
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
    tdm_context *context = context_on_loop(callers ? &loop : NULL, NULL);
    tdm_session *session = train_session_on(context);
    run_tally tally;
    run_tally_init(&tally);
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
    run_tally_deinit(&tally);
  }
}

static void closing_a_callers_loop_with_work_in_flight(void **unused) {
  (void)unused;
  for (int round = 0; round < 20; round++) {
    uv_loop_t loop;
    assert_int_equal(uv_loop_init(&loop), 0);
    tdm_context *context = context_on_loop(&loop, NULL);
    tdm_session *session = train_session_on(context);
    run_tally tally;
    run_tally_init(&tally);
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
    run_tally_deinit(&tally);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(uv_run_returns_when_nothing_is_in_flight),
      cmocka_unit_test(deadlines_on_a_callers_loop),
      cmocka_unit_test(blocking_runs_inside_callbacks),
      cmocka_unit_test(closing_a_callers_loop_with_work_in_flight),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
