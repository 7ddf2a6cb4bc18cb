/* Cores that threads of this process share: waiting threads and computing threads. Invariant: a
 * device that used a core meanwhile has received or executed commands since, or is still
 * executing. */
#include "devices/context/context.h"
#include "devices/topology/topology.h"

/* Returns the compute queue of a device on the host's cores, or NULL for other devices. */
static tdm_queue *compute_queue(tdm_context *context, size_t index) {
  tdm_device *device = tdm_context_device(context, index);
  return tdm_context_cores(context, device) ? device->queues[TDM_QUEUE_COMPUTE] : NULL;
}

void tdm_context_use_all_cores(const tdm_context *context) {
  const tdm_topology *topology = tdm_context_topology(context);
  const tdm_core_range all = tdm_topology_all_cores(topology);
  (void)tdm_topology_bind_thread(topology, &all);
}

bool tdm_context_share_cores(const tdm_context *context, const tdm_device *a, const tdm_device *b) {
  const tdm_core_range *x = tdm_context_cores(context, a), *y = tdm_context_cores(context, b);
  return a != b && x && y && x->first < y->first + y->count && y->first < x->first + x->count;
}

bool tdm_context_computes(tdm_context *context) {
  const size_t count = tdm_device_count(context);
  for (size_t i = 0; i < count; i++) {
    tdm_queue *queue = compute_queue(context, i);
    if (queue &&
        atomic_load_explicit(&queue->completed, memory_order_relaxed) !=
            atomic_load_explicit(&queue->submitted, memory_order_relaxed) &&
        !atomic_load_explicit(&queue->waits, memory_order_relaxed))
      return true;
  }
  return false;
}

static uint64_t count_on(tdm_queue *queue) {
  if (!queue) return 0;
  return atomic_load_explicit(&queue->submitted, memory_order_relaxed) +
         atomic_load_explicit(&queue->completed, memory_order_relaxed);
}

/* Returns the number of commands that the host's devices have received plus those they have
 * executed. */
static uint64_t count_commands(tdm_context *context) {
  uint64_t commands = 0;
  const size_t count = tdm_device_count(context);
  for (size_t i = 0; i < count; i++) {
    if (!compute_queue(context, i)) continue;
    commands += count_on(tdm_context_device(context, i)->queues[TDM_QUEUE_COMPUTE]);
    commands += count_on(tdm_context_device(context, i)->queues[TDM_QUEUE_SUM]);
  }
  return commands;
}

bool tdm_context_yield(tdm_context *context, uint64_t now_ns) {
  tdm_oversubscription *oversubscription = tdm_context_oversubscription(context);
  if (!tdm_oversubscription_allows(oversubscription, now_ns)) return false;
  const uint64_t before = count_commands(context);
  const uint64_t lost_ns = tdm_oversubscription_give_up(now_ns);
  if (count_commands(context) != before || tdm_context_computes(context)) return true;
  return tdm_oversubscription_note(oversubscription, now_ns, lost_ns);
}
