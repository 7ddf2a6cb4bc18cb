/* Data parallelism: a parallel region runs once for each chunk of rows, on a device of its own.
 *
 *   x --> part(x)      becomes      x --> split --> part(x_0) on device 0 --> concat
 *                                             \---> part(x_1) on device 1 ---/
 *
 * Parameters are read by all replicas; the transfer pass makes their copies. Outer parts are
 * replaced before those inside them, which each replica then has for itself. Invariant: nodes
 * outside keep their order; replicas follow one another, each in the order of the part. */
#include <string.h>

#include "devices/tensors/chunks.h"
#include "graph/ir/rewriter.h"
#include "graph/passes/parts.h"
#include "graph/passes/passes.h"

typedef enum node_side { SIDE_BEFORE, SIDE_INSIDE, SIDE_AFTER } node_side;

typedef struct parallel_state {
  tdm_graph *graph;
  uint32_t *deliveries;
  size_t delivery_count;
  uint16_t region_index;
  tdm_parallel_region parallel_region; /* a copy: the list may move */
  uint8_t *sides;                      /* per node that was there before; node_side */
  uint32_t *parts; /* per value that was there before, a device: its replicas'; 0: none */
  size_t node_count;
  size_t value_count;
  size_t replica_count;
  int16_t devices[TDM_MAX_PARTS];
  int64_t sizes[TDM_MAX_PARTS];
  int64_t rows;        /* -1: no value was cut yet */
  uint32_t rows_value; /* where they were seen first */
  uint16_t *instances; /* per parallel region that was there before: what it is in this replica */
  size_t region_count;
  tdm_ir_node *after; /* the first node that needs the part; NULL: none does */
} parallel_state;

/* ---- Chunks ---- */

/* Those devices that have rows; the first where there are none. */
static void share_out(parallel_state *state) {
  int64_t sizes[TDM_MAX_PARTS];
  const tdm_parallel_region *parallel_region = &state->parallel_region;
  tdm_chunk_sizes(state->rows, parallel_region->device_count, parallel_region->weights, sizes);
  state->replica_count = 0;
  for (uint16_t i = 0; i < parallel_region->device_count; i++) {
    if (sizes[i] == 0) continue;
    state->devices[state->replica_count] = parallel_region->devices[i];
    state->sizes[state->replica_count++] = sizes[i];
  }
  if (state->replica_count > 0) return;
  state->devices[0] = parallel_region->devices[0];
  state->sizes[0] = 0;
  state->replica_count = 1;
}

/* ---- What is inside, and what enters ---- */

/* Of a node that was there before; of one that was made since, none of them. */
static node_side side_of(const parallel_state *state, const tdm_ir_node *node) {
  return node->index < state->node_count ? (node_side)state->sides[node->index] : SIDE_BEFORE;
}

static node_side side_of_value(const parallel_state *state, uint32_t value) {
  const uint32_t producer = tdm_ir_value_at(state->graph, value)->producer;
  return producer ? (node_side)state->sides[producer] : SIDE_BEFORE;
}

static tdm_status find_sides(parallel_state *state) {
  const tdm_graph *graph = state->graph;
  TDM_EACH_NODE(graph, node) {
    const uint32_t *inputs = node->inputs;
    const bool inside = tdm_is_in_region(graph, node->parallel_region, state->region_index);
    bool after = false;
    bool depends = false;
    for (uint32_t k = 0; k < node->input_count; k++) {
      if (!inputs[k]) continue;
      after |= side_of_value(state, inputs[k]) == SIDE_AFTER;
      depends |= side_of_value(state, inputs[k]) == SIDE_INSIDE;
    }
    if (inside && after)
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "data parallel over %s: %s in it needs a result that left it",
                      state->parallel_region.name, node->name);
    state->sides[node->index] = inside ? SIDE_INSIDE : after || depends ? SIDE_AFTER : SIDE_BEFORE;
  }
  return TDM_OK;
}

