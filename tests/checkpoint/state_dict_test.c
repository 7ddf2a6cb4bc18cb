/* Parameters by PyTorch's names: the contents of files, loads, rules for names, and all errors in
 * one message. */
#include "tests/checkpoint/dict_model.h"
#include "tests/checkpoint/support.h"
#include "tests/graph/group.h"
#include "tests/options.h"
#include "tests/support/faulty_allocator.h"

static tdm_state_dict_options with_rules(const tdm_name_rule *rules, size_t count) {
  return OPTIONS(tdm_state_dict_options, o.rules = rules, o.rule_count = count);
}

/* The list has exactly these names. */
static void assert_names(const tdm_tensor_list *list, const char *const *names, size_t count) {
  assert_int_equal(tdm_tensor_list_count(list), count);
  for (size_t i = 0; i < count; i++)
    if (!tdm_tensor_list_find(list, names[i])) fail_msg("%s is not there", names[i]);
}

static void names_have_dots(void **unused) {
  (void)unused;
  static const char *const names[] = {"block.fc.weight",
                                      "block.fc.bias",
                                      "block.inner.norm.weight",
                                      "block.inner.norm.bias",
                                      "block.inner.norm.running_mean",
                                      "block.inner.norm.running_var",
                                      "block.inner.norm.num_batches_tracked",
                                      "head.weight",
                                      "head.bias"};
  tdm_session *session = dict_session(context, "block/fc", 4, 1);
  dict_train(session); /* creates the states of the optimizer */
  tdm_tensor_list *list = dict_of(session, NULL);
  assert_names(list, names, TDM_COUNT_OF(names));
  tdm_tensor_list_release(list);
  tdm_session_release(session);
}

/* Files of every writer: by these names, by the store's, a checkpoint, of a wrapped module. */
static void every_file_of_ours_loads(void **unused) {
  (void)unused;
  char path[512];
  checkpoint_path(path, "dict.safetensors");
  tdm_session *trained = dict_session(context, "block/fc", 4, 1);
  for (int writer = 0; writer < 4; writer++) {
    static const tdm_name_rule wraps = {"", "module."};
    const tdm_state_dict_options wrapped = with_rules(&wraps, 1);
    dict_train(trained);
    if (writer == 0) {
      assert_ok(tdm_state_dict_save(trained, path, NULL));
    } else if (writer == 1) {
      tdm_tensor_list *list = tdm_store_save(tdm_session_store(trained), false);
      assert_ok(tdm_safetensors_save(list, path));
      tdm_tensor_list_release(list);
    } else if (writer == 2) {
      assert_ok(tdm_checkpoint_save(trained, NULL, path));
    } else {
      assert_ok(tdm_state_dict_save(trained, path, &wrapped));
    }
    tdm_session *fresh = dict_session(context, "block/fc", 4, 2);
    assert_ok(tdm_state_dict_load(fresh, path, NULL));
    assert_same_parameters(fresh, trained);
    assert_int_equal(tdm_session_step(fresh), 0);
    tdm_session_release(fresh);
  }
  tdm_session_release(trained);
}

static void calls_without_a_session_or_path_say_which(void **unused) {
  (void)unused;
  tdm_session *session = dict_session(context, "block/fc", 4, 2);
  assert_int_equal(tdm_state_dict_save(NULL, "/nowhere", NULL), TDM_INVALID_ARGUMENT);
  assert_string_equal(tdm_last_message(), "tdm_state_dict_save: no session");
  assert_int_equal(tdm_state_dict_save(session, NULL, NULL), TDM_INVALID_ARGUMENT);
  assert_string_equal(tdm_last_message(), "tdm_state_dict_save: no path");
  assert_int_equal(tdm_state_dict_load(NULL, "/nowhere", NULL), TDM_INVALID_ARGUMENT);
  assert_string_equal(tdm_last_message(), "tdm_state_dict_load: no session");
  assert_int_equal(tdm_state_dict_load(session, NULL, NULL), TDM_INVALID_ARGUMENT);
  assert_string_equal(tdm_last_message(), "tdm_state_dict_load: no path");
  tdm_session_release(session);
}

