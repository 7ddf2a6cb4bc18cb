/* Every number of the public options has a legal range, which is checked and reported. A count
 * requires its list. Names must be UTF-8 when something is built with them, and UTF-8 names are
 * saved. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#define GROUP_CONTEXT graph_context_of(1, 1)
#include "tests/graph/group.h"
#include "tests/options.h"

/* ---- Sessions -------------------------------------------------------------------------------- */

static tdm_session *try_session(const tdm_session_options *options,
                                const tdm_optimizer *optimizer) {
  tdm_value loss;
  tdm_graph *graph = seed_graph(context, "cpu:0", "sim:0", &loss);
  tdm_session_options mine = *options;
  mine.loss = loss;
  mine.optimizer = optimizer;
  tdm_session *session = tdm_session_create(graph, &mine);
  tdm_graph_release(graph);
  return session;
}

static void assert_refused(const tdm_session_options *options, const tdm_optimizer *optimizer,
                           const char *named) {
  assert_status(tdm_fail(TDM_INTERNAL, "stale"), TDM_INTERNAL);
  tdm_session *session = try_session(options, optimizer);
  if (session) fail_msg("%s was accepted", named);
  assert_message(named);
}

static void assert_accepted(const tdm_session_options *options) {
  const tdm_optimizer optimizer = tdm_sgd(0.1);
  tdm_session *session = try_session(options, &optimizer);
  if (!session) fail_msg("%s", tdm_last_message());
  test_batch batch;
  test_batch_make(&batch, context, 4, 1);
  (void)train_once(session, &batch);
  test_batch_release(&batch);
  tdm_session_release(session);
}

static void numbers_of_sessions_have_ranges(void **unused) {
  (void)unused;
  static const int bad[] = {-1, INT32_MIN, 1000000000, INT32_MAX};
  const tdm_optimizer optimizer = tdm_sgd(0.1);
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    const tdm_session_options depth = OPTIONS(tdm_session_options, o.depth = bad[i]);
    assert_refused(&depth, &optimizer, "depth is");
    const tdm_session_options queue = OPTIONS(tdm_session_options, o.queue_limit = bad[i]);
    if (bad[i] != TDM_NO_QUEUE_LIMIT) assert_refused(&queue, &optimizer, "queue_limit is");
    const tdm_session_options plans = OPTIONS(tdm_session_options, o.plan_limit = bad[i]);
    assert_refused(&plans, &optimizer, "plan_limit is");
    const tdm_session_options traces = OPTIONS(tdm_session_options, o.trace_runs = bad[i]);
    assert_refused(&traces, &optimizer, "trace_runs is");
    const tdm_session_options parts = OPTIONS(tdm_session_options, o.micro_batches = bad[i]);
    if (bad[i] != TDM_MICRO_BATCHES_AUTO) assert_refused(&parts, &optimizer, "micro_batches is");
  }
  const tdm_session_options beyond = OPTIONS(tdm_session_options, o.depth = TDM_MAX_DEPTH + 1);
  assert_refused(&beyond, &optimizer, "expected 1 to 1024");
  const tdm_session_options most =
      OPTIONS(tdm_session_options, o.depth = TDM_MAX_DEPTH, o.queue_limit = TDM_MAX_QUEUE_LIMIT,
              o.plan_limit = TDM_MAX_PLAN_LIMIT);
  assert_accepted(&most);
}

static void rates_are_finite(void **unused) {
  (void)unused;
  static const double bad[] = {NAN, INFINITY, -INFINITY, -0.1};
  const tdm_session_options none = tdm_session_options_default();
  const tdm_optimizer good = tdm_sgd(0.5);
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    tdm_optimizer optimizer = good;
    optimizer.learning_rate = bad[i];
    assert_refused(&none, &optimizer, "learning rate");
    const tdm_parameter_group group = {"rnn", &optimizer};
    const tdm_session_options grouped =
        OPTIONS(tdm_session_options, o.groups = &group, o.group_count = 1);
    assert_refused(&grouped, &good, "learning rate");
    optimizer = good;
    optimizer.clip_norm = bad[i];
    if (bad[i] != (double)INFINITY) assert_refused(&none, &optimizer, "clip_norm is");
    optimizer = good;
    optimizer.clip_value = bad[i];
    if (bad[i] != (double)INFINITY) assert_refused(&none, &optimizer, "clip_value is");
  }
  const tdm_parameter_group group = {"rnn", &good};
  const tdm_session_options grouped =
      OPTIONS(tdm_session_options, o.groups = &group, o.group_count = 1);
  tdm_session *session = try_session(&grouped, &good);
  assert_non_null(session);
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    assert_status(tdm_session_set_learning_rate(session, bad[i]), TDM_INVALID_ARGUMENT);
    assert_message("learning rate");
    assert_status(tdm_session_set_group_learning_rate(session, 0, bad[i]), TDM_INVALID_ARGUMENT);
  }
  tdm_tensor_list *state;
  assert_ok(tdm_session_save(session, &state));
  double rate = 0;
  assert_ok(
      tdm_tensor_read(tdm_tensor_list_find(state, "checkpoint/learning_rate"), &rate, sizeof rate));
  assert_true(rate == 0.5);
  tdm_tensor_list_release(state);
  tdm_session_release(session);
}

