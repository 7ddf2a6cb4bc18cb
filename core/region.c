/* Regions: memory of equal lifetime cut from chunks. Invariant: what is between cursor and end
 * belongs to the newest chunk, is zero, and has been handed to nobody. */
#include <stdalign.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"

#define REGION_ALIGNMENT ((size_t)16)
#define REGION_CHUNK_BYTES ((size_t)32 * 1024) /* header included */

struct tdm_region_chunk {
  tdm_region_chunk *next;
  size_t bytes; /* header included */
};

#define REGION_HEADER_BYTES                                                                        \
  ((sizeof(tdm_region_chunk) + REGION_ALIGNMENT - 1) / REGION_ALIGNMENT * REGION_ALIGNMENT)

void tdm_region_init(tdm_region *region, const tdm_allocator *allocator) {
  *region = (tdm_region){.allocator = allocator};
}

void tdm_region_deinit(tdm_region *region) {
  for (tdm_region_chunk *chunk = region->chunks, *next; chunk != NULL; chunk = next) {
    next = chunk->next;
    tdm_release(region->allocator, chunk, chunk->bytes);
  }
  *region = (tdm_region){.allocator = region->allocator};
}

/* A new chunk with at least room bytes behind its header; its first usable byte, or NULL. */
static char *add_chunk(tdm_region *region, size_t bytes, const char *what) {
  tdm_region_chunk *chunk = tdm_allocate(region->allocator, bytes, what);
  if (!chunk) {
    region->failed = true;
    return NULL;
  }
  chunk->bytes = bytes;
  chunk->next = region->chunks;
  region->chunks = chunk;
  return (char *)chunk + REGION_HEADER_BYTES;
}

void *tdm_region_take(tdm_region *region, size_t bytes, const char *what) {
  if (bytes > PTRDIFF_MAX) {
    (void)tdm_fail_memory(bytes, what);
    region->failed = true;
    return NULL;
  }
  size_t rounded = (bytes + REGION_ALIGNMENT - 1) / REGION_ALIGNMENT * REGION_ALIGNMENT;
  if (rounded == 0) rounded = REGION_ALIGNMENT;
  if (rounded > REGION_CHUNK_BYTES / 4) {
    /* A big piece gets a chunk of its own; the rest of the current one stays in use. */
    return add_chunk(region, rounded + REGION_HEADER_BYTES, what);
  }
  if (!region->cursor || rounded > (size_t)(region->end - region->cursor)) {
    char *first = add_chunk(region, REGION_CHUNK_BYTES, what);
    if (!first) return NULL;
    region->cursor = first;
    region->end = first + (REGION_CHUNK_BYTES - REGION_HEADER_BYTES);
  }
  char *memory = region->cursor;
  region->cursor += rounded;
  return memory;
}

char *tdm_region_string(tdm_region *region, const char *text) {
  const size_t bytes = strlen(text) + 1;
  char *copy = tdm_region_take(region, bytes, "a string");
  if (copy) memcpy(copy, text, bytes);
  return copy;
}

char *tdm_region_format(tdm_region *region, const char *format, ...) {
  va_list arguments;
  va_list again;
  va_start(arguments, format);
  va_copy(again, arguments);
  const int length = vsnprintf(NULL, 0, format, arguments);
  char *text = NULL;
  if (length < 0) {
    (void)tdm_fail(TDM_INTERNAL, "a text that could not be formatted: %s", format);
  } else {
    text = tdm_region_take(region, (size_t)length + 1, "a string");
  }
  if (text) (void)vsnprintf(text, (size_t)length + 1, format, again);
  va_end(again);
  va_end(arguments);
  return text;
}
