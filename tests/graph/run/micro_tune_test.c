/* The choice of the number of micro-batches: the search by itself, with invented times, and in a
 * session, whose results stay those of the whole batch. */
#include <unistd.h>

#include "graph/run/micro_tune.h"
#include "graph/run/run.h"
#include "tests/graph/support.h"
#include "tests/options.h"

/* ---- The climb ------------------------------------------------------------------------------- */

/* Simulates runs that take these times with 1, 2, 4, 8 and 16 parts. */
static size_t choose(const uint64_t *times_ns, int *out_runs) {
  tdm_micro_tuning tuning = {.decided = false};
  for (*out_runs = 0; !tuning.decided && *out_runs < 100; (*out_runs)++) {
    const size_t count = tdm_micro_tuning_count(&tuning);
    size_t exponent = 0;
    while ((size_t)1 << exponent < count)
      exponent++;
    const uint64_t disturbance =
        *out_runs % 3 == 1 ? 0 : 50000; /* every third run is undisturbed */
    tdm_micro_tuning_note(&tuning, count, count, false, times_ns[exponent] + disturbance);
  }
  return tdm_micro_tuning_count(&tuning);
}

static void the_best_is_found(void **unused) {
  (void)unused;
  int runs;
  assert_int_equal(choose((uint64_t[]){1000, 800, 700, 650, 600}, &runs), 16);
  assert_int_equal(runs, 15);
  assert_int_equal(choose((uint64_t[]){1000, 800, 700, 750, 720}, &runs), 4);
  assert_int_equal(runs, 15);
  assert_int_equal(choose((uint64_t[]){1000, 1010, 700, 750, 600}, &runs), 16);
  assert_int_equal(choose((uint64_t[]){1000, 1200, 1500, 1, 1}, &runs), 1);
  assert_int_equal(runs, 9); /* two that were no better end it */
  /* the gain is too small */
  assert_int_equal(choose((uint64_t[]){1000, 990, 980, 970, 960}, &runs), 1);
}

static void what_cannot_overlap_is_not_cut(void **unused) {
  (void)unused;
  tdm_micro_tuning tuning = {.decided = false};
  tdm_micro_tuning_note(&tuning, 1, 1, true, 1000);
  assert_true(tuning.decided);
  assert_int_equal(tdm_micro_tuning_count(&tuning), 1);
  assert_int_equal(tdm_micro_tuning_count(NULL), 1);
}

static void fewer_rows_end_the_climb(void **unused) {
  (void)unused;
  tdm_micro_tuning tuning = {.decided = false};
  for (int i = 0; i < 3; i++)
    tdm_micro_tuning_note(&tuning, 1, 1, false, 1000);
  for (int i = 0; i < 3; i++)
    tdm_micro_tuning_note(&tuning, 2, 2, false, 500);
  assert_int_equal(tdm_micro_tuning_count(&tuning), 4);
  tdm_micro_tuning_note(&tuning, 1, 1, false, 1); /* a late result, which is ignored */
  tdm_micro_tuning_note(&tuning, 4, 3, false, 100);
  assert_true(tuning.decided);
  assert_int_equal(tdm_micro_tuning_count(&tuning), 2);
}

/* failing: the numbers whose runs fail, added up. */
static size_t decide(tdm_micro_tuning *tuning, unsigned failing, int *out_reported) {
  *out_reported = 0;
  for (int runs = 0; !tuning->decided && runs < 100; runs++) {
    const size_t count = tdm_micro_tuning_count(tuning);
    if ((failing & count) == 0)
      tdm_micro_tuning_note(tuning, count, count, false, 1000 / count);
    else if (!tdm_micro_tuning_give_up(tuning, count))
      (*out_reported)++;
  }
  return tdm_micro_tuning_count(tuning);
}

static void numbers_that_fail_are_given_up(void **unused) {
  (void)unused;
  static const struct {
    unsigned failing;
    size_t best;
  } cases[] = {{0, 16}, {16, 8},         {2, 16},        {2 + 4, 1},
               {1, 16}, {1 + 2 + 4, 16}, {1 + 4 + 8, 2}, {1 + 2 + 4 + 8, 16}};
  for (size_t i = 0; i < TDM_COUNT_OF(cases); i++) {
    tdm_micro_tuning tuning = {.decided = false};
    int reported;
    assert_int_equal(decide(&tuning, cases[i].failing, &reported), cases[i].best);
    assert_int_equal(reported, 0);
    assert_true(tuning.decided);
  }
}

