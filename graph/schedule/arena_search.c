/* Places values at the lowest gap between those that they may not share with, in the order of a
 * list: by size, by size times duration, by duration, from the last on, and as in the plan. Within
 * a list, the value that reaches the best known top moves forward, and the list is tried again.
 * Invariant: every pair that may not share is in the pairs of both. */
#include "graph/schedule/arena_search.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NO_OFFSET UINT64_MAX
#define CLIMBS 32 /* tries per list */

enum { BY_BYTES, BY_AREA, BY_DURATION, BY_LAST, BY_FIRST, LIST_COUNT };

struct value {
  uint64_t bytes;
  uint32_t storage;
  uint32_t first_pair; /* index in pairs */
  uint32_t pair_count;
};

struct span {
  uint64_t offset, end;
};

/* The state of a try before it placed a value. */
struct mark {
  uint64_t top;
  uint64_t looks;
  uint32_t highest;
};

struct rank {
  double key;
  uint32_t value;
};

struct search {
  const tdm_schedule *schedule;
  const tdm_lifetimes *lifetimes;
  uint64_t *credit;
  tdm_region region;
  struct value *values; /* (value_count), by first step */
  uint32_t value_count;
  uint32_t *earlier; /* for each value, the earlier values that may not share memory with it */
  size_t earlier_count, earlier_capacity;
  uint32_t *pairs;     /* (2 * earlier_count): both ways */
  uint32_t *waiting;   /* (value_count): values that a later one may meet */
  uint32_t *to_come;   /* (queue_count): beginnings there of unpaired values */
  uint32_t *seen;      /* (queue_count): 1 + first step of the last of the others */
  uint32_t *order;     /* (value_count) */
  struct rank *ranks;  /* (value_count) */
  struct span *placed; /* (value_count): spans of the current attempt; offset NO_OFFSET: not placed
                        * yet */
  struct mark *marks;  /* (value_count): those of the latest attempt, by position in order */
  uint32_t tried;      /* number of values that it has placed */
  uint64_t *best;      /* (value_count): offsets */
  struct span *spans;  /* (value_count) */
  uint64_t best_bytes;
};

static bool spend(struct search *search, uint64_t looks) {
  if (*search->credit < looks) {
    *search->credit = 0;
    return false;
  }
  *search->credit -= looks;
  return true;
}

static inline const tdm_lifetime *lifetime_of(const struct search *search, uint32_t value) {
  return &search->lifetimes->items[search->values[value].storage];
}

static inline uint32_t queue_of(const struct search *search, uint32_t step) {
  return search->schedule->steps[step].queue;
}

/* ---- Pairs that may not share ---------------------------------------------------------------- */

/* Returns true if all later values begin after ends, known from some existing step. */
static bool known_to_all(const struct search *search, tdm_ends ends) {
  for (uint32_t q = 0; q < search->schedule->queue_count; q++) {
    if (search->to_come[q] == 0) continue;
    if (ends.more == 0 && queue_of(search, ends.step) == q) continue;
    if (search->seen[q] == 0) return false;
    if (!tdm_ends_before(search->lifetimes, ends, search->seen[q] - 1)) return false;
  }
  return true;
}

/* Counts one more value (change 1) or one fewer (UINT32_MAX) to come where lifetime begins. */
static void expect_beginnings(struct search *search, const tdm_lifetime *lifetime,
                              uint32_t change) {
  tdm_ends begins = lifetime->begins;
  search->to_come[queue_of(search, begins.step)] += change;
  while (begins.more != 0) {
    begins = search->lifetimes->further[begins.more - 1];
    search->to_come[queue_of(search, begins.step)] += change;
  }
}

/* Pairs value with the waiting ones, and removes those that no later one can meet. */
static tdm_status pair_value(struct search *search, uint32_t value, uint32_t *waiting_count) {
  const tdm_lifetime *lifetime = lifetime_of(search, value);
  const uint32_t begin = (uint32_t)search->earlier_count;
  uint32_t kept = 0;
  TDM_TRY(tdm_array_reserve(search->schedule->allocator, (void **)&search->earlier,
                            &search->earlier_capacity, begin + *waiting_count, sizeof(uint32_t),
                            "pairs of storage"));
  expect_beginnings(search, lifetime, UINT32_MAX);
  for (uint32_t i = 0; i < *waiting_count; i++) {
    const uint32_t other = search->waiting[i];
    const tdm_ends ends = lifetime_of(search, other)->ends;
    if (!tdm_ends_before_life(search->lifetimes, ends, lifetime)) {
      search->earlier[search->earlier_count++] = other;
    } else if (known_to_all(search, ends)) {
      continue;
    }
    search->waiting[kept++] = other;
  }
  search->seen[queue_of(search, lifetime->first)] = lifetime->first + 1;
  search->values[value].first_pair = begin;
  search->values[value].pair_count = (uint32_t)search->earlier_count - begin;
  search->waiting[kept++] = value;
  *waiting_count = kept;
  return TDM_OK;
}

