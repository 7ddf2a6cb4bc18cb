/* Gradients that nodes ask for, as values: each such node becomes a view of the adjoint, made by
 * the walk back from its loss. Invariant: a view reads its adjoint from when that is there, so that
 * nobody overwrites it; what reads the view stands behind the whole walk. */
#include "graph/describe/gradient_of.h"
#include "graph/passes/chunked.h"
#include "graph/passes/gradient.h"
#include "graph/passes/parts.h"

/* Does the node ask for a gradient of the walk's loss? */
static bool asks(const tdm_gradient *gradient, const tdm_ir_node *node) {
  return tdm_asks_gradient(node) && node->inputs[TDM_GRADIENT_LOSS] == gradient->loss;
}

/* Does the node read what one that asks will get? */
static bool reads_asked(const tdm_gradient *gradient, const tdm_ir_node *node) {
  for (uint32_t k = 0; k < node->input_count; k++) {
    const tdm_ir_node *producer = tdm_producer(gradient->graph, node->inputs[k]);
    if (producer && asks(gradient, producer)) return true;
  }
  return false;
}

void tdm_mark_asked(tdm_gradient *gradient) {
  TDM_EACH_NODE(gradient->graph, node) {
    if (asks(gradient, node)) {
      const uint32_t value = node->inputs[TDM_GRADIENT_VALUE];
      gradient->asked[value] = gradient->wanted[value] = true;
    }
    if (!gradient->before && reads_asked(gradient, node)) gradient->before = node;
  }
}

/* The view takes the node's place, and its value. */
static tdm_status answer(tdm_gradient *gradient, tdm_ir_node *node, uint32_t dense) {
  tdm_graph *graph = gradient->graph;
  tdm_insertion at = tdm_adjoint_insertion(gradient->before, node->name, node->device, node->micro);
  at.replica = node->replica;
  const uint32_t made = tdm_insert(graph, &at, &tdm_operation_gradient_view, NULL, &dense, 1);
  if (!made) return tdm_graph_status(graph);
  tdm_ir_node *view = tdm_producer(graph, made);
  tdm_exchange_outputs(graph, view, node);
  tdm_settle_outputs(graph, view);
  tdm_remove_node(graph, node);
  return TDM_OK;
}

/* The adjoint as one dense value; 0 with the graph's error. */
static uint32_t dense_of(tdm_gradient *gradient, uint32_t value, const tdm_adjoint *adjoint) {
  const char *name = tdm_value_name(gradient->graph, value);
  if (adjoint->dense) return adjoint->dense;
  if (adjoint->rows) return tdm_spread_adjoint(gradient, value, name, adjoint);
  const int16_t device = tdm_ir_value_at(gradient->graph, value)->device;
  const tdm_insertion at = tdm_adjoint_insertion(gradient->before, name, device, 0);
  return tdm_insert_constant(gradient->graph, &at, 0, value);
}

tdm_status tdm_give_asked(tdm_gradient *gradient, uint32_t value, const tdm_adjoint *adjoint) {
  const uint32_t dense = dense_of(gradient, value, adjoint);
  if (!dense) return tdm_graph_status(gradient->graph);
  TDM_EACH_NODE(gradient->graph, node) {
    if (asks(gradient, node) && node->inputs[TDM_GRADIENT_VALUE] == value)
      TDM_TRY(answer(gradient, node, dense));
  }
  return TDM_OK;
}

/* Views that nobody reads are only delivered, and stand behind all: sums over devices that they
 * show may be made later than where their node stands. */
static void move_behind(tdm_graph *graph) {
  const tdm_ir_node *last = graph->order.last;
  TDM_EACH_NODE(graph, node) {
    if (node->operation == &tdm_operation_gradient_view &&
        tdm_ir_value_at(graph, node->first_output)->readers == 0)
      tdm_move_node(graph, node, NULL);
    if (node == last) break;
  }
}

static const tdm_ir_node *first_left(const tdm_gradient *gradient) {
  TDM_EACH_NODE(gradient->graph, node) {
    if (asks(gradient, node)) return node;
  }
  return NULL;
}