/* The dimension a value is cut along; TDM_BROADCAST: it is not. */
static int32_t dimension_of(const parallel_state *state, uint32_t value) {
  const tdm_ir_value *found = tdm_ir_value_at(state->graph, value);
  if (found->kind == TDM_VALUE_PERSISTENT || found->spec.shape.rank == 0) return TDM_BROADCAST;
  for (size_t i = 0; i < state->parallel_region.input_count; i++)
    if (state->parallel_region.inputs[i].value == value)
      return state->parallel_region.inputs[i].dimension;
  return 0;
}

static tdm_status note_rows(parallel_state *state, uint32_t value, int32_t dimension) {
  const int64_t rows = tdm_ir_value_at(state->graph, value)->spec.shape.dims[dimension];
  if (state->rows >= 0 && state->rows != rows)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "data parallel over %s: %s has %lld rows in dimension %d, and %s has %lld",
                    state->parallel_region.name, tdm_value_name(state->graph, value),
                    (long long)rows, (int)dimension,
                    tdm_value_name(state->graph, state->rows_value), (long long)state->rows);
  if (state->rows < 0) state->rows_value = value;
  state->rows = rows;
  return TDM_OK;
}

typedef tdm_status (*input_visitor)(parallel_state *state, uint32_t value);

/* Every value that enters, each time it is read. */
static tdm_status visit_entering(parallel_state *state, input_visitor visit) {
  TDM_EACH_NODE(state->graph, node) {
    if (side_of(state, node) != SIDE_INSIDE) continue;
    for (uint32_t k = 0; k < node->input_count; k++) {
      const uint32_t value = node->inputs[k];
      if (value && side_of_value(state, value) != SIDE_INSIDE) TDM_TRY(visit(state, value));
    }
  }
  return TDM_OK;
}

static tdm_status count_rows_of(parallel_state *state, uint32_t value) {
  const int32_t dimension = dimension_of(state, value);
  return dimension == TDM_BROADCAST ? TDM_OK : note_rows(state, value, dimension);
}

/* ---- Rewriting ---- */

static uint32_t *parts_of(parallel_state *state, uint32_t value) {
  return &state->parts[(size_t)value * state->parallel_region.device_count];
}

/* Inserts one of the two operations on parts; its first output, 0 with the graph's error. */
static uint32_t insert_parts(const parallel_state *state, const tdm_operation *operation,
                             uint32_t value, const tdm_parts_attributes *attributes,
                             const uint32_t *inputs, size_t input_count, int16_t device) {
  const tdm_insertion at = {.before = state->after,
                            .name = tdm_value_name(state->graph, value),
                            .device = device,
                            .parallel_region = state->parallel_region.parent};
  return tdm_insert(state->graph, &at, operation, attributes, inputs, input_count);
}

static tdm_parts_attributes attributes_for(const parallel_state *state, int64_t dimension) {
  tdm_parts_attributes attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.dimension = dimension;
  attributes.count = (int64_t)state->replica_count;
  return attributes;
}

/* Gives every replica its part of a value that enters. */
static tdm_status scatter(parallel_state *state, uint32_t value) {
  uint32_t *parts = parts_of(state, value);
  if (parts[0]) return TDM_OK;
  const int32_t dimension = dimension_of(state, value);
  uint32_t first = 0;
  if (dimension != TDM_BROADCAST) {
    tdm_parts_attributes attributes = attributes_for(state, dimension);
    memcpy(attributes.sizes, state->sizes, sizeof attributes.sizes);
    const tdm_ir_value *whole = tdm_ir_value_at(state->graph, value);
    first = insert_parts(state, tdm_split_operation(&whole->spec.shape, dimension), value,
                         &attributes, &value, 1, whole->device);
    if (!first) return tdm_graph_status(state->graph);
  }
  for (size_t r = 0; r < state->replica_count; r++)
    parts[r] = first ? first + (uint32_t)r : value;
  return TDM_OK;
}

