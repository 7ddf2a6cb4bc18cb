/* Updates on every device: if all devices with terms get a sum, each repeats the home's updates on
 * its copies of the parameter and of its states, instead of receiving the parameter in the next
 * run. Invariant: these copies have the home's bits, because the same kernels read the same numbers
 * and no other value as large as a parameter. Small values, such as a factor for clipping, are
 * copied from the home. */
#include <string.h>

#include "graph/collectives/sums.h"

typedef struct followers {
  const tdm_sums *sums;
  size_t value_count; /* number of values at the beginning: later ones belong to no sum */
  uint32_t *sum_of;   /* per value: 1 + its sum, possibly with changed elements; 0: none */
  uint32_t *updates;  /* per sum: the updates that read it */
  uint32_t *there;    /* per value: its replacement on the current device */
} followers;

static tdm_status init(followers *state, const tdm_sums *sums) {
  const tdm_graph *graph = sums->graph;
  const size_t value_bytes = graph->values.count * sizeof(uint32_t);
  state->sums = sums;
  state->value_count = graph->values.count;
  state->sum_of = tdm_region_take(sums->region, value_bytes, "collectives");
  state->there = tdm_region_take(sums->region, value_bytes, "collectives");
  state->updates = tdm_region_take(sums->region, sums->count * sizeof(uint32_t), "collectives");
  if (!state->sum_of || !state->there || !state->updates) return TDM_OUT_OF_MEMORY;
  for (size_t i = 0; i < sums->count; i++)
    state->sum_of[sums->items[i].value] = (uint32_t)i + 1;
  return TDM_OK;
}

static uint32_t sum_of(const followers *state, uint32_t value) {
  return value < state->value_count ? state->sum_of[value] : 0;
}

/* Returns true if the node updates a parameter that is to be updated on every device. */
static bool is_for_everywhere(const tdm_graph *graph, const tdm_ir_node *update) {
  for (uint32_t k = 0; k < update->input_count; k++) {
    const tdm_ir_value *value = tdm_ir_value_at(graph, update->inputs[k]);
    if (update->inputs[k] && value->kind == TDM_VALUE_PERSISTENT &&
        graph->persistents.items[value->binding].is_updated_everywhere)
      return true;
  }
  return false;
}

/* Returns true if the node changes each element of a sum by itself, using only attributes and
 * numbers: clipping by value or by norm, or the negation of an optimizer that maximizes. */
static bool changes_elements(const followers *state, const tdm_ir_node *node) {
  if (node->role != TDM_ROLE_GRADIENT || !node->operation->elementwise) return false;
  for (uint32_t k = 1; k < node->input_count; k++) {
    const tdm_ir_value *value = tdm_ir_value_at(state->sums->graph, node->inputs[k]);
    if (node->inputs[k] && tdm_shape_count(&value->spec->shape) != 1) return false;
  }
  return sum_of(state, node->inputs[0]) != 0;
}

/* Returns true if an update of one sum at home reads nothing except the sum, its own persistent
 * values, and numbers. The result of an update is not copied to other devices. */
static bool is_alone(const followers *state, const tdm_ir_node *update, uint32_t sum) {
  const tdm_graph *graph = state->sums->graph;
  if (update->device != state->sums->items[sum - 1].node->device) return false;
  for (uint32_t k = 0; k < update->input_count; k++) {
    const tdm_ir_value *value = tdm_ir_value_at(graph, update->inputs[k]);
    const tdm_ir_node *producer = tdm_producer(graph, update->inputs[k]);
    const uint32_t of = sum_of(state, update->inputs[k]);
    if (!update->inputs[k] || (of && of == sum)) continue;
    if (of || value->device != update->device) return false;
    if (producer && producer->role == TDM_ROLE_UPDATE) return false;
    if (value->kind != TDM_VALUE_PERSISTENT && tdm_shape_count(&value->spec->shape) != 1)
      return false;
  }
  return true;
}

static uint32_t sum_read_by(const followers *state, const tdm_ir_node *node) {
  for (uint32_t k = 0; k < node->input_count; k++)
    if (sum_of(state, node->inputs[k])) return sum_of(state, node->inputs[k]);
  return 0;
}

static bool executes_alike(const tdm_device *a, const tdm_device *b) {
  return strcmp(a->ops->kind, b->ops->kind) == 0;
}

/* Returns true if the sum's devices, including the home, are of one kind, on any ranks. */
static bool is_of_one_kind(const tdm_graph *graph, const tdm_sum *sum) {
  const tdm_device *home = tdm_context_device(graph->context, (size_t)sum->node->device);
  bool home_shares = false;
  for (uint32_t i = 0; i < sum->count; i++) {
    const tdm_device *device = tdm_context_device(graph->context, (size_t)sum->devices[i]);
    home_shares |= device == home;
    if (!executes_alike(home, device)) return false;
  }
  return home_shares;
}

#define SEVERAL UINT32_MAX

/* Returns the element of a list, with one number per persistent value, of the value or of the value
 * that it views; NULL if it views other memory. */
