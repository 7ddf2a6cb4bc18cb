/* Training: the loss falls for every placement, results repeat bitwise, and batches have any
 * size. */
#include <math.h>

#include "tests/graph/support.h"
#include "tests/options.h"

typedef tdm_graph *(*graph_maker)(tdm_context *context, const char *first, const char *second,
                                  tdm_value *out_loss);

typedef struct placement {
  const char *first;
  const char *second;
} placement;

static const placement placements[] = {
    {"cpu:0", "cpu:0"}, {"cpu:0", "sim:0"}, {"sim:0", "cpu:0"}, {"sim:0", "sim:0"},
    {"sim:0", "sim:1"}, {"cpu:0", "cpu:1"}, {"cpu:1", "sim:1"},
};

static tdm_session *session_at(tdm_context *context, graph_maker make, placement where,
                               tdm_optimizer optimizer, bool deterministic) {
  tdm_value loss;
  tdm_graph *graph = make(context, where.first, where.second, &loss);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.seed = 7, o.deterministic = deterministic);
  return train_session(graph, loss, optimizer, &options);
}

/* Returns the state after `steps` steps on fresh parameters; `out_loss` gets the last loss. */
static tdm_tensor_list *trained(tdm_context *context, placement where, tdm_optimizer optimizer,
                                bool deterministic, int steps, double *out_loss) {
  tdm_session *session = session_at(context, zigzag_graph, where, optimizer, deterministic);
  *out_loss = train_steps(session, 32, steps);
  tdm_tensor_list *state = state_of(session);
  tdm_session_release(session);
  return state;
}

static void learns_on_every_placement(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  for (size_t i = 0; i < TDM_COUNT_OF(placements); i++) {
    tdm_session *session = session_at(context, zigzag_graph, placements[i], tdm_adam(0.01), false);
    test_batch batch;
    test_batch_make(&batch, context, 32, 1);
    const double first = train_once(session, &batch);
    double last = first;
    for (int step = 0; step < 60; step++)
      last = train_once(session, &batch);
    assert_true(first > 1.5 && last < first / 10);
    assert_int_equal(tdm_store_version(tdm_session_store(session)), 61);
    test_batch_release(&batch);
    tdm_session_release(session);
  }
  tdm_context_release(context);
}

static void same_seed_and_placement_repeat_bitwise(void **unused) {
  (void)unused;
  for (size_t i = 0; i < TDM_COUNT_OF(placements); i++) {
    double losses[2];
    tdm_tensor_list *states[2];
    tdm_context *contexts[2];
    for (int k = 0; k < 2; k++) {
      contexts[k] = graph_context();
      states[k] = trained(contexts[k], placements[i], tdm_adam(0.01), false, 8, &losses[k]);
    }
    assert_true(losses[0] == losses[1]);
    assert_same_state(states[0], states[1]);
    for (int k = 0; k < 2; k++) {
      tdm_tensor_list_release(states[k]);
      tdm_context_release(contexts[k]);
    }
  }
}

static void deterministic_placements_agree_bitwise(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  tdm_optimizer optimizer =
      tdm_sgd_with(WITH(tdm_sgd_options, o.learning_rate = 0.05, o.momentum = 0.9,
                        o.weight_decay = 1e-4, o.nesterov = true));
  optimizer.clip_norm = 1.0;
  double wanted_loss;
  tdm_tensor_list *wanted = trained(context, placements[0], optimizer, true, 8, &wanted_loss);
  for (size_t i = 1; i < TDM_COUNT_OF(placements); i++) {
    double loss;
    tdm_tensor_list *state = trained(context, placements[i], optimizer, true, 8, &loss);
    assert_true(loss == wanted_loss);
    assert_same_state(state, wanted);
    tdm_tensor_list_release(state);
  }
  tdm_tensor_list_release(wanted);
  tdm_context_release(context);
}