/* The parallel regions inside this one, once more for a replica. */
static tdm_status instantiate_regions(parallel_state *state) {
  tdm_graph *graph = state->graph;
  for (size_t w = 1; w < state->region_count; w++) {
    state->instances[w] = (uint16_t)w;
    if (w == state->region_index || !tdm_is_in_region(graph, w, state->region_index)) continue;
    if (graph->parallel_regions.count > UINT16_MAX)
      return tdm_fail(TDM_UNSUPPORTED, "data parallel over %s: too many parallel regions in it",
                      state->parallel_region.name);
    TDM_TRY(TDM_ARRAY_RESERVE(graph, &graph->parallel_regions, 1));
    state->instances[w] = (uint16_t)graph->parallel_regions.count;
    graph->parallel_regions.items[graph->parallel_regions.count++] =
        graph->parallel_regions.items[w];
  }
  for (size_t w = 1; w < state->region_count; w++) {
    if (state->instances[w] == w) continue;
    const uint16_t parent = graph->parallel_regions.items[w].parent;
    graph->parallel_regions.items[state->instances[w]].parent =
        parent == state->region_index ? state->parallel_region.parent : state->instances[parent];
  }
  return TDM_OK;
}

/* How values enter those, once replica r has its own. */
static tdm_status settle_regions(parallel_state *state, size_t r) {
  tdm_graph *graph = state->graph;
  for (size_t w = 1; w < state->region_count; w++) {
    tdm_parallel_region *made = &graph->parallel_regions.items[state->instances[w]];
    if (state->instances[w] == w || made->input_count == 0) continue;
    made->inputs = tdm_region_take(&graph->region, made->input_count * sizeof *made->inputs,
                                   "parallel region");
    if (!made->inputs) return TDM_OUT_OF_MEMORY;
    for (size_t i = 0; i < made->input_count; i++) {
      made->inputs[i] = graph->parallel_regions.items[w].inputs[i];
      const uint32_t part = parts_of(state, made->inputs[i].value)[r];
      if (part) made->inputs[i].value = part;
    }
  }
  return TDM_OK;
}

static tdm_status clone_node(parallel_state *state, const tdm_ir_node *node, size_t r) {
  uint32_t inputs[TDM_KERNEL_MAX_INPUTS];
  for (uint32_t k = 0; k < node->input_count; k++)
    inputs[k] = node->inputs[k] ? parts_of(state, node->inputs[k])[r] : 0;
  tdm_ir_node like = *node;
  like.device = state->devices[r];
  like.replica = (uint16_t)(r + 1);
  like.later_replica |= r > 0;
  like.parallel_region = node->parallel_region == state->region_index
                             ? state->parallel_region.parent
                             : state->instances[node->parallel_region];
  tdm_ir_node *made;
  TDM_TRY(tdm_insert_like(state->graph, state->after, &like, inputs, &made));
  for (uint32_t k = 0; k < made->output_count; k++)
    parts_of(state, node->first_output + k)[r] = made->first_output + k;
  return TDM_OK;
}

static tdm_status clone_nodes(parallel_state *state) {
  for (size_t r = 0; r < state->replica_count; r++) {
    TDM_TRY(instantiate_regions(state));
    TDM_EACH_NODE(state->graph, node) {
      if (side_of(state, node) == SIDE_INSIDE) TDM_TRY(clone_node(state, node, r));
    }
    TDM_TRY(settle_regions(state, r));
  }
  return TDM_OK;
}

/* The dimension in which the replicas' shapes differ from the whole's; -1: there is not just one.
 */
static int gathered_dimension(parallel_state *state, uint32_t value) {
  const tdm_shape *whole = &tdm_ir_value_at(state->graph, value)->spec.shape;
  int found = -1;
  for (int d = 0; d < whole->rank; d++) {
    int64_t sum = 0;
    for (size_t r = 0; r < state->replica_count; r++)
      sum += tdm_ir_value_at(state->graph, parts_of(state, value)[r])->spec.shape.dims[d];
    if (sum != whole->dims[d]) continue;
    if (tdm_ir_value_at(state->graph, parts_of(state, value)[0])->spec.shape.dims[d] ==
        whole->dims[d])
      continue;
    if (found >= 0) return -1;
    found = d;
  }
  return found;
}

/* What stands for a value of the part outside of it; made when it is first asked for. 0: failure.
 */
