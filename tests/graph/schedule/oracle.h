/* The properties that tdm_pass_verify guarantees, by brute force: the runs unrolled into a graph of
 * events, its transitive closure in bitsets, every pair of accesses compared. Shares no code with
 * the passes. */
#ifndef TANDEM_TESTS_GRAPH_SCHEDULE_ORACLE_H
#define TANDEM_TESTS_GRAPH_SCHEDULE_ORACLE_H

#include "graph/schedule/schedule.h"

typedef struct oracle_answer {
  bool valid;
  const char *why; /* static storage; NULL when valid */
} oracle_answer;

/* For schedules whose indices are in range. Aborts the test program when memory is short. */
oracle_answer oracle_judge(const tdm_schedule *schedule);

#endif