static void only_failures_that_depend_on_the_number_are_causes(void **unused) {
  (void)unused;
  for (int status = TDM_OK; status <= TDM_NOT_FINITE; status++) {
    const bool is_size = status == TDM_OUT_OF_MEMORY || status == TDM_UNSUPPORTED;
    assert_int_equal(tdm_micro_tuning_is_cause((tdm_status)status, true), is_size);
    assert_int_equal(tdm_micro_tuning_is_cause((tdm_status)status, false),
                     is_size || status == TDM_INVALID_ARGUMENT);
  }
}

/* Concurrent runs that fail in the same way are each repeated. */
static void who_fails_later_tries_the_next_number_too(void **unused) {
  (void)unused;
  tdm_micro_tuning tuning = {.decided = false};
  assert_true(tdm_micro_tuning_give_up(&tuning, 1));
  assert_true(tdm_micro_tuning_give_up(&tuning, 1));
  assert_int_equal(tdm_micro_tuning_count(&tuning), 2); /* it was not tried yet */
  for (size_t count = 2; count <= 16; count *= 2)
    assert_int_equal(tdm_micro_tuning_give_up(&tuning, count), count < 16);
  assert_int_equal(tdm_micro_tuning_count(&tuning), 1);
  assert_true(tdm_micro_tuning_give_up(&tuning, 16)); /* that is tried once more */
}

/* Resources may be available then. */
static void where_none_has_worked_all_are_tried_again(void **unused) {
  (void)unused;
  tdm_micro_tuning tuning = {.decided = false};
  for (int round = 0; round < 2; round++)
    for (size_t count = 1; count <= 16; count *= 2) {
      assert_int_equal(tdm_micro_tuning_count(&tuning), count);
      assert_int_equal(tdm_micro_tuning_give_up(&tuning, count), count < 16);
    }
  int reported;
  assert_int_equal(decide(&tuning, 1 + 2, &reported), 16);
}

/* ---- In a session ---------------------------------------------------------------------------- */

static tdm_session *make_session(tdm_context *context, const char *second, int micro_batches) {
  tdm_value loss;
  tdm_graph *graph = seed_graph(context, "cpu:0", second, &loss);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.seed = 3, o.micro_batches = OR_ONE(micro_batches));
  return train_session(graph, loss, tdm_sgd(0.1), &options);
}

static void a_session_measures_and_settles(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  tdm_session *plain = make_session(context, "cpu:0", 0);
  tdm_session *cut = make_session(context, "sim:0", TDM_MICRO_BATCHES_AUTO);
  for (uint64_t i = 0; i < 40; i++) {
    test_batch batch;
    test_batch_make(&batch, context, i % 4 ? 24 : 3, i); /* two shapes, each with its own choice */
    const double wanted = train_once(plain, &batch);
    const double loss = train_once(cut, &batch);
    assert_true(loss - wanted <= 1e-4 * wanted && wanted - loss <= 1e-4 * wanted);
    test_batch_release(&batch);
  }
  assert_int_equal(cut->tuner.count, 2);
  for (const tdm_micro_tuning *tuning = cut->tuner.first; tuning; tuning = tuning->next)
    assert_true(tuning->decided);
  tdm_session_release(cut);
  tdm_session_release(plain);
  tdm_context_release(context);
}

/* Memory for the activations is short once, at the first step: another number is tried, and no step
 * fails. */
