/* Implements the default allocator on malloc and the calls through any allocator. Invariant: memory
 * is released through the allocator that returned it, with the size that was requested. */
#include "core/allocate.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define TDM_ALLOCATION_ALIGNMENT 64 /* a cache line, and the widest vector */
#define TDM_HUGE_PAGE_BYTES ((size_t)2 << 20)

/* Advises huge pages for large blocks: the first touch of 4 KiB pages costs four times as much. */
static void *allocate_malloc(void *user, size_t bytes, size_t alignment) {
  (void)user;
  void *memory = NULL;
  const bool big = bytes >= 2 * TDM_HUGE_PAGE_BYTES;
  if (big && alignment < TDM_HUGE_PAGE_BYTES) alignment = TDM_HUGE_PAGE_BYTES;
  if (posix_memalign(&memory, alignment, bytes == 0 ? 1 : bytes) != 0) return NULL;
  if (big) (void)madvise(memory, bytes / TDM_HUGE_PAGE_BYTES * TDM_HUGE_PAGE_BYTES, MADV_HUGEPAGE);
  return memory;
}

static void release_malloc(void *user, void *memory, size_t bytes) {
  (void)user;
  (void)bytes;
  free(memory);
}

tdm_allocator tdm_allocator_default(void) {
  return (tdm_allocator){.allocate = allocate_malloc, .release = release_malloc};
}

void *tdm_allocate_room(const tdm_allocator *allocator, size_t bytes, const char *what) {
  /* A size above PTRDIFF_MAX can never be allocated. Rejecting it here spares allocators the
   * overflow. */
  void *memory = NULL;
  if (bytes <= PTRDIFF_MAX - TDM_ALLOCATION_ALIGNMENT)
    memory = allocator->allocate(allocator->user, bytes, TDM_ALLOCATION_ALIGNMENT);
  if (!memory) (void)tdm_fail_memory(bytes, what);
  return memory;
}

void *tdm_allocate(const tdm_allocator *allocator, size_t bytes, const char *what) {
  void *memory = tdm_allocate_room(allocator, bytes, what);
  if (memory) memset(memory, 0, bytes);
  return memory;
}

void tdm_release(const tdm_allocator *allocator, void *memory, size_t bytes) {
  if (memory) allocator->release(allocator->user, memory, bytes);
}

char *tdm_string_copy(const tdm_allocator *allocator, const char *text) {
  const size_t bytes = strlen(text) + 1;
  char *copy = tdm_allocate(allocator, bytes, "a string");
  if (copy) memcpy(copy, text, bytes);
  return copy;
}

void tdm_string_release(const tdm_allocator *allocator, char *text) {
  if (text) tdm_release(allocator, text, strlen(text) + 1);
}

tdm_status tdm_array_reserve(const tdm_allocator *allocator, void **items, size_t *capacity,
                             size_t needed, size_t item_bytes, const char *what) {
  if (needed <= *capacity) return TDM_OK;
  size_t grown = *capacity < 8 ? 8 : *capacity + *capacity / 2;
  if (grown < needed) grown = needed;
  if (item_bytes != 0 && grown > SIZE_MAX / item_bytes) return tdm_fail_memory(SIZE_MAX, what);
  char *memory = tdm_allocate_room(allocator, grown * item_bytes, what);
  if (!memory) return TDM_OUT_OF_MEMORY;
  const size_t kept_bytes = *items ? *capacity * item_bytes : 0;
  if (kept_bytes > 0) memcpy(memory, *items, kept_bytes);
  memset(memory + kept_bytes, 0, grown * item_bytes - kept_bytes);
  tdm_release(allocator, *items, kept_bytes);
  *items = memory;
  *capacity = grown;
  return TDM_OK;
}
