/* Replicated models under adverse conditions: devices that pause at random, batches smaller than
 * their number, empty batches, sizes that change between steps, failing replicas, inconsistent
 * rows. Invariant: a model that is not refused gives the bits of the same chunks on one device. */
#include <stdio.h>

#include "tests/options.h"
#include "tests/parallel/delays.h"

enum { DEVICES = 8, TABLE = 20, WIDTH = 4, HIDDEN = 6 };

static const char spread[] = FIRST "," SECOND "," TEST_KIND ":2," TEST_KIND ":3," TEST_KIND
                                   ":4," TEST_KIND ":5," TEST_KIND ":6," TEST_KIND ":7";
static const char together[] =
    FIRST "," FIRST "," FIRST "," FIRST "," FIRST "," FIRST "," FIRST "," FIRST;

/* ---- A model: ids (batch) -> [table -> up -> tanh -> down] -> y, judged by mse --------------- */

static tdm_session *checked_over(tdm_context *on, const char *devices, bool check_finite) {
  tdm_graph *graph = tdm_graph_create(on);
  const tdm_dim batch = TDM_DIM("batch");
  tdm_place(graph, "cpu:0");
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, batch));
  const tdm_value target = tdm_input(graph, "target", TDM_FLOAT32, tdm_shape_of(2, batch, WIDTH));
  tdm_scope_push(graph, "part");
  const tdm_value rows = tdm_embedding(graph, "table", ids, TABLE, WIDTH);
  const tdm_value hidden = tdm_tanh(graph, "tanh", tdm_linear(graph, "up", rows, HIDDEN));
  const tdm_value y = tdm_linear(graph, "down", hidden, WIDTH);
  tdm_scope_pop(graph);
  const tdm_parallel_options wrapped =
      OPTIONS(tdm_parallel_options, o.devices = devices, o.output_device = "cpu:0");
  tdm_data_parallel(graph, "part", &wrapped);
  tdm_output(graph, "y", y);
  const tdm_session_options options = OPTIONS(
      tdm_session_options, o.seed = 11, o.deterministic = true, o.check_finite = check_finite);
  return train_session(graph, tdm_mse(graph, "loss", y, target), tdm_adam(0.01), &options);
}

static tdm_session *model_over(tdm_context *on, const char *devices) {
  return checked_over(on, devices, false);
}

typedef struct rows_fed {
  tdm_tensor *ids;
  tdm_tensor *target;
  tdm_feed feeds[2];
} rows_fed;

static rows_fed feed_rows(tdm_context *on, int64_t rows, uint64_t seed) {
  rows_fed fed = {.ids = tdm_tensor_zeros(on, "cpu:0", TDM_INT64, tdm_shape_of(1, rows)),
                  .target = tdm_tensor_uniform(on, "cpu:0", TDM_FLOAT32,
                                               tdm_shape_of(2, rows, WIDTH), seed, -1, 1)};
  for (int64_t i = 0; i < rows; i++)
    ((int64_t *)tdm_tensor_data(fed.ids))[i] = (i * 7 + (int64_t)seed) % TABLE;
  fed.feeds[0] = (tdm_feed){"ids", fed.ids, false};
  fed.feeds[1] = (tdm_feed){"target", fed.target, false};
  return fed;
}

static void release_rows(rows_fed *fed) {
  tdm_tensor_release(fed->ids);
  tdm_tensor_release(fed->target);
}

static double step(tdm_context *on, tdm_session *session, int64_t rows, uint64_t seed) {
  rows_fed fed = feed_rows(on, rows, seed);
  double loss = 0;
  assert_ok(tdm_train_step(session, fed.feeds, 2, NULL, 0, &loss));
  release_rows(&fed);
  return loss;
}

static tdm_tensor *answer(tdm_context *on, tdm_session *session, int64_t rows) {
  rows_fed fed = feed_rows(on, rows, 5);
  tdm_fetch y = {.name = "y"};
  assert_ok(tdm_run(session, fed.feeds, 1, &y, 1));
  release_rows(&fed);
  return y.tensor;
}

