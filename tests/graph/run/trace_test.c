/* Timelines that sessions record: every command of every recorded run once, on its queue's row, in
 * an order that its dependencies permit. The written file is a Chrome trace. Built for a simulated
 * and for an emulated accelerator (TEST_DEVICE). */
#include <jansson.h>

#include "graph/run/trace.h"
#include "tests/graph/run_tally.h"
#include "tests/options.h"

static tdm_session *zigzag_session(tdm_context *context, const tdm_session_options *options) {
  tdm_value loss;
  tdm_graph *graph = zigzag_graph(context, "cpu:0", TEST_DEVICE, &loss);
  return train_session(graph, loss, tdm_adam(0.01), options);
}

static void collect(tdm_session *session, tdm_timeline *timeline) {
  assert_non_null(session->trace);
  assert_ok(tdm_trace_collect(session->trace, timeline));
}

/* ---- What every timeline keeps --------------------------------------------------------------- */

static void check_rows(const tdm_timeline *timeline) {
  for (uint32_t i = 0; i < timeline->event_count; i++) {
    const tdm_timeline_event *event = &timeline->events[i];
    const tdm_timeline_event *before = i > 0 ? event - 1 : NULL;
    assert_true(event->begin_ns <= event->end_ns);
    assert_int_equal(event->row, tdm_timeline_node_of(timeline, event)->row);
    if (before && before->row == event->row) assert_true(before->end_ns <= event->begin_ns);
    if (event->wait_ns == 0) continue;
    assert_true(event->wait_ns < event->begin_ns);
    if (before && before->row == event->row) assert_true(before->end_ns <= event->wait_ns);
  }
}

/* What `run` has come to of the nodes has ended before event began. */
static void check_order(const tdm_timeline *timeline, const tdm_timeline_event *event,
                        const tdm_timeline_run *run, const uint32_t *nodes, uint32_t count) {
  for (uint32_t k = 0; k < count; k++) {
    const uint32_t from = run->event_of[nodes[k]];
    if (from == TDM_TIMELINE_NONE) continue; /* a copy that was fresh, or had failed */
    assert_true(timeline->events[from].end_ns <= event->begin_ns);
  }
}

static void check_events(const tdm_timeline *timeline) {
  for (uint32_t i = 0; i < timeline->event_count; i++) {
    const tdm_timeline_event *event = &timeline->events[i];
    const tdm_timeline_run *run = &timeline->runs[event->run];
    const tdm_timeline_node *node = tdm_timeline_node_of(timeline, event);
    assert_int_equal(run->event_of[event->node], i); /* so each event occurs once */
    assert_true(run->asked_ns <= run->launched_ns && run->launched_ns <= event->begin_ns);
    assert_true(event->end_ns <= run->ended_ns);
    if (node->last_phase && run->updating_ns) assert_true(run->updating_ns <= event->begin_ns);
    if (!node->last_phase && run->updating_ns) assert_true(event->end_ns <= run->updating_ns);
    check_order(timeline, event, run, node->dependencies, node->dependency_count);
    check_order(timeline, event, run, node->waits, node->wait_count);
    const tdm_timeline_run *before = run - 1;
    if (event->run > 0 && before->plan == run->plan && before->number + 1 == run->number)
      check_order(timeline, event, before, node->previous_waits, node->previous_wait_count);
  }
}

/* Checks a successful run: all events except refreshes of fresh copies. */
static void check_complete(const tdm_timeline *timeline) {
  for (uint32_t r = 0; r < timeline->run_count; r++) {
    const tdm_timeline_run *run = &timeline->runs[r];
    const tdm_timeline_plan *plan = &timeline->plans[run->plan];
    assert_int_equal(run->status, TDM_OK);
    for (uint32_t i = 0; i < plan->node_count; i++)
      if (run->event_of[i] == TDM_TIMELINE_NONE)
        assert_string_equal(plan->nodes[i].action, "refresh");
  }
}

