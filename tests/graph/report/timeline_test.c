/* Timelines made by hand: put in order, added up, walked back along. Every number here is computed
 * on paper from the times in `two_runs`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/report/timeline_read.h"

enum { CPU, SIM, UPLOAD, ROWS };          /* rows */
enum { WORDS, MOVE, DENSE, STEP, NODES }; /* nodes */

static const uint32_t node_numbers[] = {WORDS, MOVE, DENSE};

typedef struct test_timeline {
  tdm_allocator allocator;
  tdm_timeline timeline;
  tdm_timeline_row rows[ROWS];
  tdm_timeline_node nodes[NODES];
  tdm_timeline_plan plan;
  tdm_timeline_run runs[3];
  tdm_timeline_event events[16];
} test_timeline;

static void add_event(test_timeline *test, uint32_t run, uint32_t node, uint64_t wait_ns,
                      uint64_t begin_ns, uint64_t end_ns) {
  test->events[test->timeline.event_count++] = (tdm_timeline_event){.run = run,
                                                                    .node = node,
                                                                    .row = test->nodes[node].row,
                                                                    .wait_ns = wait_ns,
                                                                    .begin_ns = begin_ns,
                                                                    .end_ns = end_ns};
}

static void add_run(test_timeline *test, uint64_t number, uint64_t asked_ns, uint64_t launched_ns,
                    uint64_t ended_ns) {
  test->runs[test->timeline.run_count++] = (tdm_timeline_run){.number = number,
                                                              .asked_ns = asked_ns,
                                                              .launched_ns = launched_ns,
                                                              .ended_ns = ended_ns,
                                                              .message = ""};
}

/* words on cpu:0 -> move on sim:0's upload queue -> dense on sim:0; step: an update there. */
static void test_init(test_timeline *test) {
  memset(test, 0, sizeof *test);
  test->allocator = tdm_allocator_default();
  tdm_timeline_init(&test->timeline, &test->allocator);
  test->rows[CPU] = (tdm_timeline_row){"cpu:0", "compute", 0, 0};
  test->rows[SIM] = (tdm_timeline_row){"sim:0", "compute", 1, 1};
  test->rows[UPLOAD] = (tdm_timeline_row){"sim:0", "upload", 1, 2};
  test->nodes[WORDS] = (tdm_timeline_node){.name = "words", .action = "embedding", .row = CPU};
  test->nodes[MOVE] = (tdm_timeline_node){.name = "words",
                                          .action = "transfer",
                                          .row = UPLOAD,
                                          .dependency_count = 1,
                                          .dependencies = &node_numbers[WORDS],
                                          .wait_count = 1,
                                          .waits = &node_numbers[WORDS]};
  test->nodes[DENSE] = (tdm_timeline_node){.name = "dense",
                                           .action = "linear",
                                           .row = SIM,
                                           .dependency_count = 1,
                                           .dependencies = &node_numbers[MOVE],
                                           .wait_count = 1,
                                           .waits = &node_numbers[MOVE]};
  test->nodes[STEP] =
      (tdm_timeline_node){.name = "dense", .action = "sgd", .row = CPU, .last_phase = true};
  test->plan = (tdm_timeline_plan){.node_count = NODES, .nodes = test->nodes};
  tdm_timeline *timeline = &test->timeline;
  timeline->device_count = 2;
  timeline->rows = test->rows;
  timeline->row_count = ROWS;
  timeline->plans = &test->plan;
  timeline->plan_count = 1;
  timeline->runs = test->runs;
  timeline->events = test->events;
}

/* Two runs in flight, given in no order:
 *   cpu:0   words1 100-200, words2 200-300
 *   upload  move1 200-250, move2 300-350
 *   sim:0   dense1 260-400, dense2 400-540 */
