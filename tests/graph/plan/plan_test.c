/* Plans: one for each set of shapes, kept while there is room, and reports of plans. */
#include <stdlib.h>

#include <jansson.h>

#include "graph/run/session.h"
#include "tests/graph/group.h"
#include "tests/options.h"

/* Creates a session of scores. plan_limit 0: the default. */
static tdm_session *scores_session(int plan_limit) {
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.plan_limit = plan_limit > 0 ? plan_limit : o.plan_limit);
  return run_session(seed_graph(context, "cpu:0", "sim:0", NULL), &options);
}

static void run_rows(tdm_session *session, int64_t rows) {
  test_batch batch;
  test_batch_make(&batch, context, rows, 1);
  tdm_tensor_release(run_once(session, &batch, "scores"));
  test_batch_release(&batch);
}

/* ---- The cache ------------------------------------------------------------------------------- */

static void equal_shapes_share_a_plan(void **unused) {
  (void)unused;
  tdm_session *session = scores_session(0);
  run_rows(session, 5);
  const tdm_plan *five = session->newest;
  run_rows(session, 6);
  assert_int_equal(session->plan_count, 2);
  assert_ptr_not_equal(session->newest, five);
  run_rows(session, 5);
  run_rows(session, 5);
  assert_int_equal(session->plan_count, 2);
  assert_ptr_equal(session->newest, five);
  assert_ptr_equal(session->last_asked, five);
  tdm_session_release(session);
}

/* The device of an input, the fetches, and training are part of a plan's key. */
static void other_requests_are_other_plans(void **unused) {
  (void)unused;
  tdm_value loss;
  tdm_graph *graph = seed_graph(context, "cpu:0", "sim:0", &loss);
  tdm_session *session = train_session(graph, loss, tdm_sgd(0.1), NULL);
  test_batch batch;
  test_batch_make(&batch, context, 5, 1);
  tdm_tensor_release(run_once(session, &batch, "scores"));
  assert_int_equal(session->plan_count, 1);
  (void)train_once(session, &batch);
  assert_int_equal(session->plan_count, 2);
  tdm_fetch scores = {.name = "scores"};
  assert_ok(tdm_train_step(session, batch.feeds, 2, &scores, 1, NULL));
  assert_int_equal(session->plan_count, 3);
  tdm_tensor_release(scores.tensor);
  tdm_tensor *elsewhere = tdm_tensor_to(batch.ids, "sim:0", TDM_DTYPE_NONE);
  const tdm_feed feed = {.name = "ids", .tensor = elsewhere};
  assert_ok(tdm_run(session, &feed, 1, &scores, 1));
  assert_int_equal(session->plan_count, 4);
  tdm_tensor_release(scores.tensor);
  tdm_tensor_release(elsewhere);
  /* An input that the fetches do not need is fed all the same: the same numbers. */
  assert_ok(tdm_run(session, batch.feeds, 2, &scores, 1));
  tdm_tensor_release(scores.tensor);
  test_batch_release(&batch);
  tdm_session_release(session);
}

static void the_oldest_idle_plan_is_evicted(void **unused) {
  (void)unused;
  tdm_session *session = scores_session(3);
  for (int64_t rows = 1; rows <= 3; rows++)
    run_rows(session, rows);
  const tdm_plan *one = session->oldest;
  run_rows(session, 1); /* used again: 2 is the oldest now */
  run_rows(session, 4);
  assert_int_equal(session->plan_count, 3);
  assert_ptr_equal(session->oldest->newer, one);
  for (int64_t rows = 1; rows <= 40; rows++)
    run_rows(session, rows);
  assert_int_equal(session->plan_count, 3);
  tdm_session_release(session);
}

static void count_done(void *user, tdm_run_result *result) {
  for (size_t i = 0; i < result->fetch_count; i++)
    tdm_tensor_release(result->fetches[i].tensor);
  if (result->status == TDM_OK) atomic_fetch_add((_Atomic int *)user, 1);
}

/* With runs in flight: the loop's thread gives plans back under the session's lock. */
static int plan_count(tdm_session *session) {
  (void)pthread_mutex_lock(&session->lock);
  const int count = session->plan_count;
  (void)pthread_mutex_unlock(&session->lock);
  return count;
}

