/* Data parallelism: a parallel region runs once for each chunk of rows, on a device of its own.
 *
 *   x --> part(x)      becomes      x --> split --> part(x_0) on device 0 --> concat
 *                                             \---> part(x_1) on device 1 ---/
 *
 * All replicas read the same parameters; the transfer pass makes copies. An operation that sums
 * over rows, by its rule `chunk`, is computed once from the sums of all replicas, on the device of
 * the results. So are nodes that depend only on such values. Outer regions are replaced before
 * inner ones, of which each replica then has its own. Invariant: nodes outside keep their order. */
#include <string.h>

#include "devices/tensors/chunks.h"
#include "graph/describe/gradient_of.h"
#include "graph/ir/rewriter.h"
#include "graph/passes/chunked.h"
#include "graph/passes/parts.h"

typedef struct parallel_state {
  tdm_chunked chunked; /* must be the first field; replicas come before nodes that depend on the
                        * region */
  tdm_graph *graph;
  uint16_t region_index;
  tdm_parallel_region parallel_region; /* a copy, because the list may move */
  uint8_t *sides;                      /* used by chunked */
  size_t node_count;
  int16_t devices[TDM_MAX_PARTS];
  uint32_t *gathered;  /* per original value: its replacement outside; or 0 */
  bool is_described;   /* described by the user; otherwise created for a part of another region */
  int64_t rows;        /* number of rows that are split; -1: no value was split yet */
  uint32_t rows_value; /* value with that number of rows */
} parallel_state;

/* ---- Chunks ---------------------------------------------------------------------------------- */

/* Selects the devices that get rows; the first one if there are none. */
static void share_out(parallel_state *state) {
  int64_t sizes[TDM_MAX_PARTS];
  const tdm_parallel_region *parallel_region = &state->parallel_region;
  tdm_chunk_sizes(state->rows, parallel_region->device_count, parallel_region->weights, sizes);
  tdm_chunked *chunked = &state->chunked;
  chunked->count = 0;
  for (uint16_t i = 0; i < parallel_region->device_count; i++) {
    if (sizes[i] == 0) continue;
    state->devices[chunked->count] = parallel_region->devices[i];
    chunked->rows[chunked->count++] = sizes[i];
  }
  if (chunked->count > 0) return;
  state->devices[0] = parallel_region->devices[0];
  chunked->rows[0] = 0;
  chunked->count = 1;
}

/* ---- What is inside, and what enters --------------------------------------------------------- */

/* Returns the side of an original node. A node that was created later counts as before the
 * region. */
static tdm_side side_of(const parallel_state *state, const tdm_ir_node *node) {
  return node->index < state->node_count ? (tdm_side)state->sides[node->index] : TDM_SIDE_BEFORE;
}

static tdm_side side_of_value(const parallel_state *state, uint32_t value) {
  const tdm_ir_node *producer = tdm_producer(state->graph, value);
  return producer ? side_of(state, producer) : TDM_SIDE_BEFORE;
}

/* Marks the nodes outside that depend on the region and that nodes inside depend on. */
static void mark_between(parallel_state *state) {
  TDM_EACH_NODE_BACKWARD(state->graph, node) {
    const tdm_side side = side_of(state, node);
    if (side != TDM_SIDE_INSIDE && side != TDM_SIDE_BETWEEN) continue;
    for (uint32_t k = 0; k < node->input_count; k++)
      if (node->inputs[k] && side_of_value(state, node->inputs[k]) == TDM_SIDE_AFTER)
        state->sides[tdm_producer(state->graph, node->inputs[k])->index] = TDM_SIDE_BETWEEN;
  }
}

/* Returns true if the node overwrites memory that nodes before it read which will be placed after
 * the region. */
static bool rewrites_what_they_read(const parallel_state *state, const tdm_ir_node *node) {
  const tdm_graph *graph = state->graph;
  if (graph->kepts.count == 0 || !node->operation->overwrites[0]) return false;
  const uint32_t root = tdm_ir_value_at(graph, node->first_output)->root;
  TDM_EACH_NODE(graph, earlier) {
    if (earlier == node) return false;
    if (side_of(state, earlier) == TDM_SIDE_BEFORE) continue;
    for (uint32_t k = 0; k < earlier->input_count; k++)
      if (earlier->inputs[k] && tdm_ir_value_at(graph, earlier->inputs[k])->root == root)
        return true;
  }
  return false;
}