static void check_timeline(const tdm_timeline *timeline) {
  check_rows(timeline);
  check_events(timeline);
}

static bool has_row(const tdm_timeline *timeline, const char *device, const char *queue) {
  for (uint32_t i = 0; i < timeline->row_count; i++)
    if (strcmp(timeline->rows[i].device, device) == 0 &&
        strcmp(timeline->rows[i].queue, queue) == 0)
      return true;
  return false;
}

/* Updates read gradients, which steps of the run have made. */
static void check_updates(const tdm_timeline_plan *plan) {
  uint32_t updates = 0;
  for (uint32_t i = 0; i < plan->node_count; i++) {
    const tdm_timeline_node *node = &plan->nodes[i];
    if (!node->last_phase) continue;
    assert_true(node->dependency_count > 0);
    updates++;
  }
  assert_true(updates > 0);
}

static void the_latest_runs_are_kept(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  const tdm_session_options options = OPTIONS(tdm_session_options, o.trace_runs = 3);
  tdm_session *session = zigzag_session(context, &options);
  (void)train_steps(session, 8, 5);
  tdm_timeline timeline;
  collect(session, &timeline);
  assert_int_equal(timeline.run_count, 3);
  assert_int_equal(timeline.plan_count, 1);
  for (uint32_t i = 0; i < 3; i++)
    assert_int_equal(timeline.runs[i].number, 3 + i);
  /* Messages of ranks have the same number for the same run: the next one is 6. */
  assert_int_equal(tdm_context_count_run(context), 6);
  check_timeline(&timeline);
  check_complete(&timeline);
  assert_true(has_row(&timeline, "cpu:0", "compute"));
  assert_true(has_row(&timeline, TEST_DEVICE, "compute"));
  assert_true(has_row(&timeline, TEST_DEVICE, "upload"));
  assert_true(has_row(&timeline, TEST_DEVICE, "download"));
  assert_int_equal(timeline.row_count, 4);
  assert_true(timeline.runs[0].updating_ns > 0);
  check_updates(&timeline.plans[0]);
  tdm_timeline_deinit(&timeline);
  tdm_session_release(session);
  tdm_context_release(context);
}

static void runs_in_flight_lie_in_slots(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  const tdm_session_options options = OPTIONS(tdm_session_options, o.trace_runs = 40, o.depth = 3);
  tdm_session *session = run_session(zigzag_graph(context, "cpu:0", TEST_DEVICE, NULL), &options);
  run_tally tally;
  run_tally_init(&tally);
  for (int i = 0; i < 40; i++) {
    test_batch batch;
    test_batch_make(&batch, context, 8 + i % 2, (uint64_t)i);
    submit_scores(session, &batch, &tally);
    test_batch_release(&batch);
  }
  run_tally_await(&tally, 40);
  tdm_timeline timeline;
  collect(session, &timeline);
  assert_int_equal(timeline.run_count, 40);
  assert_int_equal(timeline.plan_count, 2);
  check_timeline(&timeline);
  check_complete(&timeline);
  for (uint32_t i = 0; i < 40; i++) {
    assert_in_range(timeline.runs[i].slot, 0, 2);
    for (uint32_t k = 0; k < i; k++) /* one after the other in a slot */
      if (timeline.runs[k].slot == timeline.runs[i].slot)
        assert_true(timeline.runs[k].ended_ns <= timeline.runs[i].launched_ns);
  }
  tdm_timeline_deinit(&timeline);
  tdm_session_release(session);
  run_tally_deinit(&tally);
  tdm_context_release(context);
}

/* Training runs in close sequence: each updates after the previous one has ended, and the path
 * contains all of them. */