/* Checks that plans in flight are kept beyond the limit and are released once they are idle. */
static void plans_in_flight_are_not_evicted(void **unused) {
  (void)unused;
  tdm_session *session = scores_session(1);
  _Atomic int done = 0;
  for (int64_t i = 0; i < 60; i++) {
    test_batch batch;
    test_batch_make(&batch, context, 1 + i % 7, 1);
    const tdm_fetch scores = {.name = "scores"};
    assert_ok(tdm_submit(session, false, batch.feeds, 1, &scores, 1, count_done, &done));
    test_batch_release(&batch);
    assert_true(plan_count(session) >= 1);
  }
  while (atomic_load(&done) < 60)
    run_rows(session, 2);
  run_rows(session, 3);
  for (int i = 0; i < 1000 && plan_count(session) > 1; i++)
    run_rows(session, 3); /* the last callback may be giving its plan back */
  assert_int_equal(plan_count(session), 1);
  tdm_session_release(session);
}

static void prepare_makes_the_plan_that_a_run_uses(void **unused) {
  (void)unused;
  tdm_session *session = scores_session(0);
  tdm_traffic traffic;
  assert_status(tdm_session_traffic(session, &traffic), TDM_INVALID_ARGUMENT);
  assert_message("no plan");
  test_batch batch;
  test_batch_make(&batch, context, 8, 1);
  const tdm_fetch scores = {.name = "scores"};
  assert_ok(tdm_session_prepare(session, batch.feeds, 1, &scores, 1, false));
  const tdm_plan *plan = session->newest;
  assert_non_null(plan);
  assert_int_equal(plan->uses, 0);
  assert_ok(tdm_session_traffic(session, &traffic));
  assert_int_equal(traffic.edge_transfers, 1);
  run_rows(session, 8);
  assert_ptr_equal(session->newest, plan);
  assert_int_equal(session->plan_count, 1);
  test_batch_release(&batch);
  tdm_session_release(session);
}

/* A plan that cannot be made leaves no memory allocated. */
static void a_plan_that_fails_is_not_kept(void **unused) {
  (void)unused;
  tdm_session *session = scores_session(0);
  tdm_tensor *wrong = tdm_tensor_zeros(context, "cpu:0", TDM_INT64, tdm_shape_of(2, 2, 2));
  const tdm_feed feed = {.name = "ids", .tensor = wrong};
  const tdm_fetch scores = {.name = "scores"};
  assert_status(tdm_session_prepare(session, &feed, 1, &scores, 1, false), TDM_INVALID_ARGUMENT);
  assert_message("[2, 2]");
  assert_int_equal(session->plan_count, 0);
  run_rows(session, 2);
  tdm_tensor_release(wrong);
  tdm_session_release(session);
}

/* ---- What plans tell ------------------------------------------------------------------------- */

static tdm_session *trained_session(bool profile) {
  tdm_value loss;
  tdm_graph *graph = tied_graph(context, "cpu:0", "sim:0", &loss);
  const tdm_session_options options = OPTIONS(tdm_session_options, o.profile = profile);
  tdm_session *session = train_session(graph, loss, tdm_adam(0.1), &options);
  (void)train_steps(session, 6, 3);
  return session;
}

static void the_text_tells_every_transfer(void **unused) {
  (void)unused;
  tdm_session *session = trained_session(true);
  char *text = printed(session, print_explain, NULL, TDM_PLAN_TEXT);
  static const char *const wanted[] = {"training plan", "edges",        "boundary",
                                       "refresh",       "measured",     "predicted",
                                       "direct",        "once -> tied", "gradient of"};
  for (size_t i = 0; i < TDM_COUNT_OF(wanted); i++)
    if (!strstr(text, wanted[i])) fail_msg("\"%s\" is not in\n%s", wanted[i], text);
  free(text);
  tdm_session_release(session);
}

