/* A lower bound for any placement: the heaviest set of an arena's storages of which no two may
 * share bytes, sizes rounded up to 64. Computed from the waits in two ways that share only the
 * relation. */
#ifndef TANDEM_TESTS_GRAPH_SCHEDULE_HEAVIEST_SET_H
#define TANDEM_TESTS_GRAPH_SCHEDULE_HEAVIEST_SET_H

#include "graph/schedule/schedule.h"

/* The order of an arena's storages: whether one ends before another begins. */
struct sharing {
  uint32_t count;
  uint64_t *bytes; /* (count) */
  bool *before;    /* (count, count): [a, b] all accesses of a happen before the first of b */
};

/* Abort the test program when memory is short. */
struct sharing sharing_of(const tdm_schedule *schedule, uint32_t arena);
void sharing_release(struct sharing *sharing);

/* By Dilworth's theorem with weights: the heaviest antichain equals the least flow that covers
 * every storage with chains. Any size. */
uint64_t heaviest_set_by_flow(const struct sharing *sharing);
/* Computes the same by branch and bound. For up to about 40 storages. */
uint64_t heaviest_set_by_search(const struct sharing *sharing);

#endif
