/* Homes of parameters that are spread over a parallel region's devices: where they are, that no bit
 * depends on it, and what crosses when. For accelerators of TEST_KIND. */
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
  const tdm_parallel_options options = {
      .struct_size = sizeof options, .devices = of->devices, .spread_homes = of->spread_homes};
  tdm_data_parallel(graph, "model", &options);
  tdm_optimizer optimizer = tdm_adam(0.01);
  optimizer.clip_norm = of->clip_norm;
  return train_session(
      graph, tdm_mse(graph, "loss", y, x), optimizer,
      &(tdm_session_options){.seed = 7,
                             .micro_batches = of->micro_batches,
                             .depth = of->depth,
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

/* Gradients cross while those of earlier layers are computed. They are added behind all of these,
 * where there are buckets for them all: no kernel waits for a link. All that is updated is read by
 * the next run. */
static void gradients_do_not_hold_up_what_is_computed(void **unused) {
  (void)unused;
  tdm_session *session = make_session(&(variant){.devices = A(0) "," A(1), .spread_homes = true});
  train(session, 2);
  const tdm_plan *plan = session->newest;
  const uint64_t weight_bytes = (uint64_t)WIDTH * WIDTH * sizeof(float);
  bool crosses = false, added = false; /* the first gradient, by now */
  int behind_first = 0, behind_added = 0;
  assert_int_equal(plan->sums.algorithm, TDM_COLLECTIVE_HOME);
  assert_string_equal(plan->sums.reason, "homes are spread");
  TDM_EACH_NODE(&plan->graph, node) {
    const bool is_sum = node->collective == TDM_COLLECTIVE_HOME;
    const bool computes = tdm_ir_has_kernel(node) && node->role == TDM_ROLE_GRADIENT && !is_sum &&
                          strstr(node->operation->name, "linear");
    crosses |= node->role == TDM_ROLE_TRANSFER &&
               tdm_ir_value_at(&plan->graph, node->first_output)->bytes == weight_bytes;
    added |= is_sum && tdm_ir_has_kernel(node);
    behind_first += crosses && computes;
    behind_added += added && computes;
  }
  assert_true(behind_first >= LAYERS);
  assert_true(added);
  assert_int_equal(behind_added, 0);
  tdm_traffic traffic;
  assert_ok(tdm_session_traffic(session, &traffic));
  assert_int_equal(traffic.refresh_bytes, LAYERS * (WIDTH * WIDTH + WIDTH) * sizeof(float));
  tdm_session_release(session);
}

int main(void) {
  assert_int_equal(setenv("TANDEM_CUDA_LOGICAL", "4", true), 0); /* also of a single GPU */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(homes_are_spread_by_bytes),
      cmocka_unit_test(states_are_divided),
      cmocka_unit_test(where_homes_are_changes_no_bit),
      cmocka_unit_test(many_replicas_have_one_result),
      cmocka_unit_test(gradients_do_not_hold_up_what_is_computed),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
