/* The order of a graph in micro-batches. Each device alternates between the forward pass of one
 * part and the backward pass of an earlier one (one forward, one backward: PipeDream, Narayanan et
 * al. 2019). So stages overlap, and no more parts are in flight than the devices need.
 *
 * The turn of a part is twice the sum of the devices that it has passed and the parts before it,
 * plus one in the backward pass. Links count as a stage, so a part is sent while two others are
 * computed. Numbers that depend only on inputs, such as the count of targets that divides each
 * loss, come before all parts.
 *
 * Invariant: turns increase along each edge, so a stable sort by turn is topological. Values that
 * are sent into buckets and added later keep their order on each device. All members of an
 * all-reduce have the same turn, since each waits for all. Updates stay last. */
#include <string.h>

#include "graph/ir/rewriter.h"
#include "graph/passes/device_sums.h"
#include "graph/passes/passes.h"

typedef struct place_in_time {
  uint32_t depth; /* number of devices on the longest path to here */
  uint32_t part;  /* the latest micro-batch that it depends on, from 0 */
  bool back;      /* the node depends on a backward node */
  bool learned;   /* the node depends on a parameter or a state */
  bool counts;    /* a count, or an operand of one: comes before all parts */
} place_in_time;

static bool makes_numbers(const tdm_graph *graph, const tdm_ir_node *node) {
  for (uint32_t k = 0; k < node->output_count; k++)
    if (tdm_shape_count(&tdm_ir_value_at(graph, node->first_output + k)->spec->shape) != 1)
      return false;
  return true;
}

static const tdm_ir_node *producer_of(const tdm_graph *graph, const tdm_ir_node *node, uint32_t k) {
  const uint32_t input = node->inputs[k];
  const uint32_t producer = input ? tdm_ir_value_at(graph, input)->producer : 0;
  return producer ? tdm_ir_node_at(graph, producer) : NULL;
}

/* Sets whether the node depends on a parameter, a state or a backward node. */
static void find_needs(const tdm_graph *graph, const tdm_ir_node *node, place_in_time *places) {
  place_in_time place = {.back = node->role == TDM_ROLE_GRADIENT};
  for (uint32_t k = 0; k < node->input_count; k++) {
    const tdm_ir_node *before = producer_of(graph, node, k);
    if (before) {
      place.back |= places[before->index].back;
      place.learned |= places[before->index].learned;
    } else if (node->inputs[k]) {
      place.learned |= tdm_ir_value_at(graph, node->inputs[k])->kind != TDM_VALUE_INPUT;
    }
  }
  places[node->index] = place;
}

/* Moves a count before all parts, with all that it depends on, so that turns increase. Visited
 * after the node's readers. */
static void find_counting(const tdm_graph *graph, const tdm_ir_node *node, place_in_time *places) {
  place_in_time *place = &places[node->index];
  place->counts |= !place->learned && !place->back && makes_numbers(graph, node);
  for (uint32_t k = 0; place->counts && k < node->input_count; k++) {
    const tdm_ir_node *before = producer_of(graph, node, k);
    if (before) places[before->index].counts = true;
  }
}

static void find_place(const tdm_graph *graph, const tdm_ir_node *node, place_in_time *places) {
  place_in_time *place = &places[node->index];
  place->part = node->part.micro ? node->part.micro - 1u : 0;
  for (uint32_t k = 0; k < node->input_count; k++) {
    const tdm_ir_node *producer = producer_of(graph, node, k);
    if (!producer) continue;
    const place_in_time *before = &places[producer->index];
    const bool crosses = producer->device != node->device;
    if (place->depth < before->depth + crosses) place->depth = before->depth + crosses;
    if (place->part < before->part) place->part = before->part;
  }
  if (place->counts) place->part = 0;
}

static uint32_t turn_of(const place_in_time *place) {
  return 2 * (place->depth + place->part) + place->back;
}

