/* The order of the replicas' nodes in a parallel region. Invariant: replicas come one after
 * another, each in the region's order, up to nodes that depend on all of them. Nodes outside keep
 * their order. */
#include "graph/ir/rewriter.h"
#include "graph/passes/chunked.h"

void tdm_remove_unread_replicas(tdm_chunked *chunked, size_t node_count) {
  tdm_graph *graph = chunked->graph;
  TDM_EACH_NODE_BACKWARD(graph, node) {
    bool read = node->index < node_count || node->part.replica < 2 || node->operation->has_effects;
    for (uint32_t k = 0; k < node->output_count; k++)
      read |= tdm_ir_value_at(graph, node->first_output + k)->readers > 0;
    for (size_t i = 0; i < graph->planned->deliveries.count && !read; i++)
      read = graph->planned->deliveries.items[i].value - node->first_output < node->output_count;
    if (!read) tdm_remove_node(graph, node);
  }
}

void tdm_rename_entering(const tdm_chunked *chunked, const uint32_t *gathered) {
  const tdm_graph *graph = chunked->graph;
  for (size_t w = 1; w < graph->parallel_regions.count; w++) {
    tdm_parallel_region *region = &graph->parallel_regions.items[w];
    for (size_t i = 0; i < region->input_count; i++) {
      const uint32_t value = region->inputs[i].value;
      if (value < chunked->value_count && gathered[value])
        region->inputs[i].value = gathered[value];
    }
  }
}

/* The sort key of a node: the number of exchanges between replicas before it, and its replica. */
typedef struct turn {
  uint32_t stage;
  uint32_t replica; /* number of the replica, from 1; 0: depends on all of them */
} turn;

/* Marks a node of a replica, and the new nodes that produce its first input. */
static void mark_maker(const tdm_chunked *chunked, size_t node_count, const tdm_ir_node *node,
                       uint32_t replica, turn *turns) {
  while (node && node->index >= node_count && node->part.replica == replica &&
         turns[node->index].replica == 0) {
    turns[node->index].replica = replica;
    node = node->input_count > 0 ? tdm_producer(chunked->graph, node->inputs[0]) : NULL;
  }
}

static void mark_replicas(const tdm_chunked *chunked, size_t node_count, turn *turns) {
  for (uint32_t v = 1; v < chunked->value_count; v++) {
    if (chunked->cuts[v].dimension == -1) continue; /* the value has no versions */
    const uint32_t producer = tdm_ir_value_at(chunked->graph, v)->producer;
    if (!producer || chunked->sides[producer] != TDM_SIDE_INSIDE) continue;
    for (size_t r = 0; r < chunked->count; r++) {
      mark_maker(chunked, node_count,
                 tdm_producer(chunked->graph, tdm_chunked_versions(chunked, v)[r]), (uint32_t)r + 1,
                 turns);
    }
  }
}

static void find_stage(const tdm_chunked *chunked, turn *turns, const tdm_ir_node *node) {
  turn *own = &turns[node->index];
  for (uint32_t k = 0; k < node->input_count; k++) {
    const tdm_ir_node *producer = tdm_producer(chunked->graph, node->inputs[k]);
    if (!producer) continue;
    const turn *before = &turns[producer->index];
    const uint32_t stage = before->stage + (before->replica && before->replica != own->replica);
    if (stage > own->stage) own->stage = stage;
  }
}

static tdm_status order_by_turns(const tdm_chunked *chunked, size_t node_count, turn *turns,
                                 uint32_t *ranks) {
  tdm_graph *graph = chunked->graph;
  const uint32_t turns_a_stage = (uint32_t)chunked->count + 1;
  uint32_t last = 0; /* rank 0: original nodes */
  mark_replicas(chunked, node_count, turns);
  TDM_EACH_NODE(graph, node) {
    if (node == chunked->before) break;
    if (node->index < node_count && chunked->sides[node->index] != TDM_SIDE_BETWEEN) continue;
    find_stage(chunked, turns, node);
    const turn *own = &turns[node->index];
    ranks[node->index] = 1 + own->stage * turns_a_stage + own->replica;
    if (ranks[node->index] > last) last = ranks[node->index];
  }
  return tdm_sort_nodes(graph, chunked->before, ranks, last + 1);
}

tdm_status tdm_order_replicas(const tdm_chunked *chunked, size_t node_count) {
  const tdm_allocator *allocator = chunked->graph->allocator;
  const size_t count = chunked->graph->nodes.count;
  turn *turns = tdm_allocate(allocator, count * sizeof *turns, "parallel region");
  uint32_t *ranks = tdm_allocate(allocator, count * sizeof *ranks, "parallel region");
  const tdm_status status =
      turns && ranks ? order_by_turns(chunked, node_count, turns, ranks) : TDM_OUT_OF_MEMORY;
  tdm_release(allocator, turns, count * sizeof *turns);
  tdm_release(allocator, ranks, count * sizeof *ranks);
  if (status == TDM_OK) tdm_move_updates_behind(chunked->graph);
  return status;
}
