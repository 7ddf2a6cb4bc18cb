/* Modules in the style of PyTorch's tutorials: replicas of one module, and several modules in
 * parallel. Invariant: replicas are one layer applied several times, so they share their
 * parameters. */
#include "graph/ir/rewriter.h"

/* Returns true if the module is complete; otherwise the graph's error names the missing part. */
static bool check_module(tdm_graph *graph, const char *function, const tdm_module *module) {
  const char *missing = NULL;
  if (!module)
    missing = "module";
  else if (!module->name)
    missing = "name of the module";
  else if (!module->build)
    missing = "function that builds the module";
  if (missing) tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s: no %s", function, missing);
  return !missing;
}

size_t tdm_replicate(tdm_graph *graph, const tdm_module *module, const char *devices,
                     tdm_module *replicas, size_t capacity) {
  static const char function[] = "tdm_replicate";
  tdm_device *found[TDM_MAX_PARTS];
  size_t count;
  if (!tdm_graph_describes(graph, function) || !check_module(graph, function, module)) return 0;
  tdm_status status = tdm_context_find_placements(graph->context, devices ? devices : "",
                                                  TDM_MAX_PARTS, found, &count);
  if (status != TDM_OK) {
    status = tdm_fail_within(status, "%s: %s", function, module->name);
    tdm_graph_fail_message(graph, status);
    return 0;
  }
  if (count > capacity || !replicas) {
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s: %s: %zu devices, and room for %zu replicas",
                   function, module->name, count, replicas ? capacity : 0);
    return 0;
  }
  tdm_tie(graph, module->name, module->name);
  for (size_t i = 0; i < count; i++) {
    replicas[i] = *module;
    replicas[i].device = found[i]->name;
    replicas[i].replica = (int)i;
  }
  return count;
}

/* Marks the nodes of a later replica. Only the first replica's layers write states in training. */
static void mark_replica(tdm_graph *graph, size_t first) {
  for (size_t i = first; i < graph->nodes.count; i++)
    tdm_ir_node_at(graph, i)->later_replica = true;
}

/* Returns true if the value is invalid or belongs to this graph; otherwise the graph's error names
 * it by `what`. */
static bool check_value(tdm_graph *graph, const tdm_module *module, const char *what,
                        tdm_value value) {
  if (value.index == 0 || tdm_ir_owns(graph, value)) return true;
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                 "tdm_parallel_apply: module %s: %s is no value of this graph", module->name, what);
  return false;
}

static tdm_value apply(tdm_graph *graph, const tdm_module *module, tdm_value input) {
  if (!check_module(graph, "tdm_parallel_apply", module) ||
      !check_value(graph, module, "its input", input))
    return TDM_NO_VALUE;
  const size_t first = graph->nodes.count;
  tdm_scope_push(graph, module->name);
  if (module->device) tdm_place(graph, module->device);
  const tdm_value output = module->build(graph, module->user, input);
  if (graph->status != TDM_OK || !check_value(graph, module, "what it answers", output))
    return TDM_NO_VALUE;
  tdm_scope_pop(graph);
  if (module->replica > 0) mark_replica(graph, first);
  return output;
}

void tdm_parallel_apply(tdm_graph *graph, const tdm_module *modules, const tdm_value *inputs,
                        size_t count, tdm_value *outputs) {
  for (size_t i = 0; outputs && i < count; i++)
    outputs[i] = TDM_NO_VALUE;
  if (!tdm_graph_describes(graph, "tdm_parallel_apply")) return;
  if (count > 0 && (!modules || !inputs || !outputs)) {
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                   "tdm_parallel_apply: %zu modules, and a list of them is NULL", count);
    return;
  }
  for (size_t i = 0; i < count && graph->status == TDM_OK; i++)
    outputs[i] = apply(graph, &modules[i], inputs[i]);
}
