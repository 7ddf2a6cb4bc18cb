/* Homes of parameters that are spread over a parallel region's devices: where they are, that no bit
 * depends on it, and what crosses when; and parameters among them that every device updates for
 * itself. For accelerators of TEST_KIND. */
#include <math.h>
#include <stdlib.h>

#include "graph/run/session.h"
#include "tests/graph/support.h"

enum { WIDTH = 64, LAYERS = 3, ROWS = 12, STEPS = 3 };

#define A(index) TEST_KIND ":" #index

static tdm_context *context; /* of the group */

static int begin_group(void **unused) {
  (void)unused;
  context = graph_context_of(3, 4);
  return 0;
}

static int end_group(void **unused) {
  (void)unused;
  tdm_context_release(context);
  return 0;
}

/* ---- A model, wrapped over devices ----------------------------------------------------------- */

typedef struct variant {
  const char *devices;
  int layers; /* 0: LAYERS */
  int micro_batches;
  int depth;
  double clip_norm;
  bool spread_homes;
  double updated_everywhere;
  bool deterministic;
  bool factored; /* Adafactor instead of Adam */
} variant;

static tdm_session *make_session(const variant *of) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_shape shape = tdm_shape_of(2, TDM_DIM("batch"), WIDTH);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, shape);
  tdm_scope_push(graph, "model");
  tdm_value y = x;
  for (int i = 0; i < (of->layers ? of->layers : LAYERS); i++) {
    char name[16];
    (void)snprintf(name, sizeof name, "l%d", i);
    y = tdm_tanh(graph, "tanh", tdm_linear(graph, name, y, WIDTH));
  }
  tdm_scope_pop(graph);
  const tdm_parallel_options options = {.struct_size = sizeof options,
                                        .devices = of->devices,
                                        .spread_homes = of->spread_homes,
                                        .updated_everywhere = of->updated_everywhere};
  tdm_data_parallel(graph, "model", &options);
  tdm_output(graph, "y", y);
  tdm_optimizer optimizer = of->factored ? tdm_adafactor(0.01) : tdm_adam(0.01);
  optimizer.clip_norm = of->clip_norm;
  return train_session(
      graph, tdm_mse(graph, "loss", y, x), optimizer,
      &(tdm_session_options){.seed = 7,
                             .micro_batches = of->micro_batches,
                             .depth = of->depth,
                             .deterministic = of->deterministic,
                             .collective = of->spread_homes ? 0 : TDM_COLLECTIVE_HOME});
}

static void train(tdm_session *session, int steps) {
  for (int i = 0; i < steps; i++) {
    tdm_tensor *x = tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH),
                                       (uint64_t)i + 1, -1, 1);
    const tdm_feed feed = {.name = "x", .tensor = x};
    assert_ok(tdm_train_step(session, &feed, 1, NULL, 0, NULL));
    tdm_tensor_release(x);
  }
}

/* ---- Where ------------------------------------------------------------------------------------
 */

static const char *home_of(const tdm_session *session, const char *name) {
  const tdm_plan *plan = session->newest;
  for (size_t i = 0; i < plan->graph.persistents.count; i++)
    if (strcmp(plan->graph.persistents.items[i].name, name) == 0)
      return plan->entries[i]->storage->memory.device->name;
  fail_msg("there is no %s", name);
  return NULL;
}

static const char *home_in(const tdm_session *session, int layer, const char *parameter) {
  char name[48];
  (void)snprintf(name, sizeof name, "model/l%d.%s", layer, parameter);
  return home_of(session, name);
}

/* The first goes to the first device, and each of the rest where the fewest bytes are. */
static void homes_are_spread_by_bytes(void **unused) {
  (void)unused;
  static const char *const homes[LAYERS][2] = {{A(2), A(1)}, {A(1), A(2)}, {A(2), A(1)}};
  tdm_session *session = make_session(&(variant){.devices = A(2) "," A(1), .spread_homes = true});
  train(session, 1);
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
      make_session(&(variant){.devices = A(0) "," A(1) "," A(2), .spread_homes = true});
  train(session, 2);
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
  assert_true(graph->deriveds.count >= 2 * 2 * LAYERS); /* of parameters, on two others each */
  for (size_t i = 0; i < graph->deriveds.count; i++) {
    const tdm_ir_value *source = tdm_ir_value_at(graph, graph->deriveds.items[i].source);
    assert_int_equal(graph->persistents.items[source->binding].like, 0);
  }
  tdm_session_release(session);
}

