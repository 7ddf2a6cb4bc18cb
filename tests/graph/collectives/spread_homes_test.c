/* Homes of parameters that are spread over a parallel region's devices: where they are, that no bit
 * depends on it, and what crosses when; and parameters among them that every device updates for
 * itself. For accelerators of TEST_KIND. */
#include <math.h>
#include <stdlib.h>

#include "tests/graph/collectives/homes_model.h"
#include "tests/options.h"

/* ---- Where ------------------------------------------------------------------------------------
 */

static const char *home_in(const tdm_session *session, int layer, const char *parameter) {
  char name[48];
  (void)snprintf(name, sizeof name, "model/l%d.%s", layer, parameter);
  return homes_device_of(session, name);
}

/* The first goes to the first device, and each of the rest where the fewest bytes are. */
static void homes_are_spread_by_bytes(void **unused) {
  (void)unused;
  static const char *const homes[LAYERS][2] = {{A(2), A(1)}, {A(1), A(2)}, {A(2), A(1)}};
  tdm_session *session =
      homes_session(&(homes_case){.devices = A(2) "," A(1), .spread_homes = true});
  homes_train(session, 1);
  for (int i = 0; i < LAYERS; i++) {
    assert_string_equal(home_in(session, i, "weight"), homes[i][0]);
    assert_string_equal(home_in(session, i, "bias"), homes[i][1]);
  }
  tdm_session_release(session);
}

/* States live with their parameters, and have no copies. */
static void states_are_divided(void **unused) {
  (void)unused;
  tdm_session *session =
      homes_session(&(homes_case){.devices = A(0) "," A(1) "," A(2), .spread_homes = true});
  homes_train(session, 2);
  const tdm_graph *graph = &session->newest->graph;
  int states = 0;
  for (size_t i = 0; i < graph->persistents.count; i++) {
    const tdm_graph_persistent *state = &graph->persistents.items[i];
    if (!state->like) continue;
    const tdm_ir_value *parameter = tdm_ir_value_at(graph, state->like);
    assert_int_equal(tdm_ir_value_at(graph, state->value)->device, parameter->device);
    states++;
  }
  assert_true(states >= 2 * 2 * LAYERS);
  assert_true(graph->deriveds.count >= 2 * 2 * LAYERS); /* each has copies on two devices */
  for (size_t i = 0; i < graph->deriveds.count; i++) {
    const tdm_ir_value *source = tdm_ir_value_at(graph, graph->deriveds.items[i].source);
    assert_int_equal(graph->persistents.items[source->binding].like, 0);
  }
  tdm_session_release(session);
}

/* ---- Bits -------------------------------------------------------------------------------------
 */

static const homes_case cases[] = {
    {.devices = A(0) "," A(1)},
    {.devices = A(3) "," A(0) "," A(2)},
    {.devices = A(0) "," A(1) "," A(0) "," A(1)}, /* replicas that share a device */
    {.devices = "cpu:1,cpu:2,cpu:0"},
    {.devices = "cpu:0," A(1) ",cpu:1," A(2)},
    {.devices = A(0) "," A(1) "," A(2), .clip_norm = 0.5},
    {.devices = A(0) "," A(1) "," A(2), .clip_value = 1e-3},
    {.devices = A(0) "," A(1), .micro_batches = 3},
    {.devices = A(0) "," A(1) "," A(2), .depth = 3},
    {.devices = A(0) "," A(1) "," A(2), .layers = 12}, /* more terms than buckets */
    {.devices = A(0) "," A(1) "," A(2), .layers = 12, .micro_batches = 3},
};

/* Gradients are added in the same order wherever that is. */
static void where_homes_are_changes_no_bit(void **unused) {
  (void)unused;
  for (size_t i = 0; i < TDM_COUNT_OF(cases); i++) {
    homes_case of = cases[i];
    if (!homes_have_one_arithmetic(&of)) continue;
    tdm_tensor_list *at_home = homes_trained_state(&of);
    of.spread_homes = true;
    tdm_tensor_list *spread = homes_trained_state(&of);
    assert_same_state(spread, at_home);
    tdm_tensor_list_release(at_home);
    tdm_tensor_list_release(spread);
  }
}

