/* A plan's transfers: counts and predicts them, and finds the host memory that they use. Invariant:
 * a transfer is a node without an operation whose input is on another device, or an input that a
 * sum reads there in place. */
#include "graph/plan/plan.h"

static const tdm_device *device_of(const tdm_plan *plan, int16_t device) {
  return tdm_context_device(plan->graph.context, (size_t)device);
}

static const tdm_ir_value *source_of(const tdm_plan *plan, const tdm_ir_node *node) {
  return tdm_ir_value_at(&plan->graph, node->inputs[0]);
}

/* ---- Counting -------------------------------------------------------------------------------- */

static void count_one(tdm_traffic *traffic, tdm_node_role role, uint64_t bytes) {
  if (role == TDM_ROLE_TRANSFER) {
    traffic->edge_transfers++;
    traffic->edge_bytes += bytes;
  } else if (role == TDM_ROLE_BOUNDARY) {
    traffic->boundary_transfers++;
    traffic->boundary_bytes += bytes;
  } else {
    traffic->refresh_transfers++;
    traffic->refresh_bytes += bytes;
  }
}

bool tdm_plan_is_usual(const tdm_plan *plan, const tdm_ir_node *node) {
  const uint32_t derived_count = (uint32_t)plan->graph.planned->deriveds.count;
  if (!node->condition) return true;
  const tdm_copy_refresh *refresh = &plan->refreshes[node->condition - 1];
  if (node->condition <= derived_count) return refresh->usual;
  return plan->graph.planned->row_conditions.items[node->condition - 1 - derived_count].age == 0;
}

void tdm_plan_count_transfers(tdm_plan *plan) {
  const tdm_graph *graph = &plan->graph;
  TDM_EACH_NODE(graph, node) {
    if (tdm_reads_in_place(graph, node, 1))
      count_one(&plan->traffic, TDM_ROLE_TRANSFER, tdm_ir_value_at(graph, node->inputs[1])->bytes);
    if (node->operation) continue;
    const tdm_device *from = device_of(plan, source_of(plan, node)->device);
    const tdm_device *to = device_of(plan, node->device);
    if (from == to) continue;
    if (tdm_plan_is_usual(plan, node))
      count_one(&plan->traffic, node->role, tdm_ir_value_at(graph, node->first_output)->bytes);
    if (plan->partner || from->host_addressable == to->host_addressable ||
        from->rank != tdm_context_rank(graph->context))
      continue;
    plan->partner = tdm_context_device(graph->context, from->host_addressable
                                                           ? (size_t)node->device
                                                           : (size_t)source_of(plan, node)->device);
  }
}

/* ---- Host memory ----------------------------------------------------------------------------- */

/* Returns the host memory that a transfer uses. Computed and delivered values are in the plan's own
 * memory, fed and persistent ones in memory that others allocated. */
tdm_host_memory tdm_plan_host_memory(const tdm_plan *plan, const tdm_ir_node *node) {
  const tdm_ir_value *source = source_of(plan, node);
  const tdm_device *from = device_of(plan, source->device);
  const tdm_device *to = device_of(plan, node->device);
  if (from->host_addressable == to->host_addressable) return TDM_HOST_NONE;
  const tdm_device *discrete = from->host_addressable ? to : from;
  const tdm_ir_value *root =
      tdm_ir_value_at(&plan->graph, from->host_addressable ? source->root : node->first_output);
  const bool pinned =
      (root->kind == TDM_VALUE_INPUT ? root->pinned : root->kind == TDM_VALUE_NODE) &&
      !atomic_load(&plan->unpinned);
  if (pinned) return TDM_HOST_PINNED;
  return discrete->stages_pageable ? TDM_HOST_STAGED : TDM_HOST_PAGEABLE;
}

const char *tdm_host_memory_name(tdm_host_memory memory) {
  static const char *const names[] = {"host memory", "pinned", "staged", "pageable"};
  return names[memory];
}

tdm_status tdm_plan_refuse_pageable(const tdm_plan *plan) {
  TDM_EACH_NODE(&plan->graph, node) {
    if (tdm_rank_of(&plan->graph, node->device) != tdm_context_rank(plan->graph.context)) continue;
    if (!node->operation && tdm_plan_host_memory(plan, node) == TDM_HOST_PAGEABLE)
      return tdm_fail(TDM_UNAVAILABLE, "strict: the transfer of %s goes through pageable memory",
                      node->name);
  }
  return TDM_OK;
}

/* ---- Touching -------------------------------------------------------------------------------- */

