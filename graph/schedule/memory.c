/* The pass memory: first assigns offsets in plan order, best fit over what is free by then. If that
 * leaves an arena well above its lower bound, searches over other orders. Invariant: two storages
 * share bytes only if all accesses of one happen before all of the other, or one is a part of the
 * other. */
#include "graph/schedule/arena_blocks.h"
#include "graph/schedule/arena_search.h"

/* Limit of the work beyond one walk, in inspections of one storage or block: about 2 ns each. */
#define SEARCH_LOOKS 100000 /* per plan */
#define SEARCH_LOOKS_PER_STEP 30
#define JOIN_LOOKS_PER_STORAGE 4

struct placing {
  tdm_schedule *schedule;
  tdm_lifetimes lifetimes;
  tdm_arena *arenas; /* (arena_count) */
  tdm_arena_pool pool;
  uint32_t *blocks; /* (storage_count): 1 + block while in use */
};

/* Checks the total of all arenas, which limits each arena, so that offsets do not overflow. */
static tdm_status check_sum(const tdm_schedule *schedule) {
  uint64_t sum = 0;
  for (size_t i = 0; i < schedule->storage_count; i++) {
    const tdm_storage_plan *plan = &schedule->storages[i];
    if (plan->kind != TDM_STORAGE_ARENA || plan->whole != 0) continue;
    if (plan->bytes > INT64_MAX - 63 || sum > INT64_MAX - 63 - plan->bytes)
      return tdm_fail(TDM_OUT_OF_MEMORY, "what a run computes takes more than 2^63 bytes");
    sum += (plan->bytes + 63) / 64 * 64;
  }
  return TDM_OK;
}

static tdm_status placing_init(struct placing *placing, tdm_schedule *schedule) {
  const tdm_allocator *allocator = schedule->allocator;
  *placing = (struct placing){.schedule = schedule};
  tdm_arena_pool_init(&placing->pool, allocator);
  TDM_TRY(tdm_lifetimes_init(&placing->lifetimes, schedule));
  placing->arenas = tdm_allocate(allocator, schedule->arena_count * sizeof(tdm_arena), "arenas");
  placing->blocks =
      tdm_allocate(allocator, schedule->storage_count * sizeof(uint32_t), "blocks of storage");
  if (!schedule->arena_bytes) {
    schedule->arena_bytes =
        tdm_allocate(allocator, schedule->arena_count * sizeof(uint64_t), "sizes of arenas");
  }
  if (!placing->arenas || !placing->blocks || !schedule->arena_bytes) return TDM_OUT_OF_MEMORY;
  for (uint32_t a = 0; a < schedule->arena_count; a++)
    placing->arenas[a].search_credit = JOIN_LOOKS_PER_STORAGE * schedule->storage_count;
  return TDM_OK;
}

static void placing_deinit(struct placing *placing) {
  const tdm_schedule *schedule = placing->schedule;
  const tdm_allocator *allocator = schedule->allocator;
  tdm_release(allocator, placing->arenas, schedule->arena_count * sizeof(tdm_arena));
  tdm_release(allocator, placing->blocks, schedule->storage_count * sizeof(uint32_t));
  tdm_arena_pool_deinit(&placing->pool);
  tdm_lifetimes_deinit(&placing->lifetimes);
}

/* Places what begins with step, and only then releases what ends with step. */
static tdm_status place_step(struct placing *placing, uint32_t index) {
  const tdm_schedule *schedule = placing->schedule;
  const tdm_step *step = &schedule->steps[index];
  const tdm_access *accesses = schedule->accesses + step->first_access;
  for (uint32_t i = 0; i < step->access_count; i++) {
    const uint32_t storage = tdm_storage_placed(schedule, accesses[i].storage);
    const tdm_lifetime *lifetime = &placing->lifetimes.items[storage];
    if (lifetime->bytes == 0 || lifetime->first != index || placing->blocks[storage] != 0) continue;
    tdm_storage_plan *plan = &schedule->storages[storage];
    TDM_TRY(tdm_arena_place(&placing->arenas[plan->arena], &placing->pool, &placing->lifetimes,
                            lifetime, &plan->offset, &placing->blocks[storage]));
  }
  for (uint32_t i = 0; i < step->access_count; i++) {
    const uint32_t storage = tdm_storage_placed(schedule, accesses[i].storage);
    const tdm_lifetime *lifetime = &placing->lifetimes.items[storage];
    if (lifetime->bytes == 0 || lifetime->last != index || placing->blocks[storage] == 0) continue;
    tdm_arena_release(&placing->arenas[schedule->storages[storage].arena], &placing->pool,
                      &placing->lifetimes, placing->blocks[storage], lifetime->ends);
    placing->blocks[storage] = 0;
  }
  return TDM_OK;
}

/* Searches if plan order needs more than the bytes in use at once, a lower bound for any order.
 * Each byte that could be saved is worth one inspection: small arenas are not searched for long. */
static tdm_status improve(struct placing *placing) {
  tdm_schedule *schedule = placing->schedule;
  uint64_t credit = SEARCH_LOOKS + SEARCH_LOOKS_PER_STEP * (uint64_t)schedule->step_count;
  for (uint32_t a = 0; a < schedule->arena_count; a++) {
    const tdm_arena *arena = &placing->arenas[a];
    const uint64_t good_bytes = arena->peak_bytes + arena->peak_bytes / 50;
    if (arena->top > good_bytes) {
      const uint64_t worth = arena->top - good_bytes;
      uint64_t share = credit / (schedule->arena_count - a);
      if (share > worth) share = worth;
      credit -= share;
      TDM_TRY(tdm_arena_search(schedule, &placing->lifetimes, a, good_bytes, &share,
                               &schedule->arena_bytes[a]));
      credit += share; /* the rest is for the other arenas */
    }
  }
  return TDM_OK;
}

static tdm_status place_all(struct placing *placing) {
  tdm_schedule *schedule = placing->schedule;
  for (size_t i = 0; i < schedule->storage_count; i++)
    schedule->storages[i].offset = 0;
  for (size_t s = 0; s < schedule->step_count; s++)
    TDM_TRY(place_step(placing, (uint32_t)s));
  for (uint32_t a = 0; a < schedule->arena_count; a++)
    schedule->arena_bytes[a] = placing->arenas[a].top;
  TDM_TRY(improve(placing));
  for (size_t i = 0; i < schedule->storage_count; i++) {
    tdm_storage_plan *plan = &schedule->storages[i];
    if (plan->whole != 0) plan->offset = schedule->storages[plan->whole - 1].offset + plan->within;
  }
  return TDM_OK;
}

tdm_status tdm_pass_memory(tdm_schedule *schedule) {
  struct placing placing;
  TDM_TRY(check_sum(schedule));
  tdm_status status = placing_init(&placing, schedule);
  if (status == TDM_OK) status = place_all(&placing);
  placing_deinit(&placing);
  return status;
}
