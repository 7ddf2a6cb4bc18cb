/* Parameter groups: each parameter has its group's optimizer and rate. One without an optimizer
 * does not change and costs nothing. Checkpoints contain the states of groups. Also the states of a
 * user's layer, which its rule updates by several operations. Invariant: the model's two towers
 * share only the sum of their losses, so each trains, bit by bit, as it would with only its own
 * optimizer. */
#include "tests/graph/group.h"
#include "tests/options.h"

enum { ROWS = 5, WIDTH = 6, HIDDEN = 8, CLASSES = 3, STEPS = 4 };

static tdm_value tower(tdm_graph *graph, const char *scope, tdm_value x, tdm_value target,
                       const char *device) {
  tdm_scope_push(graph, scope);
  tdm_place(graph, device);
  const tdm_value hidden = tdm_linear(graph, "hidden", x, HIDDEN);
  const tdm_value y = tdm_linear(graph, "head", tdm_tanh(graph, "tanh", hidden), CLASSES);
  const tdm_value loss = tdm_mse(graph, "loss", y, target);
  tdm_scope_pop(graph);
  return loss;
}

static tdm_graph *twin_towers(tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_shape in = tdm_shape_of(2, TDM_DIM("batch"), (tdm_dim)WIDTH);
  const tdm_shape out = tdm_shape_of(2, TDM_DIM("batch"), (tdm_dim)CLASSES);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, in);
  const tdm_value target = tdm_input(graph, "target", TDM_FLOAT32, out);
  const tdm_value left = tower(graph, "left", x, target, "cpu:0");
  *out_loss = tdm_add(graph, "sum", left, tower(graph, "right", x, target, TEST_KIND ":0"));
  return graph;
}

static tdm_session *session_with(tdm_optimizer optimizer, const tdm_parameter_group *groups,
                                 size_t count) {
  tdm_value loss;
  tdm_graph *graph = twin_towers(&loss);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.seed = 11, o.groups = groups, o.group_count = count);
  return train_session(graph, loss, optimizer, &options);
}

static tdm_tensor *numbers(int64_t rows, int64_t width, uint64_t seed) {
  float values[ROWS * WIDTH];
  for (int64_t i = 0; i < rows * width; i++)
    values[i] = (float)((seed * 7 + (uint64_t)i * 13) % 17) / 8.0F - 1.0F;
  return tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(2, rows, width), values);
}

static void steps(tdm_session *session, int count) {
  for (int i = 0; i < count; i++) {
    tdm_tensor *x = numbers(ROWS, WIDTH, (uint64_t)i + 1);
    tdm_tensor *target = numbers(ROWS, CLASSES, (uint64_t)i + 50);
    const tdm_feed feeds[] = {{"x", x, false}, {"target", target, false}};
    assert_ok(tdm_train_step(session, feeds, 2, NULL, 0, NULL));
    tdm_tensor_release(x);
    tdm_tensor_release(target);
  }
}

static tdm_tensor_list *parameters_of(tdm_session *session) {
  tdm_tensor_list *list = tdm_store_save(tdm_session_store(session), false);
  assert_non_null(list);
  return list;
}

/* Returns the state after STEPS training steps. */
static tdm_tensor_list *trained(tdm_optimizer optimizer, const tdm_parameter_group *groups,
                                size_t count) {
  tdm_session *session = session_with(optimizer, groups, count);
  steps(session, STEPS);
  tdm_tensor_list *list = parameters_of(session);
  tdm_session_release(session);
  return list;
}

/* Returns true if the parameters whose names begin in this way are equal in both. Both lists have
 * them. */
