/* Work on rows that were picked from a small table is done on the table instead, where it is less:
 * linear(embedding(ids)) becomes embedding'(ids) of the rows linear(table). Invariant: a row of the
 * result is made by the same kernels of the same row, so a forward run gives the same bits; a
 * gradient is a sum over the table's rows of sums over ids, instead of one over ids, so that
 * deterministic plans that take gradients do without. */
#include "graph/ir/rewriter.h"
#include "graph/passes/passes.h"

enum { LEAST_GAIN = 4 }; /* ids for each row of the table, or it is not worth planning for */

/* Does the node pick rows so often that working on the table is less? */
static bool picks_often(const tdm_graph *graph, const tdm_ir_node *node) {
  if (!node->operation || !node->operation->picks_rows ||
      !node->operation->picks_rows(node->attributes))
    return false;
  const uint32_t *from = node->inputs;
  const tdm_shape *table = &tdm_ir_value_at(graph, from[0])->spec.shape;
  const int64_t ids = tdm_shape_count(&tdm_ir_value_at(graph, from[1])->spec.shape);
  return ids / LEAST_GAIN >= table->dims[0];
}

static bool is_delivered(const tdm_graph *graph, uint32_t value) {
  for (size_t i = 0; i < graph->deliveries.count; i++)
    if (graph->deliveries.items[i].value == value) return true;
  return false;
}

/* The node whose picked rows the node at hand works on, if it is the only one to; NULL: none. */
static tdm_ir_node *find_pick(const tdm_graph *graph, const tdm_ir_node *node) {
  if (!node->operation || !node->operation->row_wise) return NULL;
  const uint32_t picked = node->inputs[0];
  tdm_ir_node *pick = tdm_producer(graph, picked);
  if (!pick || !picks_often(graph, pick) || tdm_ir_value_at(graph, picked)->readers != 1)
    return NULL;
  if (pick->device != node->device || pick->parallel_region != node->parallel_region ||
      pick->replica != node->replica || pick->micro != node->micro)
    return NULL;
  return is_delivered(graph, picked) ? NULL : pick;
}

/* The two change places: node works on the table, and pick, right behind it, picks from what it
 * makes. Each takes over the other's output. */
static tdm_status exchange(tdm_graph *graph, tdm_ir_node *node, tdm_ir_node *pick) {
  const uint32_t made = pick->first_output;
  tdm_exchange_outputs(graph, node, pick);
  tdm_set_input(graph, node, 0, pick->inputs[0]);
  tdm_set_input(graph, pick, 0, made);
  tdm_ir_value *rows = tdm_ir_value_at(graph, made);
  TDM_TRY(tdm_ir_infer(graph, node->operation, node->name, node->attributes, node->inputs,
                       node->input_count, &rows->spec));
  rows->bytes = (uint64_t)tdm_shape_bytes(&rows->spec.shape, rows->spec.dtype);
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
