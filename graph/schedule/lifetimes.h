/* The time in which ARENA storage is in use: from its first access to its ends, the accesses that
 * no later one follows. Shared by the algorithms that place it. Invariant: one storage may use the
 * bytes of another if and only if each end of the other has happened before each beginning of its
 * own. Parts have no lifetime of their own. Their whole lives from the first writes of its parts,
 * which may be concurrent, to the last access of any part. */
#ifndef TANDEM_GRAPH_SCHEDULE_LIFETIMES_H
#define TANDEM_GRAPH_SCHEDULE_LIFETIMES_H

#include "graph/schedule/clocks.h"

#define TDM_ARENA_ALIGNMENT ((uint64_t)64)

/* Steps of which none happens before another. */
typedef struct tdm_ends {
  uint32_t step;
  uint32_t more; /* index + 1 in further; 0: no more */
} tdm_ends;

typedef struct tdm_lifetime {
  uint64_t bytes; /* a multiple of 64; 0: not in an arena, or never accessed */
  uint32_t first; /* steps, in plan order */
  uint32_t last;
  tdm_ends begins; /* accesses without an earlier one; first is one of them */
  tdm_ends ends;
} tdm_lifetime;

typedef struct tdm_lifetimes {
  const tdm_schedule *schedule;
  tdm_clocks clocks;
  tdm_lifetime *items; /* (storage_count) */
  size_t count;
  tdm_ends *further; /* lists of the beginnings and ends after the first */
  size_t further_count, further_capacity;
} tdm_lifetimes;

/* Computes lifetimes from the accesses and waits of the schedule. After a failure deinit is legal
 * and required. Fails with OUT_OF_MEMORY, or with INVALID_ARGUMENT if bytes do not fit 64 bits. */
tdm_status tdm_lifetimes_init(tdm_lifetimes *lifetimes,
                              const tdm_schedule *schedule) TDM_WARN_UNUSED;
void tdm_lifetimes_deinit(tdm_lifetimes *lifetimes);

/* Returns the storage that is placed for this one: itself, or its whole. */
static inline uint32_t tdm_storage_placed(const tdm_schedule *schedule, uint32_t storage) {
  const uint32_t whole = schedule->storages[storage].whole;
  return whole == 0 ? storage : whole - 1;
}

/* Returns true if all of ends have happened before step begins. */
static inline bool tdm_ends_before(const tdm_lifetimes *lifetimes, tdm_ends ends, uint32_t step) {
  while (tdm_clocks_before(&lifetimes->clocks, ends.step, step)) {
    if (ends.more == 0) return true;
    ends = lifetimes->further[ends.more - 1];
  }
  return false;
}

/* Returns true if all of ends have happened before all beginnings of the other lifetime. */
static inline bool tdm_ends_before_life(const tdm_lifetimes *lifetimes, tdm_ends ends,
                                        const tdm_lifetime *later) {
  tdm_ends begins = later->begins;
  while (tdm_ends_before(lifetimes, ends, begins.step)) {
    if (begins.more == 0) return true;
    begins = lifetimes->further[begins.more - 1];
  }
  return false;
}

/* Returns true if each of earlier is one of later or has happened before one, so that a step after
 * later is after both. */
bool tdm_ends_covered(const tdm_lifetimes *lifetimes, tdm_ends earlier, tdm_ends later);

#endif