/* Every transfer has its cause, bytes, route, queue and times, and the sums are the traffic. */
static void the_json_adds_up(void **unused) {
  (void)unused;
  tdm_session *session = trained_session(true);
  tdm_traffic traffic;
  assert_ok(tdm_session_traffic(session, &traffic));
  char *text = printed(session, print_explain, NULL, TDM_PLAN_JSON);
  json_t *plan = json_loads(text, 0, NULL);
  assert_non_null(plan);
  uint64_t edges = 0;
  uint64_t bytes = 0;
  size_t index;
  json_t *command;
  json_array_foreach(json_object_get(plan, "commands"), index, command) {
    assert_int_equal(json_integer_value(json_object_get(command, "id")), index);
    assert_true(json_is_array(json_object_get(command, "waits")));
    assert_true(json_is_string(json_object_get(command, "queue")));
    if (!json_object_get(command, "cause")) continue;
    assert_true(json_is_string(json_object_get(command, "route")));
    assert_true(json_is_boolean(json_object_get(command, "pageable")));
    assert_true(json_is_number(json_object_get(command, "predicted_ns")));
    assert_true(json_is_number(json_object_get(command, "measured_ns")));
    if (strcmp(json_string_value(json_object_get(command, "action")), "transfer") != 0) continue;
    edges++;
    bytes += (uint64_t)json_integer_value(json_object_get(command, "bytes"));
  }
  assert_int_equal(edges, traffic.edge_transfers);
  assert_int_equal(bytes, traffic.edge_bytes);
  json_t *counts = json_object_get(plan, "traffic");
  assert_int_equal(json_integer_value(json_object_get(counts, "edge_bytes")), bytes);
  assert_int_equal(json_integer_value(json_object_get(counts, "boundary_transfers")),
                   traffic.boundary_transfers);
  assert_true(json_is_true(json_object_get(plan, "training")));
  json_decref(plan);
  free(text);
  tdm_session_release(session);
}

/* Braces and quotes are balanced, every edge is between declared nodes. */
static void assert_dot(char *text) {
  assert_int_equal(strncmp(text, "digraph", 7), 0);
  int depth = 0;
  bool quoted = false;
  for (const char *at = text; *at; at++) {
    if (*at == '\\' && quoted && at[1]) {
      at++;
      continue;
    }
    if (*at == '"') quoted = !quoted;
    if (quoted) continue;
    depth += (*at == '{') - (*at == '}');
    assert_true(depth >= 0);
  }
  assert_int_equal(depth, 0);
  assert_false(quoted);
}

static void the_dot_is_well_formed(void **unused) {
  (void)unused;
  tdm_session *session = trained_session(false);
  char *text = printed(session, print_explain, NULL, TDM_PLAN_DOT);
  assert_dot(text);
  assert_non_null(strstr(text, "sim:0"));
  assert_non_null(strstr(text, "embedding"));
  assert_non_null(strstr(text, "->"));
  free(text);
  tdm_session_release(session);
}

static void every_pass_can_be_printed(void **unused) {
  (void)unused;
  static const char *const passes[] = {"place",           "gradient", "layout", "transfer",
                                       "concat_in_place", "schedule", "memory", "verify"};
  tdm_session *session = trained_session(false);
  const int plans = session->plan_count;
  size_t before = 1;
  for (size_t i = 0; i < TDM_COUNT_OF(passes); i++) {
    char *text = printed(session, tdm_session_print_pass, passes[i], TDM_PLAN_TEXT);
    assert_non_null(strstr(text, "embedding"));
    /* Transfers appear only from the pass that makes them. */
    assert_true((i >= 3) == (strstr(text, "transfer     ") || strstr(text, "transfer           ")));
    free(text);
    text = printed(session, tdm_session_print_pass, passes[i], TDM_PLAN_DOT);
    assert_dot(text);
    free(text);
    text = printed(session, tdm_session_print_pass, passes[i], TDM_PLAN_JSON);
    json_t *plan = json_loads(text, 0, NULL);
    assert_non_null(plan);
    const size_t commands = json_array_size(json_object_get(plan, "commands"));
    for (size_t c = 0; c < commands; c++) {
      const json_t *command = json_array_get(json_object_get(plan, "commands"), c);
      assert_true(json_is_string(json_object_get(command, "name")));
      assert_true(json_is_string(json_object_get(command, "device")));
    }
    assert_true(commands > (i == 1 ? 2 * before : before - 1)); /* backward nodes and updates */
    before = commands;
    json_decref(plan);
    free(text);
  }
  assert_int_equal(session->plan_count, plans);
  FILE *out = fopen("/dev/null", "w");
  assert_non_null(out);
  assert_status(tdm_session_print_pass(session, "optimize", TDM_PLAN_TEXT, out),
                TDM_INVALID_ARGUMENT);
  assert_message("optimize");
  assert_int_equal(fclose(out), 0);
  (void)train_steps(session, 6, 1); /* asking changed nothing */
  tdm_session_release(session);
}

static tdm_status fetch_scores(tdm_session *session, tdm_tensor *ids) {
  const tdm_feed feed = {.name = "ids", .tensor = ids};
  tdm_fetch scores = {.name = "scores"};
  const tdm_status status = tdm_run(session, &feed, 1, &scores, 1);
  tdm_tensor_release(scores.tensor);
  return status;
}