static void two_runs(test_timeline *test) {
  test_init(test);
  add_run(test, 8, 20, 30, 550); /* the second */
  add_run(test, 7, 0, 10, 410);
  add_event(test, 0, DENSE, 250, 400, 540); /* its queue was busy all that time */
  add_event(test, 1, DENSE, 20, 260, 400);
  add_event(test, 0, MOVE, 240, 300, 350); /* told to wait before the move ahead had ended */
  add_event(test, 0, WORDS, 0, 200, 300);
  add_event(test, 1, MOVE, 50, 200, 250);
  add_event(test, 1, WORDS, 0, 100, 200);
  assert_int_equal(tdm_timeline_sort(&test->timeline), TDM_OK);
}

static const tdm_timeline_event *event_of(const tdm_timeline *timeline, uint32_t run,
                                          uint32_t node) {
  return &timeline->events[timeline->runs[run].event_of[node]];
}

static void a_sorted_timeline_is_in_order(void **unused) {
  (void)unused;
  test_timeline test;
  two_runs(&test);
  const tdm_timeline *timeline = &test.timeline;
  assert_int_equal(timeline->runs[0].number, 7);
  assert_int_equal(timeline->runs[1].number, 8);
  for (uint32_t i = 1; i < timeline->event_count; i++) {
    const tdm_timeline_event *before = &timeline->events[i - 1];
    const tdm_timeline_event *event = &timeline->events[i];
    assert_true(before->row < event->row || before->end_ns <= event->begin_ns);
  }
  assert_int_equal(event_of(timeline, 0, DENSE)->begin_ns, 260);
  assert_int_equal(event_of(timeline, 1, DENSE)->begin_ns, 400);
  assert_int_equal(timeline->runs[0].event_of[STEP], TDM_TIMELINE_NONE);
  assert_int_equal(event_of(timeline, 0, DENSE)->wait_ns, 20);
  assert_int_equal(event_of(timeline, 1, MOVE)->wait_ns, 250); /* where the move ahead ended */
  assert_int_equal(event_of(timeline, 1, DENSE)->wait_ns, 0);
  tdm_timeline_deinit(&test.timeline);
}

static void the_summary_adds_up(void **unused) {
  (void)unused;
  test_timeline test;
  two_runs(&test);
  tdm_timeline_summary summary;
  assert_int_equal(tdm_timeline_summarize(&test.timeline, &summary), TDM_OK);
  assert_int_equal(summary.begin_ns, 100);
  assert_int_equal(summary.end_ns, 540);
  assert_int_equal(summary.row_busy[CPU], 200);
  assert_int_equal(summary.row_busy[SIM], 280);
  assert_int_equal(summary.row_busy[UPLOAD], 100);
  assert_int_equal(summary.row_wait[SIM], 240);
  assert_int_equal(summary.row_wait[UPLOAD], 150 + 50);
  assert_int_equal(summary.row_events[UPLOAD], 2);
  assert_int_equal(summary.device_busy[0], 200);
  assert_int_equal(summary.device_busy[1], 50 + 280); /* move2 under dense1 counts once */
  assert_int_equal(summary.any_busy, 440);
  assert_int_equal(summary.overlap, 50 + 40); /* 200-250 and 260-300 */
  tdm_timeline_deinit(&test.timeline);
}

static void the_critical_path_goes_by_what_ended_last(void **unused) {
  (void)unused;
  test_timeline test;
  two_runs(&test);
  tdm_timeline_summary summary;
  assert_int_equal(tdm_timeline_summarize(&test.timeline, &summary), TDM_OK);
  const tdm_timeline *timeline = &test.timeline;
  const tdm_timeline_event *wanted[] = {event_of(timeline, 0, WORDS), event_of(timeline, 0, MOVE),
                                        event_of(timeline, 0, DENSE), event_of(timeline, 1, DENSE)};
  assert_int_equal(summary.path.count, 4);
  for (uint32_t i = 0; i < 4; i++)
    assert_ptr_equal(&timeline->events[summary.path.events[i]], wanted[i]);
  assert_int_equal(summary.path.busy_ns, 100 + 50 + 140 + 140);
  assert_int_equal(summary.path.handing_ns, 10);
  assert_int_equal(summary.path.caller_ns, 0);
  assert_int_equal(summary.row_path[CPU], 100);
  assert_int_equal(summary.row_path[UPLOAD], 50);
  assert_int_equal(summary.row_path[SIM], 280);
  assert_int_equal(summary.bound_row, SIM);
  assert_int_equal(summary.bound_node, DENSE);
  assert_int_equal(summary.bound_node_ns, 280);
  tdm_timeline_deinit(&test.timeline);
}