static bool same_below(const tdm_tensor_list *a, const tdm_tensor_list *b, const char *begin) {
  size_t seen = 0;
  bool same = true;
  for (size_t i = 0; i < tdm_tensor_list_count(a); i++) {
    const char *name = tdm_tensor_list_name(a, i);
    if (strncmp(name, begin, strlen(begin)) != 0) continue;
    const tdm_tensor *mine = tdm_tensor_list_tensor(a, i);
    const tdm_tensor *other = tdm_tensor_list_find(b, name);
    assert_non_null(other);
    same &= memcmp(tdm_tensor_data(mine), tdm_tensor_data(other), tdm_tensor_bytes(mine)) == 0;
    seen++;
  }
  assert_true(seen > 0);
  return same;
}

static void each_tower_goes_by_its_own_optimizer(void **unused) {
  (void)unused;
  const tdm_optimizer adam = tdm_adam(0.02);
  tdm_optimizer sgd = tdm_sgd_with(WITH(tdm_sgd_options, o.learning_rate = 0.1, o.momentum = 0.9));
  const tdm_parameter_group groups[] = {{"right", &adam}};
  tdm_tensor_list *both = trained(sgd, groups, 1);
  tdm_tensor_list *by_sgd = trained(sgd, NULL, 0);
  tdm_tensor_list *by_adam = trained(adam, NULL, 0);
  assert_true(same_below(both, by_sgd, "left/"));
  assert_true(same_below(both, by_adam, "right/"));
  assert_false(same_below(both, by_sgd, "right/"));
  tdm_tensor_list_release(both);
  tdm_tensor_list_release(by_sgd);
  tdm_tensor_list_release(by_adam);
}

static void a_norm_is_that_of_the_group(void **unused) {
  (void)unused;
  tdm_optimizer clipped = tdm_sgd(0.1);
  clipped.clip_norm = 0.01;
  const tdm_optimizer free_running = tdm_sgd(0.1);
  const tdm_parameter_group by_group[] = {{"right", &free_running}};
  const tdm_parameter_group alone[] = {{"right", NULL}};
  tdm_tensor_list *both = trained(clipped, by_group, 1);
  tdm_tensor_list *left_alone = trained(clipped, alone, 1);
  tdm_tensor_list *unclipped = trained(free_running, NULL, 0);
  assert_true(same_below(both, left_alone, "left/"));
  assert_true(same_below(both, unclipped, "right/"));
  assert_false(same_below(both, unclipped, "left/"));
  tdm_tensor_list_release(both);
  tdm_tensor_list_release(left_alone);
  tdm_tensor_list_release(unclipped);
}

static uint64_t edges_of(const tdm_parameter_group *groups, size_t count) {
  tdm_session *session = session_with(tdm_sgd(0.1), groups, count);
  tdm_traffic traffic;
  steps(session, 1);
  assert_ok(tdm_session_traffic(session, &traffic));
  tdm_session_release(session);
  return traffic.edge_transfers;
}

static void what_is_not_trained_stays_and_costs_nothing(void **unused) {
  (void)unused;
  const tdm_parameter_group right[] = {{"right", NULL}};
  tdm_session *session = session_with(tdm_adam(0.1), right, 1);
  tdm_tensor_list *before = parameters_of(session);
  steps(session, STEPS);
  tdm_tensor_list *after = parameters_of(session);
  assert_true(same_below(before, after, "right/"));
  assert_false(same_below(before, after, "left/hidden.weight"));
  tdm_tensor_list *state = state_of(session);
  assert_null(tdm_tensor_list_find(state, "optimizer/right/head.weight/exp_avg"));
  assert_non_null(tdm_tensor_list_find(state, "optimizer/left/head.weight/exp_avg"));
  tdm_tensor_list_release(before);
  tdm_tensor_list_release(after);
  tdm_tensor_list_release(state);
  tdm_session_release(session);
  /* No gradient goes back to the tower's device. */
  assert_int_equal(edges_of(right, 1) + 1, edges_of(NULL, 0));
}

typedef struct pattern_case {
  const char *pattern;
  const char *frozen; /* names of parameters that do not change... */
  const char *moving; /* ...and these do not */
} pattern_case;