/* The plan is made again for the inputs of the run, on the devices that they had. */
static void a_pass_is_printed_for_feeds_where_they_lie(void **unused) {
  (void)unused;
  tdm_session *session = run_session(seed_graph(context, "sim:0", "sim:0", NULL), NULL);
  test_batch batch;
  test_batch_make(&batch, context, 4, 1);
  tdm_tensor *elsewhere = tdm_tensor_to(batch.ids, "sim:1", TDM_DTYPE_NONE);
  assert_non_null(elsewhere);
  for (int i = 0; i < 2; i++) {
    assert_ok(fetch_scores(session, i == 0 ? elsewhere : batch.ids));
    char *text = printed(session, tdm_session_print_pass, "verify", TDM_PLAN_TEXT);
    assert_true((strstr(text, "sim:1") != NULL) == (i == 0));
    free(text);
  }
  tdm_tensor_release(elsewhere);
  test_batch_release(&batch);
  tdm_session_release(session);
}

static void pass_by(void *user, const tdm_observation *observation) {
  (void)user;
  (void)observation;
}

/* Creates a session that is replicated on two devices: three elementwise operations, one of them
 * twice, with an observed value between. */
static tdm_session *asking_session(const tdm_session_options *options) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, "cpu:0");
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 3));
  tdm_scope_push(graph, "module");
  const tdm_value y = tdm_observe(graph, "seen", tdm_linear(graph, "fc", x, 3));
  const tdm_value a = tdm_tanh(graph, "a", y);
  const tdm_value b = tdm_tanh(graph, "b", y);
  const tdm_value sum = tdm_add(graph, "sum", a, b);
  tdm_scope_pop(graph);
  const tdm_parallel_options wrap = OPTIONS(tdm_parallel_options, o.devices = "cpu:0,sim:0,sim:1");
  tdm_data_parallel(graph, "module", &wrap);
  const tdm_value loss = tdm_mse(graph, "loss", sum, x);
  return train_session(graph, loss, tdm_sgd(0.1), options);
}

/* Returns the commands of a plan printed as JSON. The caller releases them. */
static json_t *commands_of(char *text) {
  json_t *plan = json_loads(text, 0, NULL);
  assert_non_null(plan);
  json_t *commands = json_incref(json_object_get(plan, "commands"));
  assert_true(json_array_size(commands) > 0);
  json_decref(plan);
  free(text);
  return commands;
}

/* Printing a plan pass by pass repeats the session's last request. The result of the last pass is
 * the plan that ran. Each option makes another plan. */
static void the_last_pass_leaves_the_plan_that_ran(void **unused) {
  (void)unused;
  const tdm_session_options options[] = {
      OPTIONS(tdm_session_options, o.seed = 1),
      OPTIONS(tdm_session_options, o.seed = 1, o.observer = pass_by),
      OPTIONS(tdm_session_options, o.seed = 1, o.unfused = true),
      OPTIONS(tdm_session_options, o.seed = 1, o.unmerged = true, o.unfused = true),
      OPTIONS(tdm_session_options, o.seed = 1, o.collective = TDM_COLLECTIVE_CHAIN),
      OPTIONS(tdm_session_options, o.seed = 1, o.micro_batches = 3),
      OPTIONS(tdm_session_options, o.seed = 1, o.check_finite = true)};
  json_t *told[TDM_COUNT_OF(options)];
  for (size_t i = 0; i < TDM_COUNT_OF(options); i++) {
    tdm_session *session = asking_session(&options[i]);
    tdm_tensor *x = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 9, 3));
    const tdm_feed feed = {"x", x, false};
    assert_ok(tdm_train_step(session, &feed, 1, NULL, 0, NULL));
    told[i] = commands_of(printed(session, print_explain, NULL, TDM_PLAN_JSON));
    json_t *last = commands_of(printed(session, tdm_session_print_pass, "verify", TDM_PLAN_JSON));
    if (!json_equal(last, told[i])) fail_msg("options %zu: the last pass leaves another plan", i);
    for (size_t k = 0; k < i; k++)
      if (json_equal(told[k], told[i])) fail_msg("options %zu and %zu: one plan", k, i);
    json_decref(last);
    tdm_tensor_release(x);
    tdm_session_release(session);
  }
  for (size_t i = 0; i < TDM_COUNT_OF(options); i++)
    json_decref(told[i]);
}