static void a_number_for_which_memory_is_short_is_given_up(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  tdm_session *session = make_session(context, "sim:0", TDM_MICRO_BATCHES_AUTO);
  test_batch batch;
  test_batch_make(&batch, context, 24, 1);
  assert_ok(tdm_session_prepare(session, batch.feeds, 2, NULL, 0, true)); /* parameters exist */
  assert_status(tdm_fail(TDM_IO, "an earlier failure"), TDM_IO);
  tdm_faults_arm(tdm_context_faults(context), TDM_FAULT_ALLOCATION, 1, false);
  assert_ok(tdm_train_step(session, batch.feeds, 2, NULL, 0, NULL));
  tdm_faults_arm(tdm_context_faults(context), TDM_FAULT_ALLOCATION, 0, false);
  assert_int_equal(session->tuner.first->candidate, 1);
  assert_string_equal(tdm_last_message(), "an earlier failure");
  assert_status(tdm_last_status(), TDM_IO);
  test_batch_release(&batch);
  (void)train_steps(session, 24, 20);
  assert_true(session->tuner.first->decided);
  assert_true(session->tuner.first->best > 0);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* Checks that ids outside of the table and a loss that is not finite do not affect the tuning of
 * the number of parts. */
static void unrelated_failures_give_up_no_number(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  tdm_session *session = make_session(context, "sim:0", TDM_MICRO_BATCHES_AUTO);
  test_batch right, wrong;
  test_batch_make(&right, context, 24, 1);
  test_batch_make(&wrong, context, 24, 1);
  ((int64_t *)tdm_tensor_data(wrong.feeds[0].tensor))[5] = INT64_C(1) << 40;
  for (unsigned candidate = 0; candidate < 2; candidate++) {
    for (int i = 0; i < 7; i++)
      assert_status(tdm_train_step(session, wrong.feeds, 2, NULL, 0, NULL), TDM_INVALID_ARGUMENT);
    assert_int_equal(session->tuner.first->candidate, candidate);
    assert_false(session->tuner.first->decided);
    for (int i = 0; i < 3; i++)
      assert_ok(tdm_train_step(session, right.feeds, 2, NULL, 0, NULL));
  }
  test_batch_release(&right);
  test_batch_release(&wrong);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* For a while there is memory for no number; then there is not for the whole batch. */
static void what_was_short_for_all_is_tried_again(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  tdm_session *session = make_session(context, "sim:0", TDM_MICRO_BATCHES_AUTO);
  test_batch batch;
  test_batch_make(&batch, context, 24, 1);
  assert_ok(tdm_session_prepare(session, batch.feeds, 2, NULL, 0, true));
  tdm_faults *faults = tdm_context_faults(context);
  tdm_faults_arm(faults, TDM_FAULT_ALLOCATION, 1, true);
  assert_status(tdm_train_step(session, batch.feeds, 2, NULL, 0, NULL), TDM_OUT_OF_MEMORY);
  tdm_faults_arm(faults, TDM_FAULT_ALLOCATION, 1, false);
  assert_ok(tdm_train_step(session, batch.feeds, 2, NULL, 0, NULL));
  tdm_faults_arm(faults, TDM_FAULT_ALLOCATION, 0, false);
  test_batch_release(&batch);
  tdm_session_release(session);
  tdm_context_release(context);
}

static tdm_status infer_many_rows(tdm_infer *infer) {
  infer->outputs[0] = infer->inputs[0];
  const tdm_dim rows = infer->inputs[0].shape.dims[0];
  return tdm_dim_is_size(rows) && rows < 24 ? tdm_fail(TDM_INVALID_ARGUMENT, "few rows") : TDM_OK;
}

static tdm_status pass_on(tdm_gradient *gradient) {
  tdm_gradient_set(gradient, 0, tdm_gradient_of_output(gradient, 0));
  return TDM_OK;
}

static const tdm_operation many_rows = {.struct_size = sizeof(tdm_operation),
                                        .name = "test_many_rows",
                                        .min_inputs = 1,
                                        .max_inputs = 1,
                                        .output_count = 1,
                                        .is_view = true,
                                        .infer = infer_many_rows,
                                        .gradient = pass_on};

/* Memory is short for the whole batch, and no other number can be planned: the error of the run is
 * reported, not that of the plans. */
static void the_failure_of_a_run_is_told_before_that_of_plans(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 3));
  tdm_place(graph, "sim:0");
  const tdm_value y = tdm_linear(graph, "fc", x, 3);
  const tdm_value z = tdm_append(graph, &many_rows, "view", NULL, &y, 1, NULL);
  tdm_session *session =
      train_session(graph, tdm_mse(graph, "loss", z, x), tdm_sgd(0.1),
                    WITH(tdm_session_options, o.micro_batches = TDM_MICRO_BATCHES_AUTO));
  tdm_tensor *fed = tdm_tensor_ones(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 24, 3));
  const tdm_feed feed = {"x", fed, false};
  assert_ok(tdm_session_prepare(session, &feed, 1, NULL, 0, true));
  tdm_faults_arm(tdm_context_faults(context), TDM_FAULT_ALLOCATION, 1, true);
  const tdm_status status = tdm_train_step(session, &feed, 1, NULL, 0, NULL);
  tdm_faults_arm(tdm_context_faults(context), TDM_FAULT_ALLOCATION, 0, false);
  assert_status(status, TDM_OUT_OF_MEMORY);
  assert_status(tdm_last_status(), TDM_OUT_OF_MEMORY);
  assert_null(strstr(tdm_last_message(), "few rows"));
  assert_ok(tdm_train_step(session, &feed, 1, NULL, 0, NULL));
  tdm_tensor_release(fed);
  tdm_session_release(session);
  tdm_context_release(context);
}

