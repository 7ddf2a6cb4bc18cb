/* The pass schedule: computes the waits between queues from accesses. Each step's candidates are
 * the last conflicting step of every other queue. The latest one is taken first, and candidates
 * that a clock already covers are dropped. So the waits are a transitive reduction, and each is
 * needed. Waits for the preceding run are computed second, because they never replace a path within
 * a run. */
#include <string.h>

#include "graph/schedule/clocks.h"

struct history {
  uint32_t writer;  /* 1 + last step that wrote; 0: none in this run */
  uint32_t readers; /* 1 + access of the last read since then, the head of a list; 0: none */
};

struct reader {
  uint32_t step;
  uint32_t next; /* access + 1 */
};

struct scheduler {
  tdm_schedule *schedule;
  tdm_region region;
  tdm_clocks clocks;         /* knowledge within one run */
  tdm_clocks again;          /* knowledge of the preceding run; only with carried storage */
  struct history *histories; /* (storage_count) */
  struct reader *readers;    /* (access_count) */
  bool *written;             /* (storage_count): in the current run, while `again` is filled */
  uint32_t *latest;          /* (queue_count): 1 + the latest candidate; 0: none */
  uint32_t *candidate;       /* (queue_count): the queues with a candidate */
  uint32_t candidate_count;
  tdm_step_wait *waits;
  size_t wait_count, wait_capacity;
};

static tdm_status scheduler_init(struct scheduler *scheduler, tdm_schedule *schedule) {
  *scheduler = (struct scheduler){.schedule = schedule};
  tdm_region *region = &scheduler->region;
  const size_t queues = schedule->queue_count;
  tdm_region_init(region, schedule->allocator);
  TDM_TRY(tdm_clocks_init(&scheduler->clocks, schedule));
  scheduler->histories = tdm_region_take(region, schedule->storage_count * sizeof(struct history),
                                         "histories of storage");
  scheduler->readers =
      tdm_region_take_room(region, schedule->access_count * sizeof(struct reader), "readers");
  scheduler->latest = tdm_region_take(region, queues * sizeof(uint32_t), "candidates");
  scheduler->candidate = tdm_region_take(region, queues * sizeof(uint32_t), "candidates");
  return region->failed ? TDM_OUT_OF_MEMORY : TDM_OK;
}

static void scheduler_deinit(struct scheduler *scheduler) {
  tdm_clocks_deinit(&scheduler->clocks);
  tdm_clocks_deinit(&scheduler->again);
  tdm_region_deinit(&scheduler->region);
  tdm_release(scheduler->schedule->allocator, scheduler->waits,
              scheduler->wait_capacity * sizeof(tdm_step_wait));
}

/* Considers that a step on queue conflicts with step candidate - 1 (0: none) of the run described
 * by known. */
static inline void consider(struct scheduler *scheduler, const uint32_t *known, uint32_t queue,
                            uint32_t candidate) {
  if (candidate == 0) return;
  const tdm_clock_step *other = &scheduler->clocks.steps[candidate - 1];
  if (other->queue == queue || known[other->queue] > other->order) return;
  uint32_t *latest = &scheduler->latest[other->queue];
  if (*latest == 0) scheduler->candidate[scheduler->candidate_count++] = other->queue;
  if (*latest < candidate) *latest = candidate;
}

/* Considers the conflicts of an access with history. */
static inline void consider_history(struct scheduler *scheduler, const uint32_t *known,
                                    uint32_t queue, const struct history *history, bool writes) {
  consider(scheduler, known, queue, history->writer);
  if (!writes) return;
  for (uint32_t r = history->readers; r != 0; r = scheduler->readers[r - 1].next)
    consider(scheduler, known, queue, scheduler->readers[r - 1].step + 1);
}

/* Considers the conflicts of an access of this run; those of a whole are its parts'. */
static inline void consider_access(struct scheduler *scheduler, const uint32_t *known,
                                   uint32_t queue, const tdm_access *access) {
  const tdm_storage_plan *plan = &scheduler->schedule->storages[access->storage];
  const struct history *history = &scheduler->histories[access->storage];
  consider_history(scheduler, known, queue, history, access->writes);
  for (uint32_t p = 1; p <= plan->part_count; p++)
    consider(scheduler, known, queue, history[p].writer);
  if (plan->whole != 0 && access->writes)
    consider_history(scheduler, known, queue, &scheduler->histories[plan->whole - 1], true);
}

static inline void record(struct scheduler *scheduler, uint32_t step, uint32_t access) {
  const tdm_access *touched = &scheduler->schedule->accesses[access];
  struct history *history = &scheduler->histories[touched->storage];
  if (touched->writes) {
    history->writer = step + 1;
    history->readers = 0;
  } else {
    scheduler->readers[access] = (struct reader){step, history->readers};
    history->readers = access + 1;
  }
}