/* Finds the side of each node. A region inside another may read values of all outer replicas, to
 * which its own nodes belong: a sum over all rows, and consumers of it and of rows. In a region
 * that the user described this is an error. */
static tdm_status find_sides(parallel_state *state) {
  const tdm_graph *graph = state->graph;
  bool comes_back = false;
  TDM_EACH_NODE(graph, node) {
    const uint32_t *inputs = node->inputs;
    const bool inside = tdm_is_in_region(graph, node->part.parallel_region, state->region_index);
    bool after = false;
    bool depends = false;
    for (uint32_t k = 0; k < node->input_count; k++) {
      if (!inputs[k]) continue;
      after |= side_of_value(state, inputs[k]) == TDM_SIDE_AFTER;
      depends |= side_of_value(state, inputs[k]) == TDM_SIDE_INSIDE;
    }
    after |= rewrites_what_they_read(state, node);
    comes_back |= inside && after;
    if (inside && after && state->is_described)
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "data parallel over %s: %s in it needs a result that left it",
                      state->parallel_region.name, node->name);
    state->sides[node->index] = inside             ? TDM_SIDE_INSIDE
                                : after || depends ? TDM_SIDE_AFTER
                                                   : TDM_SIDE_BEFORE;
  }
  if (comes_back) mark_between(state);
  return TDM_OK;
}

/* Returns the dimension along which a value is split, or TDM_BROADCAST. */
static int32_t dimension_of(const parallel_state *state, uint32_t value) {
  const tdm_ir_value *found = tdm_ir_value_at(state->graph, value);
  if (found->kind == TDM_VALUE_PERSISTENT || found->spec->shape.rank == 0) return TDM_BROADCAST;
  for (size_t i = 0; i < state->parallel_region.input_count; i++)
    if (state->parallel_region.inputs[i].value == value)
      return state->parallel_region.inputs[i].dimension;
  return 0;
}

