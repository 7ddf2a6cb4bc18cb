/* Arrays that grow. Invariant: see virtual_schedule.h. */
#include "graph/forecast/virtual_schedule.h"

void tdm_virtual_init(tdm_virtual_schedule *schedule, const tdm_allocator *allocator) {
  *schedule = (tdm_virtual_schedule){.allocator = allocator, .last_task = TDM_VIRTUAL_NONE};
}

void tdm_virtual_deinit(tdm_virtual_schedule *schedule) {
  const tdm_allocator *allocator = schedule->allocator;
  if (!allocator) return;
  tdm_release(allocator, schedule->queues, schedule->queue_capacity * sizeof *schedule->queues);
  tdm_release(allocator, schedule->links, schedule->link_capacity * sizeof *schedule->links);
  tdm_release(allocator, schedule->tasks, schedule->task_capacity * sizeof *schedule->tasks);
  tdm_release(allocator, schedule->waits, schedule->wait_capacity * sizeof *schedule->waits);
  *schedule = (tdm_virtual_schedule){.allocator = NULL};
}

tdm_status tdm_virtual_add_queue(tdm_virtual_schedule *schedule, uint32_t group,
                                 uint32_t *out_queue) {
  TDM_TRY(tdm_array_reserve(schedule->allocator, (void **)&schedule->queues,
                            &schedule->queue_capacity, schedule->queue_count + 1,
                            sizeof *schedule->queues, "virtual time"));
  *out_queue = (uint32_t)schedule->queue_count;
  schedule->queues[schedule->queue_count++] = (tdm_virtual_queue){.group = group};
  return TDM_OK;
}

tdm_status tdm_virtual_add_link(tdm_virtual_schedule *schedule, double bytes_per_ns,
                                uint32_t *out_link) {
  TDM_TRY(tdm_array_reserve(schedule->allocator, (void **)&schedule->links,
                            &schedule->link_capacity, schedule->link_count + 1,
                            sizeof *schedule->links, "virtual time"));
  *out_link = (uint32_t)schedule->link_count;
  schedule->links[schedule->link_count++] = (tdm_virtual_link){.bytes_per_ns = bytes_per_ns};
  return TDM_OK;
}

tdm_status tdm_virtual_add(tdm_virtual_schedule *schedule, const tdm_virtual_task *task,
                           uint32_t *out_task) {
  TDM_TRY(tdm_array_reserve(schedule->allocator, (void **)&schedule->tasks,
                            &schedule->task_capacity, schedule->task_count + 1,
                            sizeof *schedule->tasks, "virtual time"));
  schedule->tasks[schedule->task_count] = *task;
  *out_task = (uint32_t)schedule->task_count++;
  return TDM_OK;
}

tdm_status tdm_virtual_add_wait(tdm_virtual_schedule *schedule, uint32_t task, uint32_t other) {
  TDM_TRY(tdm_array_reserve(schedule->allocator, (void **)&schedule->waits,
                            &schedule->wait_capacity, schedule->wait_count + 1,
                            sizeof *schedule->waits, "virtual time"));
  schedule->waits[schedule->wait_count++] = (tdm_virtual_wait){task, other};
  return TDM_OK;
}