static void patterns_name_parameters_and_scopes(void **unused) {
  (void)unused;
  static const pattern_case cases[] = {
      {"left", "left/", "right/head.bias"},
      {"left/head", "left/head.", "left/hidden.weight"},
      {"left/head.bias", "left/head.bias", "left/head.weight"},
      {"*bias", "right/hidden.bias", "right/hidden.weight"},
      {"*/head", "right/head.", "right/hidden.bias"},
      {"l*t/*.weight", "left/head.weight", "right/head.weight"},
      {" left/head , right/h*n ", "right/hidden.", "right/head.weight"},
  };
  tdm_session *session = session_with(tdm_sgd(0.1), NULL, 0);
  tdm_tensor_list *first = parameters_of(session);
  tdm_session_release(session);
  for (size_t i = 0; i < TDM_COUNT_OF(cases); i++) {
    const tdm_parameter_group group[] = {{cases[i].pattern, NULL}};
    tdm_tensor_list *last = trained(tdm_sgd(0.1), group, 1);
    if (!same_below(first, last, cases[i].frozen) || same_below(first, last, cases[i].moving))
      fail_msg("pattern %s", cases[i].pattern);
    tdm_tensor_list_release(last);
  }
  tdm_tensor_list_release(first);
}

static void the_first_group_that_names_it_counts(void **unused) {
  (void)unused;
  const tdm_optimizer adam = tdm_adam(0.02);
  const tdm_parameter_group groups[] = {{"right/head", NULL}, {"right", &adam}};
  tdm_tensor_list *list = trained(tdm_sgd(0.1), groups, 2);
  tdm_session *fresh = session_with(tdm_sgd(0.1), NULL, 0);
  tdm_tensor_list *first = parameters_of(fresh);
  assert_true(same_below(list, first, "right/head."));
  assert_false(same_below(list, first, "right/hidden.weight"));
  tdm_tensor_list_release(list);
  tdm_tensor_list_release(first);
  tdm_session_release(fresh);
}

static void rates_change_in_proportion(void **unused) {
  (void)unused;
  const tdm_optimizer slow = tdm_sgd(0.05);
  const tdm_parameter_group groups[] = {{"right", &slow}};
  tdm_session *session = session_with(tdm_sgd(0.2), groups, 1);
  assert_ok(tdm_session_set_learning_rate(session, 0.1)); /* and 0.025 */
  steps(session, STEPS);
  tdm_tensor_list *halved = parameters_of(session);
  tdm_session_release(session);

  session = session_with(tdm_sgd(0.1), groups, 1);
  assert_ok(tdm_session_set_group_learning_rate(session, 0, 0.025));
  steps(session, STEPS);
  tdm_tensor_list *set = parameters_of(session);
  assert_same_state(halved, set);
  assert_int_equal(tdm_session_set_group_learning_rate(session, 1, 0.1), TDM_INVALID_ARGUMENT);
  assert_non_null(strstr(tdm_last_message(), "no group 1 of 1"));
  tdm_session_release(session);
  tdm_tensor_list_release(halved);
  tdm_tensor_list_release(set);
}

static void checkpoints_keep_groups(void **unused) {
  (void)unused;
  const tdm_optimizer adam = tdm_adam(0.02);
  const tdm_parameter_group groups[] = {{"right/head", NULL}, {"right", &adam}};
  tdm_session *whole = session_with(tdm_sgd(0.1), groups, 2);
  steps(whole, 2);
  assert_ok(tdm_session_set_group_learning_rate(whole, 1, 0.5));
  tdm_tensor_list *kept;
  assert_ok(tdm_session_save(whole, &kept));
  steps(whole, STEPS);

  tdm_session *resumed = session_with(tdm_sgd(0.7), groups, 2);
  assert_ok(tdm_session_load(resumed, kept));
  steps(resumed, STEPS);
  tdm_tensor_list *a = state_of(whole);
  tdm_tensor_list *b = state_of(resumed);
  assert_same_state(a, b);

  tdm_session *other = session_with(tdm_sgd(0.1), groups + 1, 1);
  assert_int_equal(tdm_session_load(other, kept), TDM_INVALID_ARGUMENT);
  assert_non_null(strstr(tdm_last_message(), "\"sgd,none,adam\""));
  assert_non_null(strstr(tdm_last_message(), "\"sgd,adam\""));
  tdm_tensor_list_release(a);
  tdm_tensor_list_release(b);
  tdm_tensor_list_release(kept);
  tdm_session_release(other);
  tdm_session_release(resumed);
  tdm_session_release(whole);
}