/* Checks the text of the latest plan for "pinned" or "pageable". */
static void expect_said(tdm_session *session, const char *said, bool expected) {
  char *text = printed(session, print_explain, NULL, TDM_PLAN_TEXT);
  if ((strstr(text, said) != NULL) != expected) fail_msg("\"%s\" in\n%s", said, text);
  free(text);
}

static void host_memory_of_a_plan_is_pinned(void **unused) {
  (void)unused;
  const tdm_session_options options = OPTIONS(tdm_session_options, o.strict = true);
  tdm_session *session = run_session(seed_graph(context, "cpu:0", "sim:0", NULL), &options);
  test_batch batch;
  test_batch_make(&batch, context, 4, 1);
  assert_ok(fetch_scores(session, batch.ids));
  expect_said(session, ", pinned", true);
  expect_said(session, ", pageable", false);
  test_batch_release(&batch);
  tdm_session_release(session);
}

/* Inputs of a caller are in the caller's own memory. */
static void strict_refuses_pageable_inputs(void **unused) {
  (void)unused;
  const tdm_session_options options = OPTIONS(tdm_session_options, o.strict = true);
  tdm_session *session = run_session(seed_graph(context, "sim:0", "sim:0", NULL), &options);
  test_batch batch;
  test_batch_make(&batch, context, 4, 1);
  assert_status(fetch_scores(session, batch.ids), TDM_UNAVAILABLE);
  assert_message("strict");
  assert_message("ids");
  tdm_tensor *staged = tdm_tensor_staging(context, "sim:0", TDM_INT64, tdm_shape_of(1, 4));
  assert_non_null(staged);
  memcpy(tdm_tensor_data(staged), tdm_tensor_data(batch.ids), tdm_tensor_bytes(staged));
  assert_ok(fetch_scores(session, staged));
  tdm_session_release(session);
  session = run_session(seed_graph(context, "sim:0", "sim:0", NULL), NULL);
  assert_ok(fetch_scores(session, batch.ids));
  expect_said(session, ", pageable", true);
  assert_ok(fetch_scores(session, staged)); /* a plan of its own */
  expect_said(session, ", pageable", false);
  assert_int_equal(session->plan_count, 2);
  tdm_tensor_release(staged);
  test_batch_release(&batch);
  tdm_session_release(session);
}

/* Without room in the staging pool runs continue with a warning. Strict ones fail. */
static void a_full_staging_pool_is_told(void **unused) {
  (void)unused;
  (void)setenv("TANDEM_STAGING_BYTES", "1", 1);
  tdm_context *poor = graph_context();
  (void)unsetenv("TANDEM_STAGING_BYTES");
  test_batch batch;
  test_batch_make(&batch, poor, 4, 1);
  const tdm_session_options strict = OPTIONS(tdm_session_options, o.strict = true);
  tdm_session *session = run_session(seed_graph(poor, "cpu:0", "sim:0", NULL), &strict);
  for (int i = 0; i < 2; i++) {
    assert_status(fetch_scores(session, batch.ids), TDM_UNAVAILABLE);
    assert_message("not pinned");
  }
  tdm_session_release(session);
  session = run_session(seed_graph(poor, "cpu:0", "sim:0", NULL), NULL);
  for (int i = 0; i < 2; i++) {
    assert_ok(fetch_scores(session, batch.ids));
    expect_said(session, ", pageable", true);
    expect_said(session, ", pinned", false);
  }
  test_batch_release(&batch);
  tdm_session_release(session);
  tdm_context_release(poor);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equal_shapes_share_a_plan),
      cmocka_unit_test(other_requests_are_other_plans),
      cmocka_unit_test(the_oldest_idle_plan_is_evicted),
      cmocka_unit_test(plans_in_flight_are_not_evicted),
      cmocka_unit_test(prepare_makes_the_plan_that_a_run_uses),
      cmocka_unit_test(a_plan_that_fails_is_not_kept),
      cmocka_unit_test(the_text_tells_every_transfer),
      cmocka_unit_test(the_json_adds_up),
      cmocka_unit_test(the_dot_is_well_formed),
      cmocka_unit_test(every_pass_can_be_printed),
      cmocka_unit_test(a_pass_is_printed_for_feeds_where_they_lie),
      cmocka_unit_test(the_last_pass_leaves_the_plan_that_ran),
      cmocka_unit_test(host_memory_of_a_plan_is_pinned),
      cmocka_unit_test(strict_refuses_pageable_inputs),
      cmocka_unit_test(a_full_staging_pool_is_told),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
