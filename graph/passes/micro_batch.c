/* Micro-batches: the batch is split in time, so that one stage of a model computes a part while the
 * next stage computes the previous part (GPipe, Huang et al. 2019).
 *
 *   x --> node --> loss    becomes    x --> split --> node(x_0) --> sum ---> / --> loss
 *                                             \-----> node(x_1) --/  count -/
 *
 * The pass comes before data_parallel: each micro-batch has its own parallel regions. A node that
 * no row reaches is computed once, or once per micro-batch if it is inside a parallel region.
 * Invariant: nodes stay in a topological order; the micro-batches of one node are adjacent. */
#include "graph/passes/chunked.h"

#include <string.h>

#include "devices/tensors/chunks.h"
#include "graph/describe/gradient_of.h"
#include "graph/passes/parts.h"

/* ---- Cutting, and putting together ----------------------------------------------------------- */

static tdm_parts_attributes attributes_for(const tdm_chunked *chunked, int dimension) {
  tdm_parts_attributes attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.dimension = dimension;
  attributes.count = (int64_t)chunked->count;
  return attributes;
}

static tdm_status split_input(tdm_chunked *chunked, uint32_t value, int dimension,
                              tdm_ir_node *before) {
  tdm_graph *graph = chunked->graph;
  const tdm_ir_value *whole = tdm_ir_value_at(graph, value);
  tdm_parts_attributes attributes = attributes_for(chunked, dimension);
  memcpy(attributes.sizes, chunked->rows, sizeof attributes.sizes);
  const tdm_insertion at = {.before = before,
                            .name = whole->name,
                            .device =
                                whole->device == TDM_NO_DEVICE ? TDM_HOST_DEVICE : whole->device};
  const uint32_t first = tdm_insert(graph, &at, tdm_split_operation(&whole->spec->shape, dimension),
                                    &attributes, &value, 1);
  if (!first) return tdm_graph_status(graph);
  for (size_t i = 0; i < chunked->count; i++)
    tdm_chunked_versions(chunked, value)[i] = first + (uint32_t)i;
  chunked->cuts[value] = (tdm_cut){dimension, 1};
  return TDM_OK;
}

static tdm_status fail_torn(const tdm_chunked *chunked, uint32_t value) {
  return tdm_fail_within(tdm_chunked_fail_torn(chunked, value), "micro-batches");
}

/* Concatenates the parts of a delivered value on the device of its delivery, each as soon as it
 * exists. If the value stays on its producer's device, that is the device of the first part. */
static tdm_status deliver(tdm_chunked *chunked, tdm_graph_delivery *delivery) {
  tdm_graph *graph = chunked->graph;
  const uint32_t value = delivery->value;
  const tdm_cut cut = chunked->cuts[value];
  if (tdm_ir_value_at(graph, value)->kind == TDM_VALUE_INPUT) return TDM_OK;
  if (cut.dimension == -1 || cut.dimension == TDM_CUT_REPEATED) {
    delivery->value = tdm_chunked_version(chunked, value, 0);
    return TDM_OK;
  }
  if (cut.dimension == TDM_CUT_TORN) return fail_torn(chunked, value);
  const tdm_insertion at = {.name = tdm_value_name(graph, value), .device = delivery->device};
  const uint32_t whole =
      tdm_insert_joined(graph, &at, &tdm_ir_value_at(graph, value)->spec->shape, cut,
                        tdm_chunked_versions(chunked, value), chunked->count);
  if (!whole) return tdm_graph_status(graph);
  tdm_chunked_versions(chunked, value)[0] = whole; /* for a second delivery of the same value */
  chunked->cuts[value].dimension = -1;
  delivery->value = whole;
  return TDM_OK;
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

static void settle_micro(const tdm_chunked *chunked, tdm_ir_node *like, size_t i) {
  (void)chunked;
  like->part.micro = (uint16_t)(i + 1);
}

/* Keeps a node that no row reaches, with the new versions of its inputs. A node that depends on
 * values of the whole batch leaves the parallel region. */
static tdm_status keep(tdm_chunked *chunked, tdm_ir_node *node) {
  if (tdm_chunked_joins(chunked, node)) {
    node->part.parallel_region = 0;
    for (uint32_t k = 0; k < node->output_count; k++)
      tdm_chunked_join(chunked, node->first_output + k, node->first_output + k);
  }
  for (uint32_t k = 0; k < node->input_count; k++)
    tdm_set_input(chunked->graph, node, k, tdm_chunked_version(chunked, node->inputs[k], 0));
  tdm_settle_outputs(chunked->graph, node);
  return TDM_OK;
}

static uint16_t outermost(const tdm_graph *graph, uint16_t region) {
  while (region && graph->parallel_regions.items[region].parent)
    region = graph->parallel_regions.items[region].parent;
  return region;
}

/* Fails if a node in a parallel region reads rows of a micro-batch and a value that the same region
 * computes from the whole batch: the rows of one micro-batch would depend on all others. */
static tdm_status refuse_joined(const tdm_chunked *chunked, const tdm_ir_node *node) {
  for (uint32_t k = 0; k < node->input_count && node->part.parallel_region; k++) {
    const uint32_t input = node->inputs[k];
    const tdm_ir_node *producer =
        tdm_chunked_is_joined(chunked, input) ? tdm_producer(chunked->graph, input) : NULL;
    if (producer && outermost(chunked->graph, producer->part.parallel_region) ==
                        outermost(chunked->graph, node->part.parallel_region))
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "micro-batches: %s uses rows and also %s, which is of the whole "
                      "batch, in a parallel region",
                      node->name, producer->name);
  }
  return TDM_OK;
}

