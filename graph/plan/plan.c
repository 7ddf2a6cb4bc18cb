/* The planner: runs the passes in order on a fresh concrete graph. Invariant: a plan that was
 * handed out was verified. */
#include "graph/plan/plan.h"

#include <string.h>

#include "core/park.h"
#include "graph/describe/gradient_of.h"
#include "graph/ir/rewriter.h"

static void report(const tdm_plan_request *request, const char *pass, const tdm_plan *plan) {
  if (request->after_pass) request->after_pass(request->user, pass, plan);
}

/* Parameters live where the session that bound them first has put them. */
static void settle_homes(tdm_graph *graph, const tdm_plan_request *request) {
  for (size_t i = 0; i < graph->persistents.count; i++) {
    tdm_graph_persistent *persistent = &graph->persistents.items[i];
    const tdm_device *home = request->bound[persistent->origin]->storage->memory.device;
    persistent->is_updated_everywhere = request->everywhere[persistent->origin];
    tdm_ir_value_at(graph, persistent->value)->device = (int16_t)home->context_index;
  }
}

static tdm_status bind_persistents(tdm_plan *plan, const tdm_plan_request *request,
                                   tdm_store_binding *binding) {
  const tdm_graph *graph = &plan->graph;
  const size_t count = graph->persistents.count;
  plan->entries = tdm_region_take(&plan->region, (count + 1) * sizeof(void *), "plan");
  plan->updated = tdm_region_take(&plan->region, (count + 1) * sizeof(bool), "plan");
  plan->logged = tdm_region_take(&plan->region, (count + 1) * sizeof(bool), "plan");
  plan->windows = tdm_region_take(&plan->region, (count + 1) * sizeof(uint64_t), "plan");
  if (!plan->entries || !plan->updated || !plan->logged || !plan->windows) return TDM_OUT_OF_MEMORY;
  for (size_t i = 0; i < count; i++) {
    const tdm_graph_persistent *persistent = &graph->persistents.items[i];
    const tdm_ir_value *value = tdm_ir_value_at(graph, persistent->value);
    if (persistent->origin != UINT32_MAX) {
      plan->entries[i] = request->bound[persistent->origin];
      continue;
    }
    TDM_TRY(tdm_store_bind(binding, persistent, &value->spec,
                           tdm_context_device(graph->context, (size_t)value->device), request->seed,
                           &plan->entries[i]));
  }
  return TDM_OK;
}

/* Makes room in the logs that this plan's updates write, and tells what all tables have. */
static tdm_status bind_logs(tdm_plan *plan, tdm_store_binding *binding) {
  const tdm_graph *graph = &plan->graph;
  for (size_t i = 0; i < graph->logs.count; i++) {
    const tdm_graph_log *log = &graph->logs.items[i];
    const int64_t rows = tdm_ir_value_at(graph, log->value)->spec.shape.dims[0];
    const uint64_t window = rows > 0 ? (uint64_t)rows : 1; /* an update of none is logged too */
    TDM_TRY(tdm_store_reserve_log(binding, plan->entries[log->persistent], window));
    plan->logged[log->persistent] = true;
  }
  for (size_t i = 0; i < graph->persistents.count; i++)
    plan->windows[i] = atomic_load(&plan->entries[i]->log.window);
  return TDM_OK;
}

static tdm_status bind_store(tdm_plan *plan, const tdm_plan_request *request) {
  tdm_store_binding binding = {.store = request->store};
  tdm_status status = bind_persistents(plan, request, &binding);
  if (status == TDM_OK) status = bind_logs(plan, &binding);
  return tdm_store_end_binding(&binding, status);
}

static tdm_status bind_deriveds(tdm_plan *plan, tdm_store *store) {
  const tdm_graph *graph = &plan->graph;
  const size_t count = graph->deriveds.count;
  plan->copies = tdm_region_take(&plan->region, (count + 1) * sizeof(void *), "plan");
  if (!plan->copies) return TDM_OUT_OF_MEMORY;
  for (size_t i = 0; i < count; i++) {
    const tdm_ir_value *value = tdm_ir_value_at(graph, graph->deriveds.items[i].value);
    const tdm_ir_value *source = tdm_ir_value_at(graph, graph->deriveds.items[i].source);
    TDM_TRY(tdm_store_copy_on(store, plan->entries[source->binding],
                              tdm_context_device(graph->context, (size_t)value->device),
                              &plan->copies[i]));
  }
  return TDM_OK;
}

static void mark_updated(tdm_plan *plan) {
  const tdm_graph *graph = &plan->graph;
  TDM_EACH_NODE(graph, node) {
    if (node->role != TDM_ROLE_UPDATE || tdm_ir_kept_by(graph, node)) continue;
    plan->writes_persistent = true;
    for (uint32_t k = 0; k < node->output_count; k++) {
      const tdm_ir_value *value = tdm_ir_value_at(graph, node->first_output + k);
      const tdm_ir_value *root = tdm_ir_value_at(graph, value->root);
      if (root->kind == TDM_VALUE_PERSISTENT) plan->updated[root->binding] = true;
    }
  }
}

