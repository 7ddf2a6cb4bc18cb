/* Gradients of values in a parallel region that nodes outside request: each replica computes one,
 * and the results are concatenated, or added if no rows went into the value. */
#include "graph/describe/gradient_of.h"
#include "graph/passes/chunked.h"
#include "graph/passes/parts.h"

/* Returns the replicas' gradients as one: concatenated like the rows of the value, or, if no rows
 * went into it, added. */
static uint32_t join(const tdm_chunked *chunked, const tdm_insertion *at, const uint32_t *gradients,
                     uint32_t value) {
  tdm_graph *graph = chunked->graph;
  const tdm_cut cut = chunked->cuts[value];
  if (cut.dimension >= 0) {
    const tdm_shape whole = tdm_ir_value_at(graph, value)->spec->shape;
    return tdm_insert_joined(graph, at, &whole, cut, gradients, chunked->count);
  }
  uint32_t total = gradients[0];
  for (size_t r = 1; r < chunked->count && total; r++) {
    const uint32_t terms[] = {total, gradients[r]};
    total = tdm_insert(graph, at, &tdm_operation_accumulate, NULL, terms, 2);
  }
  return total;
}

/* Creates a node for each replica, and one that combines their results. */
static tdm_status ask_each(tdm_chunked *chunked, const tdm_parallel_region *region,
                           const int16_t *devices, tdm_ir_node *node) {
  tdm_graph *graph = chunked->graph;
  const uint32_t value = node->inputs[TDM_GRADIENT_VALUE];
  tdm_insertion at = {.before = node,
                      .name = node->name,
                      .part = {.micro = node->part.micro, .parallel_region = region->parent}};
  uint32_t gradients[TDM_MAX_PARTS];
  for (size_t r = 0; r < chunked->count; r++) {
    const uint32_t inputs[] = {[TDM_GRADIENT_LOSS] = node->inputs[TDM_GRADIENT_LOSS],
                               [TDM_GRADIENT_VALUE] = tdm_chunked_version(chunked, value, r)};
    at.device = devices[r];
    at.part.replica = (uint16_t)(r + 1);
    gradients[r] = tdm_insert(graph, &at, &tdm_operation_gradient_of, NULL, inputs, 2);
    if (!gradients[r]) return tdm_graph_status(graph);
  }
  at.device = region->output_device;
  at.part.replica = 0;
  const uint32_t whole = join(chunked, &at, gradients, value);
  if (!whole) return tdm_graph_status(graph);
  if (chunked->before == node) chunked->before = tdm_producer(graph, gradients[0]);
  tdm_ir_node *maker = tdm_producer(graph, whole);
  tdm_exchange_outputs(graph, maker, node);
  tdm_settle_outputs(graph, maker); /* the output may be a view */
  tdm_remove_node(graph, node);
  return TDM_OK;
}

tdm_status tdm_ask_replicas(tdm_chunked *chunked, const tdm_parallel_region *region,
                            const int16_t *devices, tdm_ir_node *node) {
  const uint32_t value = node->inputs[TDM_GRADIENT_VALUE];
  const int cut = chunked->cuts[value].dimension;
  if (cut >= 0 || cut == TDM_CUT_REPEATED) return ask_each(chunked, region, devices, node);
  if (cut == TDM_CUT_TORN)
    return tdm_fail_within(tdm_chunked_fail_torn(chunked, value),
                           "data parallel over %s: %s is the gradient of %s, which is of each "
                           "replica's rows alone, no sum or mean over all of them",
                           region->name, node->name, tdm_value_name(chunked->graph, value));
  tdm_set_input(chunked->graph, node, TDM_GRADIENT_VALUE, tdm_chunked_version(chunked, value, 0));
  return TDM_OK;
}