static void assert_refused(const tdm_optimizer *optimizer, const tdm_parameter_group *groups,
                           size_t count, const char *because) {
  tdm_value loss;
  tdm_graph *graph = twin_towers(&loss);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = optimizer ? loss : (tdm_value){0, 0},
              o.optimizer = optimizer, o.groups = groups, o.group_count = count);
  tdm_output(graph, "loss", loss);
  assert_null(tdm_session_create(graph, &options));
  if (!strstr(tdm_last_message(), because)) fail_msg("%s", tdm_last_message());
  tdm_graph_release(graph);
}

static void bad_groups_are_refused_by_name(void **unused) {
  (void)unused;
  const tdm_optimizer sgd = tdm_sgd(0.1);
  const tdm_optimizer negative = tdm_sgd(-1.0);
  const tdm_optimizer empty = {0};
  const tdm_parameter_group unknown[] = {{"left", NULL}, {"right,midle", &sgd}};
  const tdm_parameter_group nameless[] = {{NULL, &sgd}};
  const tdm_parameter_group ruleless[] = {{"left", &empty}};
  const tdm_parameter_group everything[] = {{"*", NULL}};
  const tdm_parameter_group wrong[] = {{"left", &negative}};
  const tdm_parameter_group half[] = {{"lef", NULL}};
  assert_refused(&sgd, unknown, 2, "parameter group 1: no parameter is called \"midle\"");
  assert_refused(&sgd, half, 1, "no parameter is called \"lef\"");
  assert_refused(&sgd, nameless, 1, "parameter group 0 has no parameters");
  assert_refused(&sgd, ruleless, 1, "parameter group 0 has no rule in its optimizer");
  assert_refused(&sgd, everything, 1, "does not depend on any parameter that is trained");
  assert_refused(&sgd, wrong, 1, "parameter group 0: sgd: learning rate -1 must be finite");
  assert_refused(&negative, NULL, 0, "session options: sgd: learning rate -1 must be finite");
  assert_refused(NULL, unknown, 1, "parameter groups without an optimizer for the others");
  assert_refused(&sgd, unknown, 16, "16 parameter groups, of at most 15");
  assert_refused(&sgd, NULL, 2, "groups is NULL, group_count is 2");
}

/* ---- States of a layer of one's own ---------------------------------------------------------- */

static tdm_status infer_traced(tdm_infer *infer) {
  infer->outputs[0] = infer->inputs[0];
  return TDM_OK;
}

static tdm_status pass_traced(tdm_gradient *gradient) {
  tdm_gradient_set(gradient, 0, tdm_gradient_of_output(gradient, 0));
  return tdm_graph_status(tdm_gradient_graph(gradient));
}

/* Infers value, state -> =state. */
static tdm_status infer_assigned(tdm_infer *infer) {
  infer->outputs[0] = infer->inputs[1];
  return TDM_OK;
}

static const tdm_operation assign = {.struct_size = sizeof(tdm_operation),
                                     .name = "cast",
                                     .min_inputs = 2,
                                     .max_inputs = 2,
                                     .output_count = 1,
                                     .overwrites = {2},
                                     .infer = infer_assigned};