/* Returns true for a value that was sent into a bucket to be added later, and for its readers. */
static bool holds_bucket(const tdm_graph *graph, const tdm_ir_node *node) {
  bool holds = node->sum_role == TDM_SUM_RECEIVE;
  for (uint32_t k = 0; k < node->input_count && !holds; k++) {
    const tdm_ir_node *before = producer_of(graph, node, k);
    holds = before && before->sum_role == TDM_SUM_RECEIVE;
  }
  return holds;
}

/* Sets the turn to at least that of the latest such node of its device. */
static void keep_behind(place_in_time *place, uint32_t *latest) {
  while (turn_of(place) < *latest)
    place->depth++;
  *latest = turn_of(place);
}

typedef struct ordering {
  tdm_graph *graph;
  const tdm_ir_node *updates; /* first update; NULL: none */
  place_in_time *places;      /* per node */
  uint32_t *turns;            /* per node */
  uint32_t *latest;           /* per device: turn of its latest node with a bucket */
  uint32_t *meetings;         /* per all-reduce: maximum turn of its members so far */
  uint32_t turn_count;        /* number of turns, at least 1 */
} ordering;

/* Returns false if a member of an all-reduce has a later turn than others visited before. */
static bool find_turns(ordering *state) {
  const tdm_graph *graph = state->graph;
  bool have_met = true;
  memset(state->latest, 0, tdm_device_count(graph->context) * sizeof *state->latest);
  TDM_EACH_NODE(graph, node) {
    place_in_time *place = &state->places[node->index];
    if (node == state->updates) break;
    if (node->role == TDM_ROLE_REFRESH) continue; /* refresh nodes stay first */
    find_place(graph, node, state->places);
    if (holds_bucket(graph, node)) keep_behind(place, &state->latest[node->device]);
    if (tdm_ir_is_all_reduce(node)) {
      const tdm_all_reduce_attributes *attributes = node->attributes;
      have_met &= turn_of(place) <= state->meetings[attributes->number];
      keep_behind(place, &state->meetings[attributes->number]);
    }
    state->turns[node->index] = turn_of(place);
    if (state->turn_count <= turn_of(place)) state->turn_count = turn_of(place) + 1;
  }
  return have_met;
}

static tdm_status order(ordering *state) {
  tdm_graph *graph = state->graph;
  const tdm_ir_node *updates = state->updates;
  TDM_EACH_NODE(graph, node) {
    if (node == updates) break;
    if (node->role != TDM_ROLE_REFRESH) find_needs(graph, node, state->places);
  }
  TDM_EACH_NODE_BACKWARD_FROM(updates ? updates->previous : graph->order.last, node)
  if (node->role != TDM_ROLE_REFRESH) find_counting(graph, node, state->places);
  while (!find_turns(state)) /* ends, because no all-reduce depends on itself */
    continue;
  return tdm_sort_nodes(graph, updates, state->turns, state->turn_count);
}

tdm_status tdm_pass_micro_order(tdm_graph *graph) {
  tdm_region scratch;
  tdm_region_init(&scratch, graph->allocator);
  const size_t nodes = graph->nodes.count, devices = tdm_device_count(graph->context);
  ordering state = {
      .graph = graph, .updates = tdm_first_of_role(graph, TDM_ROLE_UPDATE), .turn_count = 1};
  state.places = tdm_region_take(&scratch, nodes * sizeof *state.places, "micro-batches");
  state.turns = tdm_region_take(&scratch, nodes * sizeof *state.turns, "micro-batches");
  state.latest = tdm_region_take(&scratch, devices * sizeof *state.latest, "micro-batches");
  state.meetings = tdm_region_take(&scratch, nodes * sizeof *state.meetings, "micro-batches");
  const bool taken = state.places && state.turns && state.latest && state.meetings;
  const tdm_status status = taken ? order(&state) : TDM_OUT_OF_MEMORY;
  tdm_region_deinit(&scratch);
  return status;
}