/* Collects the pairs of storage with overlapping lifetimes. Sets *out_done to false if the credit
 * is used up before the end. */
static tdm_status find_pairs(struct search *search, bool *out_done) {
  uint32_t waiting_count = 0;
  *out_done = false;
  for (uint32_t v = 0; v < search->value_count; v++)
    expect_beginnings(search, lifetime_of(search, v), 1);
  for (uint32_t v = 0; v < search->value_count; v++) {
    if (!spend(search, waiting_count)) return TDM_OK;
    TDM_TRY(pair_value(search, v, &waiting_count));
  }
  *out_done = true;
  return TDM_OK;
}

static tdm_status pair_both_ways(struct search *search) {
  tdm_region *region = &search->region;
  search->pairs =
      tdm_region_take(region, search->earlier_count * 2 * sizeof(uint32_t), "pairs of storage");
  uint32_t *later = tdm_region_take(region, search->value_count * sizeof(uint32_t), "pairs");
  if (region->failed) return TDM_OUT_OF_MEMORY;
  for (size_t i = 0; i < search->earlier_count; i++)
    later[search->earlier[i]]++;
  uint32_t next = 0;
  for (uint32_t v = 0; v < search->value_count; v++) {
    struct value *value = &search->values[v];
    const uint32_t *earlier = search->earlier + value->first_pair;
    const uint32_t count = value->pair_count;
    value->first_pair = next;
    value->pair_count = 0;
    next += count + later[v];
    for (uint32_t i = 0; i < count; i++) {
      struct value *other = &search->values[earlier[i]];
      search->pairs[value->first_pair + value->pair_count++] = earlier[i];
      search->pairs[other->first_pair + other->pair_count++] = v;
    }
  }
  return TDM_OK;
}

/* ---- Placing --------------------------------------------------------------------------------- */

/* Returns the lowest offset where value meets no placed value; adds its work to *looks. */
static uint64_t lowest_gap(const struct search *search, const struct value *value,
                           uint64_t *looks) {
  const uint32_t *pairs = search->pairs + value->first_pair;
  uint32_t count = 0;
  for (uint32_t i = 0; i < value->pair_count; i++) {
    const struct span span = search->placed[pairs[i]];
    if (span.offset != NO_OFFSET) search->spans[count++] = span;
  }
  uint64_t lowest = 0;
  *looks += value->pair_count;
  for (bool moved = true; moved;) {
    uint32_t kept = 0;
    moved = false;
    *looks += count;
    for (uint32_t i = 0; i < count; i++) {
      const struct span span = search->spans[i];
      if (span.end <= lowest) continue; /* also too low for all later gaps */
      search->spans[kept++] = span;
      if (span.offset >= lowest + value->bytes) continue;
      lowest = span.end;
      moved = true;
      kept--;
    }
    count = kept;
  }
  return lowest;
}

/* Places the values in order while they stay below the best known top, and keeps the result if all
 * do. Values before `first` keep their places of the latest try. `first` is at most that try's
 * result, so they are below the best top, because they did not cause the try's own top. Returns the
 * index in order of the value that prevents a lower top. */
static uint32_t place_in_order(struct search *search, uint32_t first) {
  assert(first == 0 || search->marks[first - 1].top < search->best_bytes);
  struct mark mark = {.looks = search->value_count};
  if (first > 0) mark = search->marks[first];
  for (uint32_t i = first; i < search->tried; i++)
    search->placed[search->order[i]].offset = NO_OFFSET;
  uint32_t i = first;
  for (; i < search->value_count && mark.top < search->best_bytes; i++) {
    const uint32_t v = search->order[i];
    search->marks[i] = mark;
    const uint64_t offset = lowest_gap(search, &search->values[v], &mark.looks);
    const uint64_t end = offset + search->values[v].bytes;
    search->placed[v] = (struct span){offset, end};
    if (end <= mark.top) continue;
    mark.top = end;
    mark.highest = i;
  }
  search->tried = i;
  (void)spend(search, mark.looks);
  if (mark.top < search->best_bytes) {
    search->best_bytes = mark.top;
    for (uint32_t v = 0; v < search->value_count; v++)
      search->best[v] = search->placed[v].offset;
  }
  return mark.highest;
}

static int compare_ranks(const void *left, const void *right) {
  const struct rank *a = left;
  const struct rank *b = right;
  if (a->key != b->key) return a->key > b->key ? -1 : 1;
  return (a->value > b->value) - (a->value < b->value);
}

static double key_of(const tdm_lifetime *lifetime, int list) {
  const double steps = (double)(lifetime->last - lifetime->first + 1);
  switch (list) {
  case BY_BYTES:
    return (double)lifetime->bytes;
  case BY_AREA:
    return (double)lifetime->bytes * steps;
  case BY_DURATION:
    return steps;
  case BY_LAST:
    return (double)lifetime->last;
  default:
    return -(double)lifetime->first;
  }
}