static void expect_same_state(tdm_session *a, tdm_session *b) {
  tdm_tensor_list *state_a = state_of(a);
  tdm_tensor_list *state_b = state_of(b);
  assert_same_state(state_a, state_b);
  tdm_tensor_list_release(state_a);
  tdm_tensor_list_release(state_b);
}

/* ---- Batches --------------------------------------------------------------------------------- */

static const int64_t ends = -1;

/* Steps on batches of these sizes in turn, over eight devices and over one: the same bits. */
static void expect_same_steps(const int64_t *sizes, int rounds) {
  for (uint64_t seed = 1; seed <= delayed_seeds; seed++) {
    tdm_context *on = delayed_context(seed);
    tdm_session *eight = model_over(on, spread);
    tdm_session *one = model_over(on, together);
    for (int round = 0; round < rounds; round++)
      for (size_t i = 0; sizes[i] != ends; i++) {
        const uint64_t drawn = seed * 100 + (uint64_t)round * 10 + i;
        assert_true(step(on, eight, sizes[i], drawn) == step(on, one, sizes[i], drawn));
        tdm_tensor *got = answer(on, eight, sizes[i]);
        tdm_tensor *wanted = answer(on, one, sizes[i]);
        assert_same_tensor(got, wanted);
        tdm_tensor_release(got);
        tdm_tensor_release(wanted);
      }
    expect_same_state(eight, one);
    tdm_session_release(eight);
    tdm_session_release(one);
    tdm_context_release(on);
  }
}

static void batches_of_thirty_and_ten_alternate(void **unused) {
  (void)unused;
  expect_same_steps((const int64_t[]){30, 10, ends}, 2);
}

static void batches_smaller_than_the_devices_train(void **unused) {
  (void)unused;
  expect_same_steps((const int64_t[]){7, 1, 5, 8, 3, ends}, 1);
}

/* An empty batch has an empty result and no effect on later batches. */
static void an_empty_batch_answers_nothing(void **unused) {
  (void)unused;
  for (uint64_t seed = 1; seed <= delayed_seeds; seed++) {
    tdm_context *on = delayed_context(seed);
    tdm_session *session = model_over(on, spread);
    tdm_session *other = model_over(on, spread);
    for (uint64_t i = 0; i < 3; i++) {
      tdm_tensor *none = answer(on, session, 0);
      const tdm_shape shape = tdm_tensor_shape(none);
      const tdm_shape wanted = tdm_shape_of(2, 0, WIDTH);
      assert_true(tdm_shape_equal(&shape, &wanted));
      tdm_tensor_release(none);
      assert_true(step(on, session, 9, i) == step(on, other, 9, i));
    }
    expect_same_state(session, other);
    tdm_session_release(session);
    tdm_session_release(other);
    tdm_context_release(on);
  }
}

/* The mean of no rows does not exist: a step that requires it is refused, and changes nothing. */
static void an_empty_batch_is_no_step(void **unused) {
  (void)unused;
  tdm_context *on = delayed_context(1);
  tdm_session *session = checked_over(on, spread, true);
  (void)step(on, session, 9, 1);
  tdm_tensor_list *before = state_of(session);
  rows_fed none = feed_rows(on, 0, 1);
  assert_int_not_equal(tdm_train_step(session, none.feeds, 2, NULL, 0, NULL), TDM_OK);
  assert_message("loss");
  tdm_tensor_list *after = state_of(session);
  assert_same_state(after, before);
  (void)step(on, session, 9, 2);
  tdm_tensor_list_release(before);
  tdm_tensor_list_release(after);
  release_rows(&none);
  tdm_session_release(session);
  tdm_context_release(on);
}

/* ---- Failures -------------------------------------------------------------------------------- */

/* A wrong id among the rows of each replica in turn, and of a later one. The earlier is reported
 * with its device, nothing has changed, and the next step is not affected. */
