/* Vector clocks over the queues of one run, for the passes schedule and memory: which steps have
 * happened before each queue's next step. A row is a clock that was changed by a wait or the
 * barrier. A step stores the number of its row, so steps without waits cost nothing (Fidge and
 * Mattern's clocks, with one component per queue). Invariant: rows never change once written. */
#ifndef TANDEM_GRAPH_SCHEDULE_CLOCKS_H
#define TANDEM_GRAPH_SCHEDULE_CLOCKS_H

#include "graph/schedule/schedule.h"

typedef struct tdm_clock_step {
  uint32_t queue;
  uint32_t order; /* index on its queue, counted over both phases */
  uint32_t row;   /* row of the steps known to have ended when it begins, except those of its own
                   * queue */
} tdm_clock_step;

typedef struct tdm_clocks {
  const tdm_allocator *allocator;
  uint32_t queue_count;
  size_t step_count;
  tdm_clock_step *steps; /* (step_count); filled for those that have passed */
  uint32_t *running;     /* (queue_count, queue_count): steps of each queue seen by each */
  uint32_t *queue_rows;  /* (queue_count): the latest row of each */
  uint32_t *together;    /* (queue_count): scratch memory of the barrier */
  bool *has_phase[2];    /* (queue_count): true if it has a step of that phase */
  uint32_t *rows;        /* (row_count, queue_count) */
  size_t row_count;
  size_t rows_capacity; /* capacity of rows, in components */
} tdm_clocks;

/* clocks may be zero before. After a failure deinit is legal and required. */
tdm_status tdm_clocks_init(tdm_clocks *clocks, const tdm_schedule *schedule) TDM_WARN_UNUSED;
void tdm_clocks_deinit(tdm_clocks *clocks);

/* Writes the present knowledge of queue as a new row. Fails with OUT_OF_MEMORY. */
tdm_status tdm_clocks_snapshot(tdm_clocks *clocks, uint32_t queue) TDM_WARN_UNUSED;

/* Begins the update phase: every queue with a step of it gets the knowledge of the queues with a
 * step of the main phase. Queues without such a step continue into the next run without more
 * knowledge. Fails with OUT_OF_MEMORY. */
tdm_status tdm_clocks_barrier(tdm_clocks *clocks) TDM_WARN_UNUSED;

static inline void tdm_clock_raise(uint32_t *clock, const uint32_t *row, uint32_t queue_count) {
  for (uint32_t q = 0; q < queue_count; q++)
    if (clock[q] < row[q]) clock[q] = row[q];
}

static inline uint32_t *tdm_clocks_running(const tdm_clocks *clocks, uint32_t queue) {
  return clocks->running + (size_t)queue * clocks->queue_count;
}

static inline const uint32_t *tdm_clocks_row(const tdm_clocks *clocks, uint32_t row) {
  return clocks->rows + (size_t)row * clocks->queue_count;
}

/* Returns true if step has happened before the next step of queue. */
static inline bool tdm_clocks_knows(const tdm_clocks *clocks, uint32_t queue, uint32_t step) {
  const tdm_clock_step *other = &clocks->steps[step];
  return tdm_clocks_running(clocks, queue)[other->queue] > other->order;
}

/* Makes the next step of queue wait for step. */
static inline void tdm_clocks_join(tdm_clocks *clocks, uint32_t queue, uint32_t step) {
  const tdm_clock_step *other = &clocks->steps[step];
  uint32_t *running = tdm_clocks_running(clocks, queue);
  tdm_clock_raise(running, tdm_clocks_row(clocks, other->row), clocks->queue_count);
  if (running[other->queue] <= other->order) running[other->queue] = other->order + 1;
}

/* Puts step on queue, after a snapshot if it joined anything. */
static inline void tdm_clocks_pass(tdm_clocks *clocks, uint32_t queue, uint32_t step) {
  uint32_t *own = &tdm_clocks_running(clocks, queue)[queue];
  clocks->steps[step] = (tdm_clock_step){queue, *own, clocks->queue_rows[queue]};
  *own += 1;
}

/* Returns true if step a has happened before step b begins; both have passed. */
static inline bool tdm_clocks_before(const tdm_clocks *clocks, uint32_t a, uint32_t b) {
  const tdm_clock_step *first = &clocks->steps[a];
  const tdm_clock_step *second = &clocks->steps[b];
  if (first->queue == second->queue) return first->order < second->order;
  return tdm_clocks_row(clocks, second->row)[first->queue] > first->order;
}

#endif