static tdm_status gather(parallel_state *state, uint32_t *value, uint32_t *gathered) {
  if (side_of_value(state, *value) != SIDE_INSIDE) return TDM_OK;
  if (!gathered[*value]) {
    const int dimension = gathered_dimension(state, *value);
    if (dimension < 0)
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "data parallel over %s: %s leaves it and has no dimension that the rows went "
                      "into",
                      state->parallel_region.name, tdm_value_name(state->graph, *value));
    const tdm_parts_attributes attributes = attributes_for(state, dimension);
    gathered[*value] =
        insert_parts(state, &tdm_operation_concat, *value, &attributes, parts_of(state, *value),
                     state->replica_count, state->parallel_region.output_device);
    if (!gathered[*value]) return tdm_graph_status(state->graph);
  }
  *value = gathered[*value];
  return TDM_OK;
}

/* Other parts that named how a value enters them read what stands for it now. */
static void rename_entering(parallel_state *state, const uint32_t *gathered) {
  for (size_t w = 1; w < state->graph->parallel_regions.count; w++) {
    tdm_parallel_region *parallel_region = &state->graph->parallel_regions.items[w];
    for (size_t i = 0; i < parallel_region->input_count; i++) {
      const uint32_t value = parallel_region->inputs[i].value;
      if (value < state->value_count && gathered[value])
        parallel_region->inputs[i].value = gathered[value];
    }
  }
}

static tdm_status gather_all(parallel_state *state, uint32_t *gathered) {
  tdm_graph *graph = state->graph;
  TDM_EACH_NODE(graph, node) {
    if (side_of(state, node) != SIDE_AFTER) continue;
    for (uint32_t k = 0; k < node->input_count; k++) {
      uint32_t value = node->inputs[k];
      if (!value) continue;
      TDM_TRY(gather(state, &value, gathered));
      tdm_set_input(graph, node, k, value);
    }
  }
  for (size_t i = 0; i < state->delivery_count; i++)
    TDM_TRY(gather(state, &state->deliveries[i], gathered));
  rename_entering(state, gathered);
  return TDM_OK;
}

/* Tells every replica of a node whose numbers are keyed by place which part of the whole it has.
 */
static tdm_status number_replicas(parallel_state *state, const tdm_ir_node *whole) {
  tdm_graph *graph = state->graph;
  const tdm_operation *operation = whole->operation;
  const uint32_t value = whole->first_output;
  const int dimension = gathered_dimension(state, value);
  if (dimension < 0) return TDM_OK; /* all replicas have all of it */
  int64_t offset = 0;
  for (size_t r = 0; r < state->replica_count; r++) {
    const tdm_ir_value *part = tdm_ir_value_at(graph, parts_of(state, value)[r]);
    tdm_ir_node *node = tdm_ir_node_at(graph, part->producer);
    char *copy = (char *)tdm_ir_copy_bytes(graph, node->attributes, operation->attribute_bytes);
    if (!copy) return TDM_OUT_OF_MEMORY;
    tdm_chunk chunk;
    memcpy(&chunk, copy + operation->chunk_at - 1, sizeof chunk);
    if (chunk.whole != 0 && chunk.dimension != dimension)
      return tdm_fail(TDM_UNSUPPORTED,
                      "data parallel over %s: %s in it is cut along two dimensions",
                      state->parallel_region.name, node->name);
    if (chunk.whole == 0) chunk.whole = tdm_ir_value_at(graph, value)->spec.shape.dims[dimension];
    chunk.dimension = dimension;
    chunk.offset += offset;
    memcpy(copy + operation->chunk_at - 1, &chunk, sizeof chunk);
    node->attributes = copy;
    offset += part->spec.shape.dims[dimension];
  }
  return TDM_OK;
}

static tdm_status number_all(parallel_state *state) {
  TDM_EACH_NODE(state->graph, node) {
    if (side_of(state, node) == SIDE_INSIDE && node->operation->chunk_at != 0)
      TDM_TRY(number_replicas(state, node));
  }
  return TDM_OK;
}

/* Brings what needs the part behind all others: what is made for the part stands before it. */
static void move_after(parallel_state *state) {
  TDM_EACH_NODE_BACKWARD(state->graph, node) {
    if (side_of(state, node) != SIDE_AFTER) continue;
    tdm_move_node(state->graph, node, state->after);
    state->after = node;
  }
}

