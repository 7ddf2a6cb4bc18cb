/* Allocates memory from the system: small blocks by malloc, which keeps their pages, and large ones
 * by mmap, so that they can be bound to nodes and use huge pages. Invariant: see memory.h. */
#include "devices/cpu/memory.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "core/status.h"

enum { ALIGNMENT = 64, HUGE_PAGE_BYTES = 2 << 20, MAPPED_FROM_BYTES = HUGE_PAGE_BYTES };

static size_t round_up(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/* Maps memory aligned to huge pages; length is a multiple of the huge page. Returns NULL if memory
 * is short. */
static void *map_aligned(size_t length) {
  const size_t reserved = length + HUGE_PAGE_BYTES;
  char *begin = mmap(NULL, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (begin == MAP_FAILED) return NULL;
  const size_t before = round_up((size_t)begin, HUGE_PAGE_BYTES) - (size_t)begin;
  const size_t after = reserved - length - before;
  if (before > 0) (void)munmap(begin, before);
  if (after > 0) (void)munmap(begin + before + length, after);
  return begin + before;
}

tdm_status tdm_cpu_memory_allocate(const tdm_topology *topology, const tdm_core_range *cores,
                                   const char *name, size_t bytes, tdm_address *out_address) {
  *out_address = 0;
  if (bytes > PTRDIFF_MAX / 2) return tdm_fail_memory(bytes, name);
  void *memory;
  if (bytes < MAPPED_FROM_BYTES) {
    memory = aligned_alloc(ALIGNMENT, round_up(bytes == 0 ? 1 : bytes, ALIGNMENT));
  } else {
    const size_t length = round_up(bytes, HUGE_PAGE_BYTES);
    memory = map_aligned(length);
    if (memory) {
      /* Requests huge pages and the nodes. If the system refuses, it provides ordinary pages from
       * any node. */
      (void)madvise(memory, length, MADV_HUGEPAGE);
      (void)tdm_topology_bind_memory(topology, cores, memory, length);
    }
  }
  if (!memory) return tdm_fail_memory(bytes, name);
  *out_address = (tdm_address)memory;
  return TDM_OK;
}

void tdm_cpu_memory_release(tdm_address address, size_t bytes) {
  if (address == 0) return;
  if (bytes < MAPPED_FROM_BYTES) {
    free((void *)address);
  } else {
    (void)munmap((void *)address, round_up(bytes, HUGE_PAGE_BYTES));
  }
}