static void another_seed_is_another_model(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  double losses[2];
  for (uint64_t seed = 0; seed < 2; seed++) {
    tdm_value loss;
    tdm_graph *graph = seed_graph(context, "cpu:0", "sim:0", &loss);
    const tdm_session_options options = OPTIONS(tdm_session_options, o.seed = seed);
    tdm_session *session = train_session(graph, loss, tdm_sgd(0.1), &options);
    losses[seed] = train_steps(session, 16, 1);
    tdm_session_release(session);
  }
  assert_true(losses[0] != losses[1]);
  tdm_context_release(context);
}

/* ---- Batches of other sizes ------------------------------------------------------------------ */

/* A ragged batch is another plan over the same parameters: the same as on one device. */
static void ragged_batches_train_alike(void **unused) {
  (void)unused;
  static const int64_t rows[] = {32, 32, 7, 32, 1, 33, 7};
  tdm_context *context = graph_context();
  tdm_tensor_list *states[2];
  for (int k = 0; k < 2; k++) {
    tdm_session *session = session_at(context, zigzag_graph, placements[k], tdm_adam(0.01), true);
    for (size_t i = 0; i < TDM_COUNT_OF(rows); i++) {
      test_batch batch;
      test_batch_make(&batch, context, rows[i], i);
      const double loss = train_once(session, &batch);
      assert_true(isfinite(loss));
      tdm_tensor *scores = run_once(session, &batch, "scores");
      assert_int_equal(tdm_tensor_shape(scores).dims[0], rows[i]);
      tdm_tensor_release(scores);
      test_batch_release(&batch);
    }
    states[k] = state_of(session);
    tdm_session_release(session);
  }
  assert_same_state(states[0], states[1]);
  tdm_tensor_list_release(states[0]);
  tdm_tensor_list_release(states[1]);
  tdm_context_release(context);
}

static void an_empty_batch_changes_nothing(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  for (size_t i = 0; i < TDM_COUNT_OF(placements); i++) {
    tdm_session *session = session_at(context, seed_graph, placements[i], tdm_sgd(0.1), false);
    (void)train_steps(session, 16, 1);
    tdm_tensor_list *before = state_of(session);
    test_batch empty;
    test_batch_make(&empty, context, 0, 1);
    tdm_tensor *scores = run_once(session, &empty, "scores");
    const tdm_shape shape = tdm_tensor_shape(scores);
    assert_int_equal(shape.rank, 2);
    assert_int_equal(shape.dims[0], 0);
    assert_int_equal(shape.dims[1], MODEL_WIDTH);
    tdm_tensor_release(scores);
    const double loss = train_once(session, &empty); /* the mean of nothing */
    assert_true(isnan(loss));
    tdm_tensor_list *after = state_of(session);
    assert_same_state(before, after);
    tdm_tensor_list_release(before);
    tdm_tensor_list_release(after);
    test_batch_release(&empty);
    tdm_session_release(session);
  }
  tdm_context_release(context);
}

/* ---- Settings -------------------------------------------------------------------------------- */

static void learning_rate_changes_from_the_next_run_on(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  tdm_session *session = session_at(context, seed_graph, placements[1], tdm_sgd(0.1), false);
  (void)train_steps(session, 16, 2);
  assert_ok(tdm_session_set_learning_rate(session, 0));
  tdm_tensor_list *before = state_of(session);
  (void)train_steps(session, 16, 2);
  tdm_tensor_list *after = state_of(session);
  assert_same_state(before, after);
  assert_ok(tdm_session_set_learning_rate(session, 0.1));
  const double loss = train_steps(session, 16, 1);
  tdm_tensor_list *moved = state_of(session);
  const tdm_tensor *a = tdm_tensor_list_find(after, "rnn.weight");
  const tdm_tensor *b = tdm_tensor_list_find(moved, "rnn.weight");
  assert_memory_not_equal(tdm_tensor_data(a), tdm_tensor_data(b), tdm_tensor_bytes(a));
  assert_true(isfinite(loss));
  tdm_tensor_list_release(before);
  tdm_tensor_list_release(after);
  tdm_tensor_list_release(moved);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* Creates a session of x (batch, 4) -> linear on `first` -> linear on `second`; mean squared error
 * to y (batch, 2). */
static tdm_session *regression(tdm_context *context, placement where, bool check_finite) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 4));
  tdm_place(graph, where.first);
  const tdm_value hidden = tdm_linear(graph, "hidden", x, 3);
  tdm_place(graph, where.second);
  const tdm_value out = tdm_linear(graph, "out", hidden, 2);
  const tdm_value y = tdm_input(graph, "y", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 2));
  const tdm_value loss = tdm_mse(graph, "error", out, y);
  const tdm_session_options options = OPTIONS(tdm_session_options, o.check_finite = check_finite);
  return train_session(graph, loss, tdm_adam(0.01), &options);
}