static void remove_inside(parallel_state *state) {
  TDM_EACH_NODE(state->graph, node) {
    if (side_of(state, node) == SIDE_INSIDE) tdm_remove_node(state->graph, node);
  }
}

static tdm_status rewrite(parallel_state *state) {
  move_after(state);
  TDM_TRY(visit_entering(state, scatter));
  TDM_TRY(clone_nodes(state));
  TDM_TRY(number_all(state));
  const size_t bytes = state->value_count * sizeof(uint32_t);
  uint32_t *gathered = tdm_allocate(state->graph->allocator, bytes, "parallel region");
  if (!gathered) return TDM_OUT_OF_MEMORY;
  const tdm_status status = gather_all(state, gathered);
  if (status == TDM_OK) remove_inside(state);
  tdm_release(state->graph->allocator, gathered, bytes);
  return status;
}

/* One replica: the nodes stay, on its device. */
static void pass_through(parallel_state *state, int16_t device, uint16_t replica) {
  tdm_graph *graph = state->graph;
  TDM_EACH_NODE(graph, node) {
    if (!tdm_is_in_region(graph, node->parallel_region, state->region_index)) continue;
    node->device = device;
    node->replica = replica;
    if (node->parallel_region == state->region_index)
      node->parallel_region = state->parallel_region.parent;
  }
  for (size_t w = 1; w < graph->parallel_regions.count; w++)
    if (graph->parallel_regions.items[w].parent == state->region_index)
      graph->parallel_regions.items[w].parent = state->parallel_region.parent;
}

/* ---- The pass ---- */

static tdm_status replace_with(parallel_state *state) {
  TDM_TRY(find_sides(state));
  TDM_TRY(visit_entering(state, count_rows_of));
  if (state->rows < 0) state->rows = 0; /* nothing is cut: one replica */
  share_out(state);
  if (state->replica_count == 1) {
    pass_through(state, state->devices[0], 1);
    return TDM_OK;
  }
  return rewrite(state);
}

static tdm_status replace(parallel_state *state) {
  const tdm_allocator *allocator = state->graph->allocator;
  const size_t part_bytes =
      state->value_count * state->parallel_region.device_count * sizeof *state->parts;
  const size_t instance_bytes = state->region_count * sizeof *state->instances;
  state->sides = tdm_allocate(allocator, state->node_count, "parallel region");
  state->parts = tdm_allocate(allocator, part_bytes, "parallel region");
  state->instances = tdm_allocate(allocator, instance_bytes, "parallel region");
  tdm_status status = TDM_OUT_OF_MEMORY;
  if (state->sides && state->parts && state->instances) status = replace_with(state);
  tdm_release(allocator, state->sides, state->node_count);
  tdm_release(allocator, state->parts, part_bytes);
  tdm_release(allocator, state->instances, instance_bytes);
  return status;
}

/* A part that lies in no other and was not replaced yet; 0: none is left. */
static uint16_t next_region(const tdm_graph *graph) {
  for (size_t w = 1; w < graph->parallel_regions.count; w++)
    if (!graph->parallel_regions.items[w].parent && !graph->parallel_regions.items[w].done)
      return (uint16_t)w;
  return 0;
}

tdm_status tdm_pass_data_parallel(tdm_graph *graph, bool sized, uint32_t *deliveries,
                                  size_t delivery_count) {
  for (uint16_t w = next_region(graph); w; w = next_region(graph)) {
    graph->parallel_regions.items[w].done = true;
    parallel_state state = {.graph = graph,
                            .deliveries = deliveries,
                            .delivery_count = delivery_count,
                            .region_index = w,
                            .parallel_region = graph->parallel_regions.items[w],
                            .node_count = graph->nodes.count,
                            .value_count = graph->values.count,
                            .region_count = graph->parallel_regions.count,
                            .rows = -1};
    if (sized)
      TDM_TRY(replace(&state));
    else
      pass_through(&state, state.parallel_region.devices[0], 1);
  }
  return TDM_OK;
}
