/* Sharded parameters: the homes of their rows, that no bit depends on them, which parameters stay
 * whole, and which of these every device updates. For accelerators of TEST_KIND. */
#include <stdlib.h>

#include "tests/graph/collectives/homes_model.h"
#include "tests/options.h"

enum { DIVIDED = LAYERS - 1 }; /* weights over two devices, which both update the third one */

/* Pieces of parameters, and how many of them a device has. */
static int pieces_on(const tdm_session *session, const char *device) {
  const tdm_graph *graph = &session->newest->graph;
  int count = 0;
  for (size_t i = 0; i < graph->persistents.count; i++) {
    const tdm_graph_persistent *persistent = &graph->persistents.items[i];
    const tdm_device *home = session->newest->entries[i]->storage->memory.device;
    count += !persistent->is_state && !persistent->like && persistent->shard.table &&
             (!device || strcmp(home->name, device) == 0);
  }
  return count;
}

/* Every device has as many rows of two weights, and their states. The others and the biases are
 * whole. Each has the rows of the others refreshed, except of a weight and a bias that it updates.
 */
static void rows_lie_on_all_devices(void **unused) {
  (void)unused;
  tdm_session *session =
      homes_session(&(homes_case){.devices = A(2) "," A(0), .sharding = TDM_SHARDING_PARAMETERS});
  homes_train(session, 2);
  assert_int_equal(pieces_on(session, NULL), 2 * DIVIDED);
  assert_int_equal(pieces_on(session, A(0)), DIVIDED);
  assert_string_equal(homes_device_of(session, "model/l2.weight[0:32]"), A(2));
  assert_string_equal(homes_device_of(session, "model/l2.weight[32:64]"), A(0));
  assert_string_equal(homes_device_of(session, "optimizer/model/l2.weight[32:64]/exp_avg"), A(0));
  assert_int_equal(homes_refreshed_bytes(session),
                   DIVIDED * (WIDTH * WIDTH + WIDTH) * sizeof(float));
  assert_int_equal(homes_additions_beside(session->newest), 3 * DIVIDED);
  tdm_session_release(session);
}

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

/* Elements are added in the same order on every device, and are saved like those of whole
 * parameters. */
static void rows_have_the_bits_of_wholes(void **unused) {
  (void)unused;
  for (size_t i = 0; i < TDM_COUNT_OF(cases); i++) {
    homes_case of = cases[i];
    if (!homes_have_one_arithmetic(&of)) continue;
    of.deterministic = true;
    tdm_tensor_list *at_home = homes_trained_state(&of);
    of.sharding = TDM_SHARDING_PARAMETERS;
    tdm_tensor_list *spread = homes_trained_state(&of);
    assert_same_state(spread, at_home);
    tdm_tensor_list_release(at_home);
    tdm_tensor_list_release(spread);
  }
}

/* "part" over two devices. Its weight, in shards, is read three times after it, each time at a
 * greater distance, the second time on `place`. */
static tdm_tensor_list *trained_beside(const char *place) {
  tdm_graph *graph = tdm_graph_create(homes_context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  tdm_value y = tdm_linear_without_bias(graph, "part", x, WIDTH);
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = "cpu:0,cpu:1",
                                               o.sharding = TDM_SHARDING_PARAMETERS);
  tdm_data_parallel(graph, "part", &options);
  const tdm_value weight = tdm_get_parameter(graph, "part.weight");
  static const char *const names[] = {"one", "two", "three"};
  for (int i = 0; i < 3; i++) {
    tdm_place(graph, i == 1 ? place : "cpu:0");
    y = tdm_tanh(graph, names[i], tdm_matmul(graph, "product", y, weight));
  }
  tdm_place(graph, "cpu:0");
  const tdm_value loss = tdm_mean(graph, "loss", tdm_square(graph, "s", y), NULL, 0, false);
  tdm_session *session = train_session(
      graph, loss, tdm_sgd(3), WITH(tdm_session_options, o.seed = 5, o.deterministic = true));
  tdm_tensor *fed =
      tdm_tensor_randn(homes_context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 6, WIDTH), 7);
  const tdm_feed feed = {"x", fed, false};
  for (int step = 0; step < 2; step++)
    assert_ok(tdm_train_step(session, &feed, 1, NULL, 0, NULL));
  tdm_tensor_release(fed);
  tdm_tensor_list *state = tdm_store_save(tdm_session_store(session), true);
  assert_non_null(state);
  tdm_session_release(session);
  return state;
}

/* With `deterministic` it is not for the order of sums where a node of no replica reads pieces. */
static void who_reads_rows_elsewhere_changes_no_bit(void **unused) {
  (void)unused;
  tdm_tensor_list *together = trained_beside("cpu:0");
  tdm_tensor_list *apart = trained_beside("cpu:2");
  assert_same_state(together, apart);
  tdm_tensor_list_release(together);
  tdm_tensor_list_release(apart);
}

