/* What belongs to the process as a whole: how often it was forked, and its lowest descriptors.
 * Invariant: the number of forks is counted from the first tdm_process_watch on, in the child. */
#ifndef TANDEM_CORE_PROCESS_H
#define TANDEM_CORE_PROCESS_H

#include <stdatomic.h>

#include "tandem/core/core.h"

extern _Atomic uint32_t tdm_process_fork_count;

/* From now on forks are counted; idempotent. OUT_OF_MEMORY where the system has no room for it. */
tdm_status tdm_process_watch(void) TDM_WARN_UNUSED;
/* Differs between a process and one that inherited its memory by fork. Any thread, no lock. */
static inline uint32_t tdm_process_generation(void) {
  return atomic_load_explicit(&tdm_process_fork_count, memory_order_relaxed);
}

/* Descriptors 0, 1 and 2, where they were closed. */
typedef struct tdm_low_descriptors {
  int held[3];
  int count;
} tdm_low_descriptors;

/* Until release is called, on the same thread, whatever is opened gets a descriptor above 2: libuv
 * ends the process when it is to close another. What was closed is closed again then. One thread of
 * the process at a time, again if it wants: the others wait. Whatever else opens files for a moment
 * should do so between these two as well: what it has when they begin is free before they end.
 * UNAVAILABLE where /dev/null cannot be opened. */
tdm_status tdm_low_descriptors_hold(tdm_low_descriptors *out_held) TDM_WARN_UNUSED;
void tdm_low_descriptors_release(tdm_low_descriptors *held);
/* UNAVAILABLE unless so many files more, 8 at most, can be opened now: libuv ends the process where
 * its first loop finds less than 3. */
tdm_status tdm_descriptors_check(int count) TDM_WARN_UNUSED;

#endif
