/* Sorts the ends of storages into places and stores the ranges between them. Invariant: ranges do
 * not overlap, and the bitmap has a bit for exactly the places where one begins. */
#include "graph/schedule/verify_bytes.h"

#include <string.h>

#define DIGIT_BITS 11
#define DIGITS (1u << DIGIT_BITS)
#define NO_PLACE UINT32_MAX

struct edge {
  uint64_t byte;  /* address, with all arenas concatenated */
  uint32_t which; /* storage * 2, + 1 for its end */
};

/* ---- Places ---------------------------------------------------------------------------------- */

/* Counting sort by digits from the lowest. The result is in edges; spare has the same size. */
static void sort_edges(struct edge **edges, struct edge **spare, size_t count, uint64_t highest) {
  for (uint32_t shift = 0; shift < 64 && highest >> shift != 0; shift += DIGIT_BITS) {
    uint32_t starts[DIGITS] = {0};
    for (size_t i = 0; i < count; i++)
      starts[(*edges)[i].byte >> shift & (DIGITS - 1)]++;
    uint32_t sum = 0;
    for (size_t d = 0; d < DIGITS; d++) {
      const uint32_t here = starts[d];
      starts[d] = sum;
      sum += here;
    }
    for (size_t i = 0; i < count; i++)
      (*spare)[starts[(*edges)[i].byte >> shift & (DIGITS - 1)]++] = (*edges)[i];
    struct edge *swapped = *edges;
    *edges = *spare;
    *spare = swapped;
  }
}

/* Checks storage's place in its arena, which begins at byte base, and writes its two edges. */
static tdm_status edges_of(const tdm_schedule *schedule, uint32_t storage, uint64_t base,
                           struct edge edges[2]) {
  const tdm_storage_plan *plan = &schedule->storages[storage];
  const uint64_t arena_bytes = schedule->arena_bytes[plan->arena];
  if (plan->whole == 0 && plan->offset % 64 != 0) {
    return tdm_fail(TDM_INTERNAL, "storage %u lies at %llu, no multiple of 64", storage,
                    (unsigned long long)plan->offset);
  }
  if (plan->bytes == 0 || plan->bytes > arena_bytes || plan->offset > arena_bytes - plan->bytes) {
    return tdm_fail(TDM_INTERNAL, "storage %u (%llu bytes at %llu) leaves arena %u of %llu bytes",
                    storage, (unsigned long long)plan->bytes, (unsigned long long)plan->offset,
                    plan->arena, (unsigned long long)arena_bytes);
  }
  edges[0] = (struct edge){base + plan->offset, storage * 2};
  edges[1] = (struct edge){base + plan->offset + plan->bytes, storage * 2 + 1};
  return TDM_OK;
}

/* Computes where each arena begins, in bytes; *out_end is where the last one ends. */
static tdm_status arena_bases(const tdm_schedule *schedule, uint64_t *bases, uint64_t *out_end) {
  uint64_t end = 0;
  for (uint32_t a = 0; a < schedule->arena_count; a++) {
    bases[a] = end;
    end += schedule->arena_bytes[a];
    if (schedule->arena_bytes[a] > INT64_MAX || end > INT64_MAX) {
      return tdm_fail(TDM_INTERNAL, "arena %u has %llu bytes", a,
                      (unsigned long long)schedule->arena_bytes[a]);
    }
  }
  *out_end = end;
  return TDM_OK;
}

static void number_places(tdm_bytes *bytes, const struct edge *edges, size_t count) {
  uint32_t place = 0;
  for (size_t i = 0; i < count; i++) {
    if (i > 0 && edges[i].byte != edges[i - 1].byte) place++;
    uint32_t *places = edges[i].which % 2 == 0 ? bytes->first_place : bytes->end_place;
    places[edges[i].which / 2] = place;
  }
  bytes->place_count = (size_t)place + 1;
}

static tdm_status find_places(tdm_bytes *bytes, const tdm_schedule *schedule, const bool *touched,
                              tdm_region *scratch) {
  const size_t limit = bytes->storage_count * 2;
  struct edge *edges =
      tdm_region_take_room(scratch, limit * sizeof(struct edge), "ends of storage");
  struct edge *spare =
      tdm_region_take_room(scratch, limit * sizeof(struct edge), "ends of storage");
  uint64_t *bases = tdm_region_take(scratch, schedule->arena_count * sizeof(uint64_t), "arenas");
  if (scratch->failed) return TDM_OUT_OF_MEMORY;
  uint64_t end = 0;
  TDM_TRY(arena_bases(schedule, bases, &end));
  size_t count = 0;
  for (uint32_t i = 0; i < bytes->storage_count; i++) {
    const tdm_storage_plan *plan = &schedule->storages[i];
    if (!touched[i] || plan->kind != TDM_STORAGE_ARENA) continue;
    TDM_TRY(edges_of(schedule, i, bases[plan->arena], edges + count));
    count += 2;
  }
  sort_edges(&edges, &spare, count, end);
  number_places(bytes, edges, count);
  return TDM_OK;
}

/* ---- The bitmap ------------------------------------------------------------------------------ */

static tdm_status levels_init(tdm_bytes *bytes) {
  size_t places = bytes->place_count;
  do {
    const size_t words = (places + 63) / 64;
    uint64_t *level =
        tdm_allocate(bytes->allocator, words * sizeof(uint64_t), "the bitmap of arenas");
    if (!level) return TDM_OUT_OF_MEMORY;
    bytes->levels[bytes->level_count] = level;
    bytes->level_words[bytes->level_count++] = words;
    places = words;
  } while (places > 1);
  return TDM_OK;
}