/* With more replicas than a device has buckets, sums are made in place. */
static void many_replicas_have_one_result(void **unused) {
  (void)unused;
  char devices[20 * 8] = "";
  for (int i = 0; i < 20; i++)
    (void)snprintf(devices + strlen(devices), sizeof devices - strlen(devices),
                   "%s" TEST_KIND ":%d", i ? "," : "", i % 4);
  homes_case of = {.devices = devices};
  tdm_tensor_list *at_home = homes_trained_state(&of);
  of.spread_homes = true;
  tdm_tensor_list *spread = homes_trained_state(&of);
  assert_same_state(spread, at_home);
  tdm_tensor_list_release(at_home);
  tdm_tensor_list_release(spread);
}

/* ---- What crosses ------------------------------------------------------------------------------
 */

/* Gradients cross while those of earlier layers are computed, and are added on a queue of their
 * own. All that is updated is read by the next run. */
static void gradients_do_not_hold_up_what_is_computed(void **unused) {
  (void)unused;
  tdm_session *session =
      homes_session(&(homes_case){.devices = A(0) "," A(1), .spread_homes = true});
  homes_train(session, 2);
  const tdm_plan *plan = session->newest;
  const uint64_t weight_bytes = (uint64_t)WIDTH * WIDTH * sizeof(float);
  bool crosses = false; /* the first gradient, by now */
  int behind_first = 0;
  assert_int_equal(plan->sums.algorithm, TDM_COLLECTIVE_HOME);
  assert_string_equal(plan->sums.reason, "homes are spread");
  TDM_EACH_NODE(&plan->graph, node) {
    crosses |= node->role == TDM_ROLE_TRANSFER &&
               tdm_ir_value_at(&plan->graph, node->first_output)->bytes == weight_bytes;
    behind_first += crosses && homes_is_computed(node);
  }
  assert_true(behind_first >= LAYERS);
  assert_int_equal(homes_additions_beside(plan), 2 * LAYERS);
  tdm_traffic traffic;
  assert_ok(tdm_session_traffic(session, &traffic));
  assert_int_equal(traffic.refresh_bytes, LAYERS * (WIDTH * WIDTH + WIDTH) * sizeof(float));
  tdm_session_release(session);
}

/* A home without a queue for sums adds after all its computation, if there are buckets for all
 * terms. */
static void homes_without_a_queue_for_sums_add_last(void **unused) {
  (void)unused;
  tdm_session *session =
      homes_session(&(homes_case){.devices = "cpu:0," A(1), .spread_homes = true});
  homes_train(session, 1);
  int added = 0;
  TDM_EACH_NODE(&session->newest->graph, node) {
    if (node->device != 0) continue;
    added += homes_is_added(node);
    assert_false(added > 0 && homes_is_computed(node));
  }
  assert_true(added > 0);
  tdm_session_release(session);
}

/* ---- Updated everywhere ------------------------------------------------------------------------
 */

static bool is_updated_everywhere(const tdm_session *session, int layer, const char *parameter) {
  char name[48];
  (void)snprintf(name, sizeof name, "model/l%d.%s", layer, parameter);
  const tdm_graph *graph = &session->newest->graph;
  for (size_t i = 0; i < graph->persistents.count; i++)
    if (strcmp(graph->persistents.items[i].name, name) == 0)
      return graph->persistents.items[i].is_updated_everywhere;
  fail_msg("there is no %s", name);
  return false;
}

/* Returns the number of copies of optimizer states, which devices with own updates have. */
static int copies_of_states(const tdm_session *session) {
  const tdm_graph *graph = &session->newest->graph;
  int copies = 0;
  for (size_t i = 0; i < graph->deriveds.count; i++) {
    const tdm_ir_value *source = tdm_ir_value_at(graph, graph->deriveds.items[i].source);
    copies += graph->persistents.items[source->binding].like != 0;
  }
  return copies;
}

/* A third of the bytes, spread evenly: after two weights most of one is due, and after one bias, a
 * bias. Homes of these parameters and of the others are spread separately. Only the latter are
 * refreshed. */
