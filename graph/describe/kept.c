/* Declares state that persists between consecutive runs of a sequence, and the operations that
 * write it. Invariant: after a write in place, no node reads and no output delivers the previous
 * contents. */
#include "graph/ir/ir.h"

tdm_value tdm_kept(tdm_graph *graph, const char *name, tdm_dtype dtype, tdm_shape shape) {
  if (!tdm_graph_describes(graph, name)) return TDM_NO_VALUE;
  if (!tdm_shape_is_valid(&shape) || !tdm_shape_is_concrete(&shape))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "kept %s: its shape has to be of sizes, since a sequence has it before "
                          "any run",
                          name);
  const tdm_value input = tdm_input(graph, name, dtype, shape);
  if (!tdm_value_is_valid(input)) return TDM_NO_VALUE;
  if (TDM_ARRAY_RESERVE(graph, &graph->kepts, 1) != TDM_OK)
    return tdm_graph_fail_message(graph, TDM_OUT_OF_MEMORY);
  graph->kepts.items[graph->kepts.count++] =
      (tdm_graph_kept){.value = input.index, .wanted_device = tdm_graph_scope(graph)->device};
  tdm_ir_value_at(graph, input.index)->kept = (uint32_t)graph->kepts.count;
  return input;
}

/* Returns the kept value itself, not a part of it. Returns NULL and sets the graph's error if the
 * value is not kept. */
static tdm_graph_kept *kept_of(tdm_graph *graph, const char *name, tdm_value value) {
  if (!tdm_graph_describes(graph, name)) return NULL;
  if (!tdm_ir_owns(graph, value)) {
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                   "%s: what is to be written is no value of the graph", name);
    return NULL;
  }
  tdm_graph_kept *kept = tdm_ir_kept(graph, value.index);
  if (kept && (kept->value == value.index || kept->written == value.index)) return kept;
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                 kept ? "%s: %s was written since, or this is a part of it: write what the latest "
                        "tdm_keep_rows has answered"
                      : "%s: only what tdm_kept has declared can be kept%s",
                 name, kept ? tdm_ir_value_at(graph, kept->value)->name : "");
  return NULL;
}

/* Fails if an output delivers the contents that will be overwritten. */
static bool check_outputs(tdm_graph *graph, const char *name, const tdm_graph_kept *kept) {
  for (size_t i = 0; i < graph->described->outputs.count; i++) {
    const tdm_graph_output *output = &graph->described->outputs.items[i];
    if (tdm_ir_value_at(graph, output->value)->root != kept->value) continue;
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                   "%s: output %s shows %s as it was before; fetch what tdm_keep_rows answers",
                   name, output->name, tdm_ir_value_at(graph, kept->value)->name);
    return false;
  }
  return true;
}

tdm_value tdm_keep_rows(tdm_graph *graph, const char *name, tdm_value kept, tdm_value rows,
                        tdm_value indices) {
  tdm_graph_kept *written = kept_of(graph, name, kept);
  if (!written || !check_outputs(graph, name, written)) return TDM_NO_VALUE;
  const tdm_value operands[] = {kept, rows, indices};
  const tdm_value whole =
      tdm_append(graph, &tdm_operation_index_copy, name, NULL, operands, 3, NULL);
  if (tdm_value_is_valid(whole)) written->written = whole.index;
  return whole;
}

void tdm_keep(tdm_graph *graph, const char *name, tdm_value kept, tdm_value value) {
  tdm_graph_kept *written = kept_of(graph, name, kept);
  if (!written) return;
  if (written->keeper) {
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s: %s keeps %s already", name, written->keeper,
                   tdm_ir_value_at(graph, written->value)->name);
    return;
  }
  const tdm_value operands[] = {value, kept};
  const tdm_value whole = tdm_append(graph, &tdm_operation_keep, name, NULL, operands, 2, NULL);
  if (!tdm_value_is_valid(whole)) return;
  tdm_ir_node *keeper = tdm_ir_node_at(graph, tdm_ir_value_at(graph, whole.index)->producer);
  keeper->role = TDM_ROLE_UPDATE;
  written->keeper = keeper->name;
}
