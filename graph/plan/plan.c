/* The planner: runs the passes, in the order of TDM_PIPELINE, on a new concrete graph. Invariant:
 * all inputs of a pass are in the graph, in the request, or were put into the plan by an earlier
 * pass. A returned plan was verified. */
#include "graph/plan/plan.h"

#include "core/park.h"
#include "graph/describe/gradient_of.h"
#include "graph/ir/rewriter.h"

/* ---- Which requests a pass applies to -------------------------------------------------------- */

static bool always(const tdm_plan_request *request) {
  (void)request;
  return true;
}

static bool has_parts(const tdm_plan_request *request) {
  return request->batching.count > 1;
}

static bool has_ranks(const tdm_plan_request *request) {
  return tdm_context_rank_count(request->source->context) > 1;
}

static bool is_observed(const tdm_plan_request *request) {
  return request->observe;
}

static bool merges(const tdm_plan_request *request) {
  return !request->unmerged;
}

static bool fuses(const tdm_plan_request *request) {
  return !request->unfused;
}

/* ---- On the graph ---------------------------------------------------------------------------- */

static tdm_status run_lower(tdm_plan *plan, const tdm_plan_request *request) {
  const tdm_lowering lowering = {.source = request->source,
                                 .feeds = request->feeds,
                                 .targets = request->targets,
                                 .target_devices = request->target_devices,
                                 .target_count = request->target_count,
                                 .training = request->training != NULL,
                                 .batch = request->batching.batch,
                                 .keeps_whole = request->whole_reason != NULL};
  return tdm_lower(&lowering, &plan->graph);
}

static tdm_status run_micro_batch(tdm_plan *plan, const tdm_plan_request *request) {
  return tdm_pass_micro_batch(&plan->graph, &request->batching, &plan->micro_count);
}

static tdm_status run_data_parallel(tdm_plan *plan, const tdm_plan_request *request) {
  (void)request;
  return tdm_pass_data_parallel(&plan->graph, true);
}

/* Delivers observed values after the targets, in plan order: one replica after another. */
static tdm_status run_observe(tdm_plan *plan, const tdm_plan_request *request) {
  (void)request;
  tdm_graph *graph = &plan->graph;
  size_t count = 0;
  TDM_EACH_NODE(graph, node)
    count += node->operation == &tdm_operation_observe;
  plan->observed = tdm_region_take(&plan->region, (count + 1) * sizeof(uint32_t), "plan");
  if (!plan->observed) return TDM_OUT_OF_MEMORY;
  TDM_TRY(TDM_ARRAY_RESERVE(graph, &graph->planned->deliveries, count));
  TDM_EACH_NODE(graph, node) {
    if (node->operation != &tdm_operation_observe) continue;
    plan->observed[plan->delivery_count++ - plan->target_count] = node->index;
    graph->planned->deliveries.items[graph->planned->deliveries.count++] =
        (tdm_graph_delivery){.value = node->first_output, .device = TDM_HOST_DEVICE};
  }
  return TDM_OK;
}

/* Sets the homes of parameters to those of the session that bound them first. */
static void settle_homes(tdm_graph *graph, const tdm_plan_request *request) {
  for (size_t i = 0; i < graph->persistents.count; i++) {
    tdm_graph_persistent *persistent = &graph->persistents.items[i];
    const tdm_device *home = request->bound[persistent->origin]->storage->memory.device;
    persistent->is_updated_everywhere = request->everywhere[persistent->origin];
    tdm_ir_value_at(graph, persistent->value)->device = (int16_t)home->context_index;
  }
}

static tdm_status run_place(tdm_plan *plan, const tdm_plan_request *request) {
  settle_homes(&plan->graph, request);
  TDM_TRY(tdm_pass_place(&plan->graph, request->map));
  if (!request->training) tdm_drop_persist_inputs(&plan->graph);
  return TDM_OK;
}

static tdm_status run_shard(tdm_plan *plan, const tdm_plan_request *request) {
  return tdm_pass_shard(&plan->graph, request->deterministic, &plan->shards);
}

static bool differentiates(const tdm_plan *plan, const tdm_plan_request *request) {
  return request->training || tdm_first_asking(&plan->graph);
}

/* The pass depends on where look-ups and consumers are placed, so it would also affect how
 * gradients are summed. */
static tdm_status run_sink_gather(tdm_plan *plan, const tdm_plan_request *request) {
  if (request->deterministic && differentiates(plan, request)) return TDM_OK;
  return tdm_pass_sink_gather(&plan->graph);
}

static tdm_status run_gradient(tdm_plan *plan, const tdm_plan_request *request) {
  tdm_training training = {.deterministic = request->deterministic};
  if (!differentiates(plan, request)) return TDM_OK;
  if (request->training) {
    training = *request->training;
    training.loss = plan->graph.planned->deliveries.items[request->target_count - 1].value;
  }
  return tdm_pass_gradient(&plan->graph, &training);
}

