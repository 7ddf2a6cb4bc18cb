/* Timelines put in order, added up, walked back along. Every number here is computed on paper from
 * the times of made_timeline.h. */
#include "tests/graph/report/made_timeline.h"
#include "tests/support/faulty_allocator.h"

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
  assert_int_equal(event_of(timeline, 1, MOVE)->wait_ns, 250); /* until the previous move ended */
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

/* The path back from a command contains both its reads and the waits of its queue. */
static void expect_path(bool reads, bool waits) {
  test_timeline test;
  two_runs(&test);
  for (int i = 0; i < NODES; i++) {
    if (!reads) test.nodes[i].dependency_count = 0;
    if (!waits) test.nodes[i].wait_count = 0;
  }
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

static void the_critical_path_goes_by_what_ended_last(void **unused) {
  (void)unused;
  expect_path(true, true);
  expect_path(true, false);
  expect_path(false, true);
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

/* Checks that nodes of one name and action are added up over all plans: "dense" in two plans, with
 * 100 ns each, is more than "words", with 150 in one. */
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

/* The required step of the previous run is on the path, only for the next run of the same plan. */
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
    assert_int_equal(path.count, number == 2 ? 4 : 2); /* otherwise only its row names the previous
                                                        * command */
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

/* The Nth allocation fails, for every N until none does. */
static void short_memory_is_told(void **unused) {
  (void)unused;
  tdm_faulty_allocator *faulty = tdm_faulty_allocator_create();
  FILE *nowhere = fopen("/dev/null", "w");
  assert_non_null(nowhere);
  static char name[1 << 16]; /* large, so that lists by name need an allocation of their own */
  memset(name, 'w', sizeof name - 1);
  for (uint64_t n = 1;; n++) {
    test_timeline test;
    test_init(&test);
    test.allocator = tdm_faulty_allocator_view(faulty);
    test.nodes[WORDS].name = name;
    add_run(&test, 8, 20, 30, 550);
    add_run(&test, 7, 0, 10, 410);
    add_event(&test, 0, WORDS, 0, 200, 300);
    add_event(&test, 1, WORDS, 0, 100, 200);
    tdm_faulty_allocator_arm(faulty, n, false);
    tdm_status status = tdm_timeline_sort(&test.timeline);
    if (status == TDM_OK) status = tdm_timeline_text(&test.timeline, nowhere);
    const bool failed = tdm_faulty_allocator_failures(faulty) > 0;
    assert_int_equal(status, failed ? TDM_OUT_OF_MEMORY : TDM_OK);
    tdm_timeline_deinit(&test.timeline);
    if (!failed) break;
  }
  (void)fclose(nowhere);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(faulty), 0);
  tdm_faulty_allocator_destroy(faulty);
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
      cmocka_unit_test(short_memory_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