/* Removes and returns the latest candidate; there is one. */
static uint32_t take_latest(struct scheduler *scheduler) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < scheduler->candidate_count; i++) {
    if (scheduler->latest[scheduler->candidate[i]] > scheduler->latest[scheduler->candidate[best]])
      best = i;
  }
  const uint32_t queue = scheduler->candidate[best];
  const uint32_t step = scheduler->latest[queue] - 1;
  scheduler->latest[queue] = 0;
  scheduler->candidate[best] = scheduler->candidate[--scheduler->candidate_count];
  return step;
}

static inline tdm_status add_wait(struct scheduler *scheduler, tdm_step_wait wait) {
  if (scheduler->wait_count == scheduler->wait_capacity) {
    TDM_TRY(tdm_array_reserve(scheduler->schedule->allocator, (void **)&scheduler->waits,
                              &scheduler->wait_capacity, scheduler->wait_count + 1,
                              sizeof(tdm_step_wait), "waits"));
  }
  scheduler->waits[scheduler->wait_count++] = wait;
  return TDM_OK;
}

static bool begins_update(const tdm_schedule *schedule, size_t step) {
  return schedule->two_phase && schedule->steps[step].phase == TDM_PHASE_UPDATE &&
         (step == 0 || schedule->steps[step - 1].phase == TDM_PHASE_MAIN);
}

static tdm_status schedule_step(struct scheduler *scheduler, uint32_t index) {
  tdm_step *step = &scheduler->schedule->steps[index];
  const uint32_t queue = step->queue;
  const uint32_t *known = tdm_clocks_running(&scheduler->clocks, queue);
  const tdm_access *accesses = scheduler->schedule->accesses;
  const uint32_t end_access = step->first_access + step->access_count;
  for (uint32_t a = step->first_access; a < end_access; a++)
    consider_access(scheduler, known, queue, &accesses[a]);
  for (uint32_t a = step->first_access; a < end_access; a++)
    record(scheduler, index, a);
  step->first_wait = (uint32_t)scheduler->wait_count;
  while (scheduler->candidate_count > 0) {
    const uint32_t other = take_latest(scheduler);
    if (tdm_clocks_knows(&scheduler->clocks, queue, other)) continue;
    TDM_TRY(add_wait(scheduler, (tdm_step_wait){.step = other}));
    tdm_clocks_join(&scheduler->clocks, queue, other);
  }
  step->wait_count = (uint32_t)scheduler->wait_count - step->first_wait;
  if (step->wait_count > 0) TDM_TRY(tdm_clocks_snapshot(&scheduler->clocks, queue));
  tdm_clocks_pass(&scheduler->clocks, queue, index);
  return TDM_OK;
}

static tdm_status schedule_run(struct scheduler *scheduler) {
  const tdm_schedule *schedule = scheduler->schedule;
  for (size_t s = 0; s < schedule->step_count; s++) {
    if (begins_update(schedule, s)) TDM_TRY(tdm_clocks_barrier(&scheduler->clocks));
    TDM_TRY(schedule_step(scheduler, (uint32_t)s));
  }
  return TDM_OK;
}

/* ---- Waits for the preceding run ------------------------------------------------------------- */

/* The clocks of the second run count steps of the first: each queue begins with all of its own. */
static tdm_status begin_again(struct scheduler *scheduler) {
  const tdm_schedule *schedule = scheduler->schedule;
  tdm_clocks *again = &scheduler->again;
  TDM_TRY(tdm_clocks_init(again, schedule));
  scheduler->written =
      tdm_region_take(&scheduler->region, schedule->storage_count * sizeof(bool), "storage");
  if (scheduler->region.failed) return TDM_OUT_OF_MEMORY;
  for (uint32_t q = 0; q < schedule->queue_count; q++) {
    memcpy(tdm_clocks_running(again, q), tdm_clocks_running(&scheduler->clocks, q),
           schedule->queue_count * sizeof(uint32_t));
    TDM_TRY(tdm_clocks_snapshot(again, q));
  }
  return TDM_OK;
}

/* Applies the waits within a run, which stay. Returns true if a clock rose. */
static bool keep_waits(struct scheduler *scheduler, const tdm_step_wait *waits, uint32_t count,
                       uint32_t queue) {
  tdm_clocks *again = &scheduler->again;
  for (uint32_t i = 0; i < count; i++) {
    tdm_clock_raise(tdm_clocks_running(again, queue),
                    tdm_clocks_row(again, again->steps[waits[i].step].row), again->queue_count);
  }
  return count > 0;
}

static void consider_previous(struct scheduler *scheduler, const tdm_step *step) {
  const uint32_t *known = tdm_clocks_running(&scheduler->again, step->queue);
  for (uint32_t i = 0; i < step->access_count; i++) {
    const tdm_access *touched = &scheduler->schedule->accesses[step->first_access + i];
    const uint32_t storage = touched->storage;
    if (scheduler->schedule->storages[storage].kind != TDM_STORAGE_PERSISTENT) continue;
    if (scheduler->written[storage]) continue; /* its writer has already waited */
    consider_history(scheduler, known, step->queue, &scheduler->histories[storage],
                     touched->writes);
    scheduler->written[storage] = touched->writes;
  }
}

