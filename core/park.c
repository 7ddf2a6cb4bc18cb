/* Parks threads on a futex. The ringer publishes its change, counts the ring, and checks for
 * sleepers. A sleeper announces itself, and the kernel compares the ring count before it sleeps.
 * Invariant: both counts are sequentially consistent, so at least one of the two sees the other. */
#include "core/park.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(_Atomic uint32_t) == sizeof(uint32_t), "a futex word is 32 plain bits");

uint64_t tdm_time_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void tdm_doorbell_ring(tdm_doorbell *bell) {
  atomic_fetch_add_explicit(&bell->rings, 1, memory_order_seq_cst);
  if (atomic_load_explicit(&bell->sleepers, memory_order_seq_cst) == 0) return;
  (void)syscall(SYS_futex, &bell->rings, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

uint32_t tdm_doorbell_read(tdm_doorbell *bell) {
  return atomic_load_explicit(&bell->rings, memory_order_seq_cst);
}

void tdm_doorbell_park(tdm_doorbell *bell, uint32_t seen, int64_t timeout_ns) {
  /* FUTEX_WAIT_BITSET takes a deadline on CLOCK_MONOTONIC, so an interruption does not lengthen the
   * sleep. */
  struct timespec deadline;
  if (timeout_ns >= 0) {
    const uint64_t end = tdm_time_ns() + (uint64_t)timeout_ns;
    deadline.tv_sec = (time_t)(end / 1000000000u);
    deadline.tv_nsec = (long)(end % 1000000000u);
  }
  atomic_fetch_add_explicit(&bell->sleepers, 1, memory_order_seq_cst);
  while (atomic_load_explicit(&bell->rings, memory_order_seq_cst) == seen) {
    const long code = syscall(SYS_futex, &bell->rings, FUTEX_WAIT_BITSET_PRIVATE, seen,
                              timeout_ns >= 0 ? &deadline : NULL, NULL, FUTEX_BITSET_MATCH_ANY);
    if (code != 0 && errno != EINTR && errno != EAGAIN) break; /* ETIMEDOUT */
  }
  atomic_fetch_sub_explicit(&bell->sleepers, 1, memory_order_seq_cst);
}