/* One run after the other, the second asked for late; the first with an update phase. */
static void late_run(test_timeline *made) {
  test_init(made);
  add_run(made, 1, 0, 10, 460);
  add_run(made, 2, 600, 620, 900);
  made->runs[0].updating_ns = 410;
  add_event(made, 0, WORDS, 0, 100, 200);
  add_event(made, 0, MOVE, 0, 200, 250);
  add_event(made, 0, DENSE, 0, 260, 400);
  add_event(made, 0, STEP, 0, 420, 450); /* after dense, though nothing says that it reads it */
  add_event(made, 1, WORDS, 0, 650, 850);
  assert_int_equal(tdm_timeline_sort(&made->timeline), TDM_OK);
}

static void the_caller_and_the_last_phase_are_on_the_path(void **unused) {
  (void)unused;
  test_timeline test;
  late_run(&test);
  tdm_timeline_summary summary;
  assert_int_equal(tdm_timeline_summarize(&test.timeline, &summary), TDM_OK);
  assert_int_equal(summary.path.count, 5);
  assert_int_equal(summary.path.caller_ns, 150);           /* 450-600 */
  assert_int_equal(summary.path.handing_ns, 10 + 20 + 50); /* move, step, words2 */
  assert_int_equal(summary.path.busy_ns, 100 + 50 + 140 + 30 + 200);
  assert_int_equal(summary.bound_row, CPU);
  tdm_timeline_deinit(&test.timeline);
}

/* Nodes of one name and action count together, whatever plan they are of: "dense" in two plans,
 * with 100 ns each, is more than "words", with 150 in one. */
static void what_bounds_is_added_up_over_plans(void **unused) {
  (void)unused;
  test_timeline test;
  test_init(&test);
  tdm_timeline_plan plans[2] = {test.plan, test.plan};
  test.timeline.plans = plans;
  test.timeline.plan_count = 2;
  for (int i = 0; i < NODES; i++)
    test.nodes[i].row = CPU;
  add_run(&test, 1, 0, 10, 300);
  add_run(&test, 2, 0, 20, 500);
  test.runs[1].plan = 1;
  add_event(&test, 0, DENSE, 0, 100, 200);
  add_event(&test, 1, WORDS, 0, 200, 350);
  add_event(&test, 1, DENSE, 0, 350, 450);
  assert_int_equal(tdm_timeline_sort(&test.timeline), TDM_OK);
  tdm_timeline_summary summary;
  assert_int_equal(tdm_timeline_summarize(&test.timeline, &summary), TDM_OK);
  assert_int_equal(summary.path.count, 3);
  assert_int_equal(summary.bound_node, DENSE);
  assert_int_equal(summary.bound_node_ns, 200);
  tdm_timeline_deinit(&test.timeline);
}

