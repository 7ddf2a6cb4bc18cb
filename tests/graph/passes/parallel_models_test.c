/* Parallel regions of several shapes: recurrent state with its batch in dimension 1, nested and
 * consecutive regions, sparse gradients, refused models, replicas that fail. */
#include <math.h>
#include <stdlib.h>

#include "graph/run/session.h"

#define GROUP_CONTEXT graph_context_of(3, 3)
#include "tests/graph/group.h"
#include "tests/options.h"

enum { STEPS = 5, WIDTH = 6, HIDDEN = 7 };

static void wrap(tdm_graph *graph, const char *scope, const char *devices,
                 const tdm_scatter *scatter, size_t scatter_count) {
  if (!devices) return;
  const tdm_parallel_options options =
      OPTIONS(tdm_parallel_options, o.devices = devices, o.scatter = scatter,
              o.scatter_count = scatter_count);
  tdm_data_parallel(graph, scope, &options);
}

static tdm_tensor *draw(tdm_shape shape, uint64_t seed) {
  tdm_tensor *tensor = tdm_tensor_create(context, "cpu:0", TDM_FLOAT32, shape);
  assert_non_null(tensor);
  const tdm_random random = {seed, 1, 0};
  float *data = tdm_tensor_data(tensor);
  for (int64_t i = 0; i < tdm_shape_count(&shape); i++)
    data[i] = tdm_random_uniform_float32(&random, (uint64_t)i) * 2 - 1;
  return tensor;
}

/* Trains two steps with the feeds, and returns the state. */
static tdm_tensor_list *state_after(tdm_graph *graph, tdm_value loss, const tdm_feed *feeds,
                                    size_t feed_count, const tdm_optimizer *optimizer) {
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.seed = 9, o.deterministic = true);
  tdm_session *session = train_session(graph, loss, *optimizer, &options);
  for (int i = 0; i < 2; i++)
    assert_ok(tdm_train_step(session, feeds, feed_count, NULL, 0, NULL));
  tdm_tensor_list *state = state_of(session);
  tdm_session_release(session);
  return state;
}

/* ---- A recurrent part: x (steps, batch, width) and h0 (batch, hidden) ------------------------ */

static tdm_graph *recurrent_graph(const char *devices, tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_dim batch = TDM_DIM("batch");
  tdm_place(graph, "cpu:0");
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(3, STEPS, batch, WIDTH));
  const tdm_value h0 = tdm_input(graph, "h0", TDM_FLOAT32, tdm_shape_of(3, 1, batch, HIDDEN));
  const tdm_value y = tdm_input(graph, "y", TDM_FLOAT32, tdm_shape_of(3, STEPS, batch, HIDDEN));
  const tdm_rnn_options rnn = OPTIONS(tdm_rnn_options, o.h0 = h0);
  const tdm_value out = tdm_rnn(graph, "rnn", x, HIDDEN, &rnn, NULL);
  const tdm_scatter scatter[] = {{x, 1}, {h0, -2}};
  wrap(graph, "rnn", devices, scatter, 2);
  tdm_output(graph, "out", out);
  *out_loss = tdm_mse(graph, "loss", out, y);
  return graph;
}

static tdm_tensor_list *train_recurrent(const char *devices, int64_t rows) {
  tdm_value loss;
  tdm_graph *graph = recurrent_graph(devices, &loss);
  tdm_tensor *x = draw(tdm_shape_of(3, STEPS, rows, WIDTH), 1);
  tdm_tensor *h0 = draw(tdm_shape_of(3, 1, rows, HIDDEN), 2);
  tdm_tensor *y = draw(tdm_shape_of(3, STEPS, rows, HIDDEN), 3);
  const tdm_feed feeds[] = {{"x", x, false}, {"h0", h0, false}, {"y", y, false}};
  const tdm_optimizer sgd = tdm_sgd(0.1);
  tdm_tensor_list *state = state_after(graph, loss, feeds, 3, &sgd);
  tdm_tensor_release(x);
  tdm_tensor_release(h0);
  tdm_tensor_release(y);
  return state;
}

static tdm_tensor *run_recurrent(const char *devices, int64_t rows) {
  tdm_value loss;
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.seed = 9, o.deterministic = true);
  tdm_session *session = run_session(recurrent_graph(devices, &loss), &options);
  tdm_tensor *x = draw(tdm_shape_of(3, STEPS, rows, WIDTH), 1);
  tdm_tensor *h0 = draw(tdm_shape_of(3, 1, rows, HIDDEN), 2);
  const tdm_feed feeds[] = {{"x", x, false}, {"h0", h0, false}};
  tdm_fetch out = {.name = "out"};
  assert_ok(tdm_run(session, feeds, 2, &out, 1));
  tdm_tensor_release(x);
  tdm_tensor_release(h0);
  tdm_session_release(session);
  return out.tensor;
}