/* Appends trace = trace / 2 + the mean of x, in several operations. */
static tdm_status persist_trace(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const char *name = tdm_gradient_name(gradient);
  const tdm_value trace = tdm_gradient_input(gradient, 1);
  const tdm_value mean = tdm_mean(graph, name, tdm_gradient_input(gradient, 0), NULL, 0, false);
  const tdm_value next = tdm_add(graph, name, tdm_mul_scalar(graph, name, trace, 0.5), mean);
  tdm_append(graph, &assign, name, NULL, (const tdm_value[]){next, trace}, 2, NULL);
  return tdm_graph_status(graph);
}

static const tdm_operation traced = {.struct_size = sizeof(tdm_operation),
                                     .name = "test_traced",
                                     .min_inputs = 2,
                                     .max_inputs = 2,
                                     .output_count = 1,
                                     .is_view = true,
                                     .infer = infer_traced,
                                     .gradient = pass_traced,
                                     .persist = persist_trace,
                                     .persist_inputs = 1u << 1};

/* Returns the trace after a step on rows of 1, 1, 3 and 3, in two micro-batches if requested, of a
 * layer that is called twice, the second time with the negated rows. */
static float trace_after(const char *device, int micro_batches) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 2));
  tdm_place(graph, device);
  const tdm_value trace =
      tdm_state(graph, "trace", TDM_FLOAT32, tdm_shape_scalar(), NULL, (tdm_value){0, 0});
  const tdm_value one =
      tdm_append(graph, &traced, "one", NULL, (const tdm_value[]){x, trace}, 2, NULL);
  const tdm_value negative = tdm_mul_scalar(graph, "negative", one, -1);
  const tdm_value two =
      tdm_append(graph, &traced, "two", NULL, (const tdm_value[]){negative, trace}, 2, NULL);
  const tdm_value y = tdm_linear(graph, "fc", two, 2);
  tdm_session *session =
      train_session(graph, tdm_mse(graph, "loss", y, x), tdm_sgd(0.1),
                    WITH(tdm_session_options, o.seed = 1, o.micro_batches = OR_ONE(micro_batches)));
  const float rows[4][2] = {{1, 1}, {1, 1}, {3, 3}, {3, 3}};
  tdm_tensor *fed = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(2, 4, 2), rows);
  assert_ok(tdm_train_step(session, &(tdm_feed){"x", fed, false}, 1, NULL, 0, NULL));
  tdm_tensor_release(fed);
  tdm_tensor_list *list = tdm_store_save(tdm_session_store(session), true);
  float found;
  assert_ok(tdm_tensor_read(tdm_tensor_list_find(list, "trace"), &found, sizeof found));
  tdm_tensor_list_release(list);
  tdm_session_release(session);
  return found;
}

/* Checks the trace of rows with means 2 and -2, and in micro-batches 1, -1, 3 and -3. */
static void a_state_moves_from_where_it_was_left(void **unused) {
  (void)unused;
  static const char *const devices[] = {"cpu:0", "cpu:1", TEST_KIND ":0"};
  for (size_t d = 0; d < TDM_COUNT_OF(devices); d++) {
    assert_float_equal(trace_after(devices[d], 1), -1, 0);
    assert_float_equal(trace_after(devices[d], 2), (((1 * 0.5) - 1) * 0.5 + 3) * 0.5 - 3, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_tower_goes_by_its_own_optimizer),
      cmocka_unit_test(a_norm_is_that_of_the_group),
      cmocka_unit_test(what_is_not_trained_stays_and_costs_nothing),
      cmocka_unit_test(patterns_name_parameters_and_scopes),
      cmocka_unit_test(the_first_group_that_names_it_counts),
      cmocka_unit_test(rates_change_in_proportion),
      cmocka_unit_test(checkpoints_keep_groups),
      cmocka_unit_test(bad_groups_are_refused_by_name),
      cmocka_unit_test(a_state_moves_from_where_it_was_left),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
