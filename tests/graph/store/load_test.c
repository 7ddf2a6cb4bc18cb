/* Loads of a store: values that no session has bound yet, and loads that fail half-way. */
#include "graph/store/store.h"
#include "tests/graph/support.h"
#include "tests/options.h"
#include "tests/support/faulty_allocator.h"

enum { WIDTH = 4 };

static tdm_graph *two_layers(tdm_context *context, tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, 1, WIDTH));
  const tdm_value y = tdm_linear(graph, "second", tdm_linear(graph, "first", x, WIDTH), WIDTH);
  tdm_output(graph, "y", y);
  if (out_loss) *out_loss = tdm_mean(graph, "loss", y, NULL, 0, false);
  return graph;
}

/* ---- Before a session binds it --------------------------------------------------------------- */

/* Adam's states in a checkpoint are not listed as parameters, whether the store has only loaded the
 * model or already has its parameters. */
static void states_are_no_parameters_before_they_are_asked_for(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  tdm_value loss;
  tdm_graph *graph = two_layers(context, &loss);
  tdm_session *trainer = train_session(graph, loss, tdm_adam(0.01), NULL);
  tdm_tensor *x = tdm_tensor_ones(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 1, WIDTH));
  const tdm_feed feed = {"x", x, false};
  assert_ok(tdm_train_step(trainer, &feed, 1, NULL, 0, NULL));
  tdm_tensor_list *all = state_of(trainer);
  tdm_tensor_list *parameters = tdm_store_save(tdm_session_store(trainer), false);
  assert_true(tdm_tensor_list_count(all) > tdm_tensor_list_count(parameters));
  for (int bound = 0; bound < 2; bound++) {
    tdm_store *store = tdm_store_create(context);
    const tdm_session_options options = OPTIONS(tdm_session_options, o.store = store);
    tdm_session *reader = bound ? run_session(two_layers(context, NULL), &options) : NULL;
    assert_ok(tdm_store_load(store, all));
    tdm_tensor_list *without = tdm_store_save(store, false);
    assert_same_state(without, parameters);
    tdm_tensor_list *with = tdm_store_save(store, true);
    assert_same_state(with, all);
    tdm_tensor_list_release(with);
    tdm_tensor_list_release(without);
    tdm_session_release(reader);
    tdm_store_release(store);
  }
  tdm_tensor_list_release(parameters);
  tdm_tensor_list_release(all);
  tdm_tensor_release(x);
  tdm_session_release(trainer);
  tdm_context_release(context);
}

/* ---- Half-way -------------------------------------------------------------------------------- */

static void add_full(tdm_tensor_list *list, tdm_context *context, const char *name, double value) {
  tdm_tensor *tensor =
      tdm_tensor_full(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, WIDTH, WIDTH), value);
  assert_ok(tdm_tensor_list_add(list, name, tensor));
  tdm_tensor_release(tensor);
}

/* Memory runs out after the first weight is set and before the second. Only one of them would leave
 * the store in a state that never existed. */
static void a_load_that_fails_half_way_is_made_up_for_by_all_of_it(void **unused) {
  (void)unused;
  tdm_faulty_allocator *faulty = tdm_faulty_allocator_create();
  const tdm_allocator allocator = tdm_faulty_allocator_view(faulty);
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.allocator = &allocator, o.cpu_devices = 1, o.sim_devices = 0);
  tdm_context *context = tdm_context_create(&options);
  assert_non_null(context);
  tdm_session *session = run_session(two_layers(context, NULL), NULL);
  tdm_store *store = tdm_session_store(session);
  tdm_tensor_list *whole = tdm_tensor_list_create(context);
  tdm_tensor_list *part = tdm_tensor_list_create(context);
  tdm_tensor_list *none = tdm_tensor_list_create(context);
  add_full(whole, context, "first.weight", 1);
  add_full(whole, context, "of another model", 2);
  add_full(whole, context, "second.weight", 3);
  add_full(part, context, "second.weight", 3);
  int broken = 0;
  for (uint64_t n = 1; broken < 1; n++) {
    tdm_faulty_allocator_arm(faulty, n, false);
    const tdm_status status = tdm_store_load(store, whole);
    tdm_faulty_allocator_arm(faulty, 0, false);
    assert_true(status == TDM_OUT_OF_MEMORY); /* before all values are set */
    broken += tdm_store_status(store) != TDM_OK;
  }
  assert_ok(tdm_store_load(store, none));
  assert_status(tdm_store_status(store), TDM_OUT_OF_MEMORY);
  assert_message("half-way");
  assert_ok(tdm_store_load(store, part));
  assert_status(tdm_store_status(store), TDM_OUT_OF_MEMORY);
  assert_ok(tdm_store_load(store, whole));
  assert_ok(tdm_store_status(store));
  tdm_tensor_list_release(none);
  tdm_tensor_list_release(part);
  tdm_tensor_list_release(whole);
  tdm_session_release(session);
  tdm_context_close(context, NULL, NULL);
  tdm_context_release(context);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(faulty), 0);
  tdm_faulty_allocator_destroy(faulty);
}