/* Two terms have the same sum in every order. On devices of two kinds only the home updates. */
static void rows_beside_rings_have_the_bits_of_wholes(void **unused) {
  (void)unused;
  static const homes_case twos[] = {
      {.devices = A(0) "," A(1), .layers = 8},
      {.devices = A(0) "," A(1), .layers = 8, .micro_batches = 3},
      {.devices = A(0) "," A(1), .layers = 24, .depth = 3}, /* more in the middle than buckets */
      {.devices = A(0) "," A(1), .depth = 3, .factored = true},
      {.devices = "cpu:2,cpu:0"},
      {.devices = "cpu:0," A(1)},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(twos); i++) {
    homes_case of = twos[i];
    if (!homes_have_one_arithmetic(&of)) continue;
    tdm_tensor_list *at_home = homes_trained_state(&of);
    of.sharding = TDM_SHARDING_PARAMETERS;
    tdm_tensor_list *mixed = homes_trained_state(&of);
    assert_same_state(mixed, at_home);
    tdm_tensor_list_release(at_home);
    tdm_tensor_list_release(mixed);
  }
}

/* Parameters that were trained whole continue in shards, and the other way round. */
static void rows_load_what_wholes_have_saved(void **unused) {
  (void)unused;
  homes_case of = {.devices = A(0) "," A(1)};
  tdm_session *sessions[2];
  for (int i = 0; i < 2; i++) {
    of.sharding = i == 1 ? TDM_SHARDING_PARAMETERS : TDM_SHARDING_NONE;
    sessions[i] = homes_session(&of);
    homes_train(sessions[i], STEPS);
  }
  for (int i = 0; i < 2; i++) {
    tdm_tensor_list *saved = NULL;
    homes_train(sessions[i], 1);
    assert_ok(tdm_session_save(sessions[i], &saved));
    assert_ok(tdm_session_load(sessions[1 - i], saved));
    homes_train(sessions[i], 1);
    homes_train(sessions[1 - i], 1);
    tdm_tensor_list *wanted = state_of(sessions[i]), *found = state_of(sessions[1 - i]);
    assert_same_state(found, wanted);
    tdm_tensor_list_release(saved);
    tdm_tensor_list_release(wanted);
    tdm_tensor_list_release(found);
  }
  tdm_session_release(sessions[0]);
  tdm_session_release(sessions[1]);
}

static bool is_explained(tdm_session *session, const char *words) {
  char *text = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&text, &length);
  assert_non_null(out);
  assert_ok(tdm_session_explain(session, TDM_PLAN_TEXT, out));
  assert_int_equal(fclose(out), 0);
  const bool is_there = strstr(text, words) != NULL;
  free(text);
  return is_there;
}

/* Cases where shards would give other numbers than whole parameters; explain states why. */
static void some_sessions_keep_parameters_whole(void **unused) {
  (void)unused;
  static const struct {
    homes_case of;
    const char *words;
  } reasons[] = {
      {{.factored = true}, "pieces    none: an optimizer updates each as a whole"},
      {{.clip_norm = 0.5, .deterministic = true},
       "pieces    none: deterministic norms are those of wholes"},
      {{.clip_norm = 0.5}, "pieces    of 2 parameters"},
      {{.deterministic = true}, "pieces    of 2 parameters"},
      {{.hands_out = true}, "pieces    of 1 parameter,"},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(reasons); i++) {
    homes_case of = reasons[i].of;
    of.devices = A(0) "," A(1);
    of.sharding = TDM_SHARDING_PARAMETERS;
    tdm_session *session = homes_session(&of);
    homes_train(session, 1);
    if (!is_explained(session, reasons[i].words)) fail_msg("case %zu: not %s", i, reasons[i].words);
    tdm_session_release(session);
  }
}

/* Checks that a store has a parameter as a whole or in pieces, as the first session requested
 * it. */
static void sessions_of_one_store_agree_on_pieces(void **unused) {
  (void)unused;
  for (int first = 0; first < 2; first++) {
    homes_case of = {.devices = A(0) "," A(1),
                     .sharding = first ? TDM_SHARDING_PARAMETERS : TDM_SHARDING_OPTIMIZER_STATES};
    tdm_session *session = homes_session(&of);
    homes_train(session, 1);
    of.store = tdm_session_store(session);
    of.sharding = TDM_SHARDING_PARAMETERS;
    tdm_session *second = homes_session(&of);
    homes_train(second, 1);
    assert_int_equal(pieces_on(second, NULL), first ? 2 * DIVIDED : 0);
    if (first == 0) assert_true(is_explained(second, "the store has them whole"));
    tdm_session_release(second);
    tdm_session_release(session);
  }
}

/* A fetched parameter is whole in every session. The others need not be whole for that reason. */
static void a_store_is_bound_again_beside_what_is_handed_out(void **unused) {
  (void)unused;
  homes_case of = {
      .devices = A(0) "," A(1), .sharding = TDM_SHARDING_PARAMETERS, .hands_out = true};
  tdm_session *session = homes_session(&of);
  homes_train(session, 1);
  of.store = tdm_session_store(session);
  tdm_session *second = homes_session(&of);
  assert_non_null(second);
  homes_train(second, 1);
  assert_int_equal(pieces_on(second, NULL), pieces_on(session, NULL));
  assert_true(is_explained(second, "pieces    of 1 parameter,"));
  tdm_session_release(second);
  tdm_session_release(session);
}

