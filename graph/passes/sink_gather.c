/* Applies operations on selected rows of a small table to the table itself, if that is less work:
 * linear(embedding(ids)) becomes embedding'(ids) of the rows linear(table). Invariant: a row of the
 * result is computed by the same kernels from the same row, so a forward run has the same bits. A
 * gradient becomes a sum over the table's rows of sums over ids instead of one sum over ids, so
 * deterministic plans with gradients do not use this pass. */
#include "graph/ir/rewriter.h"
#include "graph/passes/passes.h"

enum { LEAST_GAIN = 4 }; /* minimum number of ids per row of the table */

/* Returns true if applying the operation to the whole table is cheaper than applying it to the
 * selected rows. */
static bool picks_often(const tdm_graph *graph, const tdm_ir_node *node) {
  if (!node->operation || !node->operation->picks_rows ||
      !node->operation->picks_rows(node->attributes))
    return false;
  const uint32_t *from = node->inputs;
  const tdm_shape *table = &tdm_ir_value_at(graph, from[0])->spec->shape;
  const int64_t ids = tdm_shape_count(&tdm_ir_value_at(graph, from[1])->spec->shape);
  return ids / LEAST_GAIN >= table->dims[0];
}

static bool is_delivered(const tdm_graph *graph, uint32_t value) {
  for (size_t i = 0; i < graph->planned->deliveries.count; i++)
    if (graph->planned->deliveries.items[i].value == value) return true;
  return false;
}

/* Returns the node whose selected rows the node reads, if it is their only consumer, or NULL. */
static tdm_ir_node *find_pick(const tdm_graph *graph, const tdm_ir_node *node) {
  if (!node->operation || !node->operation->row_wise) return NULL;
  const uint32_t picked = node->inputs[0];
  tdm_ir_node *pick = tdm_producer(graph, picked);
  if (!pick || !picks_often(graph, pick) || tdm_ir_value_at(graph, picked)->readers != 1)
    return NULL;
  if (pick->device != node->device || pick->part.parallel_region != node->part.parallel_region ||
      pick->part.replica != node->part.replica || pick->part.micro != node->part.micro)
    return NULL;
  return is_delivered(graph, picked) ? NULL : pick;
}

/* Swaps the two nodes: node reads the table, and pick, directly after it, selects rows from its
 * output. Each takes the other's output. */
static tdm_status exchange(tdm_graph *graph, tdm_ir_node *node, tdm_ir_node *pick) {
  const uint32_t made = pick->first_output;
  tdm_exchange_outputs(graph, node, pick);
  tdm_set_input(graph, node, 0, pick->inputs[0]);
  tdm_set_input(graph, pick, 0, made);
  tdm_ir_value *rows = tdm_ir_value_at(graph, made);
  tdm_spec spec;
  TDM_TRY(tdm_ir_infer(graph, node->operation, node->name, node->attributes, node->inputs,
                       node->input_count, &spec));
  rows->spec = tdm_ir_share_spec(graph, &spec);
  if (!rows->spec) return TDM_OUT_OF_MEMORY;
  rows->bytes = (uint64_t)tdm_shape_bytes(&rows->spec->shape, rows->spec->dtype);
  tdm_settle_outputs(graph, node);
  tdm_move_node(graph, pick, node->next);
  return TDM_OK;
}

tdm_status tdm_pass_sink_gather(tdm_graph *graph) {
  TDM_EACH_NODE(graph, node) {
    tdm_ir_node *pick = find_pick(graph, node);
    if (pick) TDM_TRY(exchange(graph, node, pick));
  }
  return TDM_OK;
}