static void a_failing_replica_is_told(void **unused) {
  (void)unused;
  for (uint64_t seed = 1; seed <= delayed_seeds; seed++) {
    tdm_context *on = delayed_context(seed);
    tdm_session *session = model_over(on, spread);
    tdm_session *other = model_over(on, spread);
    assert_true(step(on, session, 9, seed) == step(on, other, 9, seed));
    for (int64_t bad = 0; bad < DEVICES; bad++) {
      rows_fed fed = feed_rows(on, 2 * DEVICES, seed);
      int64_t *ids = tdm_tensor_data(fed.ids);
      ids[2 * bad + (int64_t)seed % 2] = 4321;
      if (bad + 1 < DEVICES) ids[2 * DEVICES - 1] = 8765; /* a row of the last replica */
      tdm_tensor_list *before = state_of(session);
      assert_status(tdm_train_step(session, fed.feeds, 2, NULL, 0, NULL), TDM_INVALID_ARGUMENT);
      char text[32];
      (void)snprintf(text, sizeof text, "replica %d", (int)bad);
      assert_message(text);
      (void)snprintf(text, sizeof text, TEST_KIND ":%d", (int)bad);
      assert_message(text);
      assert_message("4321");
      tdm_tensor_list *after = state_of(session);
      assert_same_state(after, before);
      tdm_tensor_list_release(before);
      tdm_tensor_list_release(after);
      release_rows(&fed);
      assert_true(step(on, session, 11, (uint64_t)bad) == step(on, other, 11, (uint64_t)bad));
    }
    expect_same_state(session, other);
    tdm_session_release(session);
    tdm_session_release(other);
    tdm_context_release(on);
  }
}

/* Two inputs of a part that have not equally many rows: both are named, and nothing has run. */
static void rows_that_disagree_are_refused(void **unused) {
  (void)unused;
  tdm_context *on = delayed_context(1);
  tdm_graph *graph = tdm_graph_create(on);
  const tdm_value left =
      tdm_input(graph, "left", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("l"), WIDTH));
  const tdm_value right =
      tdm_input(graph, "right", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("r"), WIDTH));
  tdm_scope_push(graph, "part");
  tdm_output(graph, "y", tdm_linear(graph, "a", left, WIDTH));
  tdm_output(graph, "z", tdm_linear(graph, "b", right, WIDTH));
  tdm_scope_pop(graph);
  const tdm_parallel_options wrapped = OPTIONS(tdm_parallel_options, o.devices = spread);
  tdm_data_parallel(graph, "part", &wrapped);
  tdm_session *session = run_session(graph, NULL);
  static const int64_t rows[][2] = {{9, 9}, {30, 10}, {1, 0}, {8, 8}, {0, 3}};
  for (size_t i = 0; i < TDM_COUNT_OF(rows); i++) {
    tdm_tensor *fed[2];
    for (int k = 0; k < 2; k++)
      fed[k] = tdm_tensor_uniform(on, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, rows[i][k], WIDTH),
                                  1 + i, -1, 1);
    const tdm_feed feeds[] = {{"left", fed[0], false}, {"right", fed[1], false}};
    tdm_fetch fetches[] = {{.name = "y"}, {.name = "z"}};
    const tdm_status status = tdm_run(session, feeds, 2, fetches, 2);
    assert_status(status, rows[i][0] == rows[i][1] ? TDM_OK : TDM_INVALID_ARGUMENT);
    if (status != TDM_OK) {
      char text[48];
      (void)snprintf(text, sizeof text, "left has %d", (int)rows[i][0]);
      assert_message(text);
      (void)snprintf(text, sizeof text, "right has %d", (int)rows[i][1]);
      assert_message(text);
    }
    for (int k = 0; k < 2; k++) {
      if (status != TDM_OK) assert_null(fetches[k].tensor);
      tdm_tensor_release(fetches[k].tensor);
      tdm_tensor_release(fed[k]);
    }
  }
  tdm_session_release(session);
  tdm_context_release(on);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(batches_of_thirty_and_ten_alternate),
      cmocka_unit_test(batches_smaller_than_the_devices_train),
      cmocka_unit_test(an_empty_batch_answers_nothing),
      cmocka_unit_test(an_empty_batch_is_no_step),
      cmocka_unit_test(a_failing_replica_is_told),
      cmocka_unit_test(rows_that_disagree_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