static void those_updated_everywhere_are_spread_evenly(void **unused) {
  (void)unused;
  enum { WEIGHT = WIDTH * WIDTH * sizeof(float), BIAS = WIDTH * sizeof(float) };
  static const bool weights[LAYERS] = {false, true, false}, biases[LAYERS] = {true, false, false};
  static const char *const homes[LAYERS][2] = {{A(2), A(2)}, {A(1), A(1)}, {A(1), A(2)}};
  tdm_session *session = homes_session(
      &(homes_case){.devices = A(2) "," A(1), .spread_homes = true, .updated_everywhere = 1.0 / 3});
  homes_train(session, 2);
  for (int i = 0; i < LAYERS; i++) {
    assert_int_equal(is_updated_everywhere(session, i, "weight"), weights[i]);
    assert_int_equal(is_updated_everywhere(session, i, "bias"), biases[i]);
    assert_string_equal(home_in(session, i, "weight"), homes[i][0]);
    assert_string_equal(home_in(session, i, "bias"), homes[i][1]);
  }
  const tdm_collective_choice *choice = &session->newest->sums;
  assert_int_equal(choice->algorithm, TDM_COLLECTIVE_HOME);
  assert_int_equal(choice->own_updates, 2);
  assert_in_range(copies_of_states(session), 2 * 2, 3 * 2);
  assert_int_equal(homes_refreshed_bytes(session), 2 * (WEIGHT + BIAS));
  tdm_session_release(session);
}

/* All parameters: nothing is refreshed. None: homes are unchanged. */
static void a_share_may_be_all_or_nothing(void **unused) {
  (void)unused;
  const uint64_t all = LAYERS * (WIDTH * WIDTH + WIDTH) * sizeof(float);
  for (int share = 0; share <= 1; share++) {
    tdm_session *session = homes_session(
        &(homes_case){.devices = A(0) "," A(1), .spread_homes = true, .updated_everywhere = share});
    homes_train(session, 2);
    assert_int_equal(session->newest->sums.own_updates, share ? 2 * LAYERS : 0);
    assert_int_equal(homes_refreshed_bytes(session), share ? 0 : all);
    assert_int_equal(copies_of_states(session) > 0, share);
    tdm_session_release(session);
  }
}

/* Two terms have the same sum in every order. On devices of two kinds only the home updates. */
static void two_terms_have_one_sum(void **unused) {
  (void)unused;
  static const homes_case twos[] = {
      {.devices = A(0) "," A(1)},
      {.devices = A(1) "," A(0), .clip_norm = 0.5},
      {.devices = A(0) "," A(1), .micro_batches = 3},
      {.devices = A(0) "," A(1), .depth = 3, .factored = true},
      {.devices = A(0) "," A(1), .layers = 24}, /* more in the middle than buckets */
      {.devices = A(0) "," A(1), .layers = 24, .micro_batches = 3},
      {.devices = "cpu:2,cpu:0"},
      {.devices = "cpu:0," A(1)},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(twos); i++) {
    homes_case of = twos[i];
    if (!homes_have_one_arithmetic(&of)) continue;
    tdm_tensor_list *at_home = homes_trained_state(&of);
    of.spread_homes = true;
    of.updated_everywhere = 0.5;
    tdm_tensor_list *mixed = homes_trained_state(&of);
    assert_same_state(mixed, at_home);
    tdm_tensor_list_release(at_home);
    tdm_tensor_list_release(mixed);
  }
}

/* Each replica computes its rows from its device's copies. They equal the rows that another session
 * computes from the homes. The same steps give the same bits again. */
static void every_device_has_the_bits_of_the_home(void **unused) {
  (void)unused;
  const homes_case of = {.devices = A(0) "," A(1) "," A(2),
                         .clip_norm = 0.5,
                         .spread_homes = true,
                         .updated_everywhere = 0.5};
  tdm_session *session = homes_session(&of);
  homes_train(session, STEPS);
  assert_int_equal(session->newest->sums.own_updates, 3);
  tdm_tensor_list *state = state_of(session);
  tdm_tensor *found = run_on_uniform(session, ROWS, WIDTH);
  tdm_session *fresh = homes_session(&(homes_case){.devices = of.devices});
  homes_train(fresh, 1);
  assert_ok(tdm_store_load(tdm_session_store(fresh), state));
  tdm_tensor *wanted = run_on_uniform(fresh, ROWS, WIDTH);
  assert_same_tensor(found, wanted);
  tdm_tensor_list *again = homes_trained_state(&of);
  assert_same_state(again, state);
  tdm_tensor_list_release(again);
  tdm_tensor_list_release(state);
  tdm_tensor_release(found);
  tdm_tensor_release(wanted);
  tdm_session_release(fresh);
  tdm_session_release(session);
}

