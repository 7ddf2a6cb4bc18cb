/* Lends the context's bells. Invariant: each bell except the last has one holder. The last one is
 * shared, so its holders may be woken needlessly, but never miss a ring. */
#include "devices/context/context_state.h"

enum { SHARED_BELL = TDM_MAX_WAITERS - 1 };

uint32_t tdm_context_bell_acquire(tdm_context *context) {
  uint64_t taken = atomic_load_explicit(&context->bells_taken, memory_order_relaxed);
  for (;;) {
    const uint64_t free_bells = ~taken & ~((uint64_t)1 << SHARED_BELL);
    if (free_bells == 0) return SHARED_BELL;
    const uint32_t bell = (uint32_t)__builtin_ctzll(free_bells);
    if (atomic_compare_exchange_weak_explicit(&context->bells_taken, &taken,
                                              taken | (uint64_t)1 << bell, memory_order_acq_rel,
                                              memory_order_relaxed)) {
      return bell;
    }
  }
}

void tdm_context_bell_release(tdm_context *context, uint32_t bell) {
  if (bell == SHARED_BELL) return;
  atomic_fetch_and_explicit(&context->bells_taken, ~((uint64_t)1 << bell), memory_order_acq_rel);
}

tdm_doorbell *tdm_context_bell(tdm_context *context, uint32_t bell) {
  return &context->bells[bell].bell;
}

tdm_oversubscription *tdm_context_oversubscription(tdm_context *context) {
  return &context->oversubscription;
}