/* ---- First values ---------------------------------------------------------------------------- */

/* With and without the part of a wrapped module, a name is one parameter's, whether a session has
 * bound it or not. An entry of the checkpoint itself belongs to no parameter. */
static void one_parameter_is_loaded_once(void **unused) {
  (void)unused;
  static const char *const names[] = {"first/weight", "module.first/weight"};
  tdm_context *context = graph_context();
  for (int bound = 0; bound < 2; bound++)
    for (int first = 0; first < 2; first++) {
      tdm_store *store = tdm_store_create(context);
      const tdm_session_options options = OPTIONS(tdm_session_options, o.store = store);
      tdm_session *reader = bound ? run_session(two_layers(context, NULL), &options) : NULL;
      tdm_tensor_list *list = tdm_tensor_list_create(context);
      add_full(list, context, names[first], 1);
      add_full(list, context, names[!first], 2);
      assert_status(tdm_store_load(store, list), TDM_INVALID_ARGUMENT);
      assert_message("module.first/weight and first/weight are both there");
      tdm_tensor_list_release(list);
      list = tdm_tensor_list_create(context);
      add_full(list, context, "checkpoint/own/x", 1);
      add_full(list, context, "checkpoint/own/module.x", 2);
      assert_ok(tdm_store_load(store, list));
      tdm_tensor_list_release(list);
      tdm_session_release(reader);
      tdm_store_release(store);
    }
  tdm_context_release(context);
}

/* A parameter of a 16-bit dtype is zero at first, or loaded. */
static void halves_are_not_drawn(void **unused) {
  (void)unused;
  static const tdm_dtype halves[] = {TDM_FLOAT16, TDM_BFLOAT16};
  const tdm_initializer drawn = {.kind = TDM_INIT_NORMAL, .a = 0, .b = 1, .zero_row = -1};
  const tdm_initializer zeros = {.kind = TDM_INIT_ZEROS, .zero_row = -1};
  tdm_context *context = graph_context();
  for (size_t i = 0; i < TDM_COUNT_OF(halves); i++)
    for (int draws = 0; draws < 2; draws++) {
      tdm_graph *graph = tdm_graph_create(context);
      const tdm_value p =
          tdm_parameter(graph, "p", halves[i], tdm_shape_of(1, WIDTH), draws ? &drawn : &zeros);
      tdm_output(graph, "y", tdm_cast(graph, "wide", p, TDM_FLOAT32));
      tdm_session *session = tdm_session_create(graph, NULL);
      assert_int_equal(session != NULL, !draws);
      char wanted[64];
      (void)snprintf(wanted, sizeof wanted, "initial values in %s", tdm_dtype_name(halves[i]));
      if (draws) assert_int_equal(tdm_last_status(), TDM_UNSUPPORTED);
      if (draws) assert_non_null(strstr(tdm_last_message(), wanted));
      tdm_session_release(session);
      tdm_graph_release(graph);
    }
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(states_are_no_parameters_before_they_are_asked_for),
      cmocka_unit_test(a_load_that_fails_half_way_is_made_up_for_by_all_of_it),
      cmocka_unit_test(one_parameter_is_loaded_once),
      cmocka_unit_test(halves_are_not_drawn),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
