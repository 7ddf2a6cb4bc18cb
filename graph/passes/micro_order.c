/* The order of a graph in micro-batches: each device goes forward with a part and back with an
 * earlier one in turn (one forward, one backward: PipeDream, Narayanan et al. 2019), so that stages
 * overlap and no more parts are under way than keeps them busy. A part's turn is twice the devices
 * it has passed and the parts before it, and one more on the way back; links count as a stage, so
 * that a part travels while two others are computed. What is counted of inputs alone (a batch's
 * targets, by which every part's loss is divided) is there before all parts. Invariant: turns grow
 * along every edge, so a stable sort by turn keeps the order topological; what crosses into
 * buckets and is added later keeps its order on every device; all members of an all-reduce have one
 * turn, since each waits for all; updates stay last. */
#include <string.h>

#include "graph/ir/rewriter.h"
#include "graph/passes/device_sums.h"
#include "graph/passes/passes.h"

typedef struct place_in_time {
  uint32_t depth; /* devices that were passed on the longest way here */
  uint32_t part;  /* the latest micro-batch it needs, from 0 */
  bool back;      /* it needs a backward node */
  bool learned;   /* it needs a parameter or a state */
  bool counts;    /* nothing learned, and a number is made of it: before all parts */
} place_in_time;

static bool makes_numbers(const tdm_graph *graph, const tdm_ir_node *node) {
  for (uint32_t k = 0; k < node->output_count; k++)
    if (tdm_shape_count(&tdm_ir_value_at(graph, node->first_output + k)->spec.shape) != 1)
      return false;
  return true;
}

static const tdm_ir_node *producer_of(const tdm_graph *graph, const tdm_ir_node *node, uint32_t k) {
  const uint32_t input = node->inputs[k];
  const uint32_t producer = input ? tdm_ir_value_at(graph, input)->producer : 0;
  return producer ? tdm_ir_node_at(graph, producer) : NULL;
}

/* Whether it needs what is learned, or a backward node. */
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

/* Counting stands before all parts with everything that it reads, or turns would not grow. Behind
 * those who read the node. */
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
  place->part = node->micro ? node->micro - 1u : 0;
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

/* Is it what has come into a bucket, to be added later, or does it read that? */
static bool holds_bucket(const tdm_graph *graph, const tdm_ir_node *node) {
  bool holds = node->collective && node->operation == &tdm_operation_whole;
  for (uint32_t k = 0; k < node->input_count && !holds; k++) {
    const tdm_ir_node *before = producer_of(graph, node, k);
    holds = before && before->collective && before->operation == &tdm_operation_whole;
  }
  return holds;
}

/* Not before the latest such node of its device, whose turn is. */
static void keep_behind(place_in_time *place, uint32_t *latest) {
  while (turn_of(place) < *latest)
    place->depth++;
  *latest = turn_of(place);
}

typedef struct ordering {
  tdm_graph *graph;
  const tdm_ir_node *updates; /* the first; NULL: there are none */
  place_in_time *places;      /* per node */
  uint32_t *turns;            /* per node */
  uint32_t *latest;           /* per device: the turn of its latest node that holds a bucket */
  uint32_t *meetings;         /* per all-reduce: the turn of its latest member, so far */
  uint32_t turn_count;        /* at least that of those that stay first */
} ordering;

/* False: a member of an all-reduce is later than others that were before it. */
static bool find_turns(ordering *state) {
  const tdm_graph *graph = state->graph;
  bool have_met = true;
  memset(state->latest, 0, tdm_device_count(graph->context) * sizeof *state->latest);
  TDM_EACH_NODE(graph, node) {
    place_in_time *place = &state->places[node->index];
    if (node == state->updates) break;
    if (node->role == TDM_ROLE_REFRESH) continue; /* they stay first */
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
  TDM_EACH_NODE_BACKWARD_FROM(updates ? updates->previous : graph->order.last, node) {
    if (node->role != TDM_ROLE_REFRESH) find_counting(graph, node, state->places);
  }
  while (!find_turns(state)) /* ends, since no sum is made of what follows it */
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
