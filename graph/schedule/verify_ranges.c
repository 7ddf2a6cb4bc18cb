/* The part of the pass verify that checks each step separately: every index in range, every access
 * and part within its storage, the phases in order, persistent writes in legal places. The walk
 * uses accepted schedules without further checks. */
#include "graph/schedule/verify_ranges.h"

#include <string.h>

struct ranges {
  const tdm_schedule *schedule;
  uint32_t *positions; /* (queue_count): number of steps in the current phase */
  bool *touched;       /* (storage_count) */
  bool *waited;        /* (step_count) */
};

static tdm_status check_accesses(const struct ranges *ranges, size_t index) {
  const tdm_schedule *schedule = ranges->schedule;
  const tdm_step *step = &schedule->steps[index];
  if ((uint64_t)step->first_access + step->access_count > schedule->access_count)
    return tdm_fail(TDM_INTERNAL, "step %zu has accesses past the last", index);
  for (uint32_t i = 0; i < step->access_count; i++) {
    const tdm_access *access = &schedule->accesses[step->first_access + i];
    if (access->storage >= schedule->storage_count) {
      return tdm_fail(TDM_INTERNAL, "step %zu touches storage %u of %zu", index, access->storage,
                      schedule->storage_count);
    }
    const uint8_t kind = schedule->storages[access->storage].kind;
    const uint64_t bytes = schedule->storages[access->storage].bytes;
    if (access->begin > bytes || access->bytes > bytes - access->begin) {
      return tdm_fail(TDM_INTERNAL,
                      "step %zu touches %llu bytes from byte %llu of storage %u, which has %llu",
                      index, (unsigned long long)access->bytes, (unsigned long long)access->begin,
                      access->storage, (unsigned long long)bytes);
    }
    if (access->writes && schedule->storages[access->storage].part_count > 0) {
      return tdm_fail(TDM_INTERNAL, "step %zu writes storage %u, which its parts make up", index,
                      access->storage);
    }
    if (access->writes && kind == TDM_STORAGE_PERSISTENT && step->phase != TDM_PHASE_UPDATE &&
        !step->refresh) {
      return tdm_fail(TDM_INTERNAL,
                      "step %zu of the main phase writes persistent storage %u and is no refresh",
                      index, access->storage);
    }
    ranges->touched[access->storage] = true;
  }
  return TDM_OK;
}

static tdm_status check_waits(const struct ranges *ranges, size_t index) {
  const tdm_schedule *schedule = ranges->schedule;
  const tdm_step *step = &schedule->steps[index];
  if ((uint64_t)step->first_wait + step->wait_count > schedule->wait_count)
    return tdm_fail(TDM_INTERNAL, "step %zu has waits past the last", index);
  for (uint32_t i = 0; i < step->wait_count; i++) {
    const tdm_step_wait *wait = &schedule->waits[step->first_wait + i];
    if (wait->step >= schedule->step_count) {
      return tdm_fail(TDM_INTERNAL, "step %zu waits for step %u of %zu", index, wait->step,
                      schedule->step_count);
    }
    if (!wait->previous && wait->step >= index) {
      return tdm_fail(TDM_INTERNAL, "step %zu waits for step %u, which does not come before it",
                      index, wait->step);
    }
    if (schedule->steps[wait->step].queue == step->queue) {
      return tdm_fail(TDM_INTERNAL, "step %zu waits for step %u of its own queue %u", index,
                      wait->step, step->queue);
    }
    ranges->waited[wait->step] = true;
  }
  return TDM_OK;
}

static tdm_status check_phase(const struct ranges *ranges, size_t index) {
  const tdm_schedule *schedule = ranges->schedule;
  const tdm_step *step = &schedule->steps[index];
  const uint8_t before = index == 0 ? TDM_PHASE_MAIN : schedule->steps[index - 1].phase;
  if (step->phase > TDM_PHASE_UPDATE || step->phase < before)
    return tdm_fail(TDM_INTERNAL, "step %zu of the main phase follows the update phase", index);
  if (step->phase != before) memset(ranges->positions, 0, schedule->queue_count * sizeof(uint32_t));
  if (step->position != ranges->positions[step->queue]++) {
    return tdm_fail(TDM_INTERNAL, "step %zu has position %u on its queue, not %u", index,
                    step->position, ranges->positions[step->queue] - 1);
  }
  return TDM_OK;
}

