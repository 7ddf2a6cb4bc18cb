/* Copies of a table with sparse gradients are refreshed by the rows that updates have touched. The
 * bytes are exact, and training has bit by bit the results of one device without copies. */
#include <semaphore.h>

#include "tests/options.h"
#include "tests/parallel/support.h"

enum { TABLE = 400, DIM = 6, WIDTH = 4, ROWS = 12, LOGGED = 4 };
enum {
  TABLE_BYTES = TABLE * DIM * sizeof(float),
  ROW_BYTES = DIM * sizeof(float) + sizeof(int64_t),
  DENSE_BYTES = (WIDTH * DIM + WIDTH) * sizeof(float),
};

static int depth = 1; /* depth of the sessions that are created next */

/* ---- The model: ids -> "model/table", sparse -> "model/fc" -> out, judged by mse ------------- */

static tdm_session *table_session(const char *devices, tdm_store *store) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_dim batch = TDM_DIM("batch");
  tdm_place(graph, "cpu:0");
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, batch));
  const tdm_value y = tdm_input(graph, "y", TDM_FLOAT32, tdm_shape_of(2, batch, WIDTH));
  tdm_scope_push(graph, "model");
  const tdm_embedding_options sparse = OPTIONS(tdm_embedding_options, o.sparse = true);
  const tdm_value words = tdm_embedding_with(graph, "table", ids, TABLE, DIM, &sparse);
  const tdm_value out = tdm_linear(graph, "fc", words, WIDTH);
  tdm_scope_pop(graph);
  const tdm_parallel_options wrapped = OPTIONS(tdm_parallel_options, o.devices = devices);
  if (devices) tdm_data_parallel(graph, "model", &wrapped);
  tdm_output(graph, "out", out);
  const tdm_session_options options = OPTIONS(tdm_session_options, o.store = store, o.depth = depth,
                                              o.seed = 5, o.deterministic = true);
  return train_session(graph, tdm_mse(graph, "loss", out, y), tdm_sgd(0.5), &options);
}

static tdm_tensor *draw_ids(int64_t rows, uint64_t seed) {
  tdm_tensor *ids = tdm_tensor_create(context, "cpu:0", TDM_INT64, tdm_shape_of(1, rows));
  assert_non_null(ids);
  const tdm_random random = {seed, 2, 0};
  for (int64_t i = 0; i < rows; i++)
    ((int64_t *)tdm_tensor_data(ids))[i] =
        (int64_t)(tdm_random_uniform_float64(&random, (uint64_t)i) * TABLE);
  return ids;
}

static double step(tdm_session *session, int64_t rows, uint64_t seed) {
  tdm_tensor *ids = draw_ids(rows, seed);
  tdm_tensor *y = draw(tdm_shape_of(2, rows, WIDTH), seed);
  const tdm_feed feeds[] = {{"ids", ids, false}, {"y", y, false}};
  double loss;
  assert_ok(tdm_train_step(session, feeds, 2, NULL, 0, &loss));
  tdm_tensor_release(ids);
  tdm_tensor_release(y);
  return loss;
}

static tdm_status try_run(tdm_session *session, tdm_tensor *ids, tdm_tensor **out) {
  const tdm_feed feed = {"ids", ids, false};
  tdm_fetch fetch = {.name = "out"};
  const tdm_status status = tdm_run(session, &feed, 1, &fetch, 1);
  *out = fetch.tensor;
  tdm_tensor_release(ids);
  return status;
}

static tdm_tensor *run(tdm_session *session, int64_t rows, uint64_t seed) {
  tdm_tensor *out;
  assert_ok(try_run(session, draw_ids(rows, seed), &out));
  return out;
}

static void expect_refreshed(tdm_session *session, uint64_t transfers, uint64_t bytes) {
  uint64_t has_transfers;
  uint64_t has_bytes;
  assert_ok(tdm_session_refreshed(session, &has_transfers, &has_bytes));
  assert_int_equal(has_transfers, transfers);
  assert_int_equal(has_bytes, bytes);
}

/* ---- Traffic --------------------------------------------------------------------------------- */

