/* Timelines made by hand, whose numbers tests compute on paper. */
#ifndef TANDEM_TESTS_GRAPH_REPORT_MADE_TIMELINE_H
#define TANDEM_TESTS_GRAPH_REPORT_MADE_TIMELINE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/report/timeline.h"

enum { CPU, SIM, UPLOAD, ROWS };          /* rows */
enum { WORDS, MOVE, DENSE, STEP, NODES }; /* nodes */

extern const uint32_t node_numbers[]; /* each at its own place, to be pointed at */

typedef struct test_timeline {
  tdm_allocator allocator;
  tdm_timeline timeline;
  tdm_timeline_row rows[ROWS];
  tdm_timeline_node nodes[NODES];
  tdm_timeline_plan plan;
  tdm_timeline_run runs[3];
  tdm_timeline_event events[16];
} test_timeline;

void add_event(test_timeline *test, uint32_t run, uint32_t node, uint64_t wait_ns,
               uint64_t begin_ns, uint64_t end_ns);
void add_run(test_timeline *test, uint64_t number, uint64_t asked_ns, uint64_t launched_ns,
             uint64_t ended_ns);

/* words on cpu:0 -> move on sim:0's upload queue -> dense on sim:0; step: an update there. */
void test_init(test_timeline *test);

/* Two runs in flight, given in no order:
 *   cpu:0   words1 100-200, words2 200-300
 *   upload  move1 200-250, move2 300-350
 *   sim:0   dense1 260-400, dense2 400-540 */
void two_runs(test_timeline *test);

/* One run after the other, the second requested late. The first has an update phase. */
void late_run(test_timeline *made);

#endif