/* A load makes the copies stale that devices with own updates have. */
static void copies_that_a_load_made_old_are_sent_again(void **unused) {
  (void)unused;
  tdm_session *session = homes_session(&(homes_case){
      .devices = A(0) "," A(1) "," A(2), .spread_homes = true, .updated_everywhere = 0.5});
  homes_train(session, STEPS);
  tdm_tensor_list *saved = NULL;
  assert_ok(tdm_session_save(session, &saved));
  homes_train(session, 1);
  tdm_tensor_list *wanted = state_of(session);
  assert_ok(tdm_session_load(session, saved));
  homes_train(session, 1);
  tdm_tensor_list *found = state_of(session);
  assert_same_state(found, wanted);
  tdm_tensor_list_release(saved);
  tdm_tensor_list_release(wanted);
  tdm_tensor_list_release(found);
  tdm_session_release(session);
}

/* They are added only at home, in the order of terms. */
static void deterministic_has_all_at_home(void **unused) {
  (void)unused;
  homes_case of = {.devices = A(0) "," A(1) "," A(2), .deterministic = true};
  tdm_tensor_list *at_home = homes_trained_state(&of);
  of.spread_homes = true;
  of.updated_everywhere = 1;
  tdm_session *session = homes_session(&of);
  homes_train(session, STEPS);
  assert_int_equal(session->newest->sums.own_updates, 0);
  tdm_tensor_list *spread = state_of(session);
  assert_same_state(spread, at_home);
  tdm_tensor_list_release(at_home);
  tdm_tensor_list_release(spread);
  tdm_session_release(session);
}

static void shares_that_are_none_are_refused(void **unused) {
  (void)unused;
  static const double shares[] = {-0.25, 1.5, NAN, 0.5};
  static const char *const messages[] = {
      "updated_everywhere is -0.25, not 0 to 1", "updated_everywhere is 1.5, not 0 to 1",
      "updated_everywhere is nan, not 0 to 1", "updated_everywhere is 0.5 without spread_homes"};
  for (size_t i = 0; i < TDM_COUNT_OF(shares); i++) {
    tdm_graph *graph = tdm_graph_create(homes_context);
    const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, 4, WIDTH));
    (void)tdm_linear(graph, "linear", x, WIDTH);
    const tdm_parallel_options options =
        OPTIONS(tdm_parallel_options, o.devices = A(0) "," A(1), o.spread_homes = i < 3,
                o.updated_everywhere = shares[i]);
    tdm_data_parallel(graph, "linear", &options);
    assert_null(tdm_session_create(graph, NULL));
    assert_message(messages[i]);
    tdm_graph_release(graph);
  }
}

int main(void) {
  assert_int_equal(setenv("TANDEM_CUDA_LOGICAL", "4", true), 0); /* also of a single GPU */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(homes_are_spread_by_bytes),
      cmocka_unit_test(states_are_divided),
      cmocka_unit_test(where_homes_are_changes_no_bit),
      cmocka_unit_test(many_replicas_have_one_result),
      cmocka_unit_test(gradients_do_not_hold_up_what_is_computed),
      cmocka_unit_test(homes_without_a_queue_for_sums_add_last),
      cmocka_unit_test(those_updated_everywhere_are_spread_evenly),
      cmocka_unit_test(a_share_may_be_all_or_nothing),
      cmocka_unit_test(two_terms_have_one_sum),
      cmocka_unit_test(every_device_has_the_bits_of_the_home),
      cmocka_unit_test(copies_that_a_load_made_old_are_sent_again),
      cmocka_unit_test(deterministic_has_all_at_home),
      cmocka_unit_test(shares_that_are_none_are_refused),
  };
  return cmocka_run_group_tests(tests, homes_begin_group, homes_end_group);
}
