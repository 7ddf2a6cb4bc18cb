/* Sharded optimizer states: the homes of parameters, that no bit depends on them, and when
 * gradients and parameters are sent. For accelerators of TEST_KIND. */
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
  tdm_session *session = homes_session(
      &(homes_case){.devices = A(2) "," A(1), .sharding = TDM_SHARDING_OPTIMIZER_STATES});
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
  tdm_session *session = homes_session(
      &(homes_case){.devices = A(0) "," A(1) "," A(2), .sharding = TDM_SHARDING_OPTIMIZER_STATES});
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
  assert_true(graph->planned->deriveds.count >=
              2 * 2 * LAYERS); /* each has copies on two devices */
  for (size_t i = 0; i < graph->planned->deriveds.count; i++) {
    const tdm_ir_value *source = tdm_ir_value_at(graph, graph->planned->deriveds.items[i].source);
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

/* Checks that gradients are added in the same order on every device. */
static void where_homes_are_changes_no_bit(void **unused) {
  (void)unused;
  for (size_t i = 0; i < TDM_COUNT_OF(cases); i++) {
    homes_case of = cases[i];
    if (!homes_have_one_arithmetic(&of)) continue;
    tdm_tensor_list *at_home = homes_trained_state(&of);
    of.sharding = TDM_SHARDING_OPTIMIZER_STATES;
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
  of.sharding = TDM_SHARDING_OPTIMIZER_STATES;
  tdm_tensor_list *spread = homes_trained_state(&of);
  assert_same_state(spread, at_home);
  tdm_tensor_list_release(at_home);
  tdm_tensor_list_release(spread);
}

/* ---- What crosses ------------------------------------------------------------------------------
 */

/* Checks that gradients are transferred while those of earlier layers are computed, and are added
 * on a separate queue. The next run reads all updated values. */
static void gradients_do_not_hold_up_what_is_computed(void **unused) {
  (void)unused;
  tdm_session *session = homes_session(
      &(homes_case){.devices = A(0) "," A(1), .sharding = TDM_SHARDING_OPTIMIZER_STATES});
  homes_train(session, 2);
  const tdm_plan *plan = session->newest;
  const uint64_t weight_bytes = (uint64_t)WIDTH * WIDTH * sizeof(float);
  bool crosses = false; /* the first gradient, by now */
  int behind_first = 0;
  assert_int_equal(plan->sums.algorithm, TDM_COLLECTIVE_HOME);
  assert_string_equal(plan->sums.reason, "optimizer states are sharded");
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
  tdm_session *session = homes_session(
      &(homes_case){.devices = "cpu:0," A(1), .sharding = TDM_SHARDING_OPTIMIZER_STATES});
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

/* ---- Mistakes ----------------------------------------------------------------------------------
 */

static void unknown_shardings_are_refused(void **unused) {
  (void)unused;
  static const int numbers[] = {-1, TDM_SHARDING_PARAMETERS + 1};
  static const char *const messages[] = {"sharding is -1, expected", "sharding is 3, expected"};
  for (size_t i = 0; i < TDM_COUNT_OF(numbers); i++) {
    tdm_graph *graph = tdm_graph_create(homes_context);
    const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, 4, WIDTH));
    (void)tdm_linear(graph, "linear", x, WIDTH);
    const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = A(0) "," A(1),
                                                 o.sharding = (tdm_parallel_sharding)numbers[i]);
    tdm_data_parallel(graph, "linear", &options);
    assert_null(tdm_session_create(graph, NULL));
    assert_message(messages[i]);
    tdm_graph_release(graph);
  }
}

int main(void) {
  assert_int_equal(setenv("TANDEM_CUDA_LOGICAL", "4", true), 0); /* also on a single GPU */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(homes_are_spread_by_bytes),
      cmocka_unit_test(states_are_divided),
      cmocka_unit_test(where_homes_are_changes_no_bit),
      cmocka_unit_test(many_replicas_have_one_result),
      cmocka_unit_test(gradients_do_not_hold_up_what_is_computed),
      cmocka_unit_test(homes_without_a_queue_for_sums_add_last),
      cmocka_unit_test(unknown_shardings_are_refused),
  };
  return cmocka_run_group_tests(tests, homes_begin_group, homes_end_group);
}