/* ---- Updated everywhere ------------------------------------------------------------------------
 */

/* Divided parameters are not. */
static bool is_updated_everywhere(const tdm_session *session, int layer, const char *parameter) {
  char name[48];
  (void)snprintf(name, sizeof name, "model/l%d.%s", layer, parameter);
  const tdm_graph *graph = &session->newest->graph;
  for (size_t i = 0; i < graph->persistents.count; i++)
    if (strcmp(graph->persistents.items[i].name, name) == 0)
      return graph->persistents.items[i].is_updated_everywhere;
  return false;
}

/* Returns the number of copies of optimizer states, which devices with own updates have. */
static int copies_of_states(const tdm_session *session) {
  const tdm_graph *graph = &session->newest->graph;
  int copies = 0;
  for (size_t i = 0; i < graph->planned->deriveds.count; i++) {
    const tdm_ir_value *source = tdm_ir_value_at(graph, graph->planned->deriveds.items[i].source);
    copies += graph->persistents.items[source->binding].like != 0;
  }
  return copies;
}

static const char *home_in(const tdm_session *session, int layer, const char *parameter) {
  char name[48];
  (void)snprintf(name, sizeof name, "model/l%d.%s", layer, parameter);
  return homes_device_of(session, name);
}

/* A third of the bytes, spread evenly: after two weights most of one is due, and after one bias, a
 * bias. Homes of these parameters and of the other whole ones are spread separately. All others are
 * refreshed. */
static void those_updated_everywhere_are_spread_evenly(void **unused) {
  (void)unused;
  enum { WEIGHT = WIDTH * WIDTH * sizeof(float), BIAS = WIDTH * sizeof(float) };
  static const bool weights[LAYERS] = {false, true, false}, biases[LAYERS] = {true, false, false};
  static const char *const homes[LAYERS] = {A(2), A(2), A(1)}; /* devices of the biases */
  tdm_session *session =
      homes_session(&(homes_case){.devices = A(2) "," A(1), .sharding = TDM_SHARDING_PARAMETERS});
  homes_train(session, 2);
  for (int i = 0; i < LAYERS; i++) {
    assert_int_equal(is_updated_everywhere(session, i, "weight"), weights[i]);
    assert_int_equal(is_updated_everywhere(session, i, "bias"), biases[i]);
    assert_string_equal(home_in(session, i, "bias"), homes[i]);
  }
  assert_string_equal(home_in(session, 1, "weight"), A(1));
  const tdm_collective_choice *choice = &session->newest->sums;
  assert_int_equal(choice->algorithm, TDM_COLLECTIVE_HOME);
  assert_int_equal(choice->own_updates, 2);
  assert_in_range(copies_of_states(session), 2 * 2, 3 * 2);
  assert_int_equal(homes_refreshed_bytes(session), 2 * (WEIGHT + BIAS));
  tdm_session_release(session);
}

/* Each replica computes its rows from its device's copies. They equal the rows that another session
 * computes from the homes. The same steps give the same bits again. */
static void every_device_has_the_bits_of_the_home(void **unused) {
  (void)unused;
  const homes_case of = {
      .devices = A(0) "," A(1) "," A(2), .clip_norm = 0.5, .sharding = TDM_SHARDING_PARAMETERS};
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
  tdm_session *session = homes_session(
      &(homes_case){.devices = A(0) "," A(1) "," A(2), .sharding = TDM_SHARDING_PARAMETERS});
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
  of.sharding = TDM_SHARDING_PARAMETERS;
  tdm_session *session = homes_session(&of);
  homes_train(session, STEPS);
  assert_int_equal(session->newest->sums.own_updates, 0);
  tdm_tensor_list *spread = state_of(session);
  assert_same_state(spread, at_home);
  tdm_tensor_list_release(at_home);
  tdm_tensor_list_release(spread);
  tdm_session_release(session);
}

int main(void) {
  assert_int_equal(setenv("TANDEM_CUDA_LOGICAL", "4", true), 0); /* also on a single GPU */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_lie_on_all_devices),
      cmocka_unit_test(rows_have_the_bits_of_wholes),
      cmocka_unit_test(who_reads_rows_elsewhere_changes_no_bit),
      cmocka_unit_test(rows_beside_rings_have_the_bits_of_wholes),
      cmocka_unit_test(rows_load_what_wholes_have_saved),
      cmocka_unit_test(some_sessions_keep_parameters_whole),
      cmocka_unit_test(sessions_of_one_store_agree_on_pieces),
      cmocka_unit_test(a_store_is_bound_again_beside_what_is_handed_out),
      cmocka_unit_test(those_updated_everywhere_are_spread_evenly),
      cmocka_unit_test(every_device_has_the_bits_of_the_home),
      cmocka_unit_test(copies_that_a_load_made_old_are_sent_again),
      cmocka_unit_test(deterministic_has_all_at_home),
  };
  return cmocka_run_group_tests(tests, homes_begin_group, homes_end_group);
}