/* ---- Bits -------------------------------------------------------------------------------------
 */

static const variant variants[] = {
    {.devices = A(0) "," A(1)},
    {.devices = A(3) "," A(0) "," A(2)},
    {.devices = A(0) "," A(1) "," A(0) "," A(1)}, /* replicas that share a device */
    {.devices = "cpu:1,cpu:2,cpu:0"},
    {.devices = "cpu:0," A(1) ",cpu:1," A(2)},
    {.devices = A(0) "," A(1) "," A(2), .clip_norm = 0.5},
    {.devices = A(0) "," A(1), .micro_batches = 3},
    {.devices = A(0) "," A(1) "," A(2), .depth = 3},
    {.devices = A(0) "," A(1) "," A(2), .layers = 12}, /* more terms than buckets */
    {.devices = A(0) "," A(1) "," A(2), .layers = 12, .micro_batches = 3},
};

static tdm_tensor_list *trained_state(const variant *of) {
  tdm_session *session = make_session(of);
  train(session, STEPS);
  tdm_tensor_list *state = state_of(session);
  tdm_session_release(session);
  return state;
}

/* Do all of its devices have the same bits? GPUs round as the CPU does not. */
static bool has_one_arithmetic(const variant *of) {
  return strcmp(TEST_KIND, "sim") == 0 || !strstr(of->devices, "cpu") ||
         !strstr(of->devices, TEST_KIND);
}

/* Gradients are added in the same order wherever that is. */
static void where_homes_are_changes_no_bit(void **unused) {
  (void)unused;
  for (size_t i = 0; i < TDM_COUNT_OF(variants); i++) {
    variant of = variants[i];
    if (!has_one_arithmetic(&of)) continue;
    tdm_tensor_list *at_home = trained_state(&of);
    of.spread_homes = true;
    tdm_tensor_list *spread = trained_state(&of);
    assert_same_state(spread, at_home);
    tdm_tensor_list_release(at_home);
    tdm_tensor_list_release(spread);
  }
}

/* More replicas than a device has buckets: their sums are made where they stand. */
static void many_replicas_have_one_result(void **unused) {
  (void)unused;
  char devices[20 * 8] = "";
  for (int i = 0; i < 20; i++)
    (void)snprintf(devices + strlen(devices), sizeof devices - strlen(devices),
                   "%s" TEST_KIND ":%d", i ? "," : "", i % 4);
  variant of = {.devices = devices};
  tdm_tensor_list *at_home = trained_state(&of);
  of.spread_homes = true;
  tdm_tensor_list *spread = trained_state(&of);
  assert_same_state(spread, at_home);
  tdm_tensor_list_release(at_home);
  tdm_tensor_list_release(spread);
}

/* ---- What crosses ------------------------------------------------------------------------------
 */

static bool is_added(const tdm_ir_node *node) {
  return node->collective == TDM_COLLECTIVE_HOME && tdm_ir_has_kernel(node);
}

static bool is_computed(const tdm_ir_node *node) {
  return tdm_ir_has_kernel(node) && node->role == TDM_ROLE_GRADIENT && !node->collective &&
         strstr(node->operation->name, "linear");
}

static const tdm_ir_node *node_of_step(const tdm_plan *plan, size_t step) {
  return tdm_ir_node_at(&plan->graph, plan->lowered.sources[step].node);
}

/* Additions on a queue for sums; no kernel of the backward pass waits for one. */
static int additions_beside(const tdm_plan *plan) {
  const tdm_schedule *schedule = &plan->lowered.schedule;
  int count = 0;
  for (size_t i = 0; i < schedule->step_count; i++) {
    const tdm_step *step = &schedule->steps[i];
    const bool beside = plan->lowered.queues[step->queue]->role == TDM_QUEUE_SUM;
    count += beside && is_added(node_of_step(plan, i));
    if (!is_computed(node_of_step(plan, i))) continue;
    assert_false(beside);
    for (uint32_t k = 0; k < step->wait_count; k++) {
      const tdm_step_wait *wait = &schedule->waits[step->first_wait + k];
      if (!wait->previous) assert_false(is_added(node_of_step(plan, wait->step)));
    }
  }
  return count;
}

/* Gradients cross while those of earlier layers are computed, and are added on a queue of their
 * own. All that is updated is read by the next run. */