static void training_runs_in_flight_are_in_order(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  const tdm_session_options options = OPTIONS(tdm_session_options, o.trace_runs = 12, o.depth = 3);
  tdm_value
      loss; /* the tied parameter's copy is refreshed on another queue than it is updated on */
  tdm_graph *graph = tied_graph(context, "cpu:0", TEST_DEVICE, &loss);
  tdm_session *session = train_session(graph, loss, tdm_adam(0.01), &options);
  run_tally tally;
  run_tally_init(&tally);
  for (int i = 0; i < 12; i++) {
    test_batch batch;
    test_batch_make(&batch, context, 8, (uint64_t)i);
    submit_step(session, &batch, &tally);
    test_batch_release(&batch);
  }
  run_tally_await(&tally, 12);
  tdm_timeline timeline;
  collect(session, &timeline);
  assert_int_equal(timeline.run_count, 12);
  check_timeline(&timeline);
  check_complete(&timeline);
  uint32_t previous_waits = 0;
  for (uint32_t i = 0; i < timeline.plans[0].node_count; i++)
    previous_waits += timeline.plans[0].nodes[i].previous_wait_count;
  assert_true(previous_waits > 0);
  for (uint32_t i = 1; i < 12; i++)
    assert_true(timeline.runs[i].updating_ns >= timeline.runs[i - 1].ended_ns);
  tdm_timeline_summary summary;
  assert_ok(tdm_timeline_summarize(&timeline, &summary));
  bool on_path[12] = {false};
  for (uint32_t i = 0; i < summary.path.count; i++)
    on_path[timeline.events[summary.path.events[i]].run] = true;
  for (uint32_t i = 0; i < 12; i++)
    assert_true(on_path[i]);
  tdm_timeline_deinit(&timeline);
  tdm_session_release(session);
  run_tally_deinit(&tally);
  tdm_context_release(context);
}

/* Every kernel fails once; the timeline has the executed commands and the failed one. */
static void failing_runs_are_told(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  const tdm_session_options options = OPTIONS(tdm_session_options, o.trace_runs = 1);
  tdm_session *session = zigzag_session(context, &options);
  test_batch batch;
  test_batch_make(&batch, context, 8, 1);
  (void)train_once(session, &batch);
  uint32_t shortest = UINT32_MAX;
  for (uint64_t n = 1; n <= 8; n++) {
    tdm_faults_arm(tdm_context_faults(context), TDM_FAULT_KERNEL, n, false);
    assert_true(tdm_train_step(session, batch.feeds, 2, NULL, 0, NULL) != TDM_OK);
    tdm_faults_arm(tdm_context_faults(context), TDM_FAULT_KERNEL, 0, false);
    tdm_timeline timeline;
    collect(session, &timeline);
    check_timeline(&timeline);
    assert_int_equal(timeline.run_count, 1);
    assert_true(timeline.runs[0].status != TDM_OK);
    assert_non_null(strstr(timeline.runs[0].message, "injected failure"));
    uint32_t failed = 0;
    for (uint32_t i = 0; i < timeline.event_count; i++)
      failed += timeline.events[i].failed;
    assert_int_equal(failed, 1); /* the others were passed over, and have no times */
    assert_true(timeline.event_count < timeline.plans[0].node_count);
    if (timeline.event_count < shortest) shortest = timeline.event_count;
    tdm_timeline_deinit(&timeline);
  }
  assert_true(shortest <= 4);
  test_batch_release(&batch);
  tdm_session_release(session);
  tdm_context_release(context);
}

static void plans_of_kept_runs_stay(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.trace_runs = 4, o.plan_limit = 1);
  tdm_session *session = zigzag_session(context, &options);
  for (int64_t rows = 3; rows < 9; rows++)
    (void)train_steps(session, rows, 1);
  tdm_timeline timeline;
  collect(session, &timeline);
  assert_int_equal(timeline.run_count, 4);
  assert_int_equal(timeline.plan_count, 4);
  check_timeline(&timeline);
  check_complete(&timeline);
  assert_in_range(session->plan_count, 4, 5);
  tdm_timeline_deinit(&timeline);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* ---- Written timelines ----------------------------------------------------------------------- */

