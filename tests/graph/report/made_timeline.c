/* See made_timeline.h. */
#include "tests/graph/report/made_timeline.h"

const uint32_t node_numbers[] = {WORDS, MOVE, DENSE};

void add_event(test_timeline *test, uint32_t run, uint32_t node, uint64_t wait_ns,
               uint64_t begin_ns, uint64_t end_ns) {
  test->events[test->timeline.event_count++] = (tdm_timeline_event){.run = run,
                                                                    .node = node,
                                                                    .row = test->nodes[node].row,
                                                                    .wait_ns = wait_ns,
                                                                    .begin_ns = begin_ns,
                                                                    .end_ns = end_ns};
}

void add_run(test_timeline *test, uint64_t number, uint64_t asked_ns, uint64_t launched_ns,
             uint64_t ended_ns) {
  test->runs[test->timeline.run_count++] = (tdm_timeline_run){.number = number,
                                                              .asked_ns = asked_ns,
                                                              .launched_ns = launched_ns,
                                                              .ended_ns = ended_ns,
                                                              .message = ""};
}

void test_init(test_timeline *test) {
  memset(test, 0, sizeof *test);
  test->allocator = tdm_allocator_default();
  tdm_timeline_init(&test->timeline, &test->allocator);
  test->rows[CPU] = (tdm_timeline_row){.device = "cpu:0", .queue = "compute"};
  test->rows[SIM] =
      (tdm_timeline_row){.device = "sim:0", .queue = "compute", .process = 1, .thread = 1};
  test->rows[UPLOAD] =
      (tdm_timeline_row){.device = "sim:0", .queue = "upload", .process = 1, .thread = 2};
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

void two_runs(test_timeline *test) {
  test_init(test);
  add_run(test, 8, 20, 30, 550); /* the second */
  add_run(test, 7, 0, 10, 410);
  add_event(test, 0, DENSE, 250, 400, 540); /* its queue was busy during the wait */
  add_event(test, 1, DENSE, 20, 260, 400);
  add_event(test, 0, MOVE, 240, 300, 350); /* was to wait before the previous move had ended */
  add_event(test, 0, WORDS, 0, 200, 300);
  add_event(test, 1, MOVE, 50, 200, 250);
  add_event(test, 1, WORDS, 0, 100, 200);
  assert_int_equal(tdm_timeline_sort(&test->timeline), TDM_OK);
}

void late_run(test_timeline *made) {
  test_init(made);
  add_run(made, 1, 0, 10, 460);
  add_run(made, 2, 600, 620, 900);
  made->runs[0].updating_ns = 410;
  add_event(made, 0, WORDS, 0, 100, 200);
  add_event(made, 0, MOVE, 0, 200, 250);
  add_event(made, 0, DENSE, 0, 260, 400);
  add_event(made, 0, STEP, 0, 420, 450); /* follows dense, although it is not recorded as a reader
                                          * of it */
  add_event(made, 1, WORDS, 0, 650, 850);
  assert_int_equal(tdm_timeline_sort(&made->timeline), TDM_OK);
}
