/* Spreads the homes of a parallel region's parameters over its devices. A parameter with a device
 * keeps it, as do the pieces of large ones. The others are assigned in the order in which nodes
 * read them, each to the device with the fewest bytes so far, the first of equal ones. Parameters
 * that each device updates itself are counted separately. Invariant: all ranks compute the same
 * homes. */
#include <string.h>

#include "graph/ir/rewriter.h"
#include "graph/passes/passes.h"

typedef struct spreading {
  tdm_graph *graph;
  const tdm_parallel_region *region;
  uint32_t *parameters; /* (count) values without a home, in the order in which nodes read them */
  size_t count;
  uint64_t *bytes; /* (2, devices) bytes with their home there; second row: updated everywhere */
} spreading;

static uint64_t bytes_of(const spreading *state, size_t parameter) {
  const tdm_spec *spec = tdm_ir_value_at(state->graph, state->parameters[parameter])->spec;
  return (uint64_t)tdm_shape_bytes(&spec->shape, spec->dtype);
}

static tdm_graph_persistent *persistent_of(const spreading *state, size_t parameter) {
  const tdm_ir_value *value = tdm_ir_value_at(state->graph, state->parameters[parameter]);
  return &state->graph->persistents.items[value->binding];
}

/* Returns true for a trained parameter without a home. Shards of tables have one. */
static bool is_homeless(const tdm_graph *graph, const tdm_ir_value *value) {
  if (value->kind != TDM_VALUE_PERSISTENT || !value->trainable || value->device != TDM_NO_DEVICE)
    return false;
  const tdm_graph_persistent *persistent = &graph->persistents.items[value->binding];
  return !persistent->is_state && !persistent->shard.table;
}

/* Lists the parameters. Each gets a provisional home, so that it is listed once. */
static void find_parameters(spreading *state, uint16_t region) {
  const tdm_graph *graph = state->graph;
  TDM_EACH_NODE(graph, node) {
    if (!tdm_is_in_region(graph, node->part.parallel_region, region)) continue;
    for (uint32_t k = 0; k < node->input_count; k++) {
      tdm_ir_value *value = tdm_ir_value_at(graph, node->inputs[k]);
      if (!node->inputs[k] || !is_homeless(graph, value)) continue;
      value->device = state->region->devices[0];
      state->parameters[state->count++] = node->inputs[k];
    }
  }
}

/* Returns the index of the fewest bytes. */
static size_t least_of(const uint64_t *bytes, size_t count) {
  size_t least = 0;
  for (size_t i = 1; i < count; i++)
    if (bytes[i] < bytes[least]) least = i;
  return least;
}

static void find_homes(const spreading *state) {
  const size_t devices = state->region->device_count;
  for (size_t i = 0; i < state->count; i++) {
    const bool everywhere = persistent_of(state, i)->is_updated_everywhere;
    uint64_t *bytes = &state->bytes[everywhere ? devices : 0];
    const size_t least = least_of(bytes, devices);
    tdm_ir_value_at(state->graph, state->parameters[i])->device = state->region->devices[least];
    bytes[least] += bytes_of(state, i);
  }
}

tdm_status tdm_spread_homes(tdm_graph *graph, uint16_t region) {
  spreading state = {.graph = graph, .region = &graph->parallel_regions.items[region]};
  if (state.region->sharding == TDM_SHARDING_NONE) return TDM_OK;
  const size_t parameter_bytes = (graph->persistents.count + 1) * sizeof *state.parameters;
  const size_t device_bytes = 2 * (size_t)state.region->device_count * sizeof *state.bytes;
  state.parameters = tdm_allocate(graph->allocator, parameter_bytes, "homes of parameters");
  state.bytes = tdm_allocate(graph->allocator, device_bytes, "homes of parameters");
  const bool has_room = state.parameters && state.bytes;
  if (has_room) {
    find_parameters(&state, region);
    find_homes(&state);
  }
  tdm_release(graph->allocator, state.parameters, parameter_bytes);
  tdm_release(graph->allocator, state.bytes, device_bytes);
  return has_room ? TDM_OK : TDM_OUT_OF_MEMORY;
}