static void counts_need_their_lists(void **unused) {
  (void)unused;
  const tdm_optimizer optimizer = tdm_sgd(0.1);
  const tdm_session_options groups = OPTIONS(tdm_session_options, o.group_count = 3);
  assert_refused(&groups, &optimizer, "groups is NULL");
  const tdm_session_options none = tdm_session_options_default();
  tdm_session *session = try_session(&none, &optimizer);
  assert_non_null(session);
  const tdm_state_dict_options rules = OPTIONS(tdm_state_dict_options, o.rule_count = 3);
  tdm_tensor_list *list;
  assert_status(tdm_session_state_dict(session, &rules, &list), TDM_INVALID_ARGUMENT);
  assert_message("rules is NULL");
  assert_null(list);
  assert_status(tdm_session_prepare(session, NULL, 2, NULL, 0, true), TDM_INVALID_ARGUMENT);
  assert_status(tdm_run(session, NULL, 0, NULL, 1), TDM_INVALID_ARGUMENT);
  tdm_session_release(session);
  tdm_graph *graph = seed_graph(context, "cpu:0", "sim:0", NULL);
  const tdm_parallel_options parallel =
      OPTIONS(tdm_parallel_options, o.devices = "cpu:0,sim:0", o.scatter_count = 3);
  tdm_data_parallel(graph, "rnn", &parallel);
  assert_status(tdm_graph_status(graph), TDM_INVALID_ARGUMENT);
  assert_message("scatter is NULL");
  tdm_graph_release(graph);
}

/* ---- Contexts and loaders -------------------------------------------------------------------- */

static void numbers_of_contexts_have_ranges(void **unused) {
  (void)unused;
  static const int bad[] = {-1, INT32_MIN, 1000000000, INT32_MAX};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    const tdm_context_options cpus = OPTIONS(tdm_context_options, o.cpu_devices = bad[i]);
    assert_null(tdm_context_create(&cpus));
    assert_message("cpu_devices is");
    const tdm_context_options sims = OPTIONS(tdm_context_options, o.sim_devices = bad[i]);
    assert_null(tdm_context_create(&sims));
    assert_message("sim_devices is");
  }
  static const int bad_tf32[] = {-1, 2, INT32_MIN, INT32_MAX};
  for (size_t i = 0; i < sizeof bad_tf32 / sizeof bad_tf32[0]; i++) {
    const tdm_context_options tf32 = OPTIONS(tdm_context_options, o.tf32 = bad_tf32[i]);
    assert_null(tdm_context_create(&tf32));
    assert_message("tf32 is");
  }
  static const double bad_silence[] = {-1, 0.4, 86401, NAN, INFINITY};
  for (size_t i = 0; i < sizeof bad_silence / sizeof bad_silence[0]; i++) {
    const tdm_context_options silence =
        OPTIONS(tdm_context_options, o.silence_seconds = bad_silence[i]);
    assert_null(tdm_context_create(&silence));
    assert_message("silence_seconds is");
    assert_message("expected 0.5 to 86400");
  }
}

static void numbers_of_loaders_have_ranges(void **unused) {
  (void)unused;
  tdm_tensor *rows = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(1, (int64_t)6));
  const char *const names[] = {"rows"};
  tdm_dataset *dataset = tdm_dataset_from_tensors(context, names, &rows, 1);
  assert_non_null(dataset);
  const tdm_loader_options batch = OPTIONS(tdm_loader_options, o.batch_size = -1);
  assert_null(tdm_loader_create(dataset, &batch));
  assert_message("batch_size is");
  const tdm_loader_options ahead = OPTIONS(tdm_loader_options, o.prefetch = -1);
  assert_null(tdm_loader_create(dataset, &ahead));
  assert_message("prefetch is");
  const tdm_loader_options much =
      OPTIONS(tdm_loader_options, o.batch_size = INT64_MAX, o.prefetch = INT32_MAX);
  tdm_loader *loader = tdm_loader_create(dataset, &much); /* at most the existing ones */
  assert_non_null(loader);
  assert_int_equal(tdm_loader_batch_count(loader), 1);
  tdm_loader_release(loader);
  tdm_dataset_release(dataset);
  tdm_tensor_release(rows);
}