static void a_recurrent_state_is_cut_along_dimension_1(void **unused) {
  (void)unused;
  for (int64_t rows = 1; rows <= 9; rows += 4) {
    tdm_tensor *plain = run_recurrent(NULL, rows);
    tdm_tensor *wrapped = run_recurrent("sim:0,sim:1,cpu:1", rows);
    assert_same_tensor(wrapped, plain);
    tdm_tensor_release(plain);
    tdm_tensor_release(wrapped);
    tdm_tensor_list *spread = train_recurrent("cpu:0,sim:1,cpu:1", rows);
    tdm_tensor_list *together = train_recurrent("cpu:0,cpu:0,cpu:0", rows);
    assert_same_state(spread, together);
    tdm_tensor_list_release(spread);
    tdm_tensor_list_release(together);
  }
}

/* ---- Nested and consecutive regions ---------------------------------------------------------- */

static tdm_value layer(tdm_graph *graph, const char *name, tdm_value x) {
  return tdm_tanh(graph, name, tdm_linear(graph, name, x, WIDTH));
}

/* outer/{a, inner/{b, c}, d}, next/{e}; inner_first: the inner part is wrapped before the outer. */
static tdm_tensor_list *train_nested(const char *outer, const char *inner, const char *next,
                                     bool inner_first, int64_t rows) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, "cpu:0");
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  tdm_scope_push(graph, "outer");
  tdm_value y = layer(graph, "a", x);
  tdm_scope_push(graph, "inner");
  y = layer(graph, "c", layer(graph, "b", y));
  tdm_scope_pop(graph);
  if (inner_first) wrap(graph, "outer/inner", inner, NULL, 0);
  y = layer(graph, "d", y);
  tdm_scope_pop(graph);
  wrap(graph, "outer", outer, NULL, 0);
  if (!inner_first) wrap(graph, "outer/inner", inner, NULL, 0);
  tdm_scope_push(graph, "next");
  y = layer(graph, "e", y);
  tdm_scope_pop(graph);
  wrap(graph, "next", next, NULL, 0);
  const tdm_value loss = tdm_mse(graph, "loss", y, x);
  tdm_tensor *fed = draw(tdm_shape_of(2, rows, WIDTH), 4);
  const tdm_feed feed = {"x", fed, false};
  const tdm_optimizer sgd = tdm_sgd(0.1);
  tdm_tensor_list *state = state_after(graph, loss, &feed, 1, &sgd);
  tdm_tensor_release(fed);
  return state;
}

static void parts_may_be_nested_and_follow_one_another(void **unused) {
  (void)unused;
  for (int64_t rows = 1; rows <= 13; rows += 4) {
    tdm_tensor_list *wanted =
        train_nested("cpu:0,cpu:0", "cpu:0,cpu:0,cpu:0", "cpu:0,cpu:0", true, rows);
    for (int inner_first = 0; inner_first < 2; inner_first++) {
      tdm_tensor_list *spread =
          train_nested("cpu:0,sim:1", "sim:0,cpu:1,sim:2", "sim:2,cpu:2", inner_first, rows);
      assert_same_state(spread, wanted);
      tdm_tensor_list_release(spread);
    }
    tdm_tensor_list_release(wanted);
  }
}

static void a_whole_graph_may_be_wrapped(void **unused) {
  (void)unused;
  tdm_graph *graph = seed_graph(context, NULL, NULL, NULL);
  tdm_graph_release(graph);
  graph = tdm_graph_create(context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_value words = tdm_embedding(graph, "embedding", ids, MODEL_ROWS, MODEL_WIDTH);
  tdm_output(graph, "scores", tdm_linear(graph, "rnn", words, MODEL_WIDTH));
  wrap(graph, "", "sim:0,sim:1,sim:2", NULL, 0);
  tdm_session *session = run_session(graph, NULL);
  test_batch batch;
  test_batch_make(&batch, context, 10, 3);
  tdm_tensor *scores = run_once(session, &batch, "scores");
  assert_int_equal(tdm_tensor_bytes(scores), 10 * MODEL_WIDTH * sizeof(float));
  tdm_tensor_release(scores);
  test_batch_release(&batch);
  tdm_session_release(session);
}

/* ---- A replicated table with a sparse gradient ----------------------------------------------- */

static tdm_tensor_list *train_table(const char *devices, bool sparse, int64_t rows) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, "cpu:0");
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_value y = tdm_input(graph, "y", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  const tdm_embedding_options options = OPTIONS(tdm_embedding_options, o.sparse = sparse);
  const tdm_value words = tdm_embedding_with(graph, "table", ids, 20, WIDTH, &options);
  wrap(graph, "table", devices, NULL, 0);
  const tdm_value loss = tdm_mse(graph, "loss", words, y);
  tdm_tensor *targets = draw(tdm_shape_of(2, rows, WIDTH), 6);
  tdm_tensor *fed = tdm_tensor_create(context, "cpu:0", TDM_INT64, tdm_shape_of(1, rows));
  for (int64_t i = 0; i < rows; i++)
    ((int64_t *)tdm_tensor_data(fed))[i] = (i * 7) % 5; /* duplicates within and across chunks */
  const tdm_feed feeds[] = {{"ids", fed, false}, {"y", targets, false}};
  const tdm_optimizer sgd = tdm_sgd(0.1);
  tdm_tensor_list *state = state_after(graph, loss, feeds, 2, &sgd);
  tdm_tensor_release(fed);
  tdm_tensor_release(targets);
  return state;
}