static tdm_status run_common_subexpressions(tdm_plan *plan, const tdm_plan_request *request) {
  (void)request;
  return tdm_pass_common_subexpressions(&plan->graph, &plan->common);
}

/* Finds the window of each parameter's log: that of the store, or that of the plan's own updates if
 * it is larger. */
static tdm_status find_windows(tdm_plan *plan, const tdm_plan_request *request) {
  const tdm_graph *graph = &plan->graph;
  const size_t count = graph->persistents.count;
  plan->windows = tdm_region_take(&plan->region, (count + 1) * sizeof *plan->windows, "plan");
  plan->logged = tdm_region_take(&plan->region, (count + 1) * sizeof *plan->logged, "plan");
  if (!plan->windows || !plan->logged) return TDM_OUT_OF_MEMORY;
  for (size_t i = 0; i < count; i++) {
    const uint32_t origin = graph->persistents.items[i].origin;
    if (origin != UINT32_MAX) plan->windows[i] = tdm_row_log_window(request->bound[origin]);
  }
  for (size_t i = 0; i < graph->planned->logs.count; i++) {
    const tdm_graph_log *log = &graph->planned->logs.items[i];
    const uint64_t window = tdm_plan_logged_rows(plan, log);
    if (plan->windows[log->persistent] < window) plan->windows[log->persistent] = window;
    plan->logged[log->persistent] = true;
  }
  return TDM_OK;
}

static tdm_status run_row_refresh(tdm_plan *plan, const tdm_plan_request *request) {
  TDM_TRY(find_windows(plan, request));
  return tdm_pass_row_refresh(&plan->graph, plan->windows);
}

static tdm_status run_collectives(tdm_plan *plan, const tdm_plan_request *request) {
  const tdm_collective_request collective = {.asked = request->collective,
                                             .deterministic = request->deterministic};
  return tdm_pass_collectives(&plan->graph, &collective, &plan->sums);
}

static tdm_status run_layout(tdm_plan *plan, const tdm_plan_request *request) {
  return tdm_pass_layout(&plan->graph, request->cache);
}

static tdm_status run_micro_order(tdm_plan *plan, const tdm_plan_request *request) {
  (void)request;
  return plan->micro_count > 1 ? tdm_pass_micro_order(&plan->graph) : TDM_OK;
}

static tdm_status run_fuse(tdm_plan *plan, const tdm_plan_request *request) {
  return tdm_pass_fuse(&plan->graph, request->cache);
}

static tdm_status run_own_feeds(tdm_plan *plan, const tdm_plan_request *request) {
  return tdm_pass_own_feeds(&plan->graph, request->cache);
}

static tdm_status run_transfer(tdm_plan *plan, const tdm_plan_request *request) {
  return tdm_pass_transfer(&plan->graph, request->collective);
}

/* ---- On steps -------------------------------------------------------------------------------- */

static tdm_status mark_updated(tdm_plan *plan) {
  const tdm_graph *graph = &plan->graph;
  plan->updated =
      tdm_region_take(&plan->region, (graph->persistents.count + 1) * sizeof(bool), "plan");
  if (!plan->updated) return TDM_OUT_OF_MEMORY;
  TDM_EACH_NODE(graph, node) {
    if (node->role != TDM_ROLE_UPDATE || tdm_ir_kept_by(graph, node)) continue;
    plan->writes_persistent = true;
    for (uint32_t k = 0; k < node->output_count; k++) {
      const tdm_ir_value *value = tdm_ir_value_at(graph, node->first_output + k);
      const tdm_ir_value *root = tdm_ir_value_at(graph, value->root);
      if (root->kind == TDM_VALUE_PERSISTENT) plan->updated[root->binding] = true;
    }
  }
  return TDM_OK;
}

/* From here on the graph does not change, so the rows that runs refresh, update and copy are
 * counted first. */
static tdm_status run_schedule(tdm_plan *plan, const tdm_plan_request *request) {
  TDM_TRY(tdm_plan_note_refreshes(plan));
  tdm_plan_count_transfers(plan);
  if (request->strict) TDM_TRY(tdm_plan_refuse_pageable(plan));
  TDM_TRY(mark_updated(plan));
  TDM_TRY(tdm_lower_to_steps(&plan->graph, tdm_context_rank(plan->graph.context), request->depth,
                             &plan->lowered));
  plan->chained = plan->writes_persistent && plan->lowered.schedule.two_phase && request->depth > 1;
  return tdm_pass_schedule(&plan->lowered.schedule);
}

static tdm_status run_memory(tdm_plan *plan, const tdm_plan_request *request) {
  (void)request;
  return tdm_pass_memory(&plan->lowered.schedule);
}

/* Returns true if the graph has all-reduces, over devices of this rank or over ranks. */
static bool has_all_reduces(const tdm_plan *plan) {
  TDM_EACH_NODE(&plan->graph, node)
    if (tdm_ir_is_all_reduce(node)) return true;
  return false;
}