/* ---- Names ----------------------------------------------------------------------------------- */

static const char *const bad_names[] = {
    "a\xff", "\xc3", "\xed\xa0\x80", "\xc0\xaf", "\xf4\x90\x80\x80", ""};

typedef void (*namer)(tdm_graph *graph, const char *name, tdm_value x);

static void name_input(tdm_graph *graph, const char *name, tdm_value x) {
  (void)x;
  (void)tdm_input(graph, name, TDM_FLOAT32, tdm_shape_of(1, TDM_DIM("batch")));
}

static void name_layer(tdm_graph *graph, const char *name, tdm_value x) {
  (void)tdm_linear(graph, name, x, 3);
}

static void name_operation(tdm_graph *graph, const char *name, tdm_value x) {
  (void)tdm_tanh(graph, name, x);
}

static void name_scope(tdm_graph *graph, const char *name, tdm_value x) {
  (void)x;
  tdm_scope_push(graph, name);
}

static void name_parameter(tdm_graph *graph, const char *name, tdm_value x) {
  (void)x;
  (void)tdm_parameter(graph, name, TDM_FLOAT32, tdm_shape_of(1, (int64_t)2), NULL);
}

static void name_place(tdm_graph *graph, const char *name, tdm_value x) {
  (void)tdm_observe(graph, name, x);
}

static void names_are_utf8_from_the_start(void **unused) {
  (void)unused;
  static const namer namers[] = {name_input, name_layer,     name_operation, tdm_output,
                                 name_scope, name_parameter, name_place};
  for (size_t n = 0; n < sizeof namers / sizeof namers[0]; n++)
    for (size_t i = 0; i < sizeof bad_names / sizeof bad_names[0]; i++) {
      tdm_graph *graph = tdm_graph_create(context);
      const tdm_value x =
          tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), (int64_t)4));
      assert_ok(tdm_graph_status(graph));
      namers[n](graph, bad_names[i], x);
      if (tdm_graph_status(graph) != TDM_INVALID_ARGUMENT) fail_msg("namer %zu, name %zu", n, i);
      assert_message(*bad_names[i] ? "is not UTF-8" : "name is missing");
      tdm_graph_release(graph);
    }
}

static tdm_session *named_session(const char *name) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x =
      tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), (int64_t)4));
  tdm_scope_push(graph, name);
  const tdm_value y = tdm_linear(graph, name, x, 4);
  tdm_scope_pop(graph);
  tdm_output(graph, name, y);
  return train_session(graph, tdm_mse(graph, "loss", y, x), tdm_adam(0.1), NULL);
}

/* Every character but the end of a string. */
static void what_is_utf8_is_saved_and_loaded(void **unused) {
  (void)unused;
  char control[64] = "";
  for (char c = 1; c < 32; c++)
    control[strlen(control)] = c;
  const char *const names[] = {control, "\x7f\"\\'<>&", "\xc3\xa9t\xc3\xa9 \xe6\x97\xa5",
                               "\xf0\x9f\x8c\x8a", "a,b=c:d;*"};
  const char *folder = getenv("TEST_TMPDIR");
  char path[512];
  (void)snprintf(path, sizeof path, "%s/options_test.checkpoint", folder ? folder : "/tmp");
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    tdm_session *session = named_session(names[i]);
    tdm_session *other = named_session(names[i]);
    tdm_tensor *x =
        tdm_tensor_full(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, (int64_t)3, (int64_t)4), 1);
    const tdm_feed feed = {"x", x, false};
    assert_ok(tdm_train_step(session, &feed, 1, NULL, 0, NULL));
    assert_ok(tdm_checkpoint_save(session, NULL, path));
    assert_ok(tdm_checkpoint_load(other, NULL, path));
    tdm_tensor_list *saved = state_of(session);
    tdm_tensor_list *loaded = state_of(other);
    assert_int_equal(tdm_tensor_list_count(saved), tdm_tensor_list_count(loaded));
    tdm_fetch fetch = {.name = names[i]};
    assert_ok(tdm_run(other, &feed, 1, &fetch, 1));
    tdm_tensor_release(fetch.tensor);
    tdm_tensor_list_release(saved);
    tdm_tensor_list_release(loaded);
    tdm_tensor_release(x);
    tdm_session_release(session);
    tdm_session_release(other);
  }
  assert_int_equal(unlink(path), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_of_sessions_have_ranges),
      cmocka_unit_test(rates_are_finite),
      cmocka_unit_test(counts_need_their_lists),
      cmocka_unit_test(numbers_of_contexts_have_ranges),
      cmocka_unit_test(numbers_of_loaders_have_ranges),
      cmocka_unit_test(names_are_utf8_from_the_start),
      cmocka_unit_test(what_is_utf8_is_saved_and_loaded),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