/* Sums the gradients of a value that each micro-batch has computed, but that contains no rows. */
static tdm_status sum_gradients(tdm_chunked *chunked, tdm_ir_node *node) {
  tdm_graph *graph = chunked->graph;
  chunked->before = node;
  TDM_TRY(tdm_chunked_repeat(chunked, node));
  tdm_value parts[TDM_MAX_PARTS];
  for (size_t i = 0; i < chunked->count; i++)
    parts[i] = tdm_chunked_output(chunked, 0, i);
  const tdm_insertion at = {
      .before = node, .name = node->name, .wanted = node->wanted, .device = TDM_NO_DEVICE};
  tdm_lend_insertion(graph, &at);
  tdm_chunked_set_whole(chunked, 0, tdm_chunked_sum(chunked, parts));
  tdm_take_insertion_back(graph);
  tdm_remove_node(graph, node);
  return tdm_graph_status(graph);
}

static bool is_repeated(const tdm_chunked *chunked, uint32_t value) {
  return chunked->cuts[value].dimension == TDM_CUT_REPEATED;
}

/* Returns true for the gradient of a repeated value if its loss contains rows. If no row reaches
 * the loss either, the gradient is that of the first micro-batch, computed only from its values. */
static bool is_of_repeated(const tdm_chunked *chunked, const tdm_ir_node *node) {
  return tdm_asks_gradient(node) && is_repeated(chunked, node->inputs[TDM_GRADIENT_VALUE]) &&
         !is_repeated(chunked, node->inputs[TDM_GRADIENT_LOSS]);
}

static tdm_status rewrite_node(tdm_chunked *chunked, tdm_ir_node *node) {
  tdm_graph *graph = chunked->graph;
  bool is_cut = false;
  for (uint32_t k = 0; k < node->input_count; k++) {
    const uint32_t input = node->inputs[k];
    const int dimension = input ? chunked->cuts[input].dimension : -1;
    is_cut |= dimension != -1 && dimension != TDM_CUT_REPEATED;
    if (dimension == TDM_CUT_TORN) return fail_torn(chunked, input);
  }
  /* Replicas of a parallel region read only values of the region and rows that enter it, so each
   * has its own. */
  if (is_of_repeated(chunked, node)) return sum_gradients(chunked, node);
  if (!is_cut && (!node->part.parallel_region || tdm_chunked_joins(chunked, node)))
    return keep(chunked, node);
  if (is_cut) TDM_TRY(refuse_joined(chunked, node));
  chunked->before = node;
  /* The rule's nodes come before the node and are placed like it. */
  const tdm_insertion at = {.before = node,
                            .name = node->name,
                            .wanted = node->wanted,
                            .device = TDM_NO_DEVICE,
                            .described = node->described};
  tdm_status status =
      is_cut ? tdm_chunked_compute(chunked, node, &at) : tdm_chunked_repeat(chunked, node);
  if (status != TDM_OK && is_cut) status = tdm_fail_within(status, "micro-batches: %s", node->name);
  if (status == TDM_OK) tdm_remove_node(graph, node);
  return status;
}

/* ---- Parallel regions ------------------------------------------------------------------------ */

/* Creates parallel regions for each micro-batch except the first. */
static tdm_status instantiate_regions(tdm_chunked *chunked) {
  tdm_graph *graph = chunked->graph;
  const size_t count = chunked->region_count;
  if (graph->parallel_regions.count * chunked->count > UINT16_MAX)
    return tdm_fail(TDM_UNSUPPORTED, "micro-batches: too many parallel regions");
  for (size_t i = 0; i < chunked->count; i++) {
    uint16_t *parallel_regions = &chunked->parallel_regions[i * count];
    for (uint16_t w = 1; w < graph->parallel_regions.count && w < count; w++) {
      parallel_regions[w] = w;
      if (i == 0) continue;
      TDM_TRY(TDM_ARRAY_RESERVE(graph, &graph->parallel_regions, 1));
      parallel_regions[w] = (uint16_t)graph->parallel_regions.count;
      graph->parallel_regions.items[graph->parallel_regions.count++] =
          graph->parallel_regions.items[w];
    }
    for (uint16_t w = 1; i > 0 && w < count; w++)
      graph->parallel_regions.items[parallel_regions[w]].parent =
          parallel_regions[graph->parallel_regions.items[w].parent];
  }
  return TDM_OK;
}

/* Sets how values enter the regions, after all have their parts. The first micro-batch's regions
 * come last. */