/* What the run before has to have done is on the path, of its own plan's next run only. */
static void waits_for_the_run_before_are_on_the_path(void **unused) {
  (void)unused;
  static const uint32_t dense[] = {DENSE};
  for (uint64_t number = 2; number <= 3; number++) {
    test_timeline test;
    test_init(&test);
    test.nodes[WORDS].previous_waits = dense;
    test.nodes[WORDS].previous_wait_count = 1;
    add_run(&test, 1, 0, 10, 410);
    add_run(&test, number, 0, 30, 600);
    add_event(&test, 0, WORDS, 0, 100, 200);
    add_event(&test, 0, MOVE, 0, 200, 250);
    add_event(&test, 0, DENSE, 0, 260, 400);
    add_event(&test, 1, WORDS, 0, 420, 520);
    assert_int_equal(tdm_timeline_sort(&test.timeline), TDM_OK);
    tdm_timeline_path path;
    assert_int_equal(tdm_timeline_find_path(&test.timeline, &path), TDM_OK);
    assert_int_equal(path.count, number == 2 ? 4 : 2); /* else only its row says what is before */
    assert_int_equal(path.handing_ns, number == 2 ? 10 + 20 : 220);
    tdm_timeline_deinit(&test.timeline);
  }
}

static void a_nanosecond_counts(void **unused) {
  (void)unused;
  test_timeline test;
  test_init(&test);
  add_run(&test, 1, 5, 6, 20);
  add_event(&test, 0, WORDS, 0, 10, 12);
  add_event(&test, 0, DENSE, 0, 11, 13);
  assert_int_equal(tdm_timeline_sort(&test.timeline), TDM_OK);
  tdm_timeline_summary summary;
  assert_int_equal(tdm_timeline_summarize(&test.timeline, &summary), TDM_OK);
  assert_int_equal(summary.any_busy, 3);
  assert_int_equal(summary.overlap, 1);
  tdm_timeline_deinit(&test.timeline);
}

static void nothing_executed_is_no_time(void **unused) {
  (void)unused;
  test_timeline test;
  test_init(&test);
  add_run(&test, 1, 5, 6, 7);
  test.runs[0].status = TDM_CANCELLED;
  assert_int_equal(tdm_timeline_sort(&test.timeline), TDM_OK);
  tdm_timeline_summary summary;
  assert_int_equal(tdm_timeline_summarize(&test.timeline, &summary), TDM_OK);
  assert_int_equal(summary.begin_ns, 0);
  assert_int_equal(summary.end_ns, 0);
  assert_int_equal(summary.failed_runs, 1);
  assert_int_equal(summary.path.count, 0);
  assert_int_equal(summary.bound_row, TDM_TIMELINE_NONE);
  tdm_timeline_deinit(&test.timeline);
}

/* ---- Printing ---- */

/* What a printer writes; the caller frees. */
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

/* Two transfers of 4000 bytes, in 100 ns. */
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

/* 520 ns in commands, 80 handing over, 150 by the caller. */
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

/* What is read of a file amounts to the same, in the same words. */
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

/* Words are a copy that the first run alone has refreshed: the second, whose step waits for the
 * first one's dense, is of the same plan. */
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

/* A nanosecond before a command ends an arrow still begins in it. */
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
      cmocka_unit_test(a_sorted_timeline_is_in_order),
      cmocka_unit_test(the_summary_adds_up),
      cmocka_unit_test(the_critical_path_goes_by_what_ended_last),
      cmocka_unit_test(the_caller_and_the_last_phase_are_on_the_path),
      cmocka_unit_test(what_bounds_is_added_up_over_plans),
      cmocka_unit_test(waits_for_the_run_before_are_on_the_path),
      cmocka_unit_test(a_nanosecond_counts),
      cmocka_unit_test(nothing_executed_is_no_time),
      cmocka_unit_test(the_text_says_what_is_added_up),
      cmocka_unit_test(the_text_says_what_crossed_which_link),
      cmocka_unit_test(the_text_says_what_the_caller_takes),
      cmocka_unit_test(a_file_knows_waits_for_the_run_before),
      cmocka_unit_test(a_file_knows_runs_of_one_plan),
      cmocka_unit_test(arrows_begin_in_what_they_come_from),
      cmocka_unit_test(runs_tell_how_they_ended),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
