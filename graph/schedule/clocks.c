/* Rows of vector clocks and the barrier between the phases. Invariant: row 0 contains no
 * knowledge. */
#include "graph/schedule/clocks.h"

#include <string.h>

/* Returns the bytes of running and the arrays after it. */
static size_t queues_bytes(size_t queue_count) {
  return ((queue_count + 2) * sizeof(uint32_t) + 2 * sizeof(bool)) * queue_count;
}

static void note_phases(tdm_clocks *clocks, const tdm_schedule *schedule) {
  for (size_t s = 0; s < schedule->step_count; s++) {
    const tdm_step *step = &schedule->steps[s];
    clocks->has_phase[step->phase == TDM_PHASE_UPDATE][step->queue] = true;
  }
}

tdm_status tdm_clocks_init(tdm_clocks *clocks, const tdm_schedule *schedule) {
  const size_t queues = schedule->queue_count;
  *clocks = (tdm_clocks){.allocator = schedule->allocator,
                         .queue_count = schedule->queue_count,
                         .step_count = schedule->step_count};
  clocks->steps = tdm_allocate(clocks->allocator, clocks->step_count * sizeof(tdm_clock_step),
                               "clocks of steps");
  if (!clocks->steps) return TDM_OUT_OF_MEMORY;
  clocks->running = tdm_allocate(clocks->allocator, queues_bytes(queues), "running clocks");
  if (!clocks->running) return TDM_OUT_OF_MEMORY;
  clocks->queue_rows = clocks->running + queues * queues;
  clocks->together = clocks->queue_rows + queues;
  clocks->has_phase[TDM_PHASE_MAIN] = (bool *)(clocks->together + queues);
  clocks->has_phase[TDM_PHASE_UPDATE] = clocks->has_phase[TDM_PHASE_MAIN] + queues;
  TDM_TRY(tdm_array_reserve(clocks->allocator, (void **)&clocks->rows, &clocks->rows_capacity,
                            queues, sizeof(uint32_t), "rows of clocks"));
  clocks->row_count = 1;
  if (schedule->two_phase) note_phases(clocks, schedule);
  return TDM_OK;
}

void tdm_clocks_deinit(tdm_clocks *clocks) {
  if (!clocks->allocator) return;
  tdm_release(clocks->allocator, clocks->steps, clocks->step_count * sizeof(tdm_clock_step));
  tdm_release(clocks->allocator, clocks->running, queues_bytes(clocks->queue_count));
  tdm_release(clocks->allocator, clocks->rows, clocks->rows_capacity * sizeof(uint32_t));
  *clocks = (tdm_clocks){0};
}

tdm_status tdm_clocks_snapshot(tdm_clocks *clocks, uint32_t queue) {
  const size_t used = clocks->row_count * clocks->queue_count;
  if (used + clocks->queue_count > clocks->rows_capacity) {
    TDM_TRY(tdm_array_reserve(clocks->allocator, (void **)&clocks->rows, &clocks->rows_capacity,
                              used + clocks->queue_count, sizeof(uint32_t), "rows of clocks"));
  }
  memcpy(clocks->rows + used, tdm_clocks_running(clocks, queue),
         clocks->queue_count * sizeof(uint32_t));
  clocks->queue_rows[queue] = (uint32_t)clocks->row_count++;
  return TDM_OK;
}

tdm_status tdm_clocks_barrier(tdm_clocks *clocks) {
  const uint32_t queues = clocks->queue_count;
  memset(clocks->together, 0, queues * sizeof(uint32_t));
  for (uint32_t q = 0; q < queues; q++) {
    if (!clocks->has_phase[TDM_PHASE_MAIN][q]) continue;
    tdm_clock_raise(clocks->together, tdm_clocks_running(clocks, q), queues);
  }
  for (uint32_t q = 0; q < queues; q++) {
    if (!clocks->has_phase[TDM_PHASE_UPDATE][q]) continue;
    tdm_clock_raise(tdm_clocks_running(clocks, q), clocks->together, queues);
    TDM_TRY(tdm_clocks_snapshot(clocks, q));
  }
  return TDM_OK;
}