/* The check reads the parameter, and nothing is written before updates. */
static void a_loss_that_is_a_parameter_is_checked(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_initializer five = {.kind = TDM_INIT_CONSTANT, .a = 5, .zero_row = -1};
  const tdm_value loss = tdm_parameter(graph, "loss", TDM_FLOAT32, tdm_shape_scalar(), &five);
  const tdm_session_options options = OPTIONS(tdm_session_options, o.check_finite = true);
  tdm_session *session = train_session(graph, loss, tdm_sgd(1), &options);
  double before, after;
  assert_ok(tdm_train_step(session, NULL, 0, NULL, 0, &before));
  assert_ok(tdm_train_step(session, NULL, 0, NULL, 0, &after));
  assert_true(before == 5 && after == 4);
  tdm_session_release(session);
  tdm_context_release(context);
}

static void a_loss_that_is_not_finite_changes_nothing(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  for (size_t i = 0; i < 2 * TDM_COUNT_OF(placements); i++) {
    const bool checks = i % 2 == 0;
    tdm_session *session = regression(context, placements[i / 2], checks);
    tdm_tensor *x = tdm_tensor_full(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 5, 4), 0.5);
    tdm_tensor *y = tdm_tensor_full(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 5, 2), 1);
    const tdm_feed feeds[] = {{.name = "x", .tensor = x}, {.name = "y", .tensor = y}};
    assert_ok(tdm_train_step(session, feeds, 2, NULL, 0, NULL));
    const uint64_t version = tdm_store_version(tdm_session_store(session));
    tdm_tensor_list *before = state_of(session);
    ((float *)tdm_tensor_data(x))[7] = i % 4 < 2 ? NAN : INFINITY;
    double loss = 0;
    const tdm_status status = tdm_train_step(session, feeds, 2, NULL, 0, &loss);
    if (checks) {
      assert_status(status, TDM_NOT_FINITE);
      assert_message("loss");
      assert_int_equal(tdm_store_version(tdm_session_store(session)), version);
      tdm_tensor_list *after = state_of(session);
      assert_same_state(before, after);
      tdm_tensor_list_release(after);
      ((float *)tdm_tensor_data(x))[7] = 0.5F;
      assert_ok(tdm_train_step(session, feeds, 2, NULL, 0, &loss));
      assert_true(isfinite(loss));
    } else {
      assert_ok(status);
      assert_false(isfinite(loss));
    }
    tdm_tensor_list_release(before);
    tdm_tensor_release(x);
    tdm_tensor_release(y);
    tdm_session_release(session);
  }
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(learns_on_every_placement),
      cmocka_unit_test(same_seed_and_placement_repeat_bitwise),
      cmocka_unit_test(deterministic_placements_agree_bitwise),
      cmocka_unit_test(another_seed_is_another_model),
      cmocka_unit_test(ragged_batches_train_alike),
      cmocka_unit_test(an_empty_batch_changes_nothing),
      cmocka_unit_test(learning_rate_changes_from_the_next_run_on),
      cmocka_unit_test(a_loss_that_is_a_parameter_is_checked),
      cmocka_unit_test(a_loss_that_is_not_finite_changes_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
