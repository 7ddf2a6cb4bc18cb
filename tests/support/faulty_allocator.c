/* The allocator of the failure sweeps. Invariant: the outstanding bytes are those allocated minus
 * those released, so a release with a size other than that of its allocation is visible. */
#include "tests/support/faulty_allocator.h"

#include <stdatomic.h>
#include <stdlib.h>

struct tdm_faulty_allocator {
  tdm_allocator under;
  _Atomic uint64_t calls;
  _Atomic uint64_t failures;
  _Atomic uint64_t fail_at; /* 0: never fails */
  _Atomic bool from_on;
  _Atomic int64_t outstanding_bytes;
  _Atomic int64_t peak_bytes;
};

static void *allocate_faulty(void *user, size_t bytes, size_t alignment) {
  tdm_faulty_allocator *faulty = user;
  const uint64_t call = atomic_fetch_add(&faulty->calls, 1) + 1;
  const uint64_t fail_at = atomic_load(&faulty->fail_at);
  const bool from_on = atomic_load(&faulty->from_on);
  if (fail_at != 0 && (call == fail_at || (from_on && call > fail_at))) {
    atomic_fetch_add(&faulty->failures, 1);
    return NULL;
  }
  void *memory = faulty->under.allocate(faulty->under.user, bytes, alignment);
  if (!memory) return NULL;
  const int64_t now = atomic_fetch_add(&faulty->outstanding_bytes, (int64_t)bytes) + (int64_t)bytes;
  int64_t peak = atomic_load(&faulty->peak_bytes);
  while (now > peak && !atomic_compare_exchange_weak(&faulty->peak_bytes, &peak, now)) {
  }
  return memory;
}

static void release_faulty(void *user, void *memory, size_t bytes) {
  tdm_faulty_allocator *faulty = user;
  if (!memory) return;
  faulty->under.release(faulty->under.user, memory, bytes);
  /* This is last, because a caller that sees nothing outstanding may destroy the allocator. */
  atomic_fetch_sub(&faulty->outstanding_bytes, (int64_t)bytes);
}

tdm_faulty_allocator *tdm_faulty_allocator_create(void) {
  tdm_faulty_allocator *faulty = calloc(1, sizeof *faulty);
  if (faulty) faulty->under = tdm_allocator_default();
  return faulty;
}

void tdm_faulty_allocator_destroy(tdm_faulty_allocator *faulty) {
  free(faulty);
}

tdm_allocator tdm_faulty_allocator_view(tdm_faulty_allocator *faulty) {
  return (tdm_allocator){.allocate = allocate_faulty, .release = release_faulty, .user = faulty};
}

void tdm_faulty_allocator_arm(tdm_faulty_allocator *faulty, uint64_t fail_at, bool from_on) {
  atomic_store(&faulty->fail_at, 0);
  atomic_store(&faulty->calls, 0);
  atomic_store(&faulty->failures, 0);
  atomic_store(&faulty->peak_bytes, atomic_load(&faulty->outstanding_bytes));
  atomic_store(&faulty->from_on, from_on);
  atomic_store(&faulty->fail_at, fail_at);
}

uint64_t tdm_faulty_allocator_calls(const tdm_faulty_allocator *faulty) {
  return atomic_load(&faulty->calls);
}

uint64_t tdm_faulty_allocator_failures(const tdm_faulty_allocator *faulty) {
  return atomic_load(&faulty->failures);
}

int64_t tdm_faulty_allocator_outstanding_bytes(const tdm_faulty_allocator *faulty) {
  return atomic_load(&faulty->outstanding_bytes);
}

int64_t tdm_faulty_allocator_peak_bytes(const tdm_faulty_allocator *faulty) {
  return atomic_load(&faulty->peak_bytes);
}