static void make_list(struct search *search, int list) {
  for (uint32_t v = 0; v < search->value_count; v++)
    search->ranks[v] = (struct rank){key_of(lifetime_of(search, v), list), v};
  qsort(search->ranks, search->value_count, sizeof(struct rank), compare_ranks);
  for (uint32_t i = 0; i < search->value_count; i++) {
    search->order[i] = search->ranks[i].value;
    search->placed[i].offset = NO_OFFSET;
  }
  search->tried = 0;
}

static void climb(struct search *search, uint64_t good_bytes) {
  for (int list = 0; list < LIST_COUNT; list++) {
    make_list(search, list);
    uint32_t to = 0;
    for (int round = 0; round < CLIMBS; round++) {
      if (search->best_bytes <= good_bytes || *search->credit == 0) return;
      const uint32_t from = place_in_order(search, to);
      to = round % 2 == 0 ? 0 : from / 2; /* moving only to the front would repeat in a cycle */
      const uint32_t moved = search->order[from];
      memmove(search->order + to + 1, search->order + to, (from - to) * sizeof(uint32_t));
      search->order[to] = moved;
    }
  }
}

/* ---- The search ------------------------------------------------------------------------------ */

/* Lists the arena's storages in order of first step. */
static tdm_status list_values(struct search *search, uint32_t arena) {
  const tdm_schedule *schedule = search->schedule;
  const tdm_lifetime *lifetimes = search->lifetimes->items;
  uint32_t count = 0;
  for (size_t i = 0; i < schedule->storage_count; i++)
    count += lifetimes[i].bytes != 0 && schedule->storages[i].arena == arena;
  bool *listed =
      tdm_region_take(&search->region, schedule->storage_count * sizeof(bool), "storage");
  search->values = tdm_region_take(&search->region, count * sizeof(struct value), "an arena");
  if (search->region.failed) return TDM_OUT_OF_MEMORY;
  for (size_t a = 0; a < schedule->access_count; a++) {
    const uint32_t storage = tdm_storage_placed(schedule, schedule->accesses[a].storage);
    const bool lies_here =
        lifetimes[storage].bytes != 0 && schedule->storages[storage].arena == arena;
    if (!lies_here || listed[storage]) continue;
    listed[storage] = true;
    search->values[search->value_count++] =
        (struct value){.bytes = lifetimes[storage].bytes, .storage = storage};
  }
  return TDM_OK;
}

static tdm_status take_arrays(struct search *search) {
  const size_t count = search->value_count;
  const size_t queues = search->schedule->queue_count;
  tdm_region *region = &search->region;
  search->waiting = tdm_region_take(region, count * sizeof(uint32_t), "a search");
  search->to_come = tdm_region_take(region, queues * sizeof(uint32_t), "a search");
  search->seen = tdm_region_take(region, queues * sizeof(uint32_t), "a search");
  search->order = tdm_region_take(region, count * sizeof(uint32_t), "a search");
  search->ranks = tdm_region_take(region, count * sizeof(struct rank), "a search");
  search->placed = tdm_region_take(region, count * sizeof(struct span), "a search");
  search->marks = tdm_region_take(region, count * sizeof(struct mark), "a search");
  search->best = tdm_region_take(region, count * sizeof(uint64_t), "a search");
  search->spans = tdm_region_take(region, count * sizeof(struct span), "a search");
  return region->failed ? TDM_OUT_OF_MEMORY : TDM_OK;
}

static tdm_status search_arena(struct search *search, uint32_t arena, uint64_t good_bytes) {
  bool paired = false;
  TDM_TRY(list_values(search, arena));
  TDM_TRY(take_arrays(search));
  TDM_TRY(find_pairs(search, &paired));
  if (!paired) return TDM_OK;
  TDM_TRY(pair_both_ways(search));
  climb(search, good_bytes);
  return TDM_OK;
}

tdm_status tdm_arena_search(tdm_schedule *schedule, const tdm_lifetimes *lifetimes, uint32_t arena,
                            uint64_t good_bytes, uint64_t *credit, uint64_t *arena_bytes) {
  struct search search = {
      .schedule = schedule, .lifetimes = lifetimes, .credit = credit, .best_bytes = *arena_bytes};
  tdm_region_init(&search.region, schedule->allocator);
  const tdm_status status = search_arena(&search, arena, good_bytes);
  if (status == TDM_OK && search.best_bytes < *arena_bytes) {
    *arena_bytes = search.best_bytes;
    for (uint32_t v = 0; v < search.value_count; v++)
      schedule->storages[search.values[v].storage].offset = search.best[v];
  }
  tdm_release(schedule->allocator, search.earlier, search.earlier_capacity * sizeof(uint32_t));
  tdm_region_deinit(&search.region);
  return status;
}
