/* For the pass verify: which storage's value every byte of the arenas holds during the walk. It can
 * only change at the ends of storages, which are sorted. A bitmap of 64-ary levels over them finds
 * neighbours, so a look-up has the same cost for any number of storages. */
#ifndef TANDEM_GRAPH_SCHEDULE_VERIFY_BYTES_H
#define TANDEM_GRAPH_SCHEDULE_VERIFY_BYTES_H

#include "graph/schedule/schedule.h"

#define TDM_BYTES_LEVELS 6 /* 64^6 places are more than 2^32 */

/* A range of bytes that holds one storage's value, or the rest of it. */
typedef struct tdm_held {
  uint32_t end;   /* place */
  uint32_t owner; /* storage */
} tdm_held;

typedef struct tdm_bytes {
  const tdm_allocator *allocator;
  size_t storage_count;
  uint32_t *first_place; /* (storage_count): where it begins and ends; both 0: in no arena */
  uint32_t *end_place;
  size_t place_count;
  tdm_held *held; /* (place_count): the range that begins there, if the bitmap has the bit */
  uint64_t *levels[TDM_BYTES_LEVELS];
  size_t level_words[TDM_BYTES_LEVELS];
  uint32_t level_count;
} tdm_bytes;

/* Initializes from the storages with touched[i]: kind ARENA, arena in range. After a failure deinit
 * is legal and required. Fails with INTERNAL if an offset is not aligned or a storage exceeds its
 * arena, and with OUT_OF_MEMORY. */
tdm_status tdm_bytes_init(tdm_bytes *bytes, const tdm_schedule *schedule,
                          const bool *touched) TDM_WARN_UNUSED;
void tdm_bytes_deinit(tdm_bytes *bytes);

/* Returns true if every byte of storage holds its own value. */
static inline bool tdm_bytes_whole(const tdm_bytes *bytes, uint32_t storage) {
  const uint32_t first = bytes->first_place[storage];
  const tdm_held *held = &bytes->held[first];
  return (bytes->levels[0][first / 64] >> (first % 64) & 1) != 0 && held->owner == storage &&
         held->end == bytes->end_place[storage];
}

/* Finds the first range that overlaps storage's bytes at or after place *cursor (begin with its
 * first place), and moves *cursor to its end. Returns false if there is none. */
bool tdm_bytes_next(const tdm_bytes *bytes, uint32_t storage, uint32_t *cursor,
                    uint32_t *out_owner);
/* Marks all bytes of storage as holding its value. */
void tdm_bytes_take(tdm_bytes *bytes, uint32_t storage);

#endif
