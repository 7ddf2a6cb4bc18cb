/* Waiting for a word to change: spin a little, then park on a futex. Doorbells wake parked threads
 * without a lock. Invariant: a thread never sleeps past a ring that came after it read the bell. */
#ifndef TANDEM_CORE_PARK_H
#define TANDEM_CORE_PARK_H

#include <stdatomic.h>

#include "tandem/core/core.h"

typedef struct tdm_doorbell {
  _Atomic uint32_t rings;
  _Atomic uint32_t sleepers;
} tdm_doorbell;

/* Wakes every thread parked on the bell; a few ns when nobody is. Any thread. A ring reads the bell
 * after what it announces is visible, so the bell outlives the thread that rings, not just the
 * wait. */
void tdm_doorbell_ring(tdm_doorbell *bell);
/* Reads the bell; pass the answer to tdm_doorbell_park after checking the condition once more. */
uint32_t tdm_doorbell_read(tdm_doorbell *bell);
/* Sleeps until the bell is rung after `seen` was read, or timeout_ns passed (< 0: no limit). */
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
