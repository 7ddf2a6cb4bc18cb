/* What a plan needs of every device's memory. Invariant: every byte that a run of the plan has
 * reserved while it is in flight is counted once, on the device where it lies. */
#include <string.h>

#include "graph/run/session.h"

static uint64_t bytes_on(const tdm_storage *storage, const tdm_device *device) {
  return storage && storage->memory.device == device ? storage->memory.bytes : 0;
}

static void count_use(const tdm_plan *plan, const tdm_device *device, tdm_memory_use *use) {
  const tdm_graph *graph = &plan->graph;
  for (size_t i = 0; i < graph->persistents.count; i++)
    use->parameters_bytes += bytes_on(plan->entries[i]->storage, device) +
                             bytes_on(plan->entries[i]->log.storage, device);
  for (size_t i = 0; i < graph->deriveds.count; i++)
    use->copies_bytes += bytes_on(plan->copies[i]->storage, device);
  const tdm_schedule *schedule = &plan->lowered.schedule;
  for (uint32_t arena = 0; arena < schedule->arena_count; arena++)
    if (plan->arena_devices[arena] == device)
      use->activations_bytes += schedule->arena_bytes[arena];
  for (size_t i = 0; i < plan->delivery_count; i++) {
    const tdm_ir_value *output = tdm_ir_value_at(graph, plan->deliveries[i]);
    if (tdm_context_device(graph->context, (size_t)output->device) == device)
      use->outputs_bytes += output->bytes;
  }
}

tdm_status tdm_session_memory(tdm_session *session, const char *device, tdm_memory_use *out_use) {
  if (!out_use)
    return tdm_fail(TDM_INVALID_ARGUMENT, "tdm_session_memory: no place for the answer");
  memset(out_use, 0, sizeof *out_use);
  if (!session || !device)
    return tdm_fail(TDM_INVALID_ARGUMENT, "tdm_session_memory: no session or no device");
  TDM_TRY(tdm_context_check(session->context));
  const tdm_device *found = tdm_context_find_device(session->context, device);
  if (!found) return TDM_INVALID_ARGUMENT;
  pthread_mutex_lock(&session->lock);
  const tdm_plan *plan = session->last_asked;
  if (plan) count_use(plan, found, out_use);
  pthread_mutex_unlock(&session->lock);
  return plan ? TDM_OK : tdm_fail(TDM_INVALID_ARGUMENT, "the session has made no plan yet");
}