static tdm_status print_trace(tdm_session *session, const char *what, tdm_plan_format format,
                              FILE *out) {
  (void)what;
  return tdm_session_trace(session, format == TDM_PLAN_JSON ? TDM_TRACE_CHROME : TDM_TRACE_SUMMARY,
                           out);
}

static const char *text_of(const json_t *event, const char *key) {
  const char *text = json_string_value(json_object_get(event, key));
  return text ? text : "";
}

static json_int_t integer_of(const json_t *event, const char *key) {
  const json_t *value = json_object_get(event, key);
  assert_true(json_is_integer(value));
  return json_integer_value(value);
}

static size_t count_events(const json_t *events, const char *phase, const char *category) {
  size_t count = 0;
  for (size_t i = 0; i < json_array_size(events); i++) {
    const json_t *event = json_array_get(events, i);
    count += strcmp(text_of(event, "ph"), phase) == 0 &&
             (!category || strcmp(text_of(event, "cat"), category) == 0);
  }
  return count;
}

/* Returns true if metadata names the event's process and thread. */
static bool is_named(const json_t *events, const json_t *event) {
  bool process = false;
  bool thread = false;
  for (size_t i = 0; i < json_array_size(events); i++) {
    const json_t *other = json_array_get(events, i);
    if (strcmp(text_of(other, "ph"), "M") != 0) continue;
    if (integer_of(other, "pid") != integer_of(event, "pid")) continue;
    process |= strcmp(text_of(other, "name"), "process_name") == 0;
    thread |= strcmp(text_of(other, "name"), "thread_name") == 0 &&
              integer_of(other, "tid") == integer_of(event, "tid");
  }
  return process && (thread || strcmp(text_of(event, "cat"), "run") == 0);
}

static void check_written_event(const json_t *events, const json_t *event) {
  const json_t *arguments = json_object_get(event, "args");
  assert_true(json_number_value(json_object_get(event, "ts")) >= 0);
  assert_true(json_number_value(json_object_get(event, "dur")) >= 0);
  assert_true(is_named(events, event));
  assert_true(integer_of(arguments, "run") >= 1);
  assert_true(text_of(event, "name")[0] != 0);
  if (strcmp(text_of(event, "cat"), "transfer") != 0) return;
  assert_true(integer_of(arguments, "bytes") > 0);
  assert_true(text_of(arguments, "route")[0] != 0);
  assert_true(text_of(arguments, "memory")[0] != 0);
  assert_non_null(strstr(text_of(arguments, "cause"), " -> "));
  assert_string_not_equal(text_of(arguments, "from"), text_of(arguments, "to"));
}

/* Arrows come in pairs that go forwards in time. */
static void check_arrows(const json_t *events) {
  assert_int_equal(count_events(events, "s", NULL), count_events(events, "f", NULL));
  assert_true(count_events(events, "s", NULL) > 0);
  for (size_t i = 0; i + 1 < json_array_size(events); i++) {
    const json_t *begin = json_array_get(events, i);
    if (strcmp(text_of(begin, "ph"), "s") != 0) continue;
    const json_t *end = json_array_get(events, i + 1);
    assert_string_equal(text_of(end, "ph"), "f");
    assert_int_equal(integer_of(begin, "id"), integer_of(end, "id"));
    assert_true(json_number_value(json_object_get(begin, "ts")) <=
                json_number_value(json_object_get(end, "ts")));
    assert_true(integer_of(begin, "pid") != integer_of(end, "pid") ||
                integer_of(begin, "tid") != integer_of(end, "tid"));
  }
}

