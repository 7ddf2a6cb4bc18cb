/* Work on rows that were picked from a small table is done on the table instead, where it is less:
 * linear(embedding(ids)) becomes embedding'(ids) of the rows linear(table). Invariant: a row of the
 * result is made by the same kernels of the same row, so a forward run gives the same bits; a
 * gradient is a sum over the table's rows of sums over ids, instead of one over ids. */
#include <string.h>

#include "graph/passes/passes.h"

enum { LEAST_GAIN = 4 }; /* ids for each row of the table, or it is not worth planning for */

typedef struct pick_state {
  tdm_graph *graph;
  uint32_t *uses; /* per value; deliveries are uses */
} pick_state;

static void count_uses(pick_state *state, const uint32_t *deliveries, size_t delivery_count) {
  const tdm_graph *graph = state->graph;
  for (size_t i = 0; i < graph->order.count; i++) {
    const tdm_ir_node *node = tdm_ir_node_at(graph, graph->order.items[i]);
    for (uint32_t k = 0; k < node->input_count; k++)
      state->uses[tdm_ir_inputs(graph, node)[k]]++;
  }
  for (size_t i = 0; i < delivery_count; i++)
    state->uses[deliveries[i]]++;
}

/* Does the node pick rows so often that working on the table is less? */
static bool picks_often(const tdm_graph *graph, const tdm_ir_node *node) {
  if (!node->operation || !node->operation->picks_rows ||
      !node->operation->picks_rows(node->attributes))
    return false;
  const uint32_t *from = tdm_ir_inputs(graph, node);
  const tdm_shape *table = &tdm_ir_value_at(graph, from[0])->spec.shape;
  const int64_t ids = tdm_shape_count(&tdm_ir_value_at(graph, from[1])->spec.shape);
  return ids / LEAST_GAIN >= table->dims[0];
}

static bool any_picks_often(const tdm_graph *graph) {
  for (size_t i = 0; i < graph->order.count; i++)
    if (picks_often(graph, tdm_ir_node_at(graph, graph->order.items[i]))) return true;
  return false;
}

/* The node whose picked rows the node at hand works on, if it is the only one to; 0: none. */
static uint32_t find_pick(const pick_state *state, const tdm_ir_node *node) {
  const tdm_graph *graph = state->graph;
  if (!node->operation || !node->operation->row_wise) return 0;
  const uint32_t picked = tdm_ir_inputs(graph, node)[0];
  const uint32_t producer = picked ? tdm_ir_value_at(graph, picked)->producer : 0;
  if (!producer || state->uses[picked] != 1) return 0;
  const tdm_ir_node *pick = tdm_ir_node_at(graph, producer);
  if (pick->device != node->device || pick->parallel_region != node->parallel_region ||
      pick->replica != node->replica || pick->micro != node->micro)
    return 0;
  return picks_often(graph, pick) ? producer : 0;
}

/* node, at place `at` of the order, and pick change places: node works on the table, and pick picks
 * from what it makes. Each takes over the other's output. */
static tdm_status exchange(tdm_graph *graph, size_t at, uint32_t pick_index) {
  const uint32_t node_index = graph->order.items[at];
  tdm_ir_node *node = tdm_ir_node_at(graph, node_index), *pick = tdm_ir_node_at(graph, pick_index);
  const uint32_t made = pick->first_output, picked = node->first_output;
  tdm_ir_inputs(graph, node)[0] = tdm_ir_inputs(graph, pick)[0];
  tdm_ir_inputs(graph, pick)[0] = made;
  node->first_output = made;
  pick->first_output = picked;
  tdm_ir_value_at(graph, made)->producer = node_index;
  tdm_ir_value_at(graph, picked)->producer = pick_index;
  TDM_TRY(tdm_ir_infer(graph, node->operation, node->name, node->attributes,
                       tdm_ir_inputs(graph, node), node->input_count,
                       &tdm_ir_value_at(graph, made)->spec));
  tdm_ir_settle_outputs(graph, node);
  size_t from = at;
  while (graph->order.items[from] != pick_index)
    from--;
  memmove(&graph->order.items[from], &graph->order.items[from + 1], (at - from) * sizeof(uint32_t));
  graph->order.items[at] = pick_index;
  return TDM_OK;
}

tdm_status tdm_pass_sink_gather(tdm_graph *graph, const uint32_t *deliveries,
                                size_t delivery_count) {
  if (!any_picks_often(graph)) return TDM_OK;
  const size_t bytes = graph->values.count * sizeof(uint32_t);
  pick_state state = {.graph = graph, .uses = tdm_allocate(graph->allocator, bytes, "uses")};
  if (!state.uses) return TDM_OUT_OF_MEMORY;
  memset(state.uses, 0, bytes);
  count_uses(&state, deliveries, delivery_count);
  tdm_status status = TDM_OK;
  for (size_t i = 0; i < graph->order.count && status == TDM_OK; i++) {
    const uint32_t pick = find_pick(&state, tdm_ir_node_at(graph, graph->order.items[i]));
    if (pick) status = exchange(graph, i, pick);
  }
  tdm_release(graph->allocator, state.uses, bytes);
  return status;
}