/* Room for so many of each rank, the targets' where they are wanted; false: none. */
static bool take_deliveries(tdm_plan *plan, const tdm_plan_request *request, size_t count) {
  const size_t ranks = (size_t)tdm_context_rank_count(plan->graph.context);
  plan->deliveries =
      tdm_region_take(&plan->region, (ranks * count + 1) * sizeof *plan->deliveries, "plan");
  plan->delivery_devices =
      tdm_region_take(&plan->region, (count + 1) * sizeof *plan->delivery_devices, "plan");
  if (!plan->deliveries || !plan->delivery_devices) return false;
  for (size_t i = 0; i < count; i++)
    plan->delivery_devices[i] =
        i < request->target_count ? request->target_devices[i] : TDM_HOST_DEVICE;
  return true;
}

/* Puts what is observed behind the targets, in plan order: replica after replica. */
static tdm_status deliver_observed(tdm_plan *plan, const tdm_plan_request *request) {
  const tdm_graph *graph = &plan->graph;
  size_t count = 0;
  TDM_EACH_NODE(graph, node) {
    count += node->operation == &tdm_operation_observe;
  }
  if (count == 0) return TDM_OK;
  const uint32_t *targets = plan->deliveries;
  plan->observed = tdm_region_take(&plan->region, count * sizeof(uint32_t), "plan");
  if (!plan->observed || !take_deliveries(plan, request, plan->target_count + count))
    return TDM_OUT_OF_MEMORY;
  memcpy(plan->deliveries, targets, plan->target_count * sizeof(uint32_t));
  TDM_EACH_NODE(graph, node) {
    const uint32_t index = node->index;
    if (node->operation != &tdm_operation_observe) continue;
    plan->observed[plan->delivery_count - plan->target_count] = index;
    plan->deliveries[plan->delivery_count++] = node->first_output;
  }
  return TDM_OK;
}

/* The backward pass of what trains, and of gradients that are asked for. */
static tdm_status go_back(tdm_plan *plan, const tdm_plan_request *request) {
  tdm_graph *graph = &plan->graph;
  tdm_training training = {.deterministic = request->deterministic};
  if (request->training) {
    training = *request->training;
    training.loss = plan->deliveries[request->target_count - 1];
  } else if (!tdm_first_asking(graph)) {
    return TDM_OK;
  }
  TDM_TRY(tdm_pass_gradient(graph, &training));
  report(request, "gradient", plan);
  return TDM_OK;
}

/* Passes on the graph itself. */
static tdm_status rewrite_graph(tdm_plan *plan, const tdm_plan_request *request) {
  tdm_graph *graph = &plan->graph;
  const tdm_lowering lowering = {.source = request->source,
                                 .feeds = request->feeds,
                                 .targets = request->targets,
                                 .target_count = request->target_count,
                                 .training = request->training != NULL,
                                 .batch = request->batching.batch,
                                 .keeps_whole = request->whole_reason != NULL};
  plan->whole_reason = request->whole_reason;
  TDM_TRY(tdm_lower(&lowering, graph, plan->deliveries));
  report(request, "lower", plan);
  TDM_TRY(tdm_pass_micro_batch(graph, &request->batching, plan->deliveries, plan->delivery_devices,
                               plan->delivery_count, &plan->micro_count));
  report(request, "micro_batch", plan);
  TDM_TRY(tdm_pass_data_parallel(graph, true, plan->deliveries, plan->delivery_count));
  report(request, "data_parallel", plan);
  if (request->observe) TDM_TRY(deliver_observed(plan, request));
  settle_homes(graph, request);
  TDM_TRY(tdm_pass_place(graph, request->map));
  if (!request->training) tdm_drop_persist_inputs(graph);
  report(request, "place", plan);
  TDM_TRY(tdm_pass_shard(graph, request->deterministic, plan->deliveries, plan->delivery_count,
                         &plan->shards));
  report(request, "shard", plan);
  /* Where look-up and work lie together decides on it, and with it on how gradients are summed. */
  const bool differentiates = request->training || tdm_first_asking(graph);
  if (!request->deterministic || !differentiates)
    TDM_TRY(tdm_pass_sink_gather(graph, plan->deliveries, plan->delivery_count));
  report(request, "sink_gather", plan);
  TDM_TRY(go_back(plan, request));
  if (!request->unmerged)
    TDM_TRY(tdm_pass_common_subexpressions(graph, plan->deliveries, plan->delivery_count,
                                           &plan->common));
  report(request, "common_subexpressions", plan);
  TDM_TRY(bind_store(plan, request));
  TDM_TRY(tdm_pass_row_refresh(graph, plan->windows));
  report(request, "row_refresh", plan);
  const tdm_collective_request collective = {.asked = request->collective,
                                             .deterministic = request->deterministic};
  TDM_TRY(tdm_pass_collectives(graph, &collective, &plan->sums));
  report(request, "collectives", plan);
  TDM_TRY(tdm_pass_layout(graph, request->cache, plan->deliveries, plan->delivery_count));
  if (plan->micro_count > 1) TDM_TRY(tdm_pass_micro_order(graph));
  report(request, "layout", plan);
  if (!request->unfused)
    TDM_TRY(tdm_pass_fuse(graph, request->cache, plan->deliveries, plan->delivery_count));
  report(request, "fuse", plan);
  TDM_TRY(tdm_pass_own_feeds(graph, request->cache));
  report(request, "own_feeds", plan);
  TDM_TRY(tdm_pass_kept_reads(graph, plan->deliveries, plan->delivery_count));
  report(request, "kept_reads", plan);
  TDM_TRY(tdm_pass_transfer(graph, request->collective, plan->deliveries, plan->delivery_devices,
                            plan->delivery_count));
  plan->all_deliveries = plan->deliveries;
  plan->deliveries += (size_t)tdm_context_rank(graph->context) * plan->delivery_count;
  report(request, "transfer", plan);
  TDM_TRY(tdm_pass_concat_in_place(graph, plan->all_deliveries,
                                   (size_t)tdm_context_rank_count(graph->context) *
                                       plan->delivery_count));
  report(request, "concat_in_place", plan);
  TDM_TRY(tdm_plan_note_refreshes(plan));
  tdm_plan_count_transfers(plan);
  if (request->strict) TDM_TRY(tdm_plan_refuse_pageable(plan));
  return bind_deriveds(plan, request->store);
}

