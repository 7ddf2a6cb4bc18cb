/* Homes of parameters of a parallel region, spread over its devices. Invariant: what has a device
 * keeps it; of the rest each goes, in the order in which nodes read them, where the fewest bytes
 * are so far, the first of the devices among equals: all ranks find the same. */
#include "graph/ir/rewriter.h"
#include "graph/passes/passes.h"

/* Where the fewest bytes are. */
static size_t least_of(const uint64_t *bytes, size_t count) {
  size_t least = 0;
  for (size_t i = 1; i < count; i++)
    if (bytes[i] < bytes[least]) least = i;
  return least;
}

/* Is it a parameter that is trained, without a home? Shards of tables have theirs. */
static bool is_homeless(const tdm_graph *graph, const tdm_ir_value *value) {
  if (value->kind != TDM_VALUE_PERSISTENT || !value->trainable || value->device != TDM_NO_DEVICE)
    return false;
  const tdm_graph_persistent *persistent = &graph->persistents.items[value->binding];
  return !persistent->is_state && !persistent->shard.table;
}

tdm_status tdm_spread_homes(tdm_graph *graph, uint16_t region) {
  const tdm_parallel_region *of = &graph->parallel_regions.items[region];
  if (!of->spread_homes) return TDM_OK;
  uint64_t *bytes =
      tdm_allocate(graph->allocator, of->device_count * sizeof *bytes, "homes of parameters");
  if (!bytes) return TDM_OUT_OF_MEMORY;
  TDM_EACH_NODE(graph, node) {
    if (!tdm_is_in_region(graph, node->parallel_region, region)) continue;
    for (uint32_t k = 0; k < node->input_count; k++) {
      tdm_ir_value *value = tdm_ir_value_at(graph, node->inputs[k]);
      if (!node->inputs[k] || !is_homeless(graph, value)) continue;
      const size_t least = least_of(bytes, of->device_count);
      value->device = of->devices[least];
      bytes[least] += (uint64_t)tdm_shape_bytes(&value->spec.shape, value->spec.dtype);
    }
  }
  tdm_release(graph->allocator, bytes, of->device_count * sizeof *bytes);
  return TDM_OK;
}