/* Returns true if the device uses the memory of this rank's host. Memory of other ranks is in their
 * caches. */
static bool on_host(const tdm_plan *plan, int16_t device) {
  return device != TDM_NO_DEVICE && device_of(plan, device)->host_addressable &&
         device_of(plan, device)->rank == tdm_context_rank(plan->graph.context);
}

static uint32_t operand_at(const tdm_graph *graph, const tdm_ir_node *node, uint32_t index) {
  const bool is_input = index < node->input_count;
  const uint32_t value =
      is_input ? node->inputs[index] : node->first_output + index - node->input_count;
  return value ? tdm_ir_value_at(graph, value)->root : 0;
}

/* Returns the largest number of bytes of a table that the node can read or write. With ids it is
 * the size of the largest other operand. */
static uint64_t most_touched_by(const tdm_graph *graph, const tdm_ir_node *node) {
  bool has_ids = false;
  uint64_t most = 0;
  for (uint32_t i = 0; i < (uint32_t)node->input_count + node->output_count; i++) {
    const uint32_t index = operand_at(graph, node, i);
    if (index == 0) continue;
    const tdm_ir_value *value = tdm_ir_value_at(graph, index);
    const tdm_dtype dtype = value->spec->dtype;
    has_ids = has_ids || (i < node->input_count && (dtype == TDM_INT32 || dtype == TDM_INT64));
    const bool is_own = value->kind == TDM_VALUE_NODE || value->kind == TDM_VALUE_INPUT;
    if (is_own && value->bytes > most) most = value->bytes;
  }
  return has_ids ? most : UINT64_MAX;
}

/* Sets touched (values): the bytes of each value outside arenas that a run reads or writes. */
static void touch_all(const tdm_plan *plan, uint64_t *touched) {
  const tdm_graph *graph = &plan->graph;
  TDM_EACH_NODE(graph, node) {
    uint64_t most = 0; /* 0: not known yet */
    for (uint32_t i = 0; i < (uint32_t)node->input_count + node->output_count; i++) {
      const uint32_t index = operand_at(graph, node, i);
      const tdm_ir_value *value = tdm_ir_value_at(graph, index);
      if (value->kind == TDM_VALUE_NODE || !on_host(plan, value->device)) continue;
      if (most == 0) most = most_touched_by(graph, node);
      const uint64_t bytes = value->bytes < most ? value->bytes : most;
      if (index != 0 && bytes > touched[index]) touched[index] = bytes;
    }
  }
}

tdm_status tdm_plan_count_touched(tdm_plan *plan) {
  const tdm_graph *graph = &plan->graph;
  const size_t bytes = graph->values.count * sizeof(uint64_t);
  uint64_t *touched = tdm_allocate(graph->allocator, bytes, "touched values");
  if (!touched) return TDM_OUT_OF_MEMORY;
  touch_all(plan, touched);
  plan->touched_bytes = 0;
  for (size_t i = 0; i < graph->values.count; i++)
    plan->touched_bytes += (double)touched[i];
  tdm_release(graph->allocator, touched, bytes);
  const tdm_schedule *schedule = &plan->lowered.schedule;
  for (uint32_t i = 0; i < schedule->arena_count; i++) {
    if (plan->arena_devices[i]->host_addressable)
      plan->touched_bytes += (double)schedule->arena_bytes[i];
  }
  return TDM_OK;
}

/* ---- Predicting ------------------------------------------------------------------------------ */

void tdm_plan_link(const tdm_plan *plan, const tdm_ir_node *node, tdm_link_estimate *out_link) {
  const tdm_device *to = device_of(plan, node->device);
  const tdm_device *from = device_of(plan, source_of(plan, node)->device);
  const bool pinned = tdm_plan_host_memory(plan, node) == TDM_HOST_PINNED;
  tdm_context_link(plan->graph.context, from, to, pinned, out_link);
}

double tdm_plan_predict_ns(const tdm_plan *plan, const tdm_ir_node *node) {
  tdm_link_estimate link;
  tdm_plan_link(plan, node, &link);
  const tdm_ir_value *source = source_of(plan, node);
  /* The previous run used the target last, and a source that no node of this run produced is as
   * old. */
  const bool stale = tdm_ir_value_at(&plan->graph, source->root)->kind != TDM_VALUE_NODE;
  return tdm_link_predict_after_ns(&link,
                                   (double)tdm_ir_value_at(&plan->graph, node->first_output)->bytes,
                                   plan->touched_bytes, stale);
}