/* Names that a rule changes, when saved and when loaded. The first matching rule applies. */
static void rules_change_names(void **unused) {
  (void)unused;
  static const tdm_name_rule rules[] = {{"block.inner.norm.num", NULL},
                                        {"block.inner.norm.", "encoder.bn1."},
                                        {"block.fc.", "head."},
                                        {"head.", "block.fc."},
                                        {NULL, "position"}};
  static const char *const names[] = {"head.weight",
                                      "head.bias",
                                      "encoder.bn1.weight",
                                      "encoder.bn1.bias",
                                      "encoder.bn1.running_mean",
                                      "encoder.bn1.running_var",
                                      "block.fc.weight",
                                      "block.fc.bias"};
  const tdm_state_dict_options options = with_rules(rules, TDM_COUNT_OF(rules));
  tdm_session *trained = dict_session(context, "block/fc", 4, 1);
  tdm_session *fresh = dict_session(context, "block/fc", 4, 2);
  tdm_tensor_list *list = dict_of(trained, &options);
  assert_names(list, names, TDM_COUNT_OF(names));
  tdm_tensor *positions = tdm_tensor_zeros(context, "cpu:0", TDM_INT64, tdm_shape_of(1, 5));
  assert_ok(tdm_tensor_list_add(list, "position_ids", positions));
  assert_ok(tdm_session_load_state_dict(fresh, list, &options));
  assert_same_parameters(fresh, trained);
  assert_status(tdm_session_load_state_dict(fresh, list, NULL), TDM_INVALID_ARGUMENT);
  tdm_tensor_release(positions);
  tdm_tensor_list_release(list);
  tdm_session_release(fresh);
  tdm_session_release(trained);
}

/* Checks that one error reports all misfits and that no value changes. */
static void all_misfits_are_told(void **unused) {
  (void)unused;
  static const char *const texts[] = {
      "missing: head.weight, head.bias;", "unexpected: tail.weight, tail.bias;",
      ("of another shape or dtype: block.fc.weight (float32 [5, 3], "
       "not float32 [4, 3])"),
      " and 4 more"};
  static const tdm_name_rule renames = {"head.", "tail."};
  const tdm_state_dict_options options = with_rules(&renames, 1);
  tdm_session *session = dict_session(context, "block/fc", 5, 1);
  tdm_session *untouched = dict_session(context, "block/fc", 5, 1);
  tdm_session *other = dict_session(context, "block/fc", 4, 2);
  tdm_tensor_list *list = dict_of(other, &options);
  assert_status(tdm_session_load_state_dict(session, list, NULL), TDM_INVALID_ARGUMENT);
  for (size_t i = 0; i < TDM_COUNT_OF(texts); i++)
    if (!strstr(tdm_last_message(), texts[i]))
      fail_msg("\"%s\" does not tell \"%s\"", tdm_last_message(), texts[i]);
  assert_same_parameters(session, untouched);
  tdm_tensor_list_release(list);
  tdm_session_release(other);
  tdm_session_release(untouched);
  tdm_session_release(session);
}

/* A file that does not fit is refused as the list in it is, and named. */
static void a_file_that_does_not_fit_is_named(void **unused) {
  (void)unused;
  char path[512];
  checkpoint_path(path, "misfit.safetensors");
  tdm_session *other = dict_session(context, "block/fc", 4, 2);
  tdm_session *session = dict_session(context, "block/fc", 5, 1);
  tdm_session *untouched = dict_session(context, "block/fc", 5, 1);
  assert_ok(tdm_state_dict_save(other, path, NULL));
  assert_status(tdm_state_dict_load(session, path, NULL), TDM_INVALID_ARGUMENT);
  assert_message(path);
  assert_message("of another shape or dtype: block.fc.weight");
  assert_same_parameters(session, untouched);
  tdm_session_release(untouched);
  tdm_session_release(session);
  tdm_session_release(other);
}

