/* A run's life: admitted, bound, main phase, update phase, ended. Whoever ends the last submission
 * of a phase carries the run on, so no thread waits in between. Invariant: a run enters its update
 * phase only when every command of the main phase has succeeded. */
#include "graph/run/run.h"

#include <stdio.h>
#include <string.h>

#include "core/park.h"
#include "devices/contract/red_zones.h"
#include "devices/staging/staged_memory.h"
#include "graph/report/explain.h"
#include "graph/run/chain.h"
#include "graph/run/trace.h"

static tdm_run_state *run_of(tdm_admission *admission) {
  return (tdm_run_state *)admission;
}

/* ---- Admission: under the store's lock ---- */

/* A run that updates nothing writes only where it refreshes a copy. */
static bool has_slot(tdm_admission *admission) {
  tdm_run_state *run = run_of(admission);
  const tdm_session *session = run->session;
  if (!run->plan->writes_persistent)
    admission->writes = tdm_plan_find_old(run->plan, false, run->conditions);
  for (int i = 0; i < session->depth; i++)
    if (!session->slots[i].busy) return true;
  return false;
}

static void take_slot(tdm_admission *admission) {
  tdm_run_state *run = run_of(admission);
  tdm_session *session = run->session;
  run->slot = 0;
  while (session->slots[run->slot].busy)
    run->slot++;
  session->slots[run->slot].busy = true;
  run->stage = TDM_STAGE_ADMITTED;
  run->settled = false;
  tdm_run_set_step(run, session->store->steps);
  if (!run->plan->chained) (void)tdm_plan_find_old(run->plan, false, run->conditions);
  if (run->plan->records) tdm_trace_admit(session->trace, &run->moments);
  if (session->store->broken == TDM_OK) return;
  run->status = session->store->broken;
  memcpy(run->message, session->store->message, sizeof run->message);
}

/* A queued run may go: a blocking caller is told, an asynchronous one starts here. */
static void start_run(tdm_admission *admission) {
  tdm_run_state *run = run_of(admission);
  if (run->asynchronous) {
    tdm_run_launch(run, false);
    return;
  }
  tdm_doorbell *bell = tdm_context_bell(run->session->context, run->bell);
  atomic_store(&run->granted, 1);
  tdm_doorbell_ring(bell);
}

/* ---- The end ---- */

static void note_update(tdm_run_state *run) {
  tdm_store *store = run->session->store;
  const tdm_plan *plan = run->plan;
  for (size_t i = 0; i < plan->graph.persistents.count; i++) {
    if (!plan->updated[i]) continue;
    if (plan->logged[i])
      plan->entries[i]->version++;
    else
      tdm_store_entry_rewritten(plan->entries[i]);
  }
  atomic_fetch_add(&store->version, 1);
  store->steps++;
}

static void note_failure(tdm_run_state *run) {
  const tdm_plan *plan = run->plan;
  if (!plan->chained || run->stage >= TDM_STAGE_LATE)
    tdm_plan_spoil_copies(run->plan, run->conditions);
  if (!plan->writes_persistent || run->flight.failure.id < plan->lowered.first_update ||
      run->flight.failure.id == UINT32_MAX)
    return;
  for (size_t i = 0; i < plan->graph.persistents.count; i++)
    if (plan->updated[i]) plan->entries[i]->stale = true;
  tdm_store_break(run->session->store, run->status, run->message);
}

/* Under the store's lock: what the run did becomes what later runs see. A run that was stopped ends
 * as stopped, whatever else became of it. */
static void settle(tdm_admission *admission) {
  tdm_run_state *run = run_of(admission);
  const tdm_status stopped = tdm_flight_close(&run->flight);
  if (stopped != TDM_OK) tdm_run_note_stop(run, stopped);
  if (run->status != TDM_OK) {
    note_failure(run);
  } else {
    tdm_plan_note_copies(run->plan, run->conditions);
    if (run->plan->writes_persistent) note_update(run);
  }
  if (run->plan->records) tdm_trace_keep(run->session->trace, run);
  if (run->plan->tuning) run->took_ns = tdm_time_ns() - run->began_ns;
  run->session->slots[run->slot].busy = false;
}

