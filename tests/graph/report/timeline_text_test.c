/* Reports of timelines made by hand, and the same after they were written and read. */
#include "graph/report/timeline_read.h"
#include "tests/graph/report/made_timeline.h"

/* Returns the printed text, which the caller frees. */
static char *written(tdm_timeline *timeline, bool json) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&text, &bytes);
  assert_non_null(out);
  assert_int_equal(json ? tdm_timeline_json(timeline, out) : tdm_timeline_text(timeline, out),
                   TDM_OK);
  assert_int_equal(fclose(out), 0);
  return text;
}

static void the_text_says_what_is_added_up(void **unused) {
  (void)unused;
  test_timeline test;
  two_runs(&test);
  char *text = written(&test.timeline, false);
  assert_string_equal(
      text, "2 runs in 0.000 ms, 0.000 ms each\n"
            "  device     queue         busy      waiting     commands\n"
            "  cpu:0                  45.5 %\n"
            "             compute     45.5 %        0.0 %            2\n"
            "  sim:0                  75.0 %\n"
            "             compute     63.6 %       54.5 %            2\n"
            "             upload      22.7 %       45.5 %            2\n"
            "  some device is busy 100.0 % of the time, two or more are 20.5 %\n"
            "critical path: 4 commands, 0.000 ms\n"
            "  cpu:0      compute     22.7 %\n"
            "  sim:0      compute     63.6 %\n"
            "  sim:0      upload      11.4 %\n"
            "  handing over            2.3 %\n"
            "  the caller              0.0 %\n"
            "bound by sim:0 compute: 63.6 % of the critical path, most of it dense (linear) with "
            "63.6 %\n"
            "most time went to\n"
            "   48.3 %      0.000 ms       2 times  dense (linear), sim:0 compute\n"
            "   34.5 %      0.000 ms       2 times  words (embedding), cpu:0 compute\n"
            "   17.2 %      0.000 ms       2 times  words (transfer), sim:0 upload\n");
  free(text);
  tdm_timeline_deinit(&test.timeline);
}

/* Checks two transfers of 4000 bytes, in 100 ns. */
static void the_text_says_what_crossed_which_link(void **unused) {
  (void)unused;
  test_timeline test;
  two_runs(&test);
  tdm_timeline_node *move = &test.nodes[MOVE];
  move->route = "direct";
  move->from = "cpu:0";
  move->to = "sim:0";
  move->bytes = 4000;
  char *text = written(&test.timeline, false);
  assert_non_null(strstr(text, "what moved\n"
                               "  cpu:0      -> sim:0            8000 B in 2 transfers, "
                               "80.000 GB/s while they last\n"));
  free(text);
  tdm_timeline_deinit(&test.timeline);
}

/* A single transfer of duration 0: shares of nothing are not printed. */
static void the_text_says_what_took_no_time(void **unused) {
  (void)unused;
  test_timeline test;
  test_init(&test);
  tdm_timeline_node *move = &test.nodes[MOVE];
  move->route = "direct";
  move->from = "cpu:0";
  move->to = "sim:0";
  move->bytes = 40;
  add_run(&test, 1, 5, 6, 70);
  add_event(&test, 0, MOVE, 0, 50, 50);
  assert_int_equal(tdm_timeline_sort(&test.timeline), TDM_OK);
  char *text = written(&test.timeline, false);
  assert_string_equal(
      text, "1 run in 0.000 ms, 0.000 ms each\n"
            "  device     queue         busy      waiting     commands\n"
            "  cpu:0                   0.0 %\n"
            "             compute      0.0 %        0.0 %            0\n"
            "  sim:0                   0.0 %\n"
            "             compute      0.0 %        0.0 %            0\n"
            "             upload       0.0 %        0.0 %            1\n"
            "  some device is busy 0.0 % of the time, two or more are 0.0 %\n"
            "critical path: 1 commands, 0.000 ms\n"
            "  handing over            0.0 %\n"
            "  the caller              0.0 %\n"
            "most time went to\n"
            "    0.0 %      0.000 ms       1 times  words (transfer), sim:0 upload\n"
            "what moved\n"
            "  cpu:0      -> sim:0              40 B in 1 transfers, 0.000 GB/s while they last\n");
  free(text);
  tdm_timeline_deinit(&test.timeline);
}