static void sparse_gradients_of_replicas_are_put_together(void **unused) {
  (void)unused;
  for (int sparse = 0; sparse < 2; sparse++) {
    tdm_tensor_list *spread = train_table("cpu:0,sim:0,cpu:1", sparse, 11);
    tdm_tensor_list *together = train_table("cpu:0,cpu:0,cpu:0", sparse, 11);
    assert_same_state(spread, together);
    tdm_tensor_list_release(spread);
    tdm_tensor_list_release(together);
  }
}

/* ---- Refused models -------------------------------------------------------------------------- */

/* Expects that creating a session from graph fails with a message that contains `what`. Takes the
 * graph. */
static void expect_refused(tdm_graph *graph, const char *device_map, const char *what) {
  const tdm_session_options options = OPTIONS(tdm_session_options, o.device_map = device_map);
  assert_null(tdm_session_create(graph, &options));
  assert_message(what);
  tdm_graph_release(graph);
}

static tdm_graph *linear_graph(const char *scope, const char *devices) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  tdm_output(graph, "y", tdm_linear(graph, "fc", x, WIDTH));
  wrap(graph, scope, devices, NULL, 0);
  return graph;
}

static void bad_options_are_refused(void **unused) {
  (void)unused;
  expect_refused(linear_graph("fc", "cpu:0,sim:7"), NULL, "sim:7");
  expect_refused(linear_graph("fc", "cuda:0"), NULL, "cuda:0");
  expect_refused(linear_graph("fc", "cpu:0,,cpu:1"), NULL, "list of devices");
  expect_refused(linear_graph("fc", ""), NULL, "no devices");
  expect_refused(linear_graph("gone", "cpu:0"), NULL, "gone");
  expect_refused(linear_graph("fc,gone", "cpu:0"), NULL, "gone");
  expect_refused(linear_graph("fc,", "cpu:0"), NULL, "nothing has been built");
  expect_refused(linear_graph("fc", "cpu:0,cpu:1"), "fc=sim:0", "parallel region");
}

static void rows_that_disagree_are_both_named(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value a = tdm_input(graph, "a", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("a"), WIDTH));
  const tdm_value b = tdm_input(graph, "b", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("b"), WIDTH));
  tdm_scope_push(graph, "part");
  tdm_output(graph, "y", tdm_linear(graph, "fc", a, WIDTH));
  tdm_output(graph, "z", tdm_linear(graph, "other", b, WIDTH));
  tdm_scope_pop(graph);
  wrap(graph, "part", "cpu:0,cpu:1", NULL, 0);
  tdm_session *session = run_session(graph, NULL);
  tdm_tensor *eight = draw(tdm_shape_of(2, 8, WIDTH), 1);
  tdm_tensor *six = draw(tdm_shape_of(2, 6, WIDTH), 1);
  const tdm_feed feeds[] = {{"a", eight, false}, {"b", six, false}};
  tdm_fetch fetches[] = {{.name = "y"}, {.name = "z"}};
  assert_status(tdm_run(session, feeds, 2, fetches, 2), TDM_INVALID_ARGUMENT);
  assert_message("a has 8");
  assert_message("b has 6");
  tdm_tensor_release(eight);
  tdm_tensor_release(six);
  tdm_session_release(session);
}

