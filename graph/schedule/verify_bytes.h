/* For the pass verify: which storage every byte of the arenas holds at a moment of the walk. The
 * ends of all storages, sorted, are the only places where that can change; a bitmap of 64-ary
 * levels over them finds neighbours, so a look-up costs the same for any number of storages. */
#ifndef TANDEM_GRAPH_SCHEDULE_VERIFY_BYTES_H
#define TANDEM_GRAPH_SCHEDULE_VERIFY_BYTES_H

#include "graph/schedule/schedule.h"

#define TDM_BYTES_LEVELS 6 /* 64^6 places are more than 2^32 */

/* A stretch of bytes that holds one storage's value, or what is left of it. */
typedef struct tdm_held {
  uint32_t end;   /* place */
  uint32_t owner; /* storage */
} tdm_held;

typedef struct tdm_bytes {
  const tdm_allocator *allocator;
  size_t storage_count;
  uint32_t *first_place; /* (storage_count): where it begins and ends; both 0: of no arena */
  uint32_t *end_place;
  size_t place_count;
  tdm_held *held; /* (place_count): what begins there, where the bitmap says so */
  uint64_t *levels[TDM_BYTES_LEVELS];
  size_t level_words[TDM_BYTES_LEVELS];
  uint32_t level_count;
} tdm_bytes;

/* From the storages with touched[i]: kind ARENA, arena in range. After a failure deinit is legal,
 * and needed. INTERNAL when an offset is odd or a storage leaves its arena; OUT_OF_MEMORY. */
tdm_status tdm_bytes_init(tdm_bytes *bytes, const tdm_schedule *schedule,
                          const bool *touched) TDM_WARN_UNUSED;
void tdm_bytes_deinit(tdm_bytes *bytes);

/* Whether every byte of storage holds its own value. */
static inline bool tdm_bytes_whole(const tdm_bytes *bytes, uint32_t storage) {
  const uint32_t first = bytes->first_place[storage];
  const tdm_held *held = &bytes->held[first];
  return (bytes->levels[0][first / 64] >> (first % 64) & 1) != 0 && held->owner == storage &&
         held->end == bytes->end_place[storage];
}

/* The first stretch that reaches into storage's bytes at or after place *cursor (begin with its
 * first place); false when there is none. Moves *cursor to its end. */
bool tdm_bytes_next(const tdm_bytes *bytes, uint32_t storage, uint32_t *cursor,
                    uint32_t *out_owner);
/* All bytes of storage hold its value from now on. */
void tdm_bytes_take(tdm_bytes *bytes, uint32_t storage);

#endif
