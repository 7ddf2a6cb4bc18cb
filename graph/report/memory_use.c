/* The memory that a plan uses on every device. Invariant: every byte that a run of the plan
 * reserves while it is in flight is counted once, on its device. */
#include "graph/report/memory_use.h"

#include <string.h>

static uint64_t bytes_on(const tdm_storage *storage, const tdm_device *device) {
  return storage && storage->memory.device == device ? storage->memory.bytes : 0;
}

/* Another session's plan may concurrently replace a log by a larger one. */
static uint64_t entry_bytes_on(const tdm_store_entry *entry, const tdm_device *device) {
  if (!entry->storage || entry->storage->memory.device != device) return 0;
  return entry->storage->memory.bytes + tdm_row_log_bytes(entry);
}

void tdm_plan_memory_use(const tdm_plan *plan, const tdm_device *device, tdm_memory_use *out_use) {
  const tdm_graph *graph = &plan->graph;
  memset(out_use, 0, sizeof *out_use);
  /* A plan under construction has no entries yet. */
  for (size_t i = 0; plan->entries && i < graph->persistents.count; i++)
    out_use->parameters_bytes += entry_bytes_on(plan->entries[i], device);
  for (size_t i = 0; plan->copies && i < graph->planned->deriveds.count; i++)
    out_use->copies_bytes += bytes_on(plan->copies[i]->storage, device);
  const tdm_schedule *schedule = &plan->lowered.schedule;
  for (uint32_t arena = 0; plan->arena_devices && arena < schedule->arena_count; arena++)
    if (plan->arena_devices[arena] == device)
      out_use->activations_bytes += schedule->arena_bytes[arena];
  for (size_t i = 0; i < plan->delivery_count; i++) {
    const tdm_ir_value *output = tdm_ir_value_at(graph, tdm_plan_delivery(plan, i));
    if (tdm_context_device(graph->context, (size_t)output->device) == device)
      out_use->outputs_bytes += output->bytes;
  }
}