/* The path has `busy` ns in one command, `handing` before another of no duration, and `caller`
 * before the second run is requested. */
static void expect_bound(uint64_t busy_ns, uint64_t handing_ns, uint64_t caller_ns,
                         const char *wanted) {
  test_timeline test;
  test_init(&test);
  const uint64_t end_ns = 100 + busy_ns, again_ns = end_ns + caller_ns;
  add_run(&test, 1, 1, 2, end_ns);
  add_run(&test, 2, again_ns, again_ns, again_ns + handing_ns + 1);
  add_event(&test, 0, WORDS, 0, 100, end_ns);
  add_event(&test, 1, WORDS, 0, again_ns + handing_ns, again_ns + handing_ns);
  assert_int_equal(tdm_timeline_sort(&test.timeline), TDM_OK);
  char *text = written(&test.timeline, false);
  if (!strstr(text, wanted)) fail_msg("\"%s\" is not in\n%s", wanted, text);
  free(text);
  tdm_timeline_deinit(&test.timeline);
}

/* The largest part of the path is the bound. If parts are equal, the queue's precedes handing over,
 * and that precedes the caller's. */
static void the_text_says_what_bounds(void **unused) {
  (void)unused;
  static const char queue[] = "\nbound by cpu:0 compute: ";
  static const char handing[] = "\nbound by handing over between commands; among the queues cpu:0";
  static const char caller[] =
      "\nbound by the caller, who requests runs late; among the queues cpu";
  expect_bound(30, 20, 10, queue);
  expect_bound(30, 10, 20, queue);
  expect_bound(30, 30, 30, queue);
  expect_bound(30, 30, 10, queue);
  expect_bound(30, 10, 30, queue);
  expect_bound(20, 30, 10, handing);
  expect_bound(20, 30, 30, handing);
  expect_bound(20, 30, 25, handing);
  expect_bound(20, 25, 30, caller);
  expect_bound(20, 10, 30, caller);
}

/* Checks 520 ns in commands, 80 between commands, and 150 by the caller. */
static void the_text_says_what_the_caller_takes(void **unused) {
  (void)unused;
  test_timeline test;
  late_run(&test);
  char *text = written(&test.timeline, false);
  assert_non_null(strstr(text, "  handing over           10.7 %\n"
                               "  the caller             20.0 %\n"
                               "bound by cpu:0 compute: 44.0 % of the critical path, most of it "
                               "words (embedding) with 40.0 %\n"));
  free(text);
  tdm_timeline_deinit(&test.timeline);
}

/* A timeline read from a file has the same report, in the same words. */
static void expect_the_same_of_a_file(test_timeline *test) {
  char *text = written(&test->timeline, false), *json = written(&test->timeline, true);
  json_t *root = json_loads(json, 0, NULL);
  assert_non_null(root);
  tdm_timeline read;
  assert_int_equal(tdm_timeline_read(root, "a file", &test->allocator, &read), TDM_OK);
  char *again = written(&read, false);
  assert_string_equal(again, text);
  free(again);
  tdm_timeline_deinit(&read);
  json_decref(root);
  free(json);
  free(text);
}

/* As two_runs, but each transfer of 50 ns took 10; sim:0 is on a core of cpu:0's. */
static void runs_that_wait_for_a_core(test_timeline *test) {
  two_runs(test);
  test->rows[CPU].shares = "sim:0";
  test->rows[SIM].shares = test->rows[UPLOAD].shares = "cpu:0";
  for (int i = 0; i < NODES; i++)
    test->nodes[i].category = i == MOVE ? "transfer" : "kernel";
  for (uint32_t i = 0; i < test->timeline.event_count; i++)
    if (test->events[i].node == MOVE) test->events[i].core_wait_ns = 40;
}