static void what_comes_back_in_is_refused(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  tdm_scope_push(graph, "part");
  tdm_value y = tdm_linear(graph, "in", x, WIDTH);
  tdm_scope_pop(graph);
  y = tdm_linear(graph, "detour", y, WIDTH);
  tdm_scope_push(graph, "part");
  tdm_output(graph, "y", tdm_linear(graph, "out", y, WIDTH));
  tdm_scope_pop(graph);
  wrap(graph, "part", "cpu:0,cpu:1", NULL, 0);
  tdm_session *session = run_session(graph, NULL);
  tdm_tensor *fed = draw(tdm_shape_of(2, 8, WIDTH), 1);
  const tdm_feed feed = {"x", fed, false};
  tdm_fetch fetch = {.name = "y"};
  assert_status(tdm_run(session, &feed, 1, &fetch, 1), TDM_INVALID_ARGUMENT);
  assert_message("part/out");
  tdm_tensor_release(fed);
  tdm_session_release(session);
}

static void parts_in_parts_in_any_order_are_accepted(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  tdm_value y = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  static const char *const names[] = {"a/x", "a/b/y", "a/b/z", "c"};
  for (size_t i = 0; i < TDM_COUNT_OF(names); i++)
    y = tdm_linear(graph, names[i], y, WIDTH);
  tdm_output(graph, "y", y);
  wrap(graph, "a", "cpu:0,cpu:1", NULL, 0);
  wrap(graph, "a/b", "cpu:0,cpu:1", NULL, 0);
  wrap(graph, "a/b/y", "cpu:0", NULL, 0);
  assert_ok(tdm_graph_status(graph)); /* one in the other */
  tdm_graph_release(graph);
}

/* ---- Several scopes that are one part -------------------------------------------------------- */

static tdm_tensor_list *train_scopes(const char *scopes, const char *devices, int64_t rows) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, "cpu:0");
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  const tdm_value y = layer(graph, "d", layer(graph, "c", layer(graph, "b", layer(graph, "a", x))));
  wrap(graph, scopes, devices, NULL, 0);
  const tdm_value loss = tdm_mse(graph, "loss", y, x);
  tdm_tensor *fed = draw(tdm_shape_of(2, rows, WIDTH), 4);
  const tdm_feed feed = {"x", fed, false};
  const tdm_optimizer sgd = tdm_sgd(0.1);
  tdm_tensor_list *state = state_after(graph, loss, &feed, 1, &sgd);
  tdm_tensor_release(fed);
  return state;
}

static void several_scopes_are_one_part(void **unused) {
  (void)unused;
  for (int64_t rows = 1; rows <= 7; rows += 3) {
    tdm_tensor_list *wanted = train_scopes("b,c", "cpu:0,cpu:0,cpu:0", rows);
    tdm_tensor_list *spread = train_scopes("c,b", "cpu:0,sim:1,cpu:2", rows);
    assert_same_state(spread, wanted);
    tdm_tensor_list_release(spread);
    tdm_tensor_list_release(wanted);
  }
}

/* "a,b" and then "b,c" would share only b. "b" within "a,b", and "a,b" around "b", are legal. */
static void parts_that_cross_are_refused(void **unused) {
  (void)unused;
  static const char *const pairs[][2] = {{"a,b", "b,c"}, {"b", "a,b"}, {"a,b", "b"}};
  for (size_t i = 0; i < TDM_COUNT_OF(pairs); i++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_value x =
        tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
    tdm_output(graph, "y", layer(graph, "c", layer(graph, "b", layer(graph, "a", x))));
    wrap(graph, pairs[i][0], "cpu:0,cpu:1", NULL, 0);
    wrap(graph, pairs[i][1], "cpu:0,cpu:1", NULL, 0);
    if (i == 0) {
      assert_status(tdm_graph_status(graph), TDM_INVALID_ARGUMENT);
      assert_message("a part of a,b, which is a parallel region");
    } else {
      assert_ok(tdm_graph_status(graph));
    }
    tdm_graph_release(graph);
  }
}

/* ---- Failures -------------------------------------------------------------------------------- */

/* An id outside the table, in the rows of one replica: the error names the replica, its device and
 * the id, and no parameter changes. */