static void gradients_do_not_hold_up_what_is_computed(void **unused) {
  (void)unused;
  tdm_session *session = make_session(&(variant){.devices = A(0) "," A(1), .spread_homes = true});
  train(session, 2);
  const tdm_plan *plan = session->newest;
  const uint64_t weight_bytes = (uint64_t)WIDTH * WIDTH * sizeof(float);
  bool crosses = false; /* the first gradient, by now */
  int behind_first = 0;
  assert_int_equal(plan->sums.algorithm, TDM_COLLECTIVE_HOME);
  assert_string_equal(plan->sums.reason, "homes are spread");
  TDM_EACH_NODE(&plan->graph, node) {
    crosses |= node->role == TDM_ROLE_TRANSFER &&
               tdm_ir_value_at(&plan->graph, node->first_output)->bytes == weight_bytes;
    behind_first += crosses && is_computed(node);
  }
  assert_true(behind_first >= LAYERS);
  assert_int_equal(additions_beside(plan), 2 * LAYERS);
  tdm_traffic traffic;
  assert_ok(tdm_session_traffic(session, &traffic));
  assert_int_equal(traffic.refresh_bytes, LAYERS * (WIDTH * WIDTH + WIDTH) * sizeof(float));
  tdm_session_release(session);
}

/* A home without such a queue adds behind all that it computes, where there are buckets for all. */
static void homes_without_a_queue_for_sums_add_last(void **unused) {
  (void)unused;
  tdm_session *session = make_session(&(variant){.devices = "cpu:0," A(1), .spread_homes = true});
  train(session, 1);
  int added = 0;
  TDM_EACH_NODE(&session->newest->graph, node) {
    if (node->device != 0) continue;
    added += is_added(node);
    assert_false(added > 0 && is_computed(node));
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

static uint64_t refreshed_bytes(tdm_session *session) {
  uint64_t transfers, bytes;
  assert_ok(tdm_session_refreshed(session, &transfers, &bytes));
  return bytes;
}

/* Copies of optimizers' states, which whoever updates for itself has. */
static int copies_of_states(const tdm_session *session) {
  const tdm_graph *graph = &session->newest->graph;
  int copies = 0;
  for (size_t i = 0; i < graph->deriveds.count; i++) {
    const tdm_ir_value *source = tdm_ir_value_at(graph, graph->deriveds.items[i].source);
    copies += graph->persistents.items[source->binding].like != 0;
  }
  return copies;
}

/* A quarter of the bytes at either end is the most of a weight, and the last bias; homes of these
 * and of those in the middle are spread each by themselves. The latter alone are refreshed. */
static void the_ends_are_updated_everywhere(void **unused) {
  (void)unused;
  enum { WEIGHT = WIDTH * WIDTH * sizeof(float), BIAS = WIDTH * sizeof(float) };
  static const bool weights[LAYERS] = {true, false, true}, biases[LAYERS] = {false, false, true};
  static const char *const homes[LAYERS][2] = {{A(2), A(2)}, {A(1), A(2)}, {A(1), A(2)}};
  tdm_session *session = make_session(
      &(variant){.devices = A(2) "," A(1), .spread_homes = true, .updated_everywhere = 0.5});
  train(session, 2);
  for (int i = 0; i < LAYERS; i++) {
    assert_int_equal(is_updated_everywhere(session, i, "weight"), weights[i]);
    assert_int_equal(is_updated_everywhere(session, i, "bias"), biases[i]);
    assert_string_equal(home_in(session, i, "weight"), homes[i][0]);
    assert_string_equal(home_in(session, i, "bias"), homes[i][1]);
  }
  const tdm_collective_choice *choice = &session->newest->sums;
  assert_int_equal(choice->algorithm, TDM_COLLECTIVE_HOME);
  assert_int_equal(choice->own_updates, 3);
  assert_in_range(copies_of_states(session), 2 * 3, 3 * 3);
  assert_int_equal(refreshed_bytes(session), WEIGHT + 2 * BIAS);
  tdm_session_release(session);
}

/* The whole share: nothing is refreshed. None: homes as they were. */
static void a_share_may_be_all_or_nothing(void **unused) {
  (void)unused;
  const uint64_t all = LAYERS * (WIDTH * WIDTH + WIDTH) * sizeof(float);
  for (int share = 0; share <= 1; share++) {
    tdm_session *session = make_session(
        &(variant){.devices = A(0) "," A(1), .spread_homes = true, .updated_everywhere = share});
    train(session, 2);
    assert_int_equal(session->newest->sums.own_updates, share ? 2 * LAYERS : 0);
    assert_int_equal(refreshed_bytes(session), share ? 0 : all);
    assert_int_equal(copies_of_states(session) > 0, share);
    tdm_session_release(session);
  }
}

/* Of two terms every order is the same. On devices of two kinds nobody updates but the home. */
static void two_terms_have_one_sum(void **unused) {
  (void)unused;
  static const variant twos[] = {
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
    variant of = twos[i];
    if (!has_one_arithmetic(&of)) continue;
    tdm_tensor_list *at_home = trained_state(&of);
    of.spread_homes = true;
    of.updated_everywhere = 0.5;
    tdm_tensor_list *mixed = trained_state(&of);
    assert_same_state(mixed, at_home);
    tdm_tensor_list_release(at_home);
    tdm_tensor_list_release(mixed);
  }
}

/* Each replica's rows are of its device's copies: they are those that another session makes of what
 * the homes have. The same steps have the same bits again. */
static void every_device_has_the_bits_of_the_home(void **unused) {
  (void)unused;
  const variant of = {.devices = A(0) "," A(1) "," A(2),
                      .clip_norm = 0.5,
                      .spread_homes = true,
                      .updated_everywhere = 0.5};
  tdm_session *session = make_session(&of);
  train(session, STEPS);
  assert_int_equal(session->newest->sums.own_updates, 3);
  tdm_tensor_list *state = state_of(session);
  tdm_tensor *found = run_on_uniform(session, ROWS, WIDTH);
  tdm_session *fresh = make_session(&(variant){.devices = of.devices});
  train(fresh, 1);
  assert_ok(tdm_store_load(tdm_session_store(fresh), state));
  tdm_tensor *wanted = run_on_uniform(fresh, ROWS, WIDTH);
  assert_same_tensor(found, wanted);
  tdm_tensor_list *again = trained_state(&of);
  assert_same_state(again, state);
  tdm_tensor_list_release(again);
  tdm_tensor_list_release(state);
  tdm_tensor_release(found);
  tdm_tensor_release(wanted);
  tdm_session_release(fresh);
  tdm_session_release(session);
}

/* What is loaded makes the copies old that devices updated for themselves. */
static void copies_that_a_load_made_old_are_sent_again(void **unused) {
  (void)unused;
  tdm_session *session = make_session(&(variant){
      .devices = A(0) "," A(1) "," A(2), .spread_homes = true, .updated_everywhere = 0.5});
  train(session, STEPS);
  tdm_tensor_list *saved = NULL;
  assert_ok(tdm_session_save(session, &saved));
  train(session, 1);
  tdm_tensor_list *wanted = state_of(session);
  assert_ok(tdm_session_load(session, saved));
  train(session, 1);
  tdm_tensor_list *found = state_of(session);
  assert_same_state(found, wanted);
  tdm_tensor_list_release(saved);
  tdm_tensor_list_release(wanted);
  tdm_tensor_list_release(found);
  tdm_session_release(session);
}

/* In the order of terms they are added at home alone. */
static void deterministic_has_all_at_home(void **unused) {
  (void)unused;
  variant of = {.devices = A(0) "," A(1) "," A(2), .deterministic = true};
  tdm_tensor_list *at_home = trained_state(&of);
  of.spread_homes = true;
  of.updated_everywhere = 1;
  tdm_session *session = make_session(&of);
  train(session, STEPS);
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
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, 4, WIDTH));
    (void)tdm_linear(graph, "linear", x, WIDTH);
    const tdm_parallel_options options = {.struct_size = sizeof options,
                                          .devices = A(0) "," A(1),
                                          .spread_homes = i < 3,
                                          .updated_everywhere = shares[i]};
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
      cmocka_unit_test(the_ends_are_updated_everywhere),
      cmocka_unit_test(a_share_may_be_all_or_nothing),
      cmocka_unit_test(two_terms_have_one_sum),
      cmocka_unit_test(every_device_has_the_bits_of_the_home),
      cmocka_unit_test(copies_that_a_load_made_old_are_sent_again),
      cmocka_unit_test(deterministic_has_all_at_home),
      cmocka_unit_test(shares_that_are_none_are_refused),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