/* The wait counts as no link's time: neither as busy nor on the critical path. */
static void a_wait_for_a_core_is_no_transfer(void **unused) {
  (void)unused;
  test_timeline test;
  runs_that_wait_for_a_core(&test);
  char *text = written(&test.timeline, false);
  assert_string_equal(
      text, "2 runs in 0.000 ms, 0.000 ms each\n"
            "  device     queue         busy      waiting     commands\n"
            "  cpu:0                  45.5 %\n"
            "             compute     45.5 %        0.0 %            2\n"
            "  sim:0                  65.9 %\n"
            "             compute     63.6 %       54.5 %            2\n"
            "             upload       4.5 %       45.5 %            2\n"
            "  some device is busy 100.0 % of the time, two or more are 11.4 %\n"
            "  cpu:0 shares its cores with sim:0: its times include waiting for them\n"
            "  sim:0 shares its cores with cpu:0: its times include waiting for them\n"
            "critical path: 4 commands, 0.000 ms\n"
            "  cpu:0      compute     22.7 %\n"
            "  sim:0      compute     63.6 %\n"
            "  sim:0      upload       2.3 %\n"
            "  waiting for a core      9.1 %\n"
            "  handing over            2.3 %\n"
            "  the caller              0.0 %\n"
            "bound by sim:0 compute: 63.6 % of the critical path, most of it dense (linear) with "
            "63.6 %\n"
            "most time went to\n"
            "   56.0 %      0.000 ms       2 times  dense (linear), sim:0 compute\n"
            "   40.0 %      0.000 ms       2 times  words (embedding), cpu:0 compute\n"
            "    4.0 %      0.000 ms       2 times  words (transfer), sim:0 upload\n");
  free(text);
  expect_the_same_of_a_file(&test);
  tdm_timeline_deinit(&test.timeline);
}

/* Checks a path of one transfer that took 100 ns and waited wait_ns of them. */
static void expect_bound_by_core(uint64_t wait_ns, const char *wanted) {
  test_timeline test;
  test_init(&test);
  add_run(&test, 1, 1, 2, 200);
  add_event(&test, 0, MOVE, 0, 100, 200);
  test.events[0].core_wait_ns = wait_ns;
  assert_int_equal(tdm_timeline_sort(&test.timeline), TDM_OK);
  char *text = written(&test.timeline, false);
  if (!strstr(text, wanted)) fail_msg("\"%s\" is not in\n%s", wanted, text);
  free(text);
  tdm_timeline_deinit(&test.timeline);
}

static void the_text_says_whether_cores_bound(void **unused) {
  (void)unused;
  expect_bound_by_core(50, "\nbound by sim:0 upload: 50.0 %");
  expect_bound_by_core(51, "\nbound by copies that wait for a core; among the queues sim:0 upload");
}

/* Sets a number of the first wait of a written timeline, of its arguments or its own. */
static void expect_strange_wait(const char *key, bool of_arguments, json_int_t number) {
  test_timeline test;
  two_runs(&test);
  for (int i = 0; i < NODES; i++)
    test.nodes[i].category = "kernel";
  char *json = written(&test.timeline, true);
  json_t *root = json_loads(json, 0, NULL), *event;
  assert_non_null(root);
  size_t index;
  json_array_foreach(json_object_get(root, "traceEvents"), index, event) {
    const char *category = json_string_value(json_object_get(event, "cat"));
    if (!category || strcmp(category, "wait") != 0) continue;
    json_t *at = of_arguments ? json_object_get(event, "args") : event;
    assert_true(json_integer_value(json_object_get(at, key)) != number);
    json_object_set_new(at, key, json_integer(number));
    break;
  }
  tdm_timeline read;
  assert_int_equal(tdm_timeline_read(root, "a file", &test.allocator, &read), TDM_CORRUPT_DATA);
  assert_non_null(strstr(tdm_last_message(), "a wait that is not before its command"));
  tdm_timeline_deinit(&read);
  json_decref(root);
  free(json);
  tdm_timeline_deinit(&test.timeline);
}

