/* The addresses of a run's operands: inputs, its slot's arenas, its outputs, the logs of rows.
 * Invariant: nothing is bound that another run may use at the same time. */
#include "devices/contract/red_zones.h"
#include "devices/staging/staged_memory.h"
#include "graph/run/run.h"

/* Returns the discrete device for which host memory of this run should be pinned; NULL: none. */
static tdm_device *partner_of(const tdm_plan *plan) {
  return plan->partner && !atomic_load_explicit(&plan->unpinned, memory_order_relaxed)
             ? plan->partner
             : NULL;
}

tdm_status tdm_run_check_pinned(const tdm_run_state *run, const tdm_memory *memory) {
  if (tdm_memory_is_pinned(memory)) return TDM_OK;
  if (run->session->strict)
    return tdm_fail(TDM_UNAVAILABLE, "strict: host memory for copies with %s is not pinned",
                    run->plan->partner->name);
  atomic_store(&run->plan->unpinned, true);
  return TDM_OK;
}

/* Returns true if memory turned out to be short: a failure, or memory that is not from the pool. */
static bool is_short(tdm_status status, const tdm_device *partner, const tdm_memory *taken) {
  return status == TDM_OUT_OF_MEMORY || (status == TDM_OK && partner && !taken->staging);
}

/* If memory is short, unused memory of the session is released first. */
static tdm_status take_memory(const tdm_run_state *run, tdm_device *device, tdm_device *partner,
                              size_t bytes, tdm_memory *out_memory) {
  const tdm_status status = tdm_memory_take(device, partner, bytes, out_memory);
  if (!is_short(status, partner, out_memory) || !tdm_session_free_idle(run->session, device))
    return status;
  tdm_memory_give_back(out_memory);
  return tdm_memory_take(device, partner, bytes, out_memory);
}

static tdm_status take_output(const tdm_run_state *run, tdm_device *device, tdm_device *partner,
                              size_t bytes, tdm_storage **out_storage) {
  tdm_output_pool *pool = run->session->outputs;
  const tdm_status status = tdm_output_pool_take(pool, device, partner, bytes, out_storage);
  if (!is_short(status, partner, status == TDM_OK ? &(*out_storage)->memory : NULL) ||
      !tdm_session_free_idle(run->session, device))
    return status;
  if (status == TDM_OK) tdm_storage_release(*out_storage);
  return tdm_output_pool_take(pool, device, partner, bytes, out_storage);
}

static tdm_status bind_arena(tdm_run_state *run, uint32_t arena) {
  tdm_device *device = run->plan->arena_devices[arena];
  tdm_device *partner = device->host_addressable ? partner_of(run->plan) : NULL;
  const tdm_slot *slot = &run->session->slots[run->slot];
  tdm_memory *memory = slot->apart ? &slot->apart[arena] : &slot->arenas[device->context_index];
  const uint64_t bytes = run->plan->lowered.schedule.arena_bytes[arena];
  if (memory->bytes < bytes || (partner && !memory->staging && bytes > 0)) {
    tdm_memory_give_back(memory);
    const tdm_status status = take_memory(run, device, partner, bytes, memory);
    if (status != TDM_OK) return tdm_fail_within(status, "activations of %s", device->name);
  }
  if (partner && bytes > 0) TDM_TRY(tdm_run_check_pinned(run, memory));
  run->flight.bases[run->plan->layout.arenas + arena] = memory->address;
  return TDM_OK;
}

static tdm_status bind_outputs(tdm_run_state *run) {
  const tdm_plan *plan = run->plan;
  for (size_t i = 0; i < plan->delivery_count; i++) {
    const tdm_ir_value *value = tdm_ir_value_at(&plan->graph, tdm_plan_delivery(plan, i));
    tdm_device *device = tdm_context_device(run->session->context, (size_t)value->device);
    tdm_device *partner = device->host_addressable ? partner_of(plan) : NULL;
    tdm_storage *storage;
    TDM_TRY(take_output(run, device, partner, value->bytes, &storage));
    tdm_status status = partner ? tdm_run_check_pinned(run, &storage->memory) : TDM_OK;
    if (status == TDM_OK)
      status =
          tdm_tensor_over(storage, 0, value->spec->dtype, &value->spec->shape, &run->outputs[i]);
    run->flight.bases[plan->layout.deliveries + i] = storage->memory.address;
    tdm_storage_release(storage); /* now owned by the tensor */
    if (status != TDM_OK) return status;
  }
  return TDM_OK;
}

void tdm_run_bind_logs(tdm_run_state *run, bool follows) {
  const tdm_plan *plan = run->plan;
  for (size_t i = 0; i < plan->graph.planned->logs.count; i++) {
    const tdm_graph_log *log = &plan->graph.planned->logs.items[i];
    const tdm_store_entry *entry = plan->entries[log->persistent];
    const uint64_t now = entry->version + (follows && plan->updated[log->persistent]);
    const uint64_t back = (uint64_t)log->age + 1;
    const uint64_t version = now >= back ? now - back : 0;
    run->flight.bases[plan->layout.logs + i] = tdm_row_log_piece(entry, version);
  }
}

tdm_status tdm_run_bind(tdm_run_state *run) {
  const tdm_plan *plan = run->plan;
  if (tdm_context_red_zones(run->session->context))
    TDM_TRY(tdm_slot_part(run->session, run->slot, plan->lowered.schedule.arena_count));
  for (size_t i = 0; i < plan->graph.inputs.count; i++)
    run->flight.bases[plan->layout.inputs + i] = tdm_tensor_address(run->inputs[i].tensor);
  for (uint32_t arena = 0; arena < plan->lowered.schedule.arena_count; arena++)
    TDM_TRY(bind_arena(run, arena));
  TDM_TRY(bind_outputs(run));
  return TDM_OK;
}