static void set_place(tdm_bytes *bytes, uint32_t place) {
  for (uint32_t l = 0; l < bytes->level_count; l++, place /= 64) {
    uint64_t *word = &bytes->levels[l][place / 64];
    const bool was_empty = *word == 0;
    *word |= (uint64_t)1 << (place % 64);
    if (!was_empty) return;
  }
}

static void clear_place(tdm_bytes *bytes, uint32_t place) {
  for (uint32_t l = 0; l < bytes->level_count; l++, place /= 64) {
    uint64_t *word = &bytes->levels[l][place / 64];
    *word &= ~((uint64_t)1 << (place % 64));
    if (*word != 0) return;
  }
}

/* Return the bits of a word from place on, and those up to it. */
static inline uint64_t bits_from(uint64_t word, uint32_t place) {
  return word & UINT64_MAX << (place % 64);
}

static inline uint64_t bits_up_to(uint64_t word, uint32_t place) {
  return word & UINT64_MAX >> (63 - place % 64);
}

/* Returns the nearest place with a bit at or after place; NO_PLACE if there is none. */
static uint32_t place_from(const tdm_bytes *bytes, uint32_t place) {
  for (uint32_t l = 0; l < bytes->level_count; l++) {
    if (place / 64 >= bytes->level_words[l]) return NO_PLACE;
    uint64_t bits = bits_from(bytes->levels[l][place / 64], place);
    if (bits == 0) {
      place = place / 64 + 1;
      continue;
    }
    uint32_t found = place / 64 * 64 + (uint32_t)__builtin_ctzll(bits);
    while (l-- > 0)
      found = found * 64 + (uint32_t)__builtin_ctzll(bytes->levels[l][found]);
    return found;
  }
  return NO_PLACE;
}

/* Returns the nearest place with a bit at or before place; NO_PLACE if there is none. */
static uint32_t place_up_to(const tdm_bytes *bytes, uint32_t place) {
  for (uint32_t l = 0;; l++) { /* the highest level is one word */
    uint64_t bits = bits_up_to(bytes->levels[l][place / 64], place);
    if (bits == 0) {
      if (place / 64 == 0) return NO_PLACE;
      place = place / 64 - 1;
      continue;
    }
    uint32_t found = place / 64 * 64 + 63 - (uint32_t)__builtin_clzll(bits);
    while (l-- > 0)
      found = found * 64 + 63 - (uint32_t)__builtin_clzll(bytes->levels[l][found]);
    return found;
  }
}

/* ---- Ranges ---------------------------------------------------------------------------------- */

tdm_status tdm_bytes_init(tdm_bytes *bytes, const tdm_schedule *schedule, const bool *touched) {
  *bytes = (tdm_bytes){.allocator = schedule->allocator, .storage_count = schedule->storage_count};
  const size_t places_bytes = bytes->storage_count * sizeof(uint32_t);
  bytes->first_place = tdm_allocate(bytes->allocator, places_bytes, "places of storage");
  if (!bytes->first_place) return TDM_OUT_OF_MEMORY;
  bytes->end_place = tdm_allocate(bytes->allocator, places_bytes, "places of storage");
  if (!bytes->end_place) return TDM_OUT_OF_MEMORY;
  tdm_region scratch;
  tdm_region_init(&scratch, bytes->allocator);
  const tdm_status status = find_places(bytes, schedule, touched, &scratch);
  tdm_region_deinit(&scratch);
  if (status != TDM_OK) return status;
  bytes->held = tdm_allocate(bytes->allocator, bytes->place_count * sizeof(tdm_held), "places");
  if (!bytes->held) return TDM_OUT_OF_MEMORY;
  return levels_init(bytes);
}

void tdm_bytes_deinit(tdm_bytes *bytes) {
  const tdm_allocator *allocator = bytes->allocator;
  if (!allocator) return;
  tdm_release(allocator, bytes->first_place, bytes->storage_count * sizeof(uint32_t));
  tdm_release(allocator, bytes->end_place, bytes->storage_count * sizeof(uint32_t));
  tdm_release(allocator, bytes->held, bytes->place_count * sizeof(tdm_held));
  for (uint32_t l = 0; l < bytes->level_count; l++)
    tdm_release(allocator, bytes->levels[l], bytes->level_words[l] * sizeof(uint64_t));
}

bool tdm_bytes_next(const tdm_bytes *bytes, uint32_t storage, uint32_t *cursor,
                    uint32_t *out_owner) {
  const uint32_t end = bytes->end_place[storage];
  if (*cursor >= end) return false;
  uint32_t place = place_up_to(bytes, *cursor);
  if (place == NO_PLACE || bytes->held[place].end <= *cursor) place = place_from(bytes, *cursor);
  if (place == NO_PLACE || place >= end) return false;
  *cursor = bytes->held[place].end;
  *out_owner = bytes->held[place].owner;
  return true;
}

void tdm_bytes_take(tdm_bytes *bytes, uint32_t storage) {
  const uint32_t first = bytes->first_place[storage];
  const uint32_t end = bytes->end_place[storage];
  const uint32_t below = place_up_to(bytes, first);
  tdm_held last = {0}; /* the range with the highest end */
  if (below != NO_PLACE && bytes->held[below].end > first) {
    last = bytes->held[below];
    bytes->held[below].end = first;
    if (below == first) clear_place(bytes, first);
  }
  uint32_t place = place_from(bytes, first);
  while (place != NO_PLACE && place < end) {
    last = bytes->held[place];
    clear_place(bytes, place);
    place = place_from(bytes, place + 1);
  }
  if (last.end > end) {
    bytes->held[end] = last;
    set_place(bytes, end);
  }
  bytes->held[first] = (tdm_held){end, storage};
  set_place(bytes, first);
}
