/* Regions: memory of equal lifetime cut from blocks. Invariant: the bytes between cursor and end
 * belong to the newest block, are zero, and have not been handed out. Under AddressSanitizer only
 * the requested bytes are accessible, so an overrun is reported as with malloc. */
#include <stdalign.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/poison.h"

#define REGION_ALIGNMENT ((size_t)16)
#define REGION_GAP_BYTES ((size_t)(TDM_POISONS ? 16 : 0)) /* poisoned bytes after each piece */
#define REGION_BLOCK_BYTES ((size_t)32 * 1024)            /* header included */

struct tdm_region_block {
  tdm_region_block *next;
  size_t bytes; /* header included */
};

#define REGION_HEADER_BYTES                                                                        \
  ((sizeof(tdm_region_block) + REGION_ALIGNMENT - 1) / REGION_ALIGNMENT * REGION_ALIGNMENT)

void tdm_region_init(tdm_region *region, const tdm_allocator *allocator) {
  *region = (tdm_region){.allocator = allocator};
}

void tdm_region_deinit(tdm_region *region) {
  for (tdm_region_block *block = region->blocks, *next; block != NULL; block = next) {
    next = block->next;
    TDM_UNPOISON(block, block->bytes);
    tdm_release(region->allocator, block, block->bytes);
  }
  *region = (tdm_region){.allocator = region->allocator};
}

/* Adds a block of that many bytes, including the header, zeroed or not. Returns its first usable
 * byte, or NULL. */
static char *add_block(tdm_region *region, size_t bytes, bool zeroed, const char *what) {
  tdm_region_block *block =
      (zeroed ? tdm_allocate : tdm_allocate_room)(region->allocator, bytes, what);
  if (!block) {
    region->failed = true;
    return NULL;
  }
  block->bytes = bytes;
  block->next = region->blocks;
  region->blocks = block;
  TDM_POISON((char *)block + REGION_HEADER_BYTES, bytes - REGION_HEADER_BYTES);
  return (char *)block + REGION_HEADER_BYTES;
}

/* Takes a piece of that many bytes, a multiple of REGION_ALIGNMENT. Only a large piece may not be
 * zeroed. */
static char *take_rounded(tdm_region *region, size_t rounded, bool zeroed, const char *what) {
  if (rounded > REGION_BLOCK_BYTES / 4) {
    /* A large piece gets its own block; the rest of the current block stays in use. */
    return add_block(region, rounded + REGION_HEADER_BYTES, zeroed, what);
  }
  if (!region->cursor || rounded > (size_t)(region->end - region->cursor)) {
    char *first = add_block(region, REGION_BLOCK_BYTES, true, what);
    if (!first) return NULL;
    region->cursor = first;
    region->end = first + (REGION_BLOCK_BYTES - REGION_HEADER_BYTES);
  }
  char *memory = region->cursor;
  region->cursor += rounded;
  return memory;
}

static void *take(tdm_region *region, size_t bytes, bool zeroed, const char *what) {
  if (bytes > PTRDIFF_MAX) {
    (void)tdm_fail_memory(bytes, what);
    region->failed = true;
    return NULL;
  }
  const size_t wanted = bytes + REGION_GAP_BYTES;
  size_t rounded = (wanted + REGION_ALIGNMENT - 1) / REGION_ALIGNMENT * REGION_ALIGNMENT;
  if (rounded == 0) rounded = REGION_ALIGNMENT;
  char *memory = take_rounded(region, rounded, zeroed, what);
  if (memory) TDM_UNPOISON(memory, bytes);
  return memory;
}

void *tdm_region_take(tdm_region *region, size_t bytes, const char *what) {
  return take(region, bytes, true, what);
}

void *tdm_region_take_room(tdm_region *region, size_t bytes, const char *what) {
  return take(region, bytes, false, what);
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
