/* Gradients that nodes request as values: each such node becomes a view of the adjoint that the
 * backward walk from its loss computes. Invariant: a view reads its adjoint as soon as it exists,
 * so no node overwrites it. Readers of the view come after the whole walk. */
#include "graph/describe/gradient_of.h"
#include "graph/gradient/walk.h"

/* Returns true if the node requests a gradient of the walk's loss. */
static bool asks(const tdm_walk *walk, const tdm_ir_node *node) {
  return tdm_asks_gradient(node) && node->inputs[TDM_GRADIENT_LOSS] == walk->loss;
}

/* Returns true if the node reads a requested gradient. */
static bool reads_asked(const tdm_walk *walk, const tdm_ir_node *node) {
  for (uint32_t k = 0; k < node->input_count; k++) {
    const tdm_ir_node *producer = tdm_producer(walk->rule.graph, node->inputs[k]);
    if (producer && asks(walk, producer)) return true;
  }
  return false;
}

void tdm_mark_asked(tdm_walk *walk) {
  TDM_EACH_NODE(walk->rule.graph, node) {
    if (asks(walk, node)) {
      const uint32_t value = node->inputs[TDM_GRADIENT_VALUE];
      walk->asked[value] = walk->rule.wanted[value] = true;
    }
    if (!walk->before && reads_asked(walk, node)) walk->before = node;
  }
}

/* Inserts the view, which replaces the node and takes its value. */
static tdm_status answer(tdm_walk *walk, tdm_ir_node *node, uint32_t dense) {
  tdm_graph *graph = walk->rule.graph;
  tdm_insertion at =
      tdm_adjoint_insertion(walk->before, node->name, node->device, node->part.micro);
  at.part.replica = node->part.replica;
  const uint32_t made = tdm_insert(graph, &at, &tdm_operation_gradient_view, NULL, &dense, 1);
  if (!made) return tdm_graph_status(graph);
  tdm_ir_node *view = tdm_producer(graph, made);
  tdm_exchange_outputs(graph, view, node);
  tdm_settle_outputs(graph, view);
  tdm_remove_node(graph, node);
  return TDM_OK;
}

/* Returns the adjoint as one dense value, or 0 with the graph's error. */
static uint32_t dense_of(tdm_walk *walk, uint32_t value, const tdm_adjoint *adjoint) {
  const char *name = tdm_value_name(walk->rule.graph, value);
  if (adjoint->dense) return adjoint->dense;
  if (adjoint->rows) return tdm_spread_adjoint(walk, value, name, adjoint);
  const int16_t device = tdm_ir_value_at(walk->rule.graph, value)->device;
  const tdm_insertion at = tdm_adjoint_insertion(walk->before, name, device, 0);
  return tdm_insert_constant(walk->rule.graph, &at, 0, value);
}

tdm_status tdm_give_asked(tdm_walk *walk, uint32_t value, const tdm_adjoint *adjoint) {
  const uint32_t dense = dense_of(walk, value, adjoint);
  if (!dense) return tdm_graph_status(walk->rule.graph);
  TDM_EACH_NODE(walk->rule.graph, node) {
    if (asks(walk, node) && node->inputs[TDM_GRADIENT_VALUE] == value)
      TDM_TRY(answer(walk, node, dense));
  }
  return TDM_OK;
}

/* Moves views without readers, which are only delivered, to the end. The sums over devices that
 * they show may then be computed after the node's original place. */
static void move_behind(tdm_graph *graph) {
  const tdm_ir_node *last = graph->order.last;
  TDM_EACH_NODE(graph, node) {
    if (node->operation == &tdm_operation_gradient_view &&
        tdm_ir_value_at(graph, node->first_output)->readers == 0)
      tdm_move_node(graph, node, NULL);
    if (node == last) break;
  }
}

static const tdm_ir_node *first_left(const tdm_walk *walk) {
  TDM_EACH_NODE(walk->rule.graph, node)
    if (asks(walk, node)) return node;
  return NULL;
}

tdm_status tdm_end_asked(tdm_walk *walk) {
  static const tdm_adjoint nothing;
  tdm_graph *graph = walk->rule.graph;
  for (const tdm_ir_node *node = first_left(walk); node; node = first_left(walk))
    TDM_TRY(tdm_give_asked(walk, node->inputs[TDM_GRADIENT_VALUE], &nothing));
  if (!walk->before) {
    move_behind(graph);
    return TDM_OK;
  }
  TDM_EACH_NODE_FROM(walk->before, node) {
    tdm_settle_outputs(graph, node); /* views of the outputs have a new root */
  }
  return TDM_OK;
}
