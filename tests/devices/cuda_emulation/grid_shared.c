/* Shared memory of a block: NaN until it is written, margins around each array that are poisoned
 * for AddressSanitizer and otherwise checked when the block ends. */
#include <sys/mman.h>

#include "core/poison.h"
#include "tests/devices/cuda_emulation/grid_state.h"

enum { MARGIN_BYTES = 64, MARGIN = 0xA5, UNSET = 0xFF };

/* Not memset, which ThreadSanitizer would take for a write of the thread that happens to be first.
 */
static void fill(char *begin, char byte, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    ((volatile char *)begin)[i] = byte;
}

void grid_shared_begin(grid_shared_memory *shared) {
#ifdef GRID_RACES /* fresh memory, so that accesses of the last block are forgotten */
  grid_shared_deinit(shared);
#endif
  if (!shared->arena) {
    shared->arena =
        mmap(NULL, SHARED_ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (shared->arena == MAP_FAILED) grid_misuse("no memory");
    shared->tokens = shared->arena + SHARED_ARENA_BYTES - 8 * 2 * (GRID_WARPS + 1);
  }
  shared->used_bytes = 0;
  shared->data_bytes = 0;
  shared->count = 0;
}

static shared_place *place_create(grid_shared_memory *shared, const void *key, size_t bytes,
                                  const char *site) {
  const size_t rounded = (bytes + 15) / 16 * 16;
  shared->data_bytes += rounded;
  if (shared->count == SHARED_PLACES || shared->data_bytes > SHARED_MOST_BYTES) {
    grid_misuse("%s: more than %d bytes of shared memory, or than %d arrays", site,
                SHARED_MOST_BYTES, SHARED_PLACES);
  }
  shared_place *place = &shared->places[shared->count++];
  *place = (shared_place){key, shared->used_bytes + MARGIN_BYTES, bytes, site};
  shared->used_bytes += MARGIN_BYTES + rounded + MARGIN_BYTES;
  char *data = shared->arena + place->offset;
  TDM_UNPOISON(data - MARGIN_BYTES, MARGIN_BYTES + rounded + MARGIN_BYTES);
  fill(data - MARGIN_BYTES, (char)MARGIN, MARGIN_BYTES + rounded + MARGIN_BYTES);
  fill(data, (char)UNSET, bytes);
  TDM_POISON(data - MARGIN_BYTES, MARGIN_BYTES);
  TDM_POISON(data + rounded, MARGIN_BYTES);
  if (rounded > bytes) TDM_POISON(data + bytes, rounded - bytes);
  return place;
}

void *grid_shared(const void *key, size_t bytes, const char *site) {
  grid_shared_memory *shared = &grid_worker_get()->shared;
  for (size_t i = 0; i < shared->count; i++) {
    if (shared->places[i].key != key) continue;
    if (shared->places[i].bytes != bytes) grid_misuse("%s: an array of two sizes", site);
    return shared->arena + shared->places[i].offset;
  }
  return shared->arena + place_create(shared, key, bytes, site)->offset;
}

void grid_shared_end(grid_shared_memory *shared) {
  TDM_UNPOISON(shared->arena, shared->used_bytes);
  for (size_t i = 0; i < shared->count; i++) {
    const shared_place *place = &shared->places[i];
    const unsigned char *data = (const unsigned char *)shared->arena + place->offset;
    for (size_t j = 1; j <= MARGIN_BYTES; j++) {
      if (data[place->bytes - 1 + j] != MARGIN || *(data - j) != MARGIN)
        grid_misuse("%s: written outside an array of shared memory", place->site);
    }
  }
}

void grid_shared_deinit(grid_shared_memory *shared) {
  if (shared->arena) (void)munmap(shared->arena, SHARED_ARENA_BYTES);
  shared->arena = NULL;
}
