/* Internal allocation: calls through a tdm_allocator, a growing array, and a region that is
 * released as a whole. Invariant: memory from one of these is released through the same one. */
#ifndef TANDEM_CORE_ALLOCATE_H
#define TANDEM_CORE_ALLOCATE_H

#include "core/status.h"
#include "tandem/core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns `bytes` zeroed bytes aligned to 64. If memory is short, returns NULL and sets the
 * thread's message. */
void *tdm_allocate(const tdm_allocator *allocator, size_t bytes, const char *what);
/* Like tdm_allocate, with undefined contents: for large blocks that are written before they are
 * read. */
void *tdm_allocate_room(const tdm_allocator *allocator, size_t bytes, const char *what);
void tdm_release(const tdm_allocator *allocator, void *memory, size_t bytes);
char *tdm_string_copy(const tdm_allocator *allocator, const char *text);
void tdm_string_release(const tdm_allocator *allocator, char *text);

/* Grows *items (of item_bytes each) so that *capacity >= needed, and zeroes the new elements. On
 * failure the array is unchanged. */
tdm_status tdm_array_reserve(const tdm_allocator *allocator, void **items, size_t *capacity,
                             size_t needed, size_t item_bytes, const char *what) TDM_WARN_UNUSED;

/* A region: memory of equal lifetime, allocated in large blocks and released at once.
 * Single-threaded. */
typedef struct tdm_region_block tdm_region_block;
typedef struct tdm_region {
  const tdm_allocator *allocator;
  tdm_region_block *blocks;
  char *cursor;
  char *end;
  bool failed; /* true after a take has returned NULL, so that several takes need only one check */
} tdm_region;

void tdm_region_init(tdm_region *region, const tdm_allocator *allocator);
void tdm_region_deinit(tdm_region *region);
/* Returns zeroed bytes aligned to 16. If memory is short, returns NULL and sets the thread's
 * message. */
void *tdm_region_take(tdm_region *region, size_t bytes, const char *what);
/* Like tdm_region_take, with undefined contents: for large arrays that are written before they are
 * read. */
void *tdm_region_take_room(tdm_region *region, size_t bytes, const char *what);
char *tdm_region_string(tdm_region *region, const char *text);
char *tdm_region_format(tdm_region *region, const char *format, ...) TDM_PRINTF(2, 3);

#ifdef __cplusplus
}
#endif
#endif
