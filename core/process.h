/* State of the process as a whole: how often it was forked, and its lowest descriptors. Invariant:
 * forks are counted in the child, from the first tdm_process_watch on. */
#ifndef TANDEM_CORE_PROCESS_H
#define TANDEM_CORE_PROCESS_H

#include <stdatomic.h>

#include "tandem/core/core.h"

extern _Atomic uint32_t tdm_process_fork_count;

/* Starts counting forks; idempotent. Fails with OUT_OF_MEMORY if the system cannot register the
 * handler. */
tdm_status tdm_process_watch(void) TDM_WARN_UNUSED;
/* Returns a number that differs between a process and a child that inherited its memory by fork.
 * Any thread, no lock. */
static inline uint32_t tdm_process_generation(void) {
  return atomic_load_explicit(&tdm_process_fork_count, memory_order_relaxed);
}

/* Which of the descriptors 0, 1 and 2 were closed. */
typedef struct tdm_low_descriptors {
  int held[3];
  int count;
} tdm_low_descriptors;

/* Reserves the lowest descriptors: until release is called on the same thread, every file that is
 * opened gets a descriptor above 2. libuv would abort the process when it has to close a lower one.
 * Release closes again what was closed. One thread of the process holds at a time, recursively;
 * other threads wait. Other code that opens files briefly should also hold, so that its descriptors
 * are closed before another hold begins. Fails with UNAVAILABLE if /dev/null cannot be opened. */
tdm_status tdm_low_descriptors_hold(tdm_low_descriptors *out_held) TDM_WARN_UNUSED;
void tdm_low_descriptors_release(tdm_low_descriptors *held);
/* Fails with UNAVAILABLE unless `count` more files, at most 8, can be opened now. libuv aborts the
 * process if its first loop finds fewer than 3. */
tdm_status tdm_descriptors_check(int count) TDM_WARN_UNUSED;

#endif