static tdm_status settle_regions(tdm_chunked *chunked) {
  tdm_graph *graph = chunked->graph;
  for (size_t i = chunked->count; i-- > 0;)
    for (size_t w = 1; w < chunked->region_count; w++) {
      const tdm_parallel_region *from = &graph->parallel_regions.items[w];
      tdm_parallel_region *made =
          &graph->parallel_regions.items[chunked->parallel_regions[i * chunked->region_count + w]];
      if (made->input_count == 0) continue;
      tdm_parallel_input *inputs =
          tdm_region_take(&graph->region, made->input_count * sizeof *inputs, "parallel region");
      if (!inputs) return TDM_OUT_OF_MEMORY;
      for (size_t k = 0; k < made->input_count; k++) {
        inputs[k] = from->inputs[k];
        if (inputs[k].value < chunked->value_count)
          inputs[k].value = tdm_chunked_version(chunked, inputs[k].value, i);
      }
      made->inputs = inputs;
    }
  return TDM_OK;
}

/* ---- The pass -------------------------------------------------------------------------------- */

static int batch_dimension(const tdm_graph *source, const tdm_graph *graph, uint32_t value,
                           tdm_dim batch) {
  const uint32_t input = source->inputs.items[tdm_ir_value_at(graph, value)->binding];
  const tdm_shape *shape = &tdm_ir_value_at(source, input)->spec->shape;
  for (int d = 0; d < shape->rank; d++)
    if (shape->dims[d] == batch) return d;
  return -1;
}

static tdm_status rewrite(tdm_chunked *chunked, const tdm_graph *source, tdm_dim batch) {
  tdm_graph *graph = chunked->graph;
  tdm_ir_node *first = graph->order.first;
  const size_t node_count = graph->nodes.count;
  for (size_t v = 0; v < chunked->value_count; v++)
    chunked->cuts[v] = (tdm_cut){-1, 1};
  TDM_TRY(instantiate_regions(chunked));
  for (size_t i = 0; i < graph->inputs.count; i++) {
    const int dimension = batch_dimension(source, graph, graph->inputs.items[i], batch);
    if (dimension >= 0) TDM_TRY(split_input(chunked, graph->inputs.items[i], dimension, first));
  }
  TDM_EACH_NODE(graph, node)
    if (node->index < node_count) TDM_TRY(rewrite_node(chunked, node));
  return settle_regions(chunked);
}

/* Concatenates a value with several deliveries once, on its producer's device if one of them is
 * there. */
static tdm_status deliver_all(tdm_chunked *chunked) {
  const tdm_graph *graph = chunked->graph;
  for (int to_host = 0; to_host < 2; to_host++)
    for (size_t i = 0; i < graph->planned->deliveries.count; i++) {
      tdm_graph_delivery *delivery = &graph->planned->deliveries.items[i];
      if ((delivery->device == TDM_HOST_DEVICE) == to_host) TDM_TRY(deliver(chunked, delivery));
    }
  return TDM_OK;
}

/* Returns the number of rows of the first input that has rows, or -1. */
static int64_t count_rows(const tdm_graph *graph, const tdm_graph *source, tdm_dim batch) {
  for (size_t i = 0; i < graph->inputs.count; i++) {
    const int dimension = batch_dimension(source, graph, graph->inputs.items[i], batch);
    if (dimension >= 0)
      return tdm_ir_value_at(graph, graph->inputs.items[i])->spec->shape.dims[dimension];
  }
  return -1;
}

tdm_status tdm_pass_micro_batch(tdm_graph *graph, const tdm_micro_batching *batching,
                                size_t *out_count) {
  const tdm_allocator *allocator = graph->allocator;
  *out_count = 1;
  const int64_t rows = count_rows(graph, batching->source, batching->batch);
  if (batching->count < 2 || rows < 2) return TDM_OK;
  tdm_chunked chunked = {.graph = graph,
                         .settle = settle_micro,
                         .value_count = graph->values.count,
                         .region_count =
                             graph->parallel_regions.count ? graph->parallel_regions.count : 1};
  chunked.count = tdm_chunk_sizes(rows, batching->count, NULL, chunked.rows);
  if (chunked.count < 2) return TDM_OK;
  const size_t version_bytes = chunked.value_count * chunked.count * sizeof *chunked.versions;
  const size_t cut_bytes = chunked.value_count * sizeof *chunked.cuts;
  const size_t region_bytes =
      chunked.region_count * chunked.count * sizeof *chunked.parallel_regions;
  chunked.versions = tdm_allocate(allocator, version_bytes, "micro-batches");
  chunked.cuts = tdm_allocate(allocator, cut_bytes, "micro-batches");
  chunked.parallel_regions = tdm_allocate(allocator, region_bytes, "micro-batches");
  tdm_status status = TDM_OUT_OF_MEMORY;
  if (chunked.versions && chunked.cuts && chunked.parallel_regions)
    status = rewrite(&chunked, batching->source, batching->batch);
  if (status == TDM_OK) status = deliver_all(&chunked);
  tdm_release(allocator, chunked.versions, version_bytes);
  tdm_release(allocator, chunked.cuts, cut_bytes);
  tdm_release(allocator, chunked.parallel_regions, region_bytes);
  *out_count = chunked.count;
  return status;
}