static void end_run(tdm_run_state *run) {
  tdm_store_leave(run->session->store, &run->admission);
  tdm_run_complete(run);
}

static void fail_run(tdm_run_state *run, tdm_status status) {
  run->status = status;
  snprintf(run->message, sizeof run->message, "%s", tdm_last_message());
}

/* "rnn: linear on sim:0: " and what went wrong. */
void tdm_run_note_failure(tdm_run_state *run) {
  const tdm_failure *failure = &run->flight.failure;
  if (failure->id == UINT32_MAX) return;
  const tdm_plan *plan = run->plan;
  const uint32_t index = plan->lowered.sources[failure->id].node;
  const tdm_ir_node *node = tdm_ir_node_at(&plan->graph, index);
  const char *device = tdm_explain_device(plan, node->device);
  run->status = failure->status;
  char replica[24] = "";
  if (node->replica) snprintf(replica, sizeof replica, " (replica %d)", node->replica - 1);
  const int length =
      snprintf(run->message, sizeof run->message, "%s%s: %s %s %s: %s", node->name, replica,
               tdm_explain_action(node), node->operation ? "on" : "to", device, failure->message);
  if (length < 0) run->message[0] = 0;
}

/* The flight's settled: the last submission of a phase has ended, on whatever thread that was. */
static void on_settled(tdm_flight *flight) {
  tdm_run_state *run = flight->user;
  const tdm_plan *plan = run->plan;
  if (plan->chained) {
    tdm_chain_settled(run);
    return;
  }
  if (flight->failed) {
    tdm_run_note_failure(run);
  } else if (!run->updating && plan->main_program_count < plan->program_count &&
             tdm_flight_close(flight) == TDM_OK) {
    run->updating = true;
    if (plan->records) run->moments.updating_ns = tdm_time_ns();
    const tdm_status status = tdm_context_submit(
        run->session->context, flight, run->submissions + plan->main_program_count,
        plan->program_count - plan->main_program_count, false);
    if (status == TDM_OK) return;
    fail_run(run, status);
  }
  end_run(run);
}

/* ---- Binding ---- */

/* The discrete device that host memory of this run should be pinned for; NULL: none. */
static tdm_device *partner_of(const tdm_plan *plan) {
  return plan->partner && !atomic_load_explicit(&plan->unpinned, memory_order_relaxed)
             ? plan->partner
             : NULL;
}

/* Memory that should have been pinned: an error where that was promised, else told by the plan. */
static tdm_status check_pinned(tdm_run_state *run, const tdm_memory *memory) {
  if (tdm_memory_is_pinned(memory)) return TDM_OK;
  if (run->session->strict)
    return tdm_fail(TDM_UNAVAILABLE, "strict: host memory for copies with %s is not pinned",
                    run->plan->partner->name);
  atomic_store(&run->plan->unpinned, true);
  return TDM_OK;
}

static tdm_status bind_arena(tdm_run_state *run, uint32_t arena) {
  tdm_device *device = run->plan->arena_devices[arena];
  tdm_device *partner = device->host_addressable ? partner_of(run->plan) : NULL;
  const tdm_slot *slot = &run->session->slots[run->slot];
  tdm_memory *memory = slot->apart ? &slot->apart[arena] : &slot->arenas[device->context_index];
  const uint64_t bytes = run->plan->lowered.schedule.arena_bytes[arena];
  if (memory->bytes < bytes || (partner && !memory->staging && bytes > 0)) {
    tdm_memory_give_back(memory);
    const tdm_status status = tdm_memory_take(device, partner, bytes, memory);
    if (status != TDM_OK) return tdm_fail_within(status, "activations of %s", device->name);
  }
  if (partner && bytes > 0) TDM_TRY(check_pinned(run, memory));
  run->flight.bases[run->plan->layout.arenas + arena] = memory->address;
  return TDM_OK;
}

