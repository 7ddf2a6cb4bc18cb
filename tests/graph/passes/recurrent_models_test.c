/* Recurrent layers in parallel regions, in micro-batches, and in both. Two bidirectional layers of
 * an LSTM with initial states, lengths and dropout give the results of the uncut model. */
#include <math.h>

#include "tests/graph/group.h"
#include "tests/options.h"

enum { STEPS = 4, WIDTH = 3, HIDDEN = 5, STATES = 4, BATCH = 7 };

/* Options of a model's computation. */
typedef struct way {
  const char *devices; /* devices of the parallel region; NULL: not wrapped */
  int micro_batches;   /* 0: none */
} way;

static tdm_tensor *draw(tdm_shape shape, uint64_t seed) {
  float values[STEPS * BATCH * 2 * HIDDEN];
  const tdm_random random = {seed, 1, 0};
  for (int64_t i = 0; i < tdm_shape_count(&shape); i++)
    values[i] = tdm_random_uniform_float32(&random, (uint64_t)i) * 2 - 1;
  return tdm_tensor_from(context, TDM_FLOAT32, shape, values);
}

static tdm_graph *build(const way *chosen, tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_shape state = tdm_shape_of(3, STATES, batch, HIDDEN);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(3, STEPS, batch, WIDTH));
  const tdm_value h0 = tdm_input(graph, "h0", TDM_FLOAT32, state);
  const tdm_value lengths = tdm_input(graph, "lengths", TDM_INT64, tdm_shape_of(1, batch));
  const tdm_value wanted =
      tdm_input(graph, "wanted", TDM_FLOAT32, tdm_shape_of(3, STEPS, batch, 2 * HIDDEN));
  tdm_place(graph, "cpu:0");
  const tdm_rnn_options options =
      OPTIONS(tdm_rnn_options, o.layers = 2, o.h0 = h0, o.lengths = lengths, o.bidirectional = true,
              o.dropout = 0.4);
  tdm_value c_n;
  const tdm_value y = tdm_lstm(graph, "lstm", x, HIDDEN, &options, NULL, &c_n);
  if (chosen->devices) {
    const tdm_scatter scatter[] = {{x, 1}, {h0, 1}, {lengths, 0}};
    const tdm_parallel_options parallel = OPTIONS(tdm_parallel_options, o.devices = chosen->devices,
                                                  o.scatter = scatter, o.scatter_count = 3);
    tdm_data_parallel(graph, "lstm", &parallel);
  }
  tdm_output(graph, "y", y);
  tdm_output(graph, "c", tdm_select(graph, "c_n1", c_n, 0, 1));
  *out_loss = tdm_mse(graph, "loss", y, wanted);
  return graph;
}

/* The store after two steps, and the results of a run after them. */
typedef struct outcome {
  tdm_tensor_list *state;
  tdm_fetch fetches[2];
} outcome;

static outcome outcome_of(const way *chosen) {
  static const int64_t lengths[BATCH] = {4, 1, 0, 3, 2, 4, 1};
  tdm_value loss;
  tdm_graph *graph = build(chosen, &loss);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.seed = 5, o.deterministic = true,
              o.micro_batches = OR_ONE(chosen->micro_batches));
  tdm_session *session = train_session(graph, loss, tdm_sgd(0.5), &options);
  const tdm_feed feeds[] = {
      {"x", draw(tdm_shape_of(3, STEPS, BATCH, WIDTH), 1), false},
      {"h0", draw(tdm_shape_of(3, STATES, BATCH, HIDDEN), 2), false},
      {"lengths", tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, BATCH), lengths), false},
      {"wanted", draw(tdm_shape_of(3, STEPS, BATCH, 2 * HIDDEN), 3), false}};
  for (int i = 0; i < 2; i++)
    assert_ok(tdm_train_step(session, feeds, 4, NULL, 0, NULL));
  outcome found = {.state = state_of(session), .fetches = {{.name = "y"}, {.name = "c"}}};
  assert_ok(tdm_run(session, feeds, 3, found.fetches, 2));
  for (int i = 0; i < 4; i++)
    tdm_tensor_release(feeds[i].tensor);
  tdm_session_release(session);
  return found;
}

static void outcome_release(outcome *found) {
  tdm_tensor_list_release(found->state);
  for (int i = 0; i < 2; i++)
    tdm_tensor_release(found->fetches[i].tensor);
}

static void assert_near(const tdm_tensor *got, const tdm_tensor *want, const char *what) {
  float a[STEPS * BATCH * 2 * HIDDEN], b[STEPS * BATCH * 2 * HIDDEN];
  assert_int_equal(tdm_tensor_bytes(got), tdm_tensor_bytes(want));
  assert_true(tdm_tensor_bytes(got) <= sizeof a);
  assert_ok(tdm_tensor_read(got, a, tdm_tensor_bytes(got)));
  assert_ok(tdm_tensor_read(want, b, tdm_tensor_bytes(want)));
  for (size_t i = 0; i < tdm_tensor_bytes(got) / sizeof(float); i++)
    if (!(fabsf(a[i] - b[i]) <= 1e-5f))
      fail_msg("%s: element %zu is %g, not %g", what, i, (double)a[i], (double)b[i]);
}

static void parts_give_what_the_whole_gives(void **unused) {
  (void)unused;
  static const way ways[] = {{"cpu:0,sim:0", 0}, {NULL, 3}, {"sim:1,cpu:1,sim:0", 2}};
  outcome whole = outcome_of(&(way){NULL, 0});
  for (size_t k = 0; k < sizeof ways / sizeof ways[0]; k++) {
    outcome parts = outcome_of(&ways[k]);
    assert_int_equal(tdm_tensor_list_count(parts.state), tdm_tensor_list_count(whole.state));
    for (size_t i = 0; i < tdm_tensor_list_count(whole.state); i++) {
      const char *name = tdm_tensor_list_name(whole.state, i);
      assert_near(tdm_tensor_list_find(parts.state, name), tdm_tensor_list_tensor(whole.state, i),
                  name);
    }
    for (int i = 0; i < 2; i++)
      assert_near(parts.fetches[i].tensor, whole.fetches[i].tensor, whole.fetches[i].name);
    outcome_release(&parts);
  }
  outcome_release(&whole);
}

/* The same chunks on one device give the same bits. */
static void devices_do_not_change_results(void **unused) {
  (void)unused;
  outcome apart = outcome_of(&(way){"sim:0,sim:1,cpu:1", 0});
  outcome together = outcome_of(&(way){"cpu:0,cpu:0,cpu:0", 0});
  assert_same_state(apart.state, together.state);
  for (int i = 0; i < 2; i++)
    assert_same_tensor(apart.fetches[i].tensor, together.fetches[i].tensor);
  outcome_release(&apart);
  outcome_release(&together);
}

static void time_is_not_cut(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x =
      tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(3, TDM_DIM("steps"), 3, WIDTH));
  tdm_output(graph, "y", tdm_gru(graph, "gru", x, HIDDEN, NULL, NULL));
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.micro_batches = 2, o.batch_dimension = "steps");
  assert_null(tdm_session_create(graph, &options));
  assert_non_null(strstr(tdm_last_message(), "gru"));
  assert_non_null(strstr(tdm_last_message(), "along which the batch is cut"));
  tdm_graph_release(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parts_give_what_the_whole_gives),
      cmocka_unit_test(devices_do_not_change_results),
      cmocka_unit_test(time_is_not_cut),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