static tdm_status note_rows(parallel_state *state, uint32_t value, int32_t dimension) {
  const int64_t rows = tdm_ir_value_at(state->graph, value)->spec->shape.dims[dimension];
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

/* Visits each value that enters, each time it is read. */
static tdm_status visit_entering(parallel_state *state, input_visitor visit) {
  TDM_EACH_NODE(state->graph, node) {
    if (side_of(state, node) != TDM_SIDE_INSIDE) continue;
    for (uint32_t k = 0; k < node->input_count; k++) {
      const uint32_t value = node->inputs[k];
      if (value && side_of_value(state, value) != TDM_SIDE_INSIDE) TDM_TRY(visit(state, value));
    }
  }
  return TDM_OK;
}

static tdm_status count_rows_of(parallel_state *state, uint32_t value) {
  const int32_t dimension = dimension_of(state, value);
  return dimension == TDM_BROADCAST ? TDM_OK : note_rows(state, value, dimension);
}

/* ---- Rewriting ------------------------------------------------------------------------------- */

/* Returns where values of all replicas are computed. */
static tdm_insertion insertion_for(const parallel_state *state, const char *name) {
  return (tdm_insertion){.before = state->chunked.before,
                         .name = name,
                         .device = state->parallel_region.output_device,
                         .part.parallel_region = state->parallel_region.parent};
}

static tdm_parts_attributes attributes_for(const parallel_state *state, int64_t dimension) {
  tdm_parts_attributes attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.dimension = dimension;
  attributes.count = (int64_t)state->chunked.count;
  return attributes;
}

/* Gives each replica its part of a value that enters. */
static tdm_status scatter(parallel_state *state, uint32_t value) {
  tdm_chunked *chunked = &state->chunked;
  uint32_t *parts = tdm_chunked_versions(chunked, value);
  const int32_t dimension = dimension_of(state, value);
  if (parts[0] || dimension == TDM_BROADCAST) return TDM_OK;
  const tdm_ir_value *whole = tdm_ir_value_at(state->graph, value);
  tdm_parts_attributes attributes = attributes_for(state, dimension);
  memcpy(attributes.sizes, chunked->rows, sizeof attributes.sizes);
  tdm_insertion at = insertion_for(state, tdm_value_name(state->graph, value));
  at.device = whole->device;
  const uint32_t first =
      tdm_insert(state->graph, &at, tdm_split_operation(&whole->spec->shape, dimension),
                 &attributes, &value, 1);
  if (!first) return tdm_graph_status(state->graph);
  for (size_t r = 0; r < chunked->count; r++)
    parts[r] = first + (uint32_t)r;
  chunked->cuts[value] = (tdm_cut){dimension, 1};
  return TDM_OK;
}

static void settle_replica(const tdm_chunked *chunked, tdm_ir_node *like, size_t r) {
  const parallel_state *state = (const parallel_state *)chunked; /* `chunked` is the first field */
  like->device = state->devices[r];
  like->part.replica = (uint16_t)(r + 1);
  like->later_replica |= r > 0;
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

/* Computes a node that depends only on values of all replicas, once and on the device of the
 * results. */
static tdm_status join(parallel_state *state, const tdm_ir_node *node) {
  tdm_chunked *chunked = &state->chunked;
  uint32_t inputs[TDM_KERNEL_MAX_INPUTS];
  for (uint32_t k = 0; k < node->input_count; k++)
    inputs[k] = tdm_chunked_version(chunked, node->inputs[k], 0);
  tdm_ir_node like = *node;
  like.device = state->parallel_region.output_device;
  like.part.replica = 0;
  like.part.parallel_region = state->parallel_region.parent;
  tdm_ir_node *made;
  TDM_TRY(tdm_insert_like(state->graph, chunked->before, &like, inputs, &made));
  for (uint32_t k = 0; k < made->output_count; k++)
    tdm_chunked_join(chunked, node->first_output + k, made->first_output + k);
  return TDM_OK;
}

/* Returns the replica, from 1, that produced all inputs of the node that come from replicas; 0:
 * several; -1: none. */
static int replica_of_inputs(const parallel_state *state, const tdm_ir_node *node) {
  int found = -1;
  for (uint32_t k = 0; k < node->input_count; k++) {
    const tdm_ir_node *producer = tdm_producer(state->graph, node->inputs[k]);
    if (!producer || producer->index < state->node_count) continue;
    if (producer->part.replica == 0 || (found > 0 && producer->part.replica != found)) return 0;
    found = producer->part.replica;
  }
  return found;
}

/* Places nodes that a rule created besides the replicas' nodes next to their inputs. A count of
 * targets outside the region stays outside; one of a replica's targets is computed by the
 * replica. */
static void settle_made(parallel_state *state, size_t first_made) {
  tdm_graph *graph = state->graph;
  for (size_t i = first_made; i < graph->nodes.count; i++) {
    tdm_ir_node *node = tdm_ir_node_at(graph, (uint32_t)i);
    if (node->part.replica) continue;
    const int replica = replica_of_inputs(state, node);
    if (replica > 0) settle_replica(&state->chunked, node, (size_t)replica - 1);
    if (replica < 0) node->device = TDM_NO_DEVICE;
    for (uint32_t k = 0; k < node->output_count; k++)
      tdm_ir_value_at(graph, node->first_output + k)->device = node->device;
  }
}

static tdm_status rewrite_node(parallel_state *state, tdm_ir_node *node) {
  tdm_chunked *chunked = &state->chunked;
  chunked->node = node;
  if (tdm_chunked_joins(chunked, node)) return join(state, node);
  bool is_cut = false;
  for (uint32_t k = 0; k < node->input_count; k++) {
    const int dimension = node->inputs[k] ? chunked->cuts[node->inputs[k]].dimension : -1;
    is_cut |= dimension >= 0 || dimension == TDM_CUT_TORN;
  }
  if (!is_cut) return tdm_chunked_repeat(chunked, node);
  tdm_insertion at = insertion_for(state, node->name);
  at.part.micro = node->part.micro;
  at.described = node->described;
  const size_t first_made = state->graph->nodes.count;
  TDM_TRY(tdm_chunked_compute(chunked, node, &at));
  if (node->operation->chunk) settle_made(state, first_made);
  return TDM_OK;
}

/* ---- What leaves ----------------------------------------------------------------------------- */

/* Replaces a value of the region by its value outside, which is created for the first consumer. */
static tdm_status gather(parallel_state *state, uint32_t *value) {
  if (side_of_value(state, *value) != TDM_SIDE_INSIDE) return TDM_OK;
  tdm_chunked *chunked = &state->chunked;
  uint32_t *gathered = state->gathered;
  const int dimension = chunked->cuts[*value].dimension;
  if (!gathered[*value]) {
    if (dimension == TDM_CUT_TORN)
      return tdm_fail_within(tdm_chunked_fail_torn(chunked, *value),
                             "data parallel over %s: %s leaves it, and is of each replica's rows "
                             "alone, no sum or mean over all of them",
                             state->parallel_region.name, tdm_value_name(state->graph, *value));
    const tdm_insertion at = insertion_for(state, tdm_value_name(state->graph, *value));
    gathered[*value] =
        dimension < 0 ? tdm_chunked_version(chunked, *value, 0)
                      : tdm_insert_joined(state->graph, &at,
                                          &tdm_ir_value_at(state->graph, *value)->spec->shape,
                                          chunked->cuts[*value],
                                          tdm_chunked_versions(chunked, *value), chunked->count);
    if (!gathered[*value]) return tdm_graph_status(state->graph);
  }
  *value = gathered[*value];
  return TDM_OK;
}

static tdm_status gather_node(parallel_state *state, tdm_ir_node *node) {
  tdm_graph *graph = state->graph;
  const bool asks = tdm_asks_gradient(node) &&
                    side_of_value(state, node->inputs[TDM_GRADIENT_VALUE]) == TDM_SIDE_INSIDE;
  for (uint32_t k = 0; k < node->input_count; k++) {
    uint32_t value = node->inputs[k];
    if (!value || (asks && k == TDM_GRADIENT_VALUE)) continue;
    TDM_TRY(gather(state, &value));
    tdm_set_input(graph, node, k, value);
  }
  if (!asks) return TDM_OK;
  return tdm_ask_replicas(&state->chunked, &state->parallel_region, state->devices, node);
}

static tdm_status gather_all(parallel_state *state) {
  tdm_graph *graph = state->graph;
  TDM_EACH_NODE(graph, node)
    if (side_of(state, node) == TDM_SIDE_AFTER) TDM_TRY(gather_node(state, node));
  for (size_t i = 0; i < graph->planned->deliveries.count; i++)
    TDM_TRY(gather(state, &graph->planned->deliveries.items[i].value));
  tdm_rename_entering(&state->chunked, state->gathered);
  return TDM_OK;
}

/* ---- The region ------------------------------------------------------------------------------ */

/* Keeps a node that lies between the replicas' nodes, after its inputs. */
static tdm_status rewrite_between(parallel_state *state, tdm_ir_node *node) {
  TDM_TRY(gather_node(state, node));
  tdm_move_node(state->graph, node, state->chunked.before);
  return TDM_OK;
}

static tdm_status rewrite_nodes(parallel_state *state) {
  tdm_chunked *chunked = &state->chunked;
  const tdm_ir_node *last = chunked->before ? chunked->before->previous : state->graph->order.last;
  TDM_TRY(tdm_instantiate_inner(chunked, state->region_index));
  tdm_ir_node *next;
  for (tdm_ir_node *node = state->graph->order.first;; node = next) {
    next = node->next; /* read before the rewrite, which may move the node */
    tdm_status status = TDM_OK;
    if (side_of(state, node) == TDM_SIDE_INSIDE) status = rewrite_node(state, node);
    if (status != TDM_OK)
      return tdm_fail_within(status, "data parallel over %s: %s", state->parallel_region.name,
                             node->name);
    if (side_of(state, node) == TDM_SIDE_BETWEEN) TDM_TRY(rewrite_between(state, node));
    if (node == last) break;
  }
  return tdm_settle_inner(chunked, state->region_index);
}

/* Moves nodes that depend on the region to the end, so that nodes created for the region come
 * before them. */
static void move_after(parallel_state *state) {
  TDM_EACH_NODE_BACKWARD(state->graph, node) {
    if (side_of(state, node) != TDM_SIDE_AFTER) continue;
    tdm_move_node(state->graph, node, state->chunked.before);
    state->chunked.before = node;
  }
}

static void remove_inside(parallel_state *state) {
  TDM_EACH_NODE(state->graph, node)
    if (side_of(state, node) == TDM_SIDE_INSIDE) tdm_remove_node(state->graph, node);
}

static tdm_status rewrite(parallel_state *state) {
  tdm_chunked *chunked = &state->chunked;
  move_after(state);
  for (size_t v = 0; v < chunked->value_count; v++)
    chunked->cuts[v] = (tdm_cut){-1, 1};
  TDM_TRY(visit_entering(state, scatter));
  TDM_TRY(rewrite_nodes(state));
  TDM_TRY(gather_all(state));
  remove_inside(state);
  tdm_remove_unread_replicas(chunked, state->node_count);
  return tdm_order_replicas(chunked, state->node_count);
}

/* Keeps the nodes of a region with one replica and places them on its device. */
static void pass_through(parallel_state *state, int16_t device, uint16_t replica) {
  tdm_graph *graph = state->graph;
  TDM_EACH_NODE(graph, node) {
    if (!tdm_is_in_region(graph, node->part.parallel_region, state->region_index)) continue;
    node->device = device;
    node->part.replica = replica;
    if (node->part.parallel_region == state->region_index)
      node->part.parallel_region = state->parallel_region.parent;
  }
  for (size_t w = 1; w < graph->parallel_regions.count; w++)
    if (graph->parallel_regions.items[w].parent == state->region_index)
      graph->parallel_regions.items[w].parent = state->parallel_region.parent;
}

/* ---- The pass -------------------------------------------------------------------------------- */

static tdm_status replace_with(parallel_state *state) {
  TDM_TRY(find_sides(state));
  TDM_TRY(visit_entering(state, count_rows_of));
  if (state->rows < 0) state->rows = 0; /* nothing is split: one replica */
  share_out(state);
  if (state->chunked.count == 1) {
    pass_through(state, state->devices[0], 1);
    return TDM_OK;
  }
  return rewrite(state);
}

static tdm_status replace(parallel_state *state) {
  const tdm_allocator *allocator = state->graph->allocator;
  tdm_chunked *chunked = &state->chunked;
  const size_t device_count = state->parallel_region.device_count;
  const size_t version_bytes = chunked->value_count * device_count * sizeof *chunked->versions;
  const size_t cut_bytes = chunked->value_count * sizeof *chunked->cuts;
  const size_t region_bytes =
      chunked->region_count * device_count * sizeof *chunked->parallel_regions;
  chunked->versions = tdm_allocate(allocator, version_bytes, "parallel region");
  chunked->cuts = tdm_allocate(allocator, cut_bytes, "parallel region");
  chunked->parallel_regions = tdm_allocate(allocator, region_bytes, "parallel region");
  chunked->sides = state->sides = tdm_allocate(allocator, state->node_count, "parallel region");
  const size_t gathered_bytes = chunked->value_count * sizeof *state->gathered;
  state->gathered = tdm_allocate(allocator, gathered_bytes, "parallel region");
  tdm_status status = TDM_OUT_OF_MEMORY;
  if (chunked->versions && chunked->cuts && chunked->parallel_regions && state->sides &&
      state->gathered)
    status = replace_with(state);
  tdm_release(allocator, chunked->versions, version_bytes);
  tdm_release(allocator, chunked->cuts, cut_bytes);
  tdm_release(allocator, chunked->parallel_regions, region_bytes);
  tdm_release(allocator, state->sides, state->node_count);
  tdm_release(allocator, state->gathered, gathered_bytes);
  return status;
}

/* Returns a region that is in no other and was not replaced yet, or 0. */
static uint16_t next_region(const tdm_graph *graph) {
  for (size_t w = 1; w < graph->parallel_regions.count; w++)
    if (!graph->parallel_regions.items[w].parent && !graph->parallel_regions.items[w].done)
      return (uint16_t)w;
  return 0;
}

tdm_status tdm_pass_data_parallel(tdm_graph *graph, bool sized) {
  const size_t described = graph->parallel_regions.count;
  for (uint16_t w = next_region(graph); w; w = next_region(graph)) {
    graph->parallel_regions.items[w].done = true;
    parallel_state state = {.graph = graph,
                            .region_index = w,
                            .parallel_region = graph->parallel_regions.items[w],
                            .is_described = w < described,
                            .chunked = {.graph = graph,
                                        .value_count = graph->values.count,
                                        .region_count = graph->parallel_regions.count,
                                        .settle = settle_replica},
                            .node_count = graph->nodes.count,
                            .rows = -1};
    if (sized) {
      TDM_TRY(replace(&state));
      continue;
    }
    TDM_TRY(tdm_spread_homes(graph, w));
    pass_through(&state, state.parallel_region.devices[0], 1);
  }
  return TDM_OK;
}