/* With the option, existing values are loaded. */
static void misfits_may_be_allowed(void **unused) {
  (void)unused;
  static const tdm_name_rule renames = {"head.", "tail."};
  const tdm_state_dict_options options = with_rules(&renames, 1);
  tdm_state_dict_options lenient = with_rules(NULL, 0);
  tdm_session *session = dict_session(context, "block/fc", 4, 1);
  tdm_session *other = dict_session(context, "block/fc", 4, 2);
  tdm_tensor_list *before = dict_of(session, NULL);
  tdm_tensor_list *list = dict_of(other, &options);
  lenient.allow_missing = true;
  assert_status(tdm_session_load_state_dict(session, list, &lenient), TDM_INVALID_ARGUMENT);
  assert_message("unexpected: tail.weight, tail.bias");
  lenient.allow_unexpected = true;
  assert_ok(tdm_session_load_state_dict(session, list, &lenient));
  lenient.allow_missing = false;
  assert_status(tdm_session_load_state_dict(session, list, &lenient), TDM_INVALID_ARGUMENT);
  assert_message("missing: head.weight, head.bias");
  tdm_tensor_list *after = dict_of(session, NULL);
  assert_same_tensor(tdm_tensor_list_find(after, "block.fc.weight"),
                     tdm_tensor_list_find(list, "block.fc.weight"));
  assert_same_tensor(tdm_tensor_list_find(after, "head.weight"),
                     tdm_tensor_list_find(before, "head.weight"));
  tdm_tensor_list_release(after);
  tdm_tensor_list_release(list);
  tdm_tensor_list_release(before);
  tdm_session_release(other);
  tdm_session_release(session);
}

static void ambiguous_names_are_refused(void **unused) {
  (void)unused;
  static const tdm_name_rule both = {"block.fc.", "head."};
  const tdm_state_dict_options options = with_rules(&both, 1);
  tdm_session *session = dict_session(context, "block/fc", 4, 1);
  tdm_tensor_list *list = NULL;
  assert_status(tdm_session_state_dict(session, &options, &list), TDM_INVALID_ARGUMENT);
  assert_null(list);
  assert_message("block/fc.weight and head.weight would both be head.weight in files");
  list = dict_of(session, NULL);
  assert_ok(
      tdm_tensor_list_add(list, "block/fc.bias", tdm_tensor_list_find(list, "block.fc.bias")));
  assert_status(tdm_session_load_state_dict(session, list, NULL), TDM_INVALID_ARGUMENT);
  assert_message("block.fc.bias and block/fc.bias are both there");
  tdm_tensor_list_release(list);
  tdm_session_release(session);
  session = dict_session(context, "block.inner/norm", 4, 1); /* next to block/inner/norm */
  assert_status(tdm_session_state_dict(session, NULL, &list), TDM_INVALID_ARGUMENT);
  assert_message("would both be block.inner.norm.weight");
  tdm_session_release(session);
}

/* A member of a list is a scope of two parts, which one pop ends. */
static void members_of_lists_are_numbered(void **unused) {
  (void)unused;
  static const char *const names[] = {"layers.0.fc.weight", "layers.1.fc.weight", "head.weight"};
  tdm_graph *graph = tdm_graph_create(context);
  tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 3));
  for (int i = 0; i < 2; i++) {
    tdm_scope_push_index(graph, "layers", i);
    x = tdm_linear_without_bias(graph, "fc", x, 3);
    tdm_scope_pop(graph);
  }
  tdm_output(graph, "y", tdm_linear_without_bias(graph, "head", x, 2));
  tdm_session *session = tdm_session_create(graph, NULL);
  assert_non_null(session);
  tdm_tensor_list *list = dict_of(session, NULL);
  assert_names(list, names, TDM_COUNT_OF(names));
  tdm_tensor_list_release(list);
  tdm_session_release(session);
  tdm_graph_release(graph);
}

static tdm_session *tied_session(uint64_t seed) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_value x = tdm_embedding(graph, "embedding", ids, 5, 3);
  tdm_tie(graph, "head", "embedding");
  tdm_output(graph, "scores", tdm_linear_without_bias(graph, "head", x, 5));
  const tdm_session_options options = OPTIONS(tdm_session_options, o.seed = seed);
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) fail_msg("%s", tdm_last_message());
  tdm_graph_release(graph);
  return session;
}

