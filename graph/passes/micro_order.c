/* The order of a graph in micro-batches: each device goes forward with a part and back with an
 * earlier one in turn (one forward, one backward: PipeDream, Narayanan et al. 2019), so that stages
 * overlap and no more parts are under way than keeps them busy. A part's slot is twice the devices
 * it has passed and the parts before it, and one more on the way back; links count as a stage, so
 * that a part travels while two others are computed. Invariant: slots grow along every edge, so a
 * stable sort by slot keeps the order topological; updates stay last. */
#include <string.h>

#include "graph/passes/passes.h"

typedef struct place_in_time {
  uint32_t depth; /* devices that were passed on the longest way here */
  uint32_t part;  /* the latest micro-batch it needs, from 0 */
  bool back;      /* it needs a backward node */
} place_in_time;

typedef struct order_state {
  tdm_graph *graph;
  place_in_time *places; /* per node */
  uint32_t slot_count;
} order_state;

static void find_place(order_state *state, uint32_t index) {
  const tdm_graph *graph = state->graph;
  const tdm_ir_node *node = tdm_ir_node_at(graph, index);
  if (node->role == TDM_ROLE_REFRESH) return; /* before all others, as they are */
  place_in_time place = {.part = node->micro ? node->micro - 1u : 0,
                         .back = node->role == TDM_ROLE_GRADIENT};
  for (uint32_t k = 0; k < node->input_count; k++) {
    const uint32_t input = tdm_ir_inputs(graph, node)[k];
    const uint32_t producer = input ? graph->values.items[input].producer : 0;
    if (!producer) continue;
    const place_in_time *before = &state->places[producer];
    const bool crosses = tdm_ir_node_at(graph, producer)->device != node->device;
    if (place.depth < before->depth + crosses) place.depth = before->depth + crosses;
    if (place.part < before->part) place.part = before->part;
    place.back |= before->back;
  }
  state->places[index] = place;
}

static uint32_t slot_of(const order_state *state, uint32_t index) {
  const place_in_time *place = &state->places[index];
  return 2 * (place->depth + place->part) + place->back;
}

/* Where the updates begin. */
static size_t count_main(const tdm_graph *graph) {
  size_t count = 0;
  while (count < graph->order.count &&
         tdm_ir_node_at(graph, graph->order.items[count])->role != TDM_ROLE_UPDATE)
    count++;
  return count;
}

static tdm_status sort(order_state *state, size_t count) {
  tdm_graph *graph = state->graph;
  const size_t bytes = (count + state->slot_count + 2) * sizeof(uint32_t);
  uint32_t *sorted = tdm_allocate(graph->allocator, bytes, "micro-batches");
  if (!sorted) return TDM_OUT_OF_MEMORY;
  uint32_t *starts = sorted + count;
  for (size_t i = 0; i < count; i++)
    starts[slot_of(state, graph->order.items[i]) + 1]++;
  for (uint32_t s = 1; s <= state->slot_count; s++)
    starts[s] += starts[s - 1];
  for (size_t i = 0; i < count; i++)
    sorted[starts[slot_of(state, graph->order.items[i])]++] = graph->order.items[i];
  memcpy(graph->order.items, sorted, count * sizeof *sorted);
  tdm_release(graph->allocator, sorted, bytes);
  return TDM_OK;
}

tdm_status tdm_pass_micro_order(tdm_graph *graph) {
  const size_t bytes = graph->nodes.count * sizeof(place_in_time);
  order_state state = {.graph = graph};
  state.places = tdm_allocate(graph->allocator, bytes, "micro-batches");
  if (!state.places) return TDM_OUT_OF_MEMORY;
  const size_t count = count_main(graph);
  for (size_t i = 0; i < count; i++) {
    find_place(&state, graph->order.items[i]);
    const uint32_t slot = slot_of(&state, graph->order.items[i]);
    if (state.slot_count <= slot) state.slot_count = slot + 1;
  }
  const tdm_status status = sort(&state, count);
  tdm_release(graph->allocator, state.places, bytes);
  return status;
}