static uint32_t *of_persistent(const tdm_graph *graph, uint32_t value, uint32_t *numbers) {
  const tdm_ir_value *root = tdm_ir_value_at(graph, tdm_ir_value_at(graph, value)->root);
  return root->kind == TDM_VALUE_PERSISTENT ? &numbers[root->binding] : NULL;
}

/* Keeps updates at home that write values of updates without a sum or with several. There a copy
 * would not follow, or would be updated in a different order. Other updates of such values stay at
 * home too, such as those of a parameter that two nodes update. */
static tdm_status keep_at_home(const followers *state) {
  const tdm_sums *sums = state->sums;
  const tdm_graph *graph = sums->graph;
  const size_t bytes = (graph->persistents.count + 1) * sizeof(uint32_t);
  uint32_t *writers = tdm_region_take(sums->region, bytes, "collectives"); /* sums, as in sum_of */
  if (!writers) return TDM_OUT_OF_MEMORY;
  TDM_EACH_NODE_FROM(sums->updates, node) {
    const uint32_t sum = sum_read_by(state, node);
    for (uint32_t k = 0; k < node->output_count; k++) {
      uint32_t *writer = of_persistent(graph, node->first_output + k, writers);
      if (writer) *writer = sum && (!*writer || *writer == sum) ? sum : SEVERAL;
    }
  }
  TDM_EACH_NODE_FROM(sums->updates, node) {
    const uint32_t sum = sum_read_by(state, node);
    for (uint32_t k = 0; k < node->input_count && sum; k++) {
      const uint32_t *writer = of_persistent(graph, node->inputs[k], writers);
      if (writer && *writer && *writer != sum) sums->items[sum - 1].can_own = false;
    }
  }
  return TDM_OK;
}

tdm_status tdm_find_own_updates(const tdm_sums *sums) {
  followers state;
  TDM_TRY(init(&state, sums));
  for (size_t i = 0; i < sums->count; i++) {
    tdm_sum *sum = &sums->items[i];
    sum->can_own = (sum->can_go_around || sum->can_all_reduce) && is_of_one_kind(sums->graph, sum);
  }
  TDM_EACH_NODE(sums->graph, node) {
    const uint32_t sum = sum_read_by(&state, node);
    if (!sum) continue;
    if (changes_elements(&state, node)) state.sum_of[node->first_output] = sum;
    if (node->role != TDM_ROLE_UPDATE) continue;
    state.updates[sum - 1]++;
    sums->items[sum - 1].everywhere |= is_for_everywhere(sums->graph, node);
    if (!is_alone(&state, node, sum)) sums->items[sum - 1].can_own = false;
  }
  for (size_t i = 0; i < sums->count; i++)
    sums->items[i].can_own &= state.updates[i] > 0;
  return keep_at_home(&state);
}

/* Clones the node on another device, right before `before`. It reads the replacements of its
 * operands there. */
static tdm_status clone_on(followers *state, const tdm_ir_node *node, int16_t device,
                           tdm_ir_node *before) {
  tdm_graph *graph = state->sums->graph;
  uint32_t inputs[TDM_KERNEL_MAX_INPUTS];
  tdm_spec specs[TDM_KERNEL_MAX_OUTPUTS];
  for (uint32_t k = 0; k < node->input_count; k++) {
    const bool follows = sum_of(state, node->inputs[k]) != 0;
    inputs[k] = follows ? state->there[node->inputs[k]] : node->inputs[k];
  }
  for (uint32_t k = 0; k < node->output_count; k++)
    specs[k] = *tdm_ir_value_at(graph, node->first_output + k)->spec;
  tdm_ir_node like = *node;
  like.device = device;
  const tdm_ir_node *clone = tdm_insert_as(graph, before, &like, inputs, specs);
  if (!clone) return TDM_OUT_OF_MEMORY;
  state->there[node->first_output] = clone->first_output;
  return TDM_OK;
}

/* Inserts all updates on device i of each sum, unless that is its home. */
static tdm_status insert_updates_of(followers *state, uint32_t i, const tdm_ir_node *last) {
  TDM_EACH_NODE(state->sums->graph, node) {
    const uint32_t number = sum_read_by(state, node);
    const tdm_sum *sum = number ? &state->sums->items[number - 1] : NULL;
    const bool updates = node->role == TDM_ROLE_UPDATE;
    if (sum && sum->own && i < sum->count && sum->devices[i] != sum->node->device &&
        (updates || changes_elements(state, node))) {
      state->there[sum->value] = sum->totals[i];
      if (!updates) state->sum_of[node->first_output] = number;
      TDM_TRY(clone_on(state, node, sum->devices[i], updates ? NULL : state->sums->updates));
    }
    if (node == last) break;
  }
  return TDM_OK;
}

tdm_status tdm_insert_own_updates(const tdm_sums *sums) {
  uint32_t most = 0;
  for (size_t i = 0; i < sums->count; i++)
    if (sums->items[i].own && sums->items[i].count > most) most = sums->items[i].count;
  if (most == 0) return TDM_OK;
  followers state;
  TDM_TRY(init(&state, sums));
  const tdm_ir_node *last = sums->graph->order.last;
  for (uint32_t i = 0; i < most; i++)
    TDM_TRY(insert_updates_of(&state, i, last));
  return TDM_OK;
}
