/* Run objects: created once per plan and run in flight, and reused. Invariant: everything a run
 * needs while it runs was allocated here, so that launching allocates only outputs and enlarged
 * arenas. */
#include <string.h>

#include "core/hash.h"
#include "core/park.h"
#include "devices/network/network.h"
#include "graph/run/run.h"
#include "graph/run/sequence.h"
#include "graph/run/trace.h"

typedef struct run_block {
  tdm_run_state run; /* must be the first field */
  tdm_region region; /* owns its arrays */
} run_block;

static void *take(run_block *block, size_t count, size_t bytes) {
  return tdm_region_take(&block->region, (count + 1) * bytes, "run");
}

static tdm_status fill(run_block *block, tdm_plan *plan) {
  tdm_run_state *run = &block->run;
  const size_t steps = plan->command_count;
  tdm_flight *flight = &run->flight;
  run->submissions = take(block, plan->program_count, sizeof *run->submissions);
  run->conditions = take(block, plan->condition_count, 1);
  run->inputs = take(block, plan->graph.inputs.count, sizeof *run->inputs);
  run->outputs = take(block, plan->delivery_count, sizeof(tdm_tensor *));
  run->fetches = take(block, plan->delivery_count, sizeof *run->fetches);
  flight->program_bases = take(block, plan->program_count, sizeof(uint64_t));
  flight->bases = take(block, plan->layout.count, sizeof(tdm_address));
  flight->failed_ids = take(block, steps, 1);
  run->scalar_count = run->session->groups.count ? run->session->groups.count : 1;
  run->scalars = take(block, run->scalar_count, sizeof *run->scalars);
  run->previous = take(block, plan->program_count, sizeof *run->previous);
  if (plan->records) flight->times = take(block, steps, sizeof *flight->times);
  if (block->region.failed) return TDM_OUT_OF_MEMORY;
  memcpy(flight->bases, plan->bases, plan->layout.count * sizeof(tdm_address));
  for (uint32_t i = 0; i < plan->program_count; i++)
    run->submissions[i].program = i;
  flight->programs = plan->programs;
  flight->conditions = run->conditions;
  flight->scalars = run->scalars;
  flight->user = run;
  tdm_flight_reset(flight, (uint32_t)steps);
  return TDM_OK;
}

static tdm_run_state *make_run(tdm_session *session, tdm_plan *plan) {
  run_block *block = tdm_allocate(session->allocator, sizeof *block, "run");
  if (!block) return NULL;
  tdm_region_init(&block->region, session->allocator);
  block->run.session = session;
  block->run.plan = plan;
  if (fill(block, plan) == TDM_OK) {
    tdm_run_init_admission(&block->run);
    return &block->run;
  }
  tdm_region_deinit(&block->region);
  tdm_release(session->allocator, block, sizeof *block);
  return NULL;
}

/* Clears what an earlier run has left. */
static tdm_status begin_record(tdm_run_state *run) {
  const size_t count = run->plan->lowered.schedule.step_count;
  memset(run->flight.times, 0, count * sizeof *run->flight.times);
  run->moments = (tdm_run_moments){.asked_ns = tdm_time_ns()};
  return tdm_trace_reserve(run->session->trace, count, &run->record);
}

/* Hashes, for a run that updates, the settings that ranks compare. */
static void hash_settings(tdm_run_state *run) {
  if (tdm_context_rank_count(run->session->context) == 1) return;
  run->flight.settings = 0;
  for (size_t g = 0; g < run->scalar_count; g++) {
    const double told[] = {run->scalars[g].learning_rate, run->scalars[g].momentum};
    run->flight.settings = tdm_hash_bytes(told, sizeof told, run->flight.settings);
  }
}

/* Copies the rates for updates; the scalars of other runs have none. */
static void take_rates(tdm_run_state *run) {
  double rates[TDM_MAX_UPDATE_GROUPS], momenta[TDM_MAX_UPDATE_GROUPS];
  tdm_session_get_rates(run->session, rates, momenta);
  for (size_t g = 0; g < run->scalar_count; g++) {
    run->scalars[g].learning_rate = rates[g];
    run->scalars[g].momentum = momenta[g];
    run->scalars[g].has_momentum = momenta[g] >= 0;
  }
}

/* Clears what an idle run has left from its last request. */
static void begin_anew(tdm_run_state *run) {
  tdm_session *session = run->session;
  run->status = TDM_OK;
  run->message[0] = 0;
  run->asynchronous = false;
  atomic_store_explicit(&run->granted, 0, memory_order_relaxed);
  atomic_store_explicit(&run->done, 0, memory_order_relaxed);
  run->due_ns = 0;
  const uint64_t seed = atomic_load(&session->seed);
  for (size_t g = 0; g < run->scalar_count; g++)
    run->scalars[g].seed = seed;
  if (run->plan->training) take_rates(run);
  if (run->plan->writes_persistent) hash_settings(run);
  tdm_flight_reset(&run->flight, run->plan->command_count);
}

/* An input of the plan's graph identifies its input of the described graph. */
static void take_feeds(tdm_run_state *run, const tdm_resolved_run *resolved) {
  const tdm_graph *graph = &run->plan->graph;
  for (size_t i = 0; i < graph->inputs.count; i++) {
    const uint32_t input = tdm_ir_value_at(graph, graph->inputs.items[i])->binding;
    const tdm_feed *feed = resolved->feeds[input];
    run->inputs[i] = (tdm_run_input){feed->tensor, feed->handed_over};
  }
}