static void expect_exact_traffic(const char *devices, uint64_t extra) {
  tdm_session *session = table_session(devices, NULL);
  const uint64_t dense = extra * DENSE_BYTES;
  const uint64_t rows = extra * ROWS * ROW_BYTES;
  (void)step(session, ROWS, 1);
  expect_refreshed(session, extra * 3, dense + extra * TABLE_BYTES);
  (void)step(session, ROWS, 2);
  expect_refreshed(session, extra * 4, dense + rows);
  tdm_traffic traffic;
  assert_ok(tdm_session_traffic(session, &traffic));
  assert_int_equal(traffic.refresh_transfers, extra * 4);
  assert_int_equal(traffic.refresh_bytes, dense + rows);
  /* A chunk of results and its gradient, two dense gradients, and a sparse one in three parts. */
  const uint64_t chunk = ROWS / (extra + 1);
  const uint64_t each =
      2 * chunk * WIDTH * sizeof(float) + DENSE_BYTES + chunk * ROW_BYTES + sizeof(int64_t);
  assert_int_equal(traffic.edge_transfers, extra * (2 + 2 + 3));
  assert_int_equal(traffic.edge_bytes, extra * each);
  /* A forward after an update, and one without. */
  tdm_tensor_release(run(session, 30, 3));
  expect_refreshed(session, extra * 4, dense + rows);
  tdm_tensor_release(run(session, 30, 4));
  expect_refreshed(session, 0, 0);
  tdm_session_release(session);
}

static void a_step_moves_the_rows_touched(void **unused) {
  (void)unused;
  expect_exact_traffic("cpu:0,cpu:1", 1);
  expect_exact_traffic("cpu:0," FIRST, 1);
  expect_exact_traffic("cpu:0," FIRST "," SECOND, 2);
}

/* ---- Learning -------------------------------------------------------------------------------- */

/* Batches that shrink and grow, so that replicas miss updates and logs become too small, with
 * forwards between. */
static void expect_same_learning(const char *spread, const char *together) {
  static const int64_t rows[] = {12, 12, 3, 30, 1, 12, 1, 1, 2, 30, 60, 12, 3, 30};
  tdm_session *a = table_session(spread, NULL);
  tdm_session *b = table_session(together, NULL);
  for (size_t i = 0; i < TDM_COUNT_OF(rows); i++) {
    assert_true(step(a, rows[i], i) == step(b, rows[i], i));
    if (i % 3 == 0) {
      tdm_tensor *x = run(a, 50, 100 + i);
      tdm_tensor *y = run(b, 50, 100 + i);
      assert_same_tensor(x, y);
      tdm_tensor_release(x);
      tdm_tensor_release(y);
    }
  }
  tdm_tensor_list *a_state = state_of(a);
  tdm_tensor_list *b_state = state_of(b);
  assert_same_state(a_state, b_state);
  tdm_tensor_list_release(a_state);
  tdm_tensor_list_release(b_state);
  tdm_session_release(a);
  tdm_session_release(b);
}

static void copies_learn_what_one_device_learns(void **unused) {
  (void)unused;
  expect_same_learning("cpu:0,cpu:1,cpu:2", "cpu:0,cpu:0,cpu:0");
  expect_same_learning(FIRST "," SECOND, FIRST "," FIRST);
  expect_same_learning(FIRST "," SECOND "," FIRST "," SECOND, FIRST "," FIRST "," FIRST "," FIRST);
}

/* Consecutive training runs in flight read rows that the run ahead is about to change. */
typedef struct flown {
  sem_t done;
  int failed;
} flown;

static void count_run(void *user, tdm_run_result *result) {
  flown *runs = user;
  runs->failed += result->status != TDM_OK;
  sem_post(&runs->done);
}

static void fly(tdm_session *session, const int64_t *rows, size_t count) {
  flown runs = {.failed = 0};
  sem_init(&runs.done, 0, 0);
  for (size_t i = 0; i < count; i++) {
    tdm_tensor *ids = draw_ids(rows[i], i);
    tdm_tensor *y = draw(tdm_shape_of(2, rows[i], WIDTH), i);
    const tdm_feed feeds[] = {{"ids", ids, false}, {"y", y, false}};
    assert_ok(tdm_submit(session, true, feeds, 2, NULL, 0, count_run, &runs));
    tdm_tensor_release(ids);
    tdm_tensor_release(y);
  }
  for (size_t i = 0; i < count; i++)
    sem_wait(&runs.done);
  assert_int_equal(runs.failed, 0);
  sem_destroy(&runs.done);
}

