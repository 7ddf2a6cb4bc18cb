/* Reserved names of checkpoints. Models cannot use them, so every model that can be saved can be
 * loaded. */
#include "tests/checkpoint/support.h"
#include "tests/graph/group.h"
#include "tests/options.h"

/* scope may be NULL. Otherwise it contains a layer, and has_parameter adds a parameter with the
 * scope's name. Returns NULL if the session is refused. */
static tdm_session *session_beside(const char *scope, const char *layer, bool has_parameter) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 3));
  tdm_place(graph, TEST_KIND ":0");
  tdm_value beside = {0};
  if (has_parameter)
    beside = tdm_parameter(graph, scope, TDM_FLOAT32, tdm_shape_of(1, 2), &(tdm_initializer){0});
  if (scope) tdm_scope_push(graph, scope);
  x = tdm_linear(graph, layer, x, 2);
  if (scope) tdm_scope_pop(graph);
  if (has_parameter) x = tdm_add(graph, "sum", x, beside);
  const tdm_value classes = tdm_input(graph, "class", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_optimizer adam = tdm_adam(0.01);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = tdm_cross_entropy(graph, "loss", x, classes),
              o.optimizer = &adam);
  tdm_session *session = tdm_session_create(graph, &options);
  tdm_graph_release(graph);
  return session;
}

static tdm_session *session_of(const char *scope, const char *layer) {
  return session_beside(scope, layer, false);
}

static void train(tdm_session *session) {
  static const float x[] = {1, 2, 3, -1, 0, 2};
  static const int64_t classes[] = {0, 1};
  tdm_tensor *tensors[] = {tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(2, 2, 3), x),
                           tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, 2), classes)};
  const tdm_feed feeds[] = {{"x", tensors[0], false}, {"class", tensors[1], false}};
  assert_ok(tdm_train_step(session, feeds, 2, NULL, 0, NULL));
  tdm_tensor_release(tensors[0]);
  tdm_tensor_release(tensors[1]);
}

static const struct {
  const char *scope;
  const char *layer;
} legal[] = {{NULL, "checkpoint"},        {"checkpoints", "fc"}, {"a", "checkpoint/fc"},
             {"optimizer", "checkpoint"}, {"own", "checkpoint"}, {"Checkpoint", "fc"}};

/* Saves one trained session, loads it into a fresh one, and trains both equally. Takes the
 * references. */
static void goes_on_in(tdm_session *first, tdm_session *second) {
  char path[512];
  if (!first || !second) fail_msg("%s", tdm_last_message());
  train(first);
  assert_ok(tdm_checkpoint_save(first, NULL, checkpoint_path(path, "legal.safetensors")));
  assert_ok(tdm_checkpoint_load(second, NULL, path));
  train(first);
  train(second);
  tdm_tensor_list *states[] = {state_of(first), state_of(second)};
  assert_same_state(states[0], states[1]);
  tdm_tensor_list_release(states[0]);
  tdm_tensor_list_release(states[1]);
  tdm_session_release(first);
  tdm_session_release(second);
}

static void what_is_called_nearly_so_saves_and_loads(void **unused) {
  (void)unused;
  for (size_t i = 0; i < TDM_COUNT_OF(legal); i++)
    goes_on_in(session_of(legal[i].scope, legal[i].layer),
               session_of(legal[i].scope, legal[i].layer));
}

/* The optimizer's states of "a/fc.weight" are no states of "a". */
static void a_parameter_may_be_called_as_a_scope(void **unused) {
  (void)unused;
  goes_on_in(session_beside("a", "fc", true), session_beside("a", "fc", true));
}

static void a_checkpoint_s_own_names_are_refused(void **unused) {
  (void)unused;
  static const struct {
    const char *scope;
    const char *layer;
  } refused[] = {{"checkpoint", "fc"}, {NULL, "checkpoint/fc"}, {"checkpoint/own", "fc"}};
  for (size_t i = 0; i < TDM_COUNT_OF(refused); i++) {
    assert_null(session_of(refused[i].scope, refused[i].layer));
    if (!strstr(tdm_last_message(), "names that begin with \"checkpoint/\""))
      fail_msg("%s", tdm_last_message());
    assert_non_null(strstr(tdm_last_message(), "fc.weight"));
  }
}

/* A store that has loaded a whole checkpoint, with its reserved tensors, can save and load. */
static void a_store_keeps_nothing_of_a_checkpoint_s_own(void **unused) {
  (void)unused;
  char path[512];
  tdm_session *first = session_of("a", "fc");
  train(first);
  assert_ok(tdm_checkpoint_save(first, NULL, checkpoint_path(path, "all.safetensors")));
  tdm_session *second = session_of("a", "fc");
  tdm_tensor_list *all = tdm_safetensors_load(context, path);
  assert_ok(tdm_store_load(tdm_session_store(second), all));
  assert_ok(tdm_checkpoint_save(second, NULL, path));
  assert_ok(tdm_checkpoint_load(second, NULL, path));
  tdm_tensor_list_release(all);
  tdm_session_release(first);
  tdm_session_release(second);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_called_nearly_so_saves_and_loads),
      cmocka_unit_test(a_parameter_may_be_called_as_a_scope),
      cmocka_unit_test(a_checkpoint_s_own_names_are_refused),
      cmocka_unit_test(a_store_keeps_nothing_of_a_checkpoint_s_own),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
