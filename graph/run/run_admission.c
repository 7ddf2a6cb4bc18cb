/* A run's relation to the store: its admission, and the effect of its end on later runs. Invariant:
 * a failure before the update phase changes nothing in the store; one inside it breaks the
 * store. */
#include "graph/run/run.h"

#include <stdio.h>
#include <string.h>

#include "core/park.h"
#include "devices/kernels/moves/moves.h"
#include "graph/report/explain.h"
#include "graph/run/life.h"
#include "graph/run/trace.h"

static tdm_run_state *run_of(tdm_admission *admission) {
  return (tdm_run_state *)admission;
}

/* ---- Admission: under the store's lock ------------------------------------------------------- */

/* A run that updates nothing writes only if it refreshes a copy. A run that logs more rows than the
 * log holds waits until no run is inside, when the log is enlarged. */
static bool has_slot(tdm_admission *admission) {
  tdm_run_state *run = run_of(admission);
  const tdm_session *session = run->session;
  if (!run->plan->writes_persistent)
    admission->writes = tdm_plan_find_old(run->plan, false, run->conditions);
  if (session->store->growing && !tdm_plan_has_logs(run->plan)) return false;
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
  if (run->plan->records) tdm_trace_admit(session->trace, &run->moments);
  if (session->store->broken == TDM_OK) return;
  run->status = session->store->broken;
  memcpy(run->message, session->store->message, sizeof run->message);
}

/* A queued run may continue: a blocking caller is notified, an asynchronous run starts here. */
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

/* ---- The end --------------------------------------------------------------------------------- */

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
  tdm_plan_note_updated_copies(run->plan);
  atomic_fetch_add(&store->version, 1);
  store->steps++;
  run->session->trainer.steps++;
}

/* Returns true for every failing command except the vote of a job's ranks, before which nothing is
 * updated. */
static bool is_step(const tdm_plan *plan, uint32_t id) {
  return id < plan->lowered.schedule.step_count;
}

bool tdm_run_is_awaited(const tdm_run_state *run) {
  const tdm_plan *plan = run->plan;
  if (tdm_context_rank_count(plan->graph.context) == 1) return false;
  return plan->network.sent_messages + plan->network.received_messages > 0 ||
         plan->network.reduced_sums + plan->network.device_sums > 0 ||
         plan->network.exchanges > 0 || plan->command_count > plan->lowered.schedule.step_count;
}

static void note_success(tdm_run_state *run) {
  tdm_plan_note_copies(run->plan, run->conditions);
  if (run->plan->writes_persistent) note_update(run);
}

/* Updates that fail on one rank are made on the others. So versions and steps, which all ranks
 * count equally, advance here as they do there. */
static void note_failure(tdm_run_state *run) {
  const tdm_plan *plan = run->plan;
  const uint32_t id = run->flight.failure.id;
  const bool updating =
      plan->writes_persistent && id >= plan->lowered.first_update && is_step(plan, id);
  if (updating && tdm_context_rank_count(run->session->context) > 1)
    note_success(run);
  else if (run->stage >= TDM_STAGE_COMPUTING)
    tdm_plan_spoil_copies(run->plan, run->conditions);
  if (!updating) return;
  for (size_t i = 0; i < plan->graph.persistents.count; i++)
    if (plan->updated[i]) plan->entries[i]->stale = true;
  tdm_store_break(run->session->store, run->status, run->message);
}

/* Makes the run's results visible to later runs, under the store's lock. A run that was stopped
 * ends as stopped, whatever else happened to it. */
static void settle(tdm_admission *admission) {
  tdm_run_state *run = run_of(admission);
  const tdm_status stopped = tdm_flight_close(&run->flight);
  if (stopped != TDM_OK) tdm_run_note_stop(run, stopped);
  if (run->status != TDM_OK)
    note_failure(run);
  else
    note_success(run);
  if (run->plan->records) tdm_trace_keep(run->session->trace, run);
  if (run->plan->tuning) run->took_ns = tdm_time_ns() - run->began_ns;
  run->session->slots[run->slot].busy = false;
}

/* Returns the layer's check for a failed argument; NULL: the node is another operation. */
static const tdm_check_attributes *check_of(const tdm_ir_node *node) {
  const bool checks = node->operation && strcmp(node->operation->name, TDM_OP_CHECK) == 0;
  return checks ? node->attributes : NULL;
}

/* Composes "rnn: linear on sim:0: " and the failure. For a failed check it names the layer and its
 * argument, "loss: ctc on sim:0: input_lengths 9 at position 2 is outside 0 to 8". */
void tdm_run_note_failure(tdm_run_state *run) {
  const tdm_failure *failure = &run->flight.failure;
  if (failure->id == UINT32_MAX) return;
  const tdm_plan *plan = run->plan;
  run->status = failure->status;
  if (!is_step(plan, failure->id)) {
    (void)snprintf(run->message, sizeof run->message, "%s", failure->message);
    return;
  }
  const uint32_t index = plan->lowered.sources[failure->id].node;
  const tdm_ir_node *node = tdm_ir_node_at(&plan->graph, index);
  const char *device = tdm_explain_device(plan, node->device);
  const tdm_check_attributes *check = check_of(node);
  const char *action = check             ? check->layer
                       : node->operation ? tdm_operation_layer(node->operation)
                                         : tdm_explain_action(node);
  const char *argument = check ? check->argument : "";
  char replica[24] = "";
  if (node->part.replica)
    (void)snprintf(replica, sizeof replica, " (replica %d)", node->part.replica - 1);
  const int length = snprintf(run->message, sizeof run->message, "%s%s: %s %s %s: %s%s%s",
                              node->name, replica, action, node->operation ? "on" : "to", device,
                              argument, check ? " " : "", failure->message);
  if (length < 0) run->message[0] = 0;
}

/* Returns the chain of steps that may be in flight together. In a job it includes runs that only
 * read, so that every rank submits them in the same order. */
static const void *chain_of(const tdm_run_state *run) {
  const tdm_plan *plan = run->plan;
  const bool ordered =
      !plan->writes_persistent && tdm_context_rank_count(run->session->context) > 1;
  return plan->chained || ordered ? run->session->store : NULL;
}

void tdm_run_init_admission(tdm_run_state *run) {
  run->admission.writes = run->plan->writes_persistent;
  run->admission.chain = chain_of(run);
  run->admission.ready = has_slot;
  run->admission.admit = take_slot;
  run->admission.settle = settle;
  run->admission.start = start_run;
  run->flight.settled = tdm_run_settled;
}
