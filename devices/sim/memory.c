/* The allocator behind sim's addresses. Invariant: see memory.h. */
#include "devices/sim/memory.h"

#include <sys/mman.h>

#include "core/status.h"

static const size_t granule_bytes = (size_t)1 << TDM_SIM_GRANULE_BITS;
enum { RESERVED = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE };

static void *reserve(size_t bytes, int protection) {
  void *memory = mmap(NULL, bytes, protection, RESERVED, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

tdm_status tdm_sim_memory_init(tdm_sim_memory *memory, size_t range_bytes) {
  *memory =
      (tdm_sim_memory){.range_bytes = range_bytes, .granule_count = range_bytes / granule_bytes};
  if (pthread_mutex_init(&memory->mutex, NULL) != 0) {
    return tdm_fail(TDM_OUT_OF_MEMORY, "no mutex for the memory of a sim device");
  }
  memory->has_mutex = true;
  memory->begin = (tdm_address)reserve(range_bytes, PROT_NONE);
  if (memory->begin == 0) return tdm_fail_memory(range_bytes, "the addresses of a sim device");
  memory->backing = reserve(range_bytes, PROT_NONE);
  if (memory->backing == NULL) {
    return tdm_fail_memory(range_bytes, "the range behind a sim device's addresses");
  }
  /* Zero pages that nobody touches cost nothing. */
  const size_t table_bytes = memory->granule_count * sizeof(*memory->remain);
  memory->remain = reserve(table_bytes, PROT_READ | PROT_WRITE);
  if (memory->remain == NULL) return tdm_fail_memory(table_bytes, "the table of a sim device");
  return TDM_OK;
}

void tdm_sim_memory_deinit(tdm_sim_memory *memory) {
  if (memory->begin != 0) (void)munmap((void *)memory->begin, memory->range_bytes);
  if (memory->backing != NULL) (void)munmap(memory->backing, memory->range_bytes);
  if (memory->remain != NULL) {
    (void)munmap(memory->remain, memory->granule_count * sizeof(*memory->remain));
  }
  if (memory->has_mutex) (void)pthread_mutex_destroy(&memory->mutex);
  *memory = (tdm_sim_memory){0};
}

/* A run of free granules in [from, to); SIZE_MAX: there is none. Under the mutex. */
static size_t find_run(const tdm_sim_memory *memory, size_t count, size_t from, size_t to) {
  size_t free_count = 0;
  for (size_t i = from; i < to; ++i) {
    const size_t remain = atomic_load_explicit(&memory->remain[i], memory_order_relaxed);
    free_count = remain == 0 ? free_count + 1 : 0;
    if (free_count == count) return i + 1 - count;
  }
  return SIZE_MAX;
}

tdm_status tdm_sim_memory_allocate(tdm_sim_memory *memory, size_t bytes, tdm_address *out_address) {
  *out_address = 0;
  if (bytes > memory->range_bytes) return tdm_fail_memory(bytes, "a sim device");
  const size_t size = bytes == 0 ? 1 : bytes;
  const size_t count = (size + granule_bytes - 1) / granule_bytes;
  (void)pthread_mutex_lock(&memory->mutex);
  size_t first = find_run(memory, count, memory->cursor, memory->granule_count);
  if (first == SIZE_MAX) first = find_run(memory, count, 0, memory->granule_count);
  if (first == SIZE_MAX || mprotect(memory->backing + first * granule_bytes, count * granule_bytes,
                                    PROT_READ | PROT_WRITE) != 0) {
    (void)pthread_mutex_unlock(&memory->mutex);
    return tdm_fail_memory(bytes, "a sim device");
  }
  for (size_t i = 0; i < count; ++i) {
    atomic_store_explicit(&memory->remain[first + i], size - i * granule_bytes,
                          memory_order_release);
  }
  memory->cursor = first + count;
  (void)pthread_mutex_unlock(&memory->mutex);
  *out_address = memory->begin + first * granule_bytes;
  return TDM_OK;
}

void tdm_sim_memory_release(tdm_sim_memory *memory, tdm_address address) {
  if (address == 0) return;
  const size_t first = (address - memory->begin) / granule_bytes;
  (void)pthread_mutex_lock(&memory->mutex);
  const size_t size = atomic_load_explicit(&memory->remain[first], memory_order_relaxed);
  const size_t count = (size + granule_bytes - 1) / granule_bytes;
  char *bytes = memory->backing + first * granule_bytes;
  (void)madvise(bytes, count * granule_bytes, MADV_DONTNEED);
  (void)mprotect(bytes, count * granule_bytes, PROT_NONE);
  for (size_t i = 0; i < count; ++i) {
    atomic_store_explicit(&memory->remain[first + i], 0, memory_order_release);
  }
  (void)pthread_mutex_unlock(&memory->mutex);
}
