/* Parameters whose rows lie on all devices of a parallel region: where they are, that no bit
 * depends on it, which stay whole. For accelerators of TEST_KIND. */
#include <stdlib.h>

#include "tests/graph/collectives/homes_model.h"
#include "tests/options.h"

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

/* Every device has as many rows of each weight, and its states; biases are whole. Each has the rows
 * of the others refreshed. */
static void rows_lie_on_all_devices(void **unused) {
  (void)unused;
  tdm_session *session = homes_session(
      &(homes_case){.devices = A(2) "," A(0), .spread_homes = true, .spread_rows = true});
  homes_train(session, 2);
  assert_int_equal(pieces_on(session, NULL), 2 * LAYERS);
  assert_int_equal(pieces_on(session, A(0)), LAYERS);
  assert_string_equal(homes_device_of(session, "model/l1.weight[0:32]"), A(2));
  assert_string_equal(homes_device_of(session, "model/l1.weight[32:64]"), A(0));
  assert_string_equal(homes_device_of(session, "optimizer/model/l1.weight[32:64]/exp_avg"), A(0));
  assert_int_equal(homes_refreshed_bytes(session),
                   LAYERS * (WIDTH * WIDTH + WIDTH) * sizeof(float));
  assert_int_equal(homes_additions_beside(session->newest), 3 * LAYERS);
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
    of.deterministic = of.clip_norm > 0;
    tdm_tensor_list *at_home = homes_trained_state(&of);
    of.spread_homes = of.spread_rows = true;
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
                                               o.spread_homes = true, o.spread_rows = true);
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

/* Two terms have the same sum in every order. */
static void rows_beside_rings_have_the_bits_of_wholes(void **unused) {
  (void)unused;
  static const homes_case twos[] = {
      {.devices = A(0) "," A(1), .layers = 8},
      {.devices = A(0) "," A(1), .layers = 8, .micro_batches = 3},
      {.devices = A(0) "," A(1), .layers = 24, .depth = 3},
      {.devices = "cpu:2,cpu:0"},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(twos); i++) {
    homes_case of = twos[i];
    tdm_tensor_list *at_home = homes_trained_state(&of);
    of.spread_homes = of.spread_rows = true;
    of.updated_everywhere = 1.0 / 3;
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
    of.spread_homes = of.spread_rows = i == 1;
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
      {{.clip_norm = 0.5}, "pieces    of 3 parameters"},
      {{.deterministic = true}, "pieces    of 3 parameters"},
      {{.hands_out = true}, "pieces    of 1 parameter,"},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(reasons); i++) {
    homes_case of = reasons[i].of;
    of.devices = A(0) "," A(1);
    of.spread_homes = of.spread_rows = true;
    tdm_session *session = homes_session(&of);
    homes_train(session, 1);
    if (!is_explained(session, reasons[i].words)) fail_msg("case %zu: not %s", i, reasons[i].words);
    tdm_session_release(session);
  }
}

/* A store has a parameter as a whole or in pieces, as the first session wanted it. */
static void sessions_of_one_store_agree_on_pieces(void **unused) {
  (void)unused;
  for (int first = 0; first < 2; first++) {
    homes_case of = {.devices = A(0) "," A(1), .spread_homes = true, .spread_rows = first == 1};
    tdm_session *session = homes_session(&of);
    homes_train(session, 1);
    of.store = tdm_session_store(session);
    of.spread_rows = true;
    tdm_session *second = homes_session(&of);
    homes_train(second, 1);
    assert_int_equal(pieces_on(second, NULL), first ? 2 * LAYERS : 0);
    if (first == 0) assert_true(is_explained(second, "the store has them whole"));
    tdm_session_release(second);
    tdm_session_release(session);
  }
}

/* A fetched parameter is whole in every session. The others need not be whole for that reason. */
static void a_store_is_bound_again_beside_what_is_handed_out(void **unused) {
  (void)unused;
  homes_case of = {
      .devices = A(0) "," A(1), .spread_homes = true, .spread_rows = true, .hands_out = true};
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

static void rows_without_spread_homes_are_refused(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(homes_context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, 4, WIDTH));
  (void)tdm_linear(graph, "linear", x, WIDTH);
  const tdm_parallel_options options =
      OPTIONS(tdm_parallel_options, o.devices = A(0) "," A(1), o.spread_rows = true);
  tdm_data_parallel(graph, "linear", &options);
  assert_null(tdm_session_create(graph, NULL));
  assert_message("spread_rows without spread_homes");
  tdm_graph_release(graph);
}

int main(void) {
  assert_int_equal(setenv("TANDEM_CUDA_LOGICAL", "4", true), 0); /* also of a single GPU */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_lie_on_all_devices),
      cmocka_unit_test(rows_have_the_bits_of_wholes),
      cmocka_unit_test(who_reads_rows_elsewhere_changes_no_bit),
      cmocka_unit_test(rows_beside_rings_have_the_bits_of_wholes),
      cmocka_unit_test(rows_load_what_wholes_have_saved),
      cmocka_unit_test(some_sessions_keep_parameters_whole),
      cmocka_unit_test(sessions_of_one_store_agree_on_pieces),
      cmocka_unit_test(a_store_is_bound_again_beside_what_is_handed_out),
      cmocka_unit_test(rows_without_spread_homes_are_refused),
  };
  return cmocka_run_group_tests(tests, homes_begin_group, homes_end_group);
}