/* Do devices of this rank alone sum together, or ranks do? */
static bool has_all_reduces(const tdm_plan *plan) {
  TDM_EACH_NODE(&plan->graph, node) {
    if (tdm_ir_is_all_reduce(node)) return true;
  }
  return false;
}

/* Passes on the combinatorial side. */
static tdm_status arrange(tdm_plan *plan, const tdm_plan_request *request) {
  const int rank = tdm_context_rank(plan->graph.context);
  TDM_TRY(tdm_lower_to_steps(&plan->graph, rank, plan->deliveries, plan->delivery_count,
                             request->depth, &plan->lowered));
  plan->chained = plan->writes_persistent && plan->lowered.schedule.two_phase && request->depth > 1;
  TDM_TRY(tdm_pass_schedule(&plan->lowered.schedule));
  report(request, "schedule", plan);
  TDM_TRY(tdm_pass_memory(&plan->lowered.schedule));
  report(request, "memory", plan);
  TDM_TRY(tdm_pass_verify(&plan->lowered.schedule));
  TDM_TRY(tdm_plan_verify_buckets(plan));
  plan->agreed = tdm_context_rank_count(plan->graph.context) == 1;
  if (!plan->agreed) TDM_TRY(tdm_plan_digest(plan, request));
  if (!plan->agreed || has_all_reduces(plan)) TDM_TRY(tdm_plan_verify_ranks(plan));
  report(request, "verify", plan);
  TDM_TRY(tdm_pass_emit(plan));
  /* In a job ranks have to agree before. */
  for (size_t i = 0; i < plan->group_count && plan->agreed; i++)
    TDM_TRY(tdm_group_join(plan->graph.context, plan->groups[i]));
  TDM_TRY(tdm_plan_count_touched(plan));
  report(request, "emit", plan);
  return TDM_OK;
}

/* The table of bases with what never changes between runs. */
static tdm_status fill_bases(tdm_plan *plan) {
  const tdm_graph *graph = &plan->graph;
  plan->bases =
      tdm_region_take(&plan->region, (plan->layout.count + 1) * sizeof(tdm_address), "plan");
  if (!plan->bases) return TDM_OUT_OF_MEMORY;
  for (size_t i = 0; i < graph->persistents.count; i++)
    plan->bases[plan->layout.persistents + i] = plan->entries[i]->storage->memory.address;
  for (size_t i = 0; i < graph->deriveds.count; i++)
    plan->bases[plan->layout.deriveds + i] = plan->copies[i]->storage->memory.address;
  return TDM_OK;
}

static tdm_status make(tdm_plan *plan, const tdm_plan_request *request) {
  plan->delivery_count = plan->target_count = request->target_count;
  plan->training = request->training != NULL;
  plan->tuning = request->tuning;
  plan->micro_asked = request->batching.count;
  if (!take_deliveries(plan, request, plan->delivery_count)) return TDM_OUT_OF_MEMORY;
  TDM_TRY(rewrite_graph(plan, request));
  mark_updated(plan);
  TDM_TRY(arrange(plan, request));
  plan->records = request->record;
  if (request->profile) {
    TDM_TRY(tdm_profile_init(&plan->profile, &plan->region, plan->lowered.schedule.step_count));
  }
  return fill_bases(plan);
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