static void a_trace_is_in_the_format_of_chrome(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  const tdm_session_options options = OPTIONS(tdm_session_options, o.trace_runs = 2);
  tdm_session *session = zigzag_session(context, &options);
  (void)train_steps(session, 8, 3);
  char *text = printed(session, print_trace, NULL, TDM_PLAN_JSON);
  json_error_t error;
  json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
  if (!root) fail_msg("no JSON: %s at %d", error.text, error.position);
  const json_t *events = json_object_get(root, "traceEvents");
  tdm_timeline timeline;
  collect(session, &timeline);
  size_t updates = 0;
  size_t waits = 0;
  for (uint32_t i = 0; i < timeline.event_count; i++) {
    updates += tdm_timeline_node_of(&timeline, &timeline.events[i])->last_phase;
    waits += timeline.events[i].wait_ns != 0;
  }
  assert_int_equal(count_events(events, "X", "run"), 2);
  assert_int_equal(count_events(events, "X", "update"), updates);
  assert_int_equal(count_events(events, "X", "wait"), waits);
  assert_int_equal(count_events(events, "X", "kernel") + count_events(events, "X", "transfer") +
                       updates,
                   timeline.event_count);
  assert_true(updates > 0 && count_events(events, "X", "transfer") > 0 && waits > 0);
  for (size_t i = 0; i < json_array_size(events); i++)
    if (strcmp(text_of(json_array_get(events, i), "ph"), "X") == 0)
      check_written_event(events, json_array_get(events, i));
  check_arrows(events);
  tdm_timeline_deinit(&timeline);
  json_decref(root);
  free(text);
  tdm_session_release(session);
  tdm_context_release(context);
}

static void the_summary_is_told(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  const tdm_session_options options = OPTIONS(tdm_session_options, o.trace_runs = 2);
  tdm_session *session = zigzag_session(context, &options);
  (void)train_steps(session, 8, 3);
  char *text = printed(session, print_trace, NULL, TDM_PLAN_TEXT);
  const char *const parts[] = {"2 runs in ",      "cpu:0",           TEST_DEVICE,
                               "two or more are", "critical path: ", "bound by "};
  for (size_t i = 0; i < TDM_COUNT_OF(parts); i++)
    if (!strstr(text, parts[i])) fail_msg("\"%s\" is not in:\n%s", parts[i], text);
  free(text);
  tdm_session_release(session);
  tdm_context_release(context);
}

static void where_nothing_is_kept_the_message_says_so(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  tdm_session *session = zigzag_session(context, NULL);
  (void)train_steps(session, 8, 1);
  assert_false(session->newest->records); /* no recording either */
  assert_status(tdm_session_trace(session, TDM_TRACE_CHROME, stderr), TDM_INVALID_ARGUMENT);
  assert_message("trace_runs is 0");
  tdm_session_release(session);
  const tdm_session_options options = OPTIONS(tdm_session_options, o.trace_runs = 2);
  session = zigzag_session(context, &options);
  assert_status(tdm_session_trace(session, TDM_TRACE_SUMMARY, stderr), TDM_INVALID_ARGUMENT);
  assert_message("no run has ended");
  assert_status(tdm_session_trace(session, TDM_TRACE_SUMMARY, NULL), TDM_INVALID_ARGUMENT);
  tdm_session_release(session);
  tdm_graph *graph = zigzag_graph(context, "cpu:0", TEST_DEVICE, NULL);
  const tdm_session_options negative = OPTIONS(tdm_session_options, o.trace_runs = -1);
  assert_null(tdm_session_create(graph, &negative));
  assert_message("trace_runs");
  tdm_graph_release(graph);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_latest_runs_are_kept),
      cmocka_unit_test(runs_in_flight_lie_in_slots),
      cmocka_unit_test(training_runs_in_flight_are_in_order),
      cmocka_unit_test(failing_runs_are_told),
      cmocka_unit_test(plans_of_kept_runs_stay),
      cmocka_unit_test(a_trace_is_in_the_format_of_chrome),
      cmocka_unit_test(the_summary_is_told),
      cmocka_unit_test(where_nothing_is_kept_the_message_says_so),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