/* Returns a list of one tensor of `list`, under the same name. */
static tdm_tensor_list *only(const tdm_tensor_list *list, const char *name) {
  tdm_tensor_list *one = tdm_tensor_list_create(context);
  assert_ok(tdm_tensor_list_add(one, name, tdm_tensor_list_find(list, name)));
  return one;
}

/* Saved once, as by safetensors' save_model, or under each name, as PyTorch's state_dict has it;
 * any of them is enough to load, and they must not differ. */
static void tied_parameters_have_one_or_all_names(void **unused) {
  (void)unused;
  static const char *const names[] = {"embedding.weight", "head.weight"};
  const tdm_state_dict_options each = OPTIONS(tdm_state_dict_options, o.every_tied_name = true);
  tdm_session *session = tied_session(1);
  tdm_tensor_list *once = dict_of(session, NULL);
  assert_names(once, names, 1);
  tdm_tensor_list_release(once);
  tdm_tensor_list *list = dict_of(session, &each);
  assert_names(list, names, TDM_COUNT_OF(names));
  for (size_t i = 0; i <= TDM_COUNT_OF(names); i++) {
    tdm_session *other = tied_session(2);
    tdm_tensor_list *given =
        i < TDM_COUNT_OF(names) ? only(list, names[i]) : dict_of(session, &each);
    assert_ok(tdm_session_load_state_dict(other, given, NULL));
    assert_same_parameters(session, other);
    tdm_tensor_list_release(given);
    tdm_session_release(other);
  }
  tdm_tensor_list *mixed = only(list, names[0]);
  tdm_session *other = tied_session(2);
  tdm_tensor_list *others = dict_of(other, &each);
  assert_ok(tdm_tensor_list_add(mixed, names[1], tdm_tensor_list_find(others, names[1])));
  assert_status(tdm_session_load_state_dict(session, mixed, NULL), TDM_INVALID_ARGUMENT);
  assert_message("embedding.weight and head.weight are tied, and differ in the list");
  tdm_tensor_list *nothing = tdm_tensor_list_create(context);
  assert_status(tdm_session_load_state_dict(session, nothing, NULL), TDM_INVALID_ARGUMENT);
  assert_message("missing: embedding.weight");
  tdm_tensor_list_release(nothing);
  tdm_tensor_list_release(others);
  tdm_tensor_list_release(mixed);
  tdm_tensor_list_release(list);
  tdm_session_release(other);
  tdm_session_release(session);
}

/* Three names of one table; where it trains, by a step, the store has its average. */
static tdm_session *thrice_tied_session(tdm_store *store, bool trains) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_value x = tdm_embedding(graph, "embedding", ids, 5, 3);
  tdm_tie(graph, "head", "embedding");
  tdm_tie(graph, "tail", "embedding");
  const tdm_value y = tdm_add(graph, "y", tdm_linear_without_bias(graph, "head", x, 5),
                              tdm_linear_without_bias(graph, "tail", x, 5));
  tdm_optimizer sgd = tdm_sgd(0.1);
  sgd.average_decay = 0.5;
  tdm_session_options options =
      OPTIONS(tdm_session_options, o.store = store,
              o.loss = tdm_sum(graph, "loss", y, NULL, 0, false), o.averages = !trains);
  if (trains) options.optimizer = &sgd;
  tdm_session *session = run_session(graph, &options);
  tdm_tensor *fed = tdm_tensor_zeros(context, "cpu:0", TDM_INT64, tdm_shape_of(1, 2));
  const tdm_feed feed = {"ids", fed, false};
  if (trains) assert_ok(tdm_train_step(session, &feed, 1, NULL, 0, NULL));
  tdm_tensor_release(fed);
  return session;
}

/* Files that lack its first name have it by others; so have those of averages, which are called
 * otherwise in the store. */