/* A wait must precede its command, with the same run, number and queue. */
static void a_wait_of_another_command_is_refused(void **unused) {
  (void)unused;
  expect_strange_wait("before", true, STEP);
  expect_strange_wait("run", true, 8);
  expect_strange_wait("tid", false, 3);
}

/* The second run's words wait for the first one's dense; the first had nothing to wait for. */
static void a_file_knows_waits_for_the_run_before(void **unused) {
  (void)unused;
  static const uint32_t dense[] = {DENSE};
  test_timeline test;
  test_init(&test);
  for (int i = 0; i < NODES; i++)
    test.nodes[i].category = i == STEP ? "update" : "kernel";
  test.nodes[WORDS].previous_waits = dense;
  test.nodes[WORDS].previous_wait_count = 1;
  test.nodes[DENSE].dependencies = test.nodes[DENSE].waits = &node_numbers[WORDS];
  add_run(&test, 1, 0, 10, 410);
  add_run(&test, 2, 0, 30, 600);
  add_event(&test, 0, WORDS, 0, 100, 200);
  add_event(&test, 0, DENSE, 0, 260, 400);
  add_event(&test, 1, WORDS, 210, 420, 520);
  add_event(&test, 1, DENSE, 0, 530, 590);
  assert_int_equal(tdm_timeline_sort(&test.timeline), TDM_OK);
  expect_the_same_of_a_file(&test);
  tdm_timeline_deinit(&test.timeline);
}

/* Only the first run has a command that refreshes words. The second, whose step waits for the first
 * one's dense, has the same plan. */
static void a_file_knows_runs_of_one_plan(void **unused) {
  (void)unused;
  static const uint32_t dense[] = {DENSE};
  test_timeline test;
  test_init(&test);
  for (int i = 0; i < NODES; i++)
    test.nodes[i].category = "kernel";
  test.nodes[STEP].row = UPLOAD;
  test.nodes[STEP].last_phase = false;
  test.nodes[STEP].previous_waits = dense;
  test.nodes[STEP].previous_wait_count = 1;
  add_run(&test, 1, 0, 10, 410);
  add_run(&test, 2, 0, 30, 700);
  add_event(&test, 0, WORDS, 0, 100, 200);
  add_event(&test, 0, STEP, 0, 150, 160);
  add_event(&test, 0, DENSE, 0, 260, 400);
  add_event(&test, 1, STEP, 170, 430, 690);
  add_event(&test, 1, DENSE, 0, 500, 510);
  assert_int_equal(tdm_timeline_sort(&test.timeline), TDM_OK);
  expect_the_same_of_a_file(&test);
  tdm_timeline_deinit(&test.timeline);
}

/* Two runs whose plans are equal, or differ in a name, in the bytes of a transfer, in training, or
 * in a command that only the second has. */