/* Without two phases, updates are safe only if all steps share a queue. */
static tdm_status check_single_queue(const tdm_schedule *schedule) {
  const size_t count = schedule->step_count;
  if (schedule->two_phase || count == 0) return TDM_OK;
  if (schedule->steps[count - 1].phase == TDM_PHASE_MAIN) return TDM_OK;
  for (size_t s = 1; s < count; s++) {
    if (schedule->steps[s].queue != schedule->steps[0].queue) {
      return tdm_fail(TDM_INTERNAL,
                      "step %zu runs on queue %u, concurrently with updates that wait for no phase",
                      s, schedule->steps[s].queue);
    }
  }
  return TDM_OK;
}

/* Checks that its parts are consecutive, as described, and cover all of it. */
static tdm_status check_parts(const tdm_schedule *schedule, size_t index) {
  const tdm_storage_plan *whole = &schedule->storages[index];
  uint64_t end = 0;
  bool fits = whole->whole == 0 && whole->kind != TDM_STORAGE_PERSISTENT &&
              whole->part_count < schedule->storage_count - index;
  for (uint32_t p = 1; fits && p <= whole->part_count; p++) {
    const tdm_storage_plan *part = whole + p;
    fits = part->whole == index + 1 && part->part_count == 0 && part->kind == whole->kind &&
           part->arena == whole->arena && part->within == end && part->bytes <= whole->bytes - end;
    if (fits && part->kind == TDM_STORAGE_ARENA) fits = part->offset == whole->offset + end;
    end += part->bytes;
  }
  if (fits && end == whole->bytes) return TDM_OK;
  return tdm_fail(TDM_INTERNAL, "the parts of storage %zu are not what lies in it", index);
}

static tdm_status check_storages(const tdm_schedule *schedule) {
  for (size_t i = 0; i < schedule->storage_count; i++) {
    const tdm_storage_plan *plan = &schedule->storages[i];
    if (plan->kind > TDM_STORAGE_EXTERNAL)
      return tdm_fail(TDM_INTERNAL, "storage %zu has no kind", i);
    if (plan->part_count > 0) TDM_TRY(check_parts(schedule, i));
    const size_t whole = plan->whole == 0 ? i : (size_t)plan->whole - 1;
    if (whole > i || i - whole > (plan->whole == 0 ? 0 : schedule->storages[whole].part_count))
      return tdm_fail(TDM_INTERNAL, "storage %zu is no part of storage %zu", i, whole);
    if (plan->kind == TDM_STORAGE_ARENA &&
        (plan->arena >= schedule->arena_count || !schedule->arena_bytes)) {
      return tdm_fail(TDM_INTERNAL, "storage %zu lies in arena %u of %u", i, plan->arena,
                      !schedule->arena_bytes ? 0 : schedule->arena_count);
    }
  }
  return TDM_OK;
}

tdm_status tdm_verify_ranges(const tdm_schedule *schedule, uint32_t *positions, bool *touched,
                             bool *waited) {
  const struct ranges ranges = {schedule, positions, touched, waited};
  TDM_TRY(check_storages(schedule));
  for (size_t s = 0; s < schedule->step_count; s++) {
    if (schedule->steps[s].queue >= schedule->queue_count) {
      return tdm_fail(TDM_INTERNAL, "step %zu is on queue %u of %u", s, schedule->steps[s].queue,
                      schedule->queue_count);
    }
    TDM_TRY(check_phase(&ranges, s));
    TDM_TRY(check_accesses(&ranges, s));
    TDM_TRY(check_waits(&ranges, s));
  }
  return check_single_queue(schedule);
}
