/* Rows of vector clocks and the barrier between the phases. Invariant: row 0 knows nothing. */
#include "graph/clocks.h"

#include <string.h>

tdm_status tdm_clocks_init(tdm_clocks *clocks, const tdm_schedule *schedule) {
  const uint32_t queues = schedule->queue_count;
  *clocks = (tdm_clocks){
      .allocator = schedule->allocator, .queue_count = queues, .step_count = schedule->step_count};
  clocks->steps = tdm_allocate(clocks->allocator, clocks->step_count * sizeof(tdm_clock_step),
                               "clocks of steps");
  if (clocks->steps == NULL) return TDM_OUT_OF_MEMORY;
  clocks->running = tdm_allocate(
      clocks->allocator, ((size_t)queues + 1) * queues * sizeof(uint32_t), "running clocks");
  if (clocks->running == NULL) return TDM_OUT_OF_MEMORY;
  clocks->queue_rows = clocks->running + (size_t)queues * queues;
  TDM_TRY(tdm_array_reserve(clocks->allocator, (void **)&clocks->rows, &clocks->rows_capacity,
                            queues, sizeof(uint32_t), "rows of clocks"));
  clocks->row_count = 1;
  return TDM_OK;
}

void tdm_clocks_deinit(tdm_clocks *clocks) {
  const size_t queues = clocks->queue_count;
  if (clocks->allocator == NULL) return;
  tdm_release(clocks->allocator, clocks->steps, clocks->step_count * sizeof(tdm_clock_step));
  tdm_release(clocks->allocator, clocks->running, (queues + 1) * queues * sizeof(uint32_t));
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

tdm_status tdm_clocks_barrier(tdm_clocks *clocks, const bool *has_main) {
  /* The first queue with a main step gathers what all of them know. */
  uint32_t *gathered = NULL;
  for (uint32_t q = 0; q < clocks->queue_count; q++) {
    if (!has_main[q]) continue;
    if (gathered == NULL) {
      gathered = tdm_clocks_running(clocks, q);
    } else {
      tdm_clock_raise(gathered, tdm_clocks_running(clocks, q), clocks->queue_count);
    }
  }
  if (gathered == NULL) return TDM_OK;
  for (uint32_t q = 0; q < clocks->queue_count; q++) {
    tdm_clock_raise(tdm_clocks_running(clocks, q), gathered, clocks->queue_count);
    TDM_TRY(tdm_clocks_snapshot(clocks, q));
  }
  return TDM_OK;
}
