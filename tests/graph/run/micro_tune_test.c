/* Choosing the number of micro-batches: the climb by itself, on times that are made up, and in a
 * session, whose results stay those of the whole batch. */
#include "graph/run/micro_tune.h"
#include "graph/run/session.h"
#include "tests/graph/support.h"

/* ---- The climb ---- */

/* What a run with 1, 2, 4, 8 and 16 parts takes. */
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
  assert_int_equal(choose((uint64_t[]){1000, 990, 980, 970, 960}, &runs), 1); /* not worth it */
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
  tdm_micro_tuning_note(&tuning, 1, 1, false, 1); /* of a run that was late: it counts no more */
  tdm_micro_tuning_note(&tuning, 4, 3, false, 100);
  assert_true(tuning.decided);
  assert_int_equal(tdm_micro_tuning_count(&tuning), 2);
}

/* ---- In a session ---- */

static tdm_session *make_session(tdm_context *context, const char *second, int micro_batches) {
  tdm_value loss;
  tdm_graph *graph = seed_graph(context, "cpu:0", second, &loss);
  const tdm_session_options options = {.seed = 3, .micro_batches = micro_batches};
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
  const tdm_session_options options = {.struct_size = sizeof options,
                                       .deterministic = true,
                                       .micro_batches = TDM_MICRO_BATCHES_AUTO};
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
      cmocka_unit_test(a_session_measures_and_settles),
      cmocka_unit_test(one_queue_settles_at_once),
      cmocka_unit_test(a_choice_by_time_is_not_deterministic),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
