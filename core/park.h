/* Waits for a word to change: spins a little, then parks on a futex. Doorbells wake parked threads
 * without a lock. Invariant: a thread never sleeps through a ring that came after it read the
 * bell. */
#ifndef TANDEM_CORE_PARK_H
#define TANDEM_CORE_PARK_H

#include <stdatomic.h>

#include "tandem/core/core.h"

typedef struct tdm_doorbell {
  _Atomic uint32_t rings;
  _Atomic uint32_t sleepers;
} tdm_doorbell;

/* Wakes every thread parked on the bell, in a few ns if there is none. Any thread. A ring reads the
 * bell after the announced change is visible, so the bell has to outlive the ringing thread and not
 * only the wait. */
void tdm_doorbell_ring(tdm_doorbell *bell);
/* Reads the bell. Check the condition once more, then pass the result to tdm_doorbell_park. */
uint32_t tdm_doorbell_read(tdm_doorbell *bell);
/* Sleeps until the bell is rung after `seen` was read, or until timeout_ns has passed (< 0: no
 * limit). */
void tdm_doorbell_park(tdm_doorbell *bell, uint32_t seen, int64_t timeout_ns);

uint64_t tdm_time_ns(void); /* CLOCK_MONOTONIC */
static inline void tdm_spin_pause(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

#endif