static void runs_in_flight_learn_what_single_ones_learn(void **unused) {
  (void)unused;
  static const int64_t rows[] = {12, 12, 12, 12, 12, 6, 6, 6, 12, 12, 30, 30, 30};
  static const char *const lists[] = {"cpu:0," FIRST "," SECOND, FIRST "," SECOND ",cpu:1"};
  for (size_t k = 0; k < TDM_COUNT_OF(lists); k++) {
    depth = 3;
    tdm_session *flying = table_session(lists[k], NULL);
    depth = 1;
    tdm_session *single = table_session(lists[k], NULL);
    fly(flying, rows, TDM_COUNT_OF(rows));
    for (size_t i = 0; i < TDM_COUNT_OF(rows); i++)
      (void)step(single, rows[i], i);
    uint64_t transfers;
    uint64_t bytes;
    assert_ok(tdm_session_refreshed(single, &transfers, &bytes));
    assert_true(bytes < TABLE_BYTES);
    expect_refreshed(flying, transfers, bytes);
    tdm_tensor_list *a = state_of(flying);
    tdm_tensor_list *b = state_of(single);
    assert_same_state(a, b);
    tdm_tensor_list_release(a);
    tdm_tensor_list_release(b);
    tdm_session_release(flying);
    tdm_session_release(single);
  }
}

/* ---- Versions: one session trains, another, of the same store, evaluates on copies ----------- */

/* Expects the results of a session that has just copied everything. */
static void expect_right(tdm_session *evaluating, const char *devices) {
  tdm_tensor_list *state = state_of(evaluating);
  tdm_session *fresh = table_session(devices, NULL);
  assert_ok(tdm_store_load(tdm_session_store(fresh), state));
  tdm_tensor *x = run(evaluating, 200, 7);
  tdm_tensor *y = run(fresh, 200, 7);
  assert_same_tensor(x, y);
  tdm_tensor_release(x);
  tdm_tensor_release(y);
  tdm_tensor_list_release(state);
  tdm_session_release(fresh);
}

static void copies_catch_up_with_as_many_updates_as_are_logged(void **unused) {
  (void)unused;
  tdm_store *store = tdm_store_create(context);
  tdm_session *training = table_session(NULL, store);
  tdm_session *evaluating = table_session(FIRST "," FIRST, store);
  for (uint64_t behind = 0; behind <= LOGGED + 2; behind++) {
    for (uint64_t i = 0; i < behind; i++)
      (void)step(training, ROWS, 10 * behind + i);
    tdm_tensor_release(run(evaluating, 20, 1));
    if (behind == 0 || behind > LOGGED)
      expect_refreshed(evaluating, 3, TABLE_BYTES + DENSE_BYTES);
    else
      expect_refreshed(evaluating, 2 + 2 * behind, behind * ROWS * ROW_BYTES + DENSE_BYTES);
    expect_right(evaluating, FIRST "," FIRST);
  }
  tdm_session_release(training);
  tdm_session_release(evaluating);
  tdm_store_release(store);
}

static void loaded_parameters_are_copied_as_a_whole(void **unused) {
  (void)unused;
  tdm_session *session = table_session("cpu:0," FIRST, NULL);
  (void)step(session, ROWS, 1);
  tdm_tensor_list *state = state_of(session);
  (void)step(session, ROWS, 2);
  assert_ok(tdm_store_load(tdm_session_store(session), state));
  tdm_tensor_list_release(state);
  tdm_tensor_release(run(session, 20, 1));
  expect_refreshed(session, 3, TABLE_BYTES + DENSE_BYTES);
  expect_right(session, "cpu:0," FIRST);
  (void)step(session, ROWS, 3);
  (void)step(session, ROWS, 4);
  expect_refreshed(session, 4, ROWS * ROW_BYTES + DENSE_BYTES);
  expect_right(session, "cpu:0," FIRST);
  tdm_session_release(session);
}

/* A run that fails may have left its copies halfway. */
static void a_failed_run_leaves_no_copy_to_go_on_from(void **unused) {
  (void)unused;
  tdm_session *session = table_session("cpu:0," FIRST, NULL);
  (void)step(session, ROWS, 1);
  tdm_tensor_release(run(session, 20, 1));
  (void)step(session, ROWS, 2);
  tdm_tensor *ids = draw_ids(20, 1);
  ((int64_t *)tdm_tensor_data(ids))[19] = TABLE;
  tdm_tensor *out;
  assert_int_not_equal(try_run(session, ids, &out), TDM_OK);
  assert_null(out);
  tdm_tensor_release(run(session, 20, 1));
  expect_refreshed(session, 3, TABLE_BYTES + DENSE_BYTES);
  expect_right(session, "cpu:0," FIRST);
  tdm_session_release(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_step_moves_the_rows_touched),
      cmocka_unit_test(copies_learn_what_one_device_learns),
      cmocka_unit_test(runs_in_flight_learn_what_single_ones_learn),
      cmocka_unit_test(copies_catch_up_with_as_many_updates_as_are_logged),
      cmocka_unit_test(loaded_parameters_are_copied_as_a_whole),
      cmocka_unit_test(a_failed_run_leaves_no_copy_to_go_on_from),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