static tdm_status schedule_previous(struct scheduler *scheduler, const tdm_step_wait *waits,
                                    uint32_t index) {
  tdm_clocks *again = &scheduler->again;
  tdm_step *step = &scheduler->schedule->steps[index];
  const uint32_t queue = step->queue;
  const size_t first_wait = scheduler->wait_count;
  bool rose = keep_waits(scheduler, waits + step->first_wait, step->wait_count, queue);
  for (uint32_t i = 0; i < step->wait_count; i++)
    TDM_TRY(add_wait(scheduler, waits[step->first_wait + i]));
  consider_previous(scheduler, step);
  uint32_t *known = tdm_clocks_running(again, queue);
  while (scheduler->candidate_count > 0) {
    const uint32_t candidate = take_latest(scheduler);
    const tdm_clock_step *other = &scheduler->clocks.steps[candidate];
    if (known[other->queue] > other->order) continue;
    TDM_TRY(add_wait(scheduler, (tdm_step_wait){.step = candidate, .previous = true}));
    tdm_clock_raise(known, tdm_clocks_row(&scheduler->clocks, other->row), again->queue_count);
    known[other->queue] = other->order + 1; /* no row includes a step of the row's own queue */
    rose = true;
  }
  step->first_wait = (uint32_t)first_wait;
  step->wait_count = (uint32_t)(scheduler->wait_count - first_wait);
  if (rose) TDM_TRY(tdm_clocks_snapshot(again, queue));
  again->steps[index].row = again->queue_rows[queue];
  return TDM_OK;
}

static bool carries_storage(const struct scheduler *scheduler) {
  const tdm_schedule *schedule = scheduler->schedule;
  if (schedule->depth < 2) return false;
  for (size_t i = 0; i < schedule->storage_count; i++) {
    const bool persistent = schedule->storages[i].kind == TDM_STORAGE_PERSISTENT;
    if (persistent && scheduler->histories[i].writer != 0) return true;
  }
  return false;
}

/* Computes the second of two runs, with the waits of the first unchanged. */
static tdm_status schedule_again(struct scheduler *scheduler) {
  const tdm_schedule *schedule = scheduler->schedule;
  const tdm_allocator *allocator = schedule->allocator;
  tdm_status status = begin_again(scheduler);
  tdm_step_wait *waits = scheduler->waits;
  const size_t capacity = scheduler->wait_capacity;
  scheduler->waits = NULL;
  scheduler->wait_count = scheduler->wait_capacity = 0;
  for (size_t s = 0; s < schedule->step_count && status == TDM_OK; s++) {
    if (begins_update(schedule, s)) status = tdm_clocks_barrier(&scheduler->again);
    if (status == TDM_OK) status = schedule_previous(scheduler, waits, (uint32_t)s);
  }
  tdm_release(allocator, waits, capacity * sizeof(tdm_step_wait));
  return status;
}

/* ---- The pass -------------------------------------------------------------------------------- */

/* Removes earlier waits, and numbers the steps of every queue within their phase. */
static tdm_status number_positions(tdm_schedule *schedule) {
  const size_t bytes = (size_t)schedule->queue_count * 2 * sizeof(uint32_t);
  uint32_t *counts = tdm_allocate(schedule->allocator, bytes, "positions of steps");
  if (!counts) return TDM_OUT_OF_MEMORY;
  for (size_t s = 0; s < schedule->step_count; s++) {
    tdm_step *step = &schedule->steps[s];
    step->first_wait = step->wait_count = 0;
    step->position = counts[step->queue * 2 + (step->phase == TDM_PHASE_UPDATE)]++;
  }
  schedule->wait_count = 0;
  tdm_release(schedule->allocator, counts, bytes);
  return TDM_OK;
}

static void forget_waits(tdm_schedule *schedule) {
  for (size_t s = 0; s < schedule->step_count; s++)
    schedule->steps[s].first_wait = schedule->steps[s].wait_count = 0;
}

tdm_status tdm_pass_schedule(tdm_schedule *schedule) {
  TDM_TRY(number_positions(schedule));
  if (schedule->queue_count < 2) return TDM_OK;
  struct scheduler scheduler;
  tdm_status status = scheduler_init(&scheduler, schedule);
  if (status == TDM_OK) status = schedule_run(&scheduler);
  if (status == TDM_OK && carries_storage(&scheduler)) status = schedule_again(&scheduler);
  if (status == TDM_OK) {
    tdm_release(schedule->allocator, schedule->waits,
                schedule->wait_capacity * sizeof(tdm_step_wait));
    schedule->waits = scheduler.waits;
    schedule->wait_count = scheduler.wait_count;
    schedule->wait_capacity = scheduler.wait_capacity;
    scheduler.waits = NULL;
    scheduler.wait_capacity = 0;
  } else {
    forget_waits(schedule);
  }
  scheduler_deinit(&scheduler);
  return status;
}
