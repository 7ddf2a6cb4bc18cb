/* The input of the simulation in virtual time: a set of tasks on queues and links, independent of
 * operations, shapes and devices. Invariant: numbers are assigned in the order of adding and never
 * change.
 *
 *   queue   its tasks one at a time, by `order`; a task begins when the one before it on its queue
 *           and everything it waits for has ended
 *   task    computes for `work` ns, or copies `work` bytes: first latency_ns, then the bytes flow
 *   link    concurrent flows share its bandwidth by max-min fairness: the link with the least to
 *           give divides it evenly, and the rest of other links goes to the other flows (Bertsekas
 *           and Gallager, Data Networks, 1992, 6.5.2)
 *   group   queues that slow each other down when they compute together (the cores of one memory):
 *           a task runs `crowded` times slower when all others of its group compute, and in
 *           proportion when some do */
#ifndef TANDEM_GRAPH_FORECAST_VIRTUAL_SCHEDULE_H
#define TANDEM_GRAPH_FORECAST_VIRTUAL_SCHEDULE_H

#include "core/allocate.h"
#include "core/status.h"

#define TDM_VIRTUAL_NONE UINT32_MAX
enum { TDM_VIRTUAL_MOST_HOPS = 6 };

typedef struct tdm_virtual_queue {
  uint32_t group; /* TDM_VIRTUAL_NONE: not slowed down by others */
  /* Filled by the simulation: */
  double busy_ns;     /* total time in which a task executes */
  double critical_ns; /* time on this queue within the longest chain of tasks */
  uint32_t task_count;
} tdm_virtual_queue;

typedef struct tdm_virtual_link {
  double bytes_per_ns; /* > 0; INFINITY: no limit */
  /* Filled by the simulation: */
  double bytes;
  double busy_ns;     /* total time in which a copy uses the link, including latency */
  double critical_ns; /* time of copies in the longest chain whose narrowest link this is */
  uint32_t copy_count;
} tdm_virtual_link;

typedef struct tdm_virtual_task {
  uint32_t queue;
  bool copies;
  uint64_t order;    /* position on its queue; tasks of equal order run in the order in which they
                      * were added */
  double work;       /* ns, or bytes */
  double carried;    /* bytes that links count, if that is more than work */
  double latency_ns; /* latency of a copy before bytes flow; 0 for a computation */
  double crowded;    /* slowdown factor of a computation, >= 1 */
  uint32_t hops[TDM_VIRTUAL_MOST_HOPS]; /* links of the bytes (hop_count), used simultaneously */
  uint32_t hop_count;
  /* Filled by the simulation: */
  double begin_ns;
  double end_ns;
  uint32_t cause; /* the task whose end allowed this one to begin; TDM_VIRTUAL_NONE: none */
} tdm_virtual_task;

typedef struct tdm_virtual_wait {
  uint32_t task;
  uint32_t other; /* ends before task begins */
} tdm_virtual_wait;

typedef struct tdm_virtual_schedule {
  const tdm_allocator *allocator;
  tdm_virtual_queue *queues;
  size_t queue_count, queue_capacity;
  tdm_virtual_link *links;
  size_t link_count, link_capacity;
  tdm_virtual_task *tasks;
  size_t task_count, task_capacity;
  tdm_virtual_wait *waits;
  size_t wait_count, wait_capacity;
  /* Filled by the simulation: */
  double end_ns;
  uint32_t last_task; /* the task that ends last */
} tdm_virtual_schedule;

void tdm_virtual_init(tdm_virtual_schedule *schedule, const tdm_allocator *allocator);
void tdm_virtual_deinit(tdm_virtual_schedule *schedule); /* zeroed is legal */

tdm_status tdm_virtual_add_queue(tdm_virtual_schedule *schedule, uint32_t group,
                                 uint32_t *out_queue) TDM_WARN_UNUSED;
tdm_status tdm_virtual_add_link(tdm_virtual_schedule *schedule, double bytes_per_ns,
                                uint32_t *out_link) TDM_WARN_UNUSED;
/* Appends a copy of task, and returns its number. */
tdm_status tdm_virtual_add(tdm_virtual_schedule *schedule, const tdm_virtual_task *task,
                           uint32_t *out_task) TDM_WARN_UNUSED;
/* Makes task wait for the end of other. Both were added. */
tdm_status tdm_virtual_add_wait(tdm_virtual_schedule *schedule, uint32_t task,
                                uint32_t other) TDM_WARN_UNUSED;

#endif