static tdm_status run_verify(tdm_plan *plan, const tdm_plan_request *request) {
  TDM_TRY(tdm_pass_verify(&plan->lowered.schedule));
  TDM_TRY(tdm_plan_verify_buckets(plan));
  plan->agreed = tdm_context_rank_count(plan->graph.context) == 1;
  if (!plan->agreed) TDM_TRY(tdm_plan_digest(plan, request));
  return plan->agreed && !has_all_reduces(plan) ? TDM_OK : tdm_plan_verify_ranks(plan);
}

static tdm_status run_emit(tdm_plan *plan, const tdm_plan_request *request) {
  TDM_TRY(tdm_pass_emit(plan));
  if (request->profile)
    TDM_TRY(tdm_profile_init(&plan->profile, &plan->region, plan->lowered.schedule.step_count));
  /* In a job, ranks must agree first. */
  for (size_t i = 0; i < plan->group_count && plan->agreed; i++)
    TDM_TRY(tdm_group_join(plan->graph.context, plan->groups[i]));
  return tdm_plan_count_touched(plan);
}

static tdm_status run_bind(tdm_plan *plan, const tdm_plan_request *request) {
  return tdm_plan_bind(plan, request);
}

/* ---- The pipeline ---------------------------------------------------------------------------- */

#define RUN_GRAPH_PASS(name, applies)                                                              \
  static tdm_status run_##name(tdm_plan *plan, const tdm_plan_request *request) {                  \
    (void)request;                                                                                 \
    return tdm_pass_##name(&plan->graph);                                                          \
  }
#define NOTHING(name, applies)
TDM_PIPELINE(RUN_GRAPH_PASS, NOTHING)

#define RECORD(name, applies) {#name, applies, run_##name},
const tdm_pass tdm_passes[] = {TDM_PIPELINE(RECORD, RECORD)};
const size_t tdm_pass_count = TDM_COUNT_OF(tdm_passes);

static tdm_status run_pass(const tdm_pass *pass, tdm_plan *plan, const tdm_plan_request *request,
                           tdm_pass_time *out_time) {
  const uint64_t began_ns = tdm_time_ns();
  const uint64_t prepared_ns = tdm_prepared_cache_prepare_ns(request->cache);
  out_time->applied = pass->applies(request);
  if (!out_time->applied) return TDM_OK;
  TDM_TRY(pass->run(plan, request));
  out_time->ns = tdm_time_ns() - began_ns;
  out_time->ns -= tdm_prepared_cache_prepare_ns(request->cache) - prepared_ns;
  return tdm_graph_status(&plan->graph);
}

static tdm_status run_passes(tdm_plan *plan, const tdm_plan_request *request) {
  plan->pass_times =
      tdm_region_take(&plan->region, tdm_pass_count * sizeof *plan->pass_times, "plan");
  if (!plan->pass_times) return TDM_OUT_OF_MEMORY;
  for (size_t i = 0; i < tdm_pass_count; i++) {
    TDM_TRY(run_pass(&tdm_passes[i], plan, request, &plan->pass_times[i]));
    if (request->after_pass) request->after_pass(request->user, tdm_passes[i].name, plan);
  }
  return TDM_OK;
}

static tdm_status make(tdm_plan *plan, const tdm_plan_request *request) {
  plan->delivery_count = plan->target_count = request->target_count;
  plan->training = request->training != NULL;
  plan->tuning = request->tuning;
  plan->micro_asked = request->batching.count;
  plan->micro_count = 1;
  plan->whole_reason = request->whole_reason;
  plan->records = request->record;
  return run_passes(plan, request);
}

tdm_status tdm_plan_create(const tdm_plan_request *request, tdm_plan **out_plan) {
  *out_plan = NULL;
  const tdm_allocator *allocator = request->source->allocator;
  tdm_plan *plan = tdm_allocate(allocator, sizeof *plan, "plan");
  if (!plan) return TDM_OUT_OF_MEMORY;
  tdm_region_init(&plan->region, allocator);
  const uint64_t begin = tdm_time_ns();
  const uint64_t prepare_before = tdm_prepared_cache_prepare_ns(request->cache);
  tdm_status status = tdm_graph_init(&plan->graph, request->source->context);
  if (status == TDM_OK) status = make(plan, request);
  plan->made_ns =
      tdm_time_ns() - begin - (tdm_prepared_cache_prepare_ns(request->cache) - prepare_before);
  if (status != TDM_OK) {
    tdm_plan_destroy(plan);
    return status;
  }
  *out_plan = plan;
  return TDM_OK;
}

void tdm_plan_destroy(tdm_plan *plan) {
  if (!plan) return;
  tdm_context *context = tdm_context_retain(plan->graph.context);
  const tdm_allocator *allocator = plan->graph.allocator;
  tdm_lowered_deinit(&plan->lowered);
  tdm_release(allocator, plan->key.words, plan->key.count * sizeof(uint64_t));
  tdm_region_deinit(&plan->region);
  tdm_graph_deinit(&plan->graph);
  tdm_release(allocator, plan, sizeof *plan);
  tdm_context_release(context);
}