static void runs_under_way_together_are_made_again(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  tdm_session *session = make_session(context, "sim:0", TDM_MICRO_BATCHES_AUTO);
  test_batch batch;
  test_batch_make(&batch, context, 24, 1);
  const tdm_run_request request = {.feeds = batch.feeds, .feed_count = 2, .training = true};
  tdm_run_state *runs[2];
  for (int i = 0; i < 2; i++)
    assert_ok(tdm_run_open(session, &request, &runs[i]));
  for (int i = 0; i < 2; i++) {
    runs[i]->status = TDM_OUT_OF_MEMORY;
    assert_true(tdm_run_note_parts(runs[i]));
    tdm_run_close(runs[i]);
  }
  assert_int_equal(session->tuner.first->candidate, 1);
  test_batch_release(&batch);
  tdm_session_release(session);
  tdm_context_release(context);
}

typedef struct told {
  tdm_session *session;
  tdm_status status;
  unsigned candidate;
  _Atomic bool done;
} told;

static void note_candidate(void *user, tdm_run_result *result) {
  told *self = user;
  self->status = result->status;
  self->candidate = self->session->tuner.first->candidate;
  atomic_store(&self->done, true);
}

static void callbacks_find_the_number_given_up(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  tdm_session *session = make_session(context, "sim:0", TDM_MICRO_BATCHES_AUTO);
  test_batch batch;
  test_batch_make(&batch, context, 24, 1);
  assert_ok(tdm_session_prepare(session, batch.feeds, 2, NULL, 0, true));
  batch.feeds[0].handed_over = batch.feeds[1].handed_over = true;
  told self = {.session = session};
  tdm_faults_arm(tdm_context_faults(context), TDM_FAULT_ALLOCATION, 1, false);
  assert_ok(tdm_submit(session, true, batch.feeds, 2, NULL, 0, note_candidate, &self));
  while (!atomic_load(&self.done))
    usleep(100);
  tdm_faults_arm(tdm_context_faults(context), TDM_FAULT_ALLOCATION, 0, false);
  assert_status(self.status, TDM_OUT_OF_MEMORY);
  assert_int_equal(self.candidate, 1);
  test_batch_release(&batch);
  tdm_session_release(session);
  tdm_context_release(context);
}

static void one_queue_settles_at_once(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  tdm_session *session = make_session(context, "cpu:0", TDM_MICRO_BATCHES_AUTO);
  (void)train_steps(session, 24, 3);
  assert_int_equal(session->plan_count, 1);
  assert_true(session->tuner.first->decided);
  tdm_session_release(session);
  tdm_context_release(context);
}

static void a_choice_by_time_is_not_deterministic(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  tdm_value loss;
  tdm_graph *graph = seed_graph(context, "cpu:0", "sim:0", &loss);
  const tdm_session_options options = OPTIONS(tdm_session_options, o.deterministic = true,
                                              o.micro_batches = TDM_MICRO_BATCHES_AUTO);
  assert_null(tdm_session_create(graph, &options));
  assert_non_null(strstr(tdm_last_message(), "deterministic"));
  tdm_graph_release(graph);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_best_is_found),
      cmocka_unit_test(what_cannot_overlap_is_not_cut),
      cmocka_unit_test(fewer_rows_end_the_climb),
      cmocka_unit_test(numbers_that_fail_are_given_up),
      cmocka_unit_test(only_failures_that_depend_on_the_number_are_causes),
      cmocka_unit_test(who_fails_later_tries_the_next_number_too),
      cmocka_unit_test(where_none_has_worked_all_are_tried_again),
      cmocka_unit_test(a_session_measures_and_settles),
      cmocka_unit_test(a_number_for_which_memory_is_short_is_given_up),
      cmocka_unit_test(unrelated_failures_give_up_no_number),
      cmocka_unit_test(what_was_short_for_all_is_tried_again),
      cmocka_unit_test(the_failure_of_a_run_is_told_before_that_of_plans),
      cmocka_unit_test(runs_under_way_together_are_made_again),
      cmocka_unit_test(callbacks_find_the_number_given_up),
      cmocka_unit_test(one_queue_settles_at_once),
      cmocka_unit_test(a_choice_by_time_is_not_deterministic),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