static void a_file_tells_plans_apart(void **unused) {
  (void)unused;
  enum { ALIKE, NAME, BYTES, TRAINING, COMMAND, WAYS };
  for (int way = 0; way < WAYS; way++) {
    test_timeline test;
    test_init(&test);
    for (int i = 0; i < NODES; i++)
      test.nodes[i].category = "kernel";
    tdm_timeline_node *move = &test.nodes[MOVE];
    move->category = "transfer";
    move->route = "direct";
    move->from = "cpu:0";
    move->to = "sim:0";
    move->bytes = 40;
    tdm_timeline_node nodes[NODES];
    memcpy(nodes, test.nodes, sizeof nodes);
    if (way == NAME) nodes[WORDS].name = "other";
    if (way == BYTES) nodes[MOVE].bytes = 41;
    tdm_timeline_plan plans[2] = {test.plan, test.plan};
    plans[1].nodes = nodes;
    plans[1].training = way == TRAINING;
    test.timeline.plans = plans;
    test.timeline.plan_count = 2;
    add_run(&test, 1, 0, 10, 300);
    add_run(&test, 2, 0, 20, 600);
    test.runs[1].plan = 1;
    for (uint32_t run = 0; run < 2; run++) {
      add_event(&test, run, WORDS, 0, 100 + 300 * run, 200 + 300 * run);
      add_event(&test, run, MOVE, 0, 200 + 300 * run, 250 + 300 * run);
    }
    if (way == COMMAND) add_event(&test, 1, DENSE, 0, 550, 560);
    assert_int_equal(tdm_timeline_sort(&test.timeline), TDM_OK);
    char *json = written(&test.timeline, true);
    json_t *root = json_loads(json, 0, NULL);
    tdm_timeline read;
    assert_int_equal(tdm_timeline_read(root, "a file", &test.allocator, &read), TDM_OK);
    assert_int_equal(read.run_count, 2);
    assert_int_equal(read.runs[0].plan, 0);
    assert_int_equal(read.runs[1].plan, way == ALIKE ? 0 : 1);
    tdm_timeline_deinit(&read);
    json_decref(root);
    free(json);
    tdm_timeline_deinit(&test.timeline);
  }
}

/* Checks that an arrow begins a nanosecond before its command ends, and therefore inside the
 * command. */
static void arrows_begin_in_what_they_come_from(void **unused) {
  (void)unused;
  test_timeline test;
  two_runs(&test);
  char *text = written(&test.timeline, true);
  static const char *const begins[] = {"1,\"ts\":0.249}", "2,\"ts\":0.349}", "3,\"ts\":0.199}",
                                       "4,\"ts\":0.299}"};
  const char *at = text;
  for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++) {
    at = strstr(at, "{\"ph\":\"s\"");
    assert_non_null(at);
    const char *id = strstr(at, "\"id\":");
    assert_non_null(id);
    assert_memory_equal(id + strlen("\"id\":"), begins[i], strlen(begins[i]));
    at++;
  }
  assert_null(strstr(at, "{\"ph\":\"s\""));
  free(text);
  tdm_timeline_deinit(&test.timeline);
}

static void runs_tell_how_they_ended(void **unused) {
  (void)unused;
  static const char *const ends[] = {"\"ok\"", "\"nobody wants it\""};
  test_timeline test;
  two_runs(&test);
  for (size_t i = 0; i < 2; i++) {
    tdm_timeline_run *run = &test.timeline.runs[i];
    if (run->number != 8) continue;
    run->status = TDM_CANCELLED;
    run->message = "nobody wants it";
  }
  char *text = written(&test.timeline, true);
  for (size_t i = 0; i < 2; i++) {
    const char *run = strstr(text, i == 0 ? "\"run\":7,\"queued_us\"" : "\"run\":8,\"queued_us\"");
    assert_non_null(run);
    const char *status = strstr(run, "\"status\":");
    assert_non_null(status);
    assert_memory_equal(status + strlen("\"status\":"), ends[i], strlen(ends[i]));
  }
  free(text);
  tdm_timeline_deinit(&test.timeline);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_text_says_what_is_added_up),
      cmocka_unit_test(the_text_says_what_crossed_which_link),
      cmocka_unit_test(the_text_says_what_took_no_time),
      cmocka_unit_test(the_text_says_what_bounds),
      cmocka_unit_test(a_wait_for_a_core_is_no_transfer),
      cmocka_unit_test(the_text_says_whether_cores_bound),
      cmocka_unit_test(the_text_says_what_the_caller_takes),
      cmocka_unit_test(a_file_knows_waits_for_the_run_before),
      cmocka_unit_test(a_file_knows_runs_of_one_plan),
      cmocka_unit_test(a_file_tells_plans_apart),
      cmocka_unit_test(a_wait_of_another_command_is_refused),
      cmocka_unit_test(arrows_begin_in_what_they_come_from),
      cmocka_unit_test(runs_tell_how_they_ended),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