tdm_status tdm_end_asked(tdm_gradient *gradient) {
  static const tdm_adjoint nothing;
  tdm_graph *graph = gradient->graph;
  for (const tdm_ir_node *node = first_left(gradient); node; node = first_left(gradient))
    TDM_TRY(tdm_give_asked(gradient, node->inputs[TDM_GRADIENT_VALUE], &nothing));
  if (!gradient->before) {
    move_behind(graph);
    return TDM_OK;
  }
  TDM_EACH_NODE_FROM(gradient->before, node) {
    tdm_settle_outputs(graph, node); /* of views of what has become one */
  }
  return TDM_OK;
}

/* ---- In replicas ----------------------------------------------------------------------------- */

/* The replicas' gradients as one: put together along dimension, or (-1) added up. */
static uint32_t join(const tdm_chunked *chunked, const tdm_insertion *at, const uint32_t *gradients,
                     int dimension) {
  tdm_graph *graph = chunked->graph;
  if (dimension >= 0) {
    const tdm_parts_attributes attributes = {.dimension = dimension,
                                             .count = (int64_t)chunked->count};
    return tdm_insert(graph, at, &tdm_operation_concat, &attributes, gradients, chunked->count);
  }
  uint32_t total = gradients[0];
  for (size_t r = 1; r < chunked->count && total; r++) {
    const uint32_t terms[] = {total, gradients[r]};
    total = tdm_insert(graph, at, &tdm_operation_accumulate, NULL, terms, 2);
  }
  return total;
}

/* A node for each replica, and one that stands for all of them. */
static tdm_status ask_each(tdm_chunked *chunked, const tdm_parallel_region *region,
                           const int16_t *devices, tdm_ir_node *node) {
  tdm_graph *graph = chunked->graph;
  const uint32_t value = node->inputs[TDM_GRADIENT_VALUE];
  const int cut = chunked->cuts[value].dimension;
  tdm_insertion at = {
      .before = node, .name = node->name, .micro = node->micro, .parallel_region = region->parent};
  uint32_t gradients[TDM_MAX_PARTS];
  for (size_t r = 0; r < chunked->count; r++) {
    const uint32_t inputs[] = {[TDM_GRADIENT_LOSS] = node->inputs[TDM_GRADIENT_LOSS],
                               [TDM_GRADIENT_VALUE] = tdm_chunked_version(chunked, value, r)};
    at.device = devices[r];
    at.replica = (uint16_t)(r + 1);
    gradients[r] = tdm_insert(graph, &at, &tdm_operation_gradient_of, NULL, inputs, 2);
    if (!gradients[r]) return tdm_graph_status(graph);
  }
  at.device = region->output_device;
  at.replica = 0;
  const uint32_t whole = join(chunked, &at, gradients, cut == TDM_CUT_REPEATED ? -1 : cut);
  if (!whole) return tdm_graph_status(graph);
  if (chunked->before == node) chunked->before = tdm_producer(graph, gradients[0]);
  tdm_exchange_outputs(graph, tdm_producer(graph, whole), node);
  tdm_remove_node(graph, node);
  return TDM_OK;
}

tdm_status tdm_ask_replicas(tdm_chunked *chunked, const tdm_parallel_region *region,
                            const int16_t *devices, tdm_ir_node *node) {
  const uint32_t value = node->inputs[TDM_GRADIENT_VALUE];
  const int cut = chunked->cuts[value].dimension;
  if (cut >= 0 || cut == TDM_CUT_REPEATED) return ask_each(chunked, region, devices, node);
  if (cut == TDM_CUT_REDUCED)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "data parallel over %s: %s is the gradient of %s, which is no sum or mean over "
                    "the rows",
                    region->name, node->name, tdm_value_name(chunked->graph, value));
  tdm_set_input(chunked->graph, node, TDM_GRADIENT_VALUE, tdm_chunked_version(chunked, value, 0));
  return TDM_OK;
}