static void a_failing_replica_is_named(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, "cpu:0");
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_value y = tdm_input(graph, "y", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  const tdm_value words = tdm_embedding(graph, "table", ids, 20, WIDTH);
  wrap(graph, "table", "cpu:0,sim:0,sim:1", NULL, 0);
  const tdm_value loss = tdm_mse(graph, "loss", words, y);
  tdm_session *session = train_session(graph, loss, tdm_sgd(0.1), NULL);
  tdm_tensor *targets = draw(tdm_shape_of(2, 9, WIDTH), 6);
  tdm_tensor *fed = tdm_tensor_zeros(context, "cpu:0", TDM_INT64, tdm_shape_of(1, 9));
  int64_t *id = tdm_tensor_data(fed);
  const tdm_feed feeds[] = {{"ids", fed, false}, {"y", targets, false}};
  assert_ok(tdm_train_step(session, feeds, 2, NULL, 0, NULL));
  tdm_tensor_list *before = state_of(session);
  id[4] = 1234; /* a row of replica 1 */
  id[8] = 5678; /* a row of replica 2, which is later in the plan */
  assert_status(tdm_train_step(session, feeds, 2, NULL, 0, NULL), TDM_INVALID_ARGUMENT);
  assert_message("replica 1");
  assert_message("sim:0");
  assert_message("1234");
  tdm_tensor_list *after = state_of(session);
  assert_same_state(after, before);
  tdm_tensor_list_release(before);
  tdm_tensor_list_release(after);
  tdm_tensor_release(fed);
  tdm_tensor_release(targets);
  tdm_session_release(session);
}

/* ---- Values that are kept between runs and written in place ---------------------------------- */

enum { KEPT_ROWS = 4 };

/* "old" is computed from the kept value before rows of it are written, in the region or from its
 * results. */
static tdm_session *kept_session(const char *devices, bool inside) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value kept = tdm_kept(graph, "cache", TDM_FLOAT32, tdm_shape_of(2, KEPT_ROWS, WIDTH));
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  const tdm_value seen = tdm_reshape(graph, "seen", kept, tdm_shape_of(2, KEPT_ROWS, WIDTH));
  tdm_scope_push(graph, "part");
  tdm_value y = tdm_tanh(graph, "tanh", x);
  if (inside) y = tdm_add(graph, "old", y, seen);
  tdm_scope_pop(graph);
  if (!inside) y = tdm_add(graph, "old", y, seen);
  const tdm_value places = tdm_arange(graph, "places", TDM_INT64, 0, KEPT_ROWS, 1);
  const tdm_value now =
      tdm_keep_rows(graph, "put", kept, tdm_affine(graph, "next", x, 1, 1), places);
  tdm_output(graph, "old", y);
  tdm_output(graph, "now", tdm_neg(graph, "now", now));
  wrap(graph, "part", devices, NULL, 0);
  return run_session(graph, NULL);
}

static void what_is_kept_is_read_before_it_is_written(void **unused) {
  (void)unused;
  static const char *const lists[] = {"cpu:0,cpu:1", "sim:0,cpu:0", "cpu:1,sim:1,sim:0,cpu:1"};
  for (size_t k = 0; k < 2 * TDM_COUNT_OF(lists); k++) {
    tdm_session *session = kept_session(lists[k / 2], k % 2);
    tdm_sequence *sequence = tdm_sequence_create(session);
    assert_non_null(sequence);
    for (int i = 0; i < 3; i++) { /* each reads the value that the previous one kept */
      tdm_tensor *x = tdm_tensor_full(context, "cpu:0", TDM_FLOAT32,
                                      tdm_shape_of(2, KEPT_ROWS, WIDTH), (double)i);
      const tdm_feed feed = {"x", x, false};
      tdm_fetch fetches[] = {{.name = "old"}, {.name = "now"}};
      assert_ok(tdm_sequence_run(sequence, &feed, 1, fetches, 2));
      const float *old = tdm_tensor_data(fetches[0].tensor);
      const float *now = tdm_tensor_data(fetches[1].tensor);
      for (int e = 0; e < KEPT_ROWS * WIDTH; e++) {
        assert_float_equal(old[e], tanhf((float)i) + (float)i, 1e-6);
        assert_float_equal(now[e], -(float)(i + 1), 0);
      }
      tdm_tensor_release(fetches[0].tensor);
      tdm_tensor_release(fetches[1].tensor);
      tdm_tensor_release(x);
    }
    tdm_sequence_release(sequence);
    tdm_session_release(session);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_kept_is_read_before_it_is_written),
      cmocka_unit_test(a_recurrent_state_is_cut_along_dimension_1),
      cmocka_unit_test(parts_may_be_nested_and_follow_one_another),
      cmocka_unit_test(a_whole_graph_may_be_wrapped),
      cmocka_unit_test(sparse_gradients_of_replicas_are_put_together),
      cmocka_unit_test(bad_options_are_refused),
      cmocka_unit_test(rows_that_disagree_are_both_named),
      cmocka_unit_test(what_comes_back_in_is_refused),
      cmocka_unit_test(parts_in_parts_in_any_order_are_accepted),
      cmocka_unit_test(several_scopes_are_one_part),
      cmocka_unit_test(parts_that_cross_are_refused),
      cmocka_unit_test(a_failing_replica_is_named),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
