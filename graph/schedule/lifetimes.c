/* Finds first accesses and ends in one walk in plan order, using the current clocks. */
#include "graph/schedule/lifetimes.h"

/* Returns true if step is one of ends or has happened before one. */
static bool step_covered(const tdm_lifetimes *lifetimes, uint32_t step, tdm_ends ends) {
  while (true) {
    if (step == ends.step) return true;
    if (tdm_clocks_before(&lifetimes->clocks, step, ends.step)) return true;
    if (ends.more == 0) return false;
    ends = lifetimes->further[ends.more - 1];
  }
}

bool tdm_ends_covered(const tdm_lifetimes *lifetimes, tdm_ends earlier, tdm_ends later) {
  while (step_covered(lifetimes, earlier.step, later)) {
    if (earlier.more == 0) return true;
    earlier = lifetimes->further[earlier.more - 1];
  }
  return false;
}

/* Inserts step after the first of list. */
static tdm_status add_further(tdm_lifetimes *lifetimes, tdm_ends *list, uint32_t step) {
  TDM_TRY(tdm_array_reserve(lifetimes->clocks.allocator, (void **)&lifetimes->further,
                            &lifetimes->further_capacity, lifetimes->further_count + 1,
                            sizeof(tdm_ends), "ends of storage"));
  lifetimes->further[lifetimes->further_count++] = (tdm_ends){step, list->more};
  list->more = (uint32_t)lifetimes->further_count;
  return TDM_OK;
}

/* Makes step, which has passed, an end, and removes the ends that happened before it. */
static tdm_status extend(tdm_lifetimes *lifetimes, tdm_ends *ends, uint32_t step) {
  for (tdm_ends *end = ends;; end = &lifetimes->further[end->more - 1]) {
    if (end->step == step) return TDM_OK;
    if (tdm_clocks_before(&lifetimes->clocks, end->step, step)) {
      end->step = step;
      return TDM_OK;
    }
    if (end->more == 0) break;
  }
  return add_further(lifetimes, ends, step);
}

/* Makes step, which has passed, a beginning, unless one happened before it. */
static tdm_status begin(tdm_lifetimes *lifetimes, tdm_ends *begins, uint32_t step) {
  for (const tdm_ends *at = begins;; at = &lifetimes->further[at->more - 1]) {
    if (at->step == step || tdm_clocks_before(&lifetimes->clocks, at->step, step)) return TDM_OK;
    if (at->more == 0) break;
  }
  return add_further(lifetimes, begins, step);
}

static tdm_status touch(tdm_lifetimes *lifetimes, uint32_t touched, uint32_t step) {
  const uint32_t storage = tdm_storage_placed(lifetimes->schedule, touched);
  const tdm_storage_plan *plan = &lifetimes->schedule->storages[storage];
  tdm_lifetime *lifetime = &lifetimes->items[storage];
  if (plan->kind != TDM_STORAGE_ARENA) return TDM_OK;
  lifetime->last = step;
  if (lifetime->bytes != 0) {
    if (plan->part_count > 0) TDM_TRY(begin(lifetimes, &lifetime->begins, step));
    return extend(lifetimes, &lifetime->ends, step);
  }
  lifetime->bytes =
      (plan->bytes + TDM_ARENA_ALIGNMENT - 1) / TDM_ARENA_ALIGNMENT * TDM_ARENA_ALIGNMENT;
  lifetime->first = lifetime->begins.step = lifetime->ends.step = step;
  return TDM_OK;
}

static tdm_status walk(tdm_lifetimes *lifetimes) {
  const tdm_schedule *schedule = lifetimes->schedule;
  tdm_clocks *clocks = &lifetimes->clocks;
  bool updating = !schedule->two_phase;
  for (uint32_t s = 0; s < schedule->step_count; s++) {
    const tdm_step *step = &schedule->steps[s];
    if (!updating && step->phase == TDM_PHASE_UPDATE) {
      updating = true;
      TDM_TRY(tdm_clocks_barrier(clocks));
    }
    bool joined = false;
    for (uint32_t w = 0; w < step->wait_count; w++) {
      const tdm_step_wait *wait = &schedule->waits[step->first_wait + w];
      if (wait->previous) continue;
      tdm_clocks_join(clocks, step->queue, wait->step);
      joined = true;
    }
    if (joined) TDM_TRY(tdm_clocks_snapshot(clocks, step->queue));
    tdm_clocks_pass(clocks, step->queue, s);
    for (uint32_t a = 0; a < step->access_count; a++)
      TDM_TRY(touch(lifetimes, schedule->accesses[step->first_access + a].storage, s));
  }
  return TDM_OK;
}

tdm_status tdm_lifetimes_init(tdm_lifetimes *lifetimes, const tdm_schedule *schedule) {
  const tdm_allocator *allocator = schedule->allocator;
  *lifetimes = (tdm_lifetimes){.schedule = schedule, .count = schedule->storage_count};
  TDM_TRY(tdm_clocks_init(&lifetimes->clocks, schedule));
  lifetimes->items =
      tdm_allocate(allocator, lifetimes->count * sizeof(tdm_lifetime), "lifetimes of storage");
  if (!lifetimes->items) return TDM_OUT_OF_MEMORY;
  return walk(lifetimes);
}

void tdm_lifetimes_deinit(tdm_lifetimes *lifetimes) {
  const tdm_allocator *allocator = lifetimes->clocks.allocator;
  tdm_release(allocator, lifetimes->items, lifetimes->count * sizeof(tdm_lifetime));
  tdm_release(allocator, lifetimes->further, lifetimes->further_capacity * sizeof(tdm_ends));
  tdm_clocks_deinit(&lifetimes->clocks);
}
