/* Parallel regions inside one that is replaced: each replica gets its own. Invariant: a value of
 * all replicas' rows that nodes of such a region compute enters each replica's region as a
 * whole. */
#include "graph/ir/rewriter.h"
#include "graph/passes/chunked.h"

static bool is_inner(const tdm_graph *graph, size_t w, uint16_t region) {
  return w != region && tdm_is_in_region(graph, (uint16_t)w, region);
}

static tdm_status instantiate(tdm_chunked *chunked, uint16_t region, size_t r) {
  tdm_graph *graph = chunked->graph;
  const size_t count = chunked->region_count;
  uint16_t *instances = &chunked->parallel_regions[r * count];
  for (size_t w = 1; w < count; w++) {
    instances[w] = (uint16_t)w;
    if (!is_inner(graph, w, region)) continue;
    if (graph->parallel_regions.count > UINT16_MAX)
      return tdm_fail(TDM_UNSUPPORTED, "data parallel over %s: too many parallel regions in it",
                      graph->parallel_regions.items[region].name);
    TDM_TRY(TDM_ARRAY_RESERVE(graph, &graph->parallel_regions, 1));
    instances[w] = (uint16_t)graph->parallel_regions.count;
    graph->parallel_regions.items[graph->parallel_regions.count++] =
        graph->parallel_regions.items[w];
  }
  instances[region] = graph->parallel_regions.items[region].parent;
  for (size_t w = 1; w < count; w++)
    if (instances[w] != w && w != region)
      graph->parallel_regions.items[instances[w]].parent =
          instances[graph->parallel_regions.items[w].parent];
  return TDM_OK;
}

tdm_status tdm_instantiate_inner(tdm_chunked *chunked, uint16_t region) {
  for (size_t r = 0; r < chunked->count; r++)
    TDM_TRY(instantiate(chunked, region, r));
  return TDM_OK;
}

/* Returns true if the value is the whole batch's and nodes of region w compute it. */
static bool is_joined_in(const tdm_chunked *chunked, uint32_t value, uint16_t w) {
  if (!tdm_chunked_is_joined(chunked, value)) return false;
  const tdm_ir_node *maker = tdm_producer(chunked->graph, value);
  return maker && tdm_is_in_region(chunked->graph, maker->part.parallel_region, w);
}

static tdm_status settle(tdm_chunked *chunked, uint16_t w, size_t r) {
  tdm_graph *graph = chunked->graph;
  const tdm_parallel_region *from = &graph->parallel_regions.items[w];
  tdm_parallel_region *made =
      &graph->parallel_regions.items[chunked->parallel_regions[r * chunked->region_count + w]];
  size_t count = from->input_count;
  for (uint32_t v = 1; v < chunked->value_count; v++)
    count += is_joined_in(chunked, v, w);
  if (count == 0) return TDM_OK;
  made->inputs = tdm_region_take(&graph->region, count * sizeof *made->inputs, "parallel region");
  if (!made->inputs) return TDM_OUT_OF_MEMORY;
  made->input_count = 0;
  for (size_t i = 0; i < from->input_count; i++)
    made->inputs[made->input_count++] = (tdm_parallel_input){
        tdm_chunked_version(chunked, from->inputs[i].value, r), from->inputs[i].dimension};
  for (uint32_t v = 1; v < chunked->value_count; v++)
    if (is_joined_in(chunked, v, w))
      made->inputs[made->input_count++] =
          (tdm_parallel_input){tdm_chunked_version(chunked, v, r), TDM_BROADCAST};
  return TDM_OK;
}

tdm_status tdm_settle_inner(tdm_chunked *chunked, uint16_t region) {
  for (size_t r = 0; r < chunked->count; r++)
    for (size_t w = 1; w < chunked->region_count; w++)
      if (is_inner(chunked->graph, w, region)) TDM_TRY(settle(chunked, (uint16_t)w, r));
  return TDM_OK;
}
