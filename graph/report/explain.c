/* Text shared by all printers of plans, and the choice of the printer. */
#include "graph/report/explain.h"

#include <stdio.h>

#include "devices/kernels/elementwise/fused.h"

const char *tdm_explain_device(const tdm_plan *plan, int16_t device) {
  if (device == TDM_NO_DEVICE) return "?";
  return tdm_context_device(plan->graph.context, (size_t)device)->name;
}

const char *tdm_explain_role(tdm_queue_role role) {
  static const char *const names[] = {"compute", "upload", "download", "peer",
                                      "sum",     "send",   "receive"};
  return names[role];
}

bool tdm_explain_has_pieces(const tdm_plan *plan) {
  for (size_t w = 1; w < plan->graph.parallel_regions.count; w++)
    if (plan->graph.parallel_regions.items[w].sharding == TDM_SHARDING_PARAMETERS) return true;
  return false;
}

const char *tdm_explain_action(const tdm_ir_node *node) {
  if (node->operation) return node->operation->name;
  if (node->role == TDM_ROLE_TRANSFER) return "transfer";
  return node->role == TDM_ROLE_REFRESH ? "refresh" : "boundary transfer";
}

const char *tdm_explain_members(const tdm_ir_node *node, char *text) {
  size_t at = 0;
  text[0] = 0;
  if (node->operation != &tdm_operation_fused) return text;
  const tdm_fused_attributes *program = node->attributes;
  for (int64_t m = 0; m < program->member_count && at < TDM_EXPLAIN_TEXT; m++) {
    at += (size_t)snprintf(text + at, TDM_EXPLAIN_TEXT - at, "%s%s", m > 0 ? ", " : "",
                           program->members[m].kernel->operation);
  }
  return text;
}

const char *tdm_explain_route(const tdm_plan *plan, const tdm_ir_node *node) {
  const tdm_graph *graph = &plan->graph;
  const int16_t from = tdm_ir_value_at(graph, node->inputs[0])->device;
  if (node->transfer.hop > 0 && !tdm_ir_is_message(graph, node)) return "staged";
  if (from == node->device) return "same device";
  if (tdm_ir_is_exchange(graph, node)) return "by devices of two ranks";
  if (tdm_ir_is_message(graph, node)) return "between ranks";
  const bool peers = tdm_device_same_kind(tdm_context_device(graph->context, (size_t)from),
                                          tdm_context_device(graph->context, (size_t)node->device));
  return peers ? "peer" : "direct";
}

const char *tdm_explain_memory(const tdm_plan *plan, const tdm_ir_node *node) {
  tdm_context *context = plan->graph.context;
  const int16_t from = tdm_ir_value_at(&plan->graph, node->inputs[0])->device;
  const bool by_host = tdm_context_device(context, (size_t)from)->host_addressable ||
                       tdm_context_device(context, (size_t)node->device)->host_addressable;
  return by_host ? tdm_host_memory_name(tdm_plan_host_memory(plan, node)) : "memory of devices";
}

/* Returns the value that a transfer copies, possibly over several hops. */
static const tdm_ir_value *origin_of(const tdm_plan *plan, const tdm_ir_node *node) {
  const tdm_ir_value *value = tdm_ir_value_at(&plan->graph, node->inputs[0]);
  while (node->transfer.hop > 0) {
    node = tdm_ir_node_at(&plan->graph, value->producer);
    value = tdm_ir_value_at(&plan->graph, node->inputs[0]);
  }
  return value;
}

void tdm_explain_cause(const tdm_plan *plan, const tdm_ir_node *node,
                       const char *out_pieces[TDM_CAUSE_PIECES]) {
  const tdm_ir_value *origin = origin_of(plan, node);
  bool backward = false;
  if (origin->producer)
    backward = tdm_ir_node_at(&plan->graph, origin->producer)->role == TDM_ROLE_GRADIENT;
  out_pieces[0] = backward ? "gradient of " : "";
  out_pieces[1] = node->name;
  out_pieces[2] = " -> ";
  out_pieces[3] = node->transfer.consumer
                      ? tdm_ir_node_at(&plan->graph, node->transfer.consumer)->name
                      : "the caller";
}

const char *tdm_explain_cause_in(tdm_region *region, const tdm_plan *plan,
                                 const tdm_ir_node *node) {
  const char *pieces[TDM_CAUSE_PIECES];
  tdm_explain_cause(plan, node, pieces);
  return tdm_region_format(region, "%s%s%s%s", pieces[0], pieces[1], pieces[2], pieces[3]);
}

double tdm_explain_measured_ns(const tdm_plan *plan, size_t step) {
  return tdm_profile_median_ns(&plan->profile, step);
}

tdm_status tdm_explain_print(const tdm_plan *plan, bool nodes_only, tdm_plan_format format,
                             FILE *out) {
  switch (format) {
  case TDM_PLAN_TEXT:
    return tdm_explain_text(plan, nodes_only, out);
  case TDM_PLAN_DOT:
    return tdm_explain_dot(plan, out);
  case TDM_PLAN_JSON:
    return tdm_explain_json(plan, nodes_only, out);
  }
  return tdm_fail(TDM_INVALID_ARGUMENT, "unknown plan format %d", (int)format);
}
