/* Schedules as objects; their contents are created by lowering and by passes. */
#include "graph/schedule/schedule.h"

void tdm_schedule_init(tdm_schedule *schedule, const tdm_allocator *allocator) {
  *schedule = (tdm_schedule){.allocator = allocator, .depth = 1};
}

void tdm_schedule_deinit(tdm_schedule *schedule) {
  const tdm_allocator *allocator = schedule->allocator;
  if (!allocator) return;
  tdm_release(allocator, schedule->steps, schedule->step_capacity * sizeof(tdm_step));
  tdm_release(allocator, schedule->accesses, schedule->access_capacity * sizeof(tdm_access));
  tdm_release(allocator, schedule->waits, schedule->wait_capacity * sizeof(tdm_step_wait));
  tdm_release(allocator, schedule->storages, schedule->storage_capacity * sizeof(tdm_storage_plan));
  tdm_release(allocator, schedule->arena_bytes, schedule->arena_count * sizeof(uint64_t));
  tdm_schedule_init(schedule, allocator);
}