/* The caller holds the session's lock. */
static tdm_status open_locked(tdm_session *session, const tdm_run_request *request,
                              tdm_run_state **out_run) {
  tdm_resolved_run resolved;
  tdm_plan *plan;
  TDM_TRY(tdm_session_resolve(session, request, &resolved));
  TDM_TRY(tdm_session_find_plan(session, &resolved, &plan));
  if (TDM_UNLIKELY(!plan->agreed)) TDM_TRY(tdm_plan_agree(plan));
  tdm_run_state *run = plan->idle_runs;
  if (run)
    plan->idle_runs = run->next;
  else
    run = make_run(session, plan);
  if (!run) return TDM_OUT_OF_MEMORY;
  tdm_network *network = tdm_context_network(session->context);
  if (network) tdm_network_begin_run(network, plan->digest);
  plan->uses++;
  begin_anew(run);
  take_feeds(run, &resolved);
  *out_run = run;
  return TDM_OK;
}

/* Opens a run that takes over the claimed sequence. */
static tdm_status open_claimed(tdm_session *session, const tdm_run_request *request,
                               tdm_run_state **out_run) {
  (void)pthread_mutex_lock(&session->lock);
  const tdm_status status = open_locked(session, request, out_run);
  (void)pthread_mutex_unlock(&session->lock);
  if (!request->sequence) return status;
  if (status == TDM_OK)
    (*out_run)->sequence = tdm_sequence_retain(request->sequence);
  else
    tdm_sequence_unclaim(request->sequence);
  return status;
}

void tdm_run_give_up(const tdm_session *session, tdm_status status) {
  tdm_network *network = tdm_context_network(session->context);
  if (!network || status == TDM_RESOURCE_EXHAUSTED) return;
  if (status == TDM_INVALID_ARGUMENT || status == TDM_UNSUPPORTED)
    tdm_network_refuse_run(network, status);
  else
    tdm_network_give_up(network, status);
}

tdm_status tdm_run_open(tdm_session *session, const tdm_run_request *request,
                        tdm_run_state **out_run) {
  *out_run = NULL;
  if (request->sequence) TDM_TRY(tdm_sequence_claim(request->sequence, true));
  tdm_status status = open_claimed(session, request, out_run);
  if (status == TDM_OK && (*out_run)->plan->records) status = begin_record(*out_run);
  if (status == TDM_OK) return TDM_OK;
  if (*out_run) {
    (*out_run)->status = status; /* status of a run that was never started */
    tdm_run_close(*out_run);
    *out_run = NULL;
  }
  tdm_run_give_up(session, status);
  return status;
}

static bool is_broken(tdm_store *store) {
  (void)pthread_mutex_lock(&store->lock);
  const bool broken = store->broken != TDM_OK;
  (void)pthread_mutex_unlock(&store->lock);
  return broken;
}

bool tdm_run_note_parts(const tdm_run_state *run) {
  tdm_session *session = run->session;
  if (!run->plan->tuning || !tdm_micro_tuning_is_cause(run->status, true)) return false;
  (void)pthread_mutex_lock(&session->lock);
  const bool others = tdm_micro_tuning_give_up(run->plan->tuning, run->plan->micro_asked);
  (void)pthread_mutex_unlock(&session->lock);
  return others && !is_broken(session->store);
}

/* Adds the times of a run to those of its plan, under the lock of the session. */
static void add_profile(tdm_plan *plan, const tdm_run_state *run) {
  if (!plan->profile.steps || run->status != TDM_OK) return;
  tdm_profile_add(&plan->profile, run->flight.times);
}

void tdm_run_close(tdm_run_state *run) {
  tdm_session *session = run->session;
  tdm_plan *plan = run->plan;
  tdm_network *network = tdm_context_network(session->context);
  if (network) tdm_network_end_run(network);
  tdm_run_leave_sequence(run);
  for (size_t i = 0; i < plan->delivery_count; i++) {
    tdm_tensor_release(run->outputs[i]);
    run->outputs[i] = NULL;
  }
  for (size_t i = 0; run->asynchronous && i < plan->graph.inputs.count; i++)
    tdm_tensor_release(run->inputs[i].tensor);
  if (run->record) tdm_trace_drop(session->trace, run->record);
  run->record = NULL;
  (void)pthread_mutex_lock(&session->lock);
  add_profile(plan, run);
  if (run->status == TDM_OK)
    tdm_micro_tuning_note(plan->tuning, plan->micro_asked, plan->micro_count,
                          plan->lowered.schedule.queue_count == 1, run->took_ns);
  run->next = plan->idle_runs;
  plan->idle_runs = run;
  tdm_session_leave_plan(session, plan);
  (void)pthread_mutex_unlock(&session->lock);
}

void tdm_runs_destroy(tdm_session *session, tdm_plan *plan) {
  for (tdm_run_state *run = plan->idle_runs, *next; run; run = next) {
    next = run->next;
    run_block *block = (run_block *)run;
    tdm_region_deinit(&block->region);
    tdm_release(session->allocator, block, sizeof *block);
  }
  plan->idle_runs = NULL;
}

void tdm_run_show(const tdm_run_state *run) {
  const tdm_plan *plan = run->plan;
  for (size_t i = plan->target_count; i < plan->delivery_count; i++) {
    const tdm_ir_node *node = tdm_ir_node_at(&plan->graph, plan->observed[i - plan->target_count]);
    const tdm_observation observation = {
        node->name, node->part.replica ? node->part.replica - 1 : 0, run->outputs[i],
        node->part.micro ? node->part.micro - 1 : 0};
    run->session->observer(run->session->observer_user, &observation);
  }
}

double tdm_run_loss(const tdm_run_state *run) {
  const tdm_tensor *loss = run->outputs[run->plan->target_count - 1];
  const void *data = tdm_tensor_data(loss);
  return loss->dtype == TDM_FLOAT64 ? *(const double *)data : (double)*(const float *)data;
}