static tdm_status bind_outputs(tdm_run_state *run) {
  const tdm_plan *plan = run->plan;
  tdm_device *partner = partner_of(plan);
  for (size_t i = 0; i < plan->delivery_count; i++) {
    const tdm_ir_value *value = tdm_ir_value_at(&plan->graph, plan->deliveries[i]);
    tdm_storage *storage;
    TDM_TRY(tdm_output_pool_take(run->session->outputs, partner, value->bytes, &storage));
    tdm_status status = partner ? check_pinned(run, &storage->memory) : TDM_OK;
    if (status == TDM_OK)
      status = tdm_tensor_over(storage, 0, value->spec.dtype, &value->spec.shape, &run->outputs[i]);
    run->flight.bases[plan->layout.deliveries + i] = storage->memory.address;
    tdm_storage_release(storage); /* the tensor's now */
    if (status != TDM_OK) return status;
  }
  return TDM_OK;
}

void tdm_run_bind_logs(tdm_run_state *run, bool follows) {
  const tdm_plan *plan = run->plan;
  for (size_t i = 0; i < plan->graph.logs.count; i++) {
    const tdm_graph_log *log = &plan->graph.logs.items[i];
    const tdm_store_entry *entry = plan->entries[log->persistent];
    const uint64_t now = entry->version + (follows && plan->updated[log->persistent]);
    const uint64_t back = (uint64_t)log->age + 1;
    const uint64_t version = now >= back ? now - back : 0;
    run->flight.bases[plan->layout.logs + i] = tdm_row_log_piece(entry, version);
  }
}

static tdm_status bind(tdm_run_state *run) {
  const tdm_plan *plan = run->plan;
  if (tdm_context_red_zones(run->session->context))
    TDM_TRY(tdm_slot_part(run->session, run->slot, plan->lowered.schedule.arena_count));
  for (size_t i = 0; i < plan->graph.inputs.count; i++)
    run->flight.bases[plan->layout.inputs + i] = tdm_tensor_address(run->inputs[i]);
  for (uint32_t arena = 0; arena < plan->lowered.schedule.arena_count; arena++)
    TDM_TRY(bind_arena(run, arena));
  TDM_TRY(bind_outputs(run));
  if (!plan->chained) tdm_run_bind_logs(run, false);
  return TDM_OK;
}

void tdm_run_launch(tdm_run_state *run, bool adopt) {
  if (tdm_run_is_late(run)) (void)tdm_flight_stop(&run->flight, TDM_DEADLINE_EXCEEDED);
  tdm_status status = run->status;
  if (status == TDM_OK && atomic_load(&run->flight.stopped)) status = TDM_CANCELLED;
  if (run->plan->records) run->moments.launched_ns = tdm_time_ns();
  if (run->plan->tuning) run->began_ns = tdm_time_ns();
  if (status == TDM_OK) status = bind(run);
  if (run->plan->chained) {
    if (status != TDM_OK && run->status == TDM_OK) fail_run(run, status);
    tdm_chain_launch(run);
    return;
  }
  if (status == TDM_OK)
    status = tdm_context_submit(run->session->context, &run->flight, run->submissions,
                                run->plan->main_program_count, adopt);
  if (status == TDM_OK) return; /* it ends by on_settled, and may be gone */
  if (run->status == TDM_OK) fail_run(run, status);
  end_run(run);
}

void tdm_run_init_admission(tdm_run_state *run) {
  run->admission.writes = run->plan->writes_persistent;
  run->admission.chain = run->plan->chained ? run->session->store : NULL;
  run->admission.ready = has_slot;
  run->admission.admit = take_slot;
  run->admission.settle = settle;
  run->admission.start = start_run;
  run->flight.settled = on_settled;
}