static void what_is_tied_is_one_by_any_names(void **unused) {
  (void)unused;
  const tdm_name_rule rule = {"embedding.", NULL};
  const tdm_state_dict_options options =
      OPTIONS(tdm_state_dict_options, o.rules = &rule, o.rule_count = 1, o.every_tied_name = true);
  const tdm_state_dict_options each = OPTIONS(tdm_state_dict_options, o.every_tied_name = true);
  static const char *const names[] = {"head.weight", "tail.weight"};
  tdm_store *store = tdm_store_create(context);
  tdm_session *sessions[] = {thrice_tied_session(store, true), thrice_tied_session(store, false)};
  for (size_t i = 0; i < TDM_COUNT_OF(sessions); i++) {
    tdm_tensor_list *list = dict_of(sessions[i], &options);
    assert_names(list, names, TDM_COUNT_OF(names));
    tdm_tensor_list *one = only(list, names[1]), *whole = dict_of(sessions[i], &each);
    assert_int_equal(tdm_tensor_list_count(whole), 3);
    assert_ok(tdm_session_load_state_dict(sessions[i], list, &options));
    assert_ok(tdm_session_load_state_dict(sessions[i], one, &options));
    assert_ok(tdm_session_load_state_dict(sessions[i], one, NULL));
    assert_ok(tdm_session_load_state_dict(sessions[i], whole, NULL));
    tdm_tensor_list_release(whole);
    tdm_tensor_list_release(one);
    tdm_tensor_list_release(list);
    tdm_session_release(sessions[i]);
  }
  tdm_store_release(store);
}

/* The Nth allocation fails, for every N until none does: names fill more than a block of memory,
 * and none is left out. */
static void short_memory_is_told(void **unused) {
  (void)unused;
  enum { LAYERS = 160, NAME_BYTES = 220 };
  tdm_faulty_allocator *faulty = tdm_faulty_allocator_create();
  const tdm_allocator allocator = tdm_faulty_allocator_view(faulty);
  const tdm_context_options devices =
      OPTIONS(tdm_context_options, o.allocator = &allocator, o.cpu_devices = 1, o.sim_devices = 0);
  tdm_context *mine = tdm_context_create(&devices);
  tdm_graph *graph = tdm_graph_create(mine);
  tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, 1, 1));
  for (int i = 0; i < LAYERS; i++) {
    char name[NAME_BYTES + 1];
    (void)snprintf(name, sizeof name, "%0*d", NAME_BYTES, i);
    x = tdm_linear_without_bias(graph, name, x, 1);
  }
  tdm_output(graph, "y", x);
  tdm_session *session = run_session(graph, NULL);
  tdm_tensor_list *all = dict_of(session, NULL);
  assert_int_equal(tdm_tensor_list_count(all), LAYERS);
  for (int loads = 0; loads < 2; loads++)
    for (uint64_t n = 1;; n++) {
      tdm_tensor_list *list = NULL;
      tdm_faulty_allocator_arm(faulty, n, false);
      const tdm_status status = loads ? tdm_session_load_state_dict(session, all, NULL)
                                      : tdm_session_state_dict(session, NULL, &list);
      const bool failed = tdm_faulty_allocator_failures(faulty) > 0;
      tdm_faulty_allocator_arm(faulty, 0, false);
      assert_int_equal(status, failed ? TDM_OUT_OF_MEMORY : TDM_OK);
      assert_true((list != NULL) == (!failed && !loads));
      if (list) assert_same_state(list, all);
      tdm_tensor_list_release(list);
      if (!failed) break;
    }
  tdm_tensor_list_release(all);
  tdm_session_release(session);
  tdm_context_close(mine, NULL, NULL);
  tdm_context_release(mine);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(faulty), 0);
  tdm_faulty_allocator_destroy(faulty);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tied_parameters_have_one_or_all_names),
      cmocka_unit_test(what_is_tied_is_one_by_any_names),
      cmocka_unit_test(calls_without_a_session_or_path_say_which),
      cmocka_unit_test(names_have_dots),
      cmocka_unit_test(members_of_lists_are_numbered),
      cmocka_unit_test(every_file_of_ours_loads),
      cmocka_unit_test(rules_change_names),
      cmocka_unit_test(all_misfits_are_told),
      cmocka_unit_test(a_file_that_does_not_fit_is_named),
      cmocka_unit_test(misfits_may_be_allowed),
      cmocka_unit_test(ambiguous_names_are_refused),
      cmocka_unit_test(short_memory_is_told),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
