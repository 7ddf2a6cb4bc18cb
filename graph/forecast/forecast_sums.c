/* Which sums of gradients a ring or tree can stand for: those of dense gradients that lie on
 * devices of their own and go straight into an update. Invariant: what is marked as passed over are
 * their transfers, their additions, and the refreshes of the parameter's copies on these devices.
 */
#include <math.h>
#include <string.h>

#include "graph/forecast/forecast.h"

#define NONE UINT32_MAX

typedef struct finder {
  tdm_forecasting *state;
  const tdm_graph *graph;
  uint32_t *step_of; /* per node: its step, NONE: none */
  bool *leaves;      /* per value: it is read on another device than its own */
  uint32_t *marked;  /* steps that the sum at hand stands for */
  size_t marked_count;
} finder;

/* The node that writes a value; of a view, of what it is a view of. */
static const tdm_ir_node *producer_of(const finder *find, uint32_t value) {
  for (;;) {
    const uint32_t producer = tdm_ir_value_at(find->graph, value)->producer;
    if (!producer) return NULL;
    const tdm_ir_node *node = tdm_ir_node_at(find->graph, producer);
    if (!node->operation || !node->operation->is_view) return node;
    value = node->inputs[0];
  }
}

static uint32_t step_of(const finder *find, const tdm_ir_node *node) {
  return node ? find->step_of[node->index] : NONE;
}

static uint32_t step_that_makes(const finder *find, uint32_t value) {
  return step_of(find, producer_of(find, value));
}

/* total, term -> total: a sum over devices, made at home, is one of these after the other. */
static bool is_sum(const tdm_ir_node *node) {
  return node && node->collective == TDM_COLLECTIVE_HOME;
}

static bool add_part(const finder *find, tdm_forecast_sum *sum, uint32_t value) {
  const uint32_t ready = step_that_makes(find, value);
  const int16_t device = tdm_ir_value_at(find->graph, value)->device;
  if (ready == NONE || sum->count == TDM_MACHINE_MOST_DEVICES) return false;
  for (uint32_t i = 0; i < sum->count; i++)
    if (sum->devices[i] == device) return false; /* two replicas of one device */
  sum->devices[sum->count] = device;
  sum->ready[sum->count++] = ready;
  if (ready > sum->last_step) sum->last_step = ready;
  return true;
}

static void mark(finder *find, const tdm_ir_node *node) {
  find->marked[find->marked_count++] = step_of(find, node);
}

/* A term of the sum: where its gradient lies before it travels. */
static bool take_term(finder *find, tdm_forecast_sum *sum, uint32_t value) {
  const tdm_ir_node *maker = producer_of(find, value);
  if (!maker || maker->role != TDM_ROLE_TRANSFER) return add_part(find, sum, value);
  if (maker->hop > 0) return false;
  mark(find, maker);
  return add_part(find, sum, maker->inputs[0]);
}

/* Goes from the sum's last addition to its first term. False: no ring or tree can stand for it. */
static bool take_in(finder *find, tdm_forecast_sum *sum, const tdm_ir_node *node) {
  for (;;) {
    const uint32_t *inputs = node->inputs;
    const tdm_ir_node *before = producer_of(find, inputs[0]);
    mark(find, node);
    sum->add_ns += find->state->kernel_ns[step_of(find, node)];
    if (!take_term(find, sum, inputs[1])) return false;
    if (is_sum(before)) {
      node = before;
      continue;
    }
    if (!before || before->operation != &tdm_operation_begin_sum)
      return take_term(find, sum, inputs[0]);
    mark(find, before);
    return take_term(find, sum, before->inputs[0]);
  }
}

static bool is_among(const tdm_forecast_sum *sum, int16_t device) {
  for (uint32_t i = 0; i < sum->count; i++)
    if (sum->devices[i] == device) return true;
  return false;
}

/* The home first, so that a tree has it at its root; then by number: a ring goes from neighbour to
 * neighbour, as devices are listed. */
static void put_in_order(tdm_forecast_sum *sum, int16_t home) {
  for (uint32_t i = 1; i < sum->count; i++)
    for (uint32_t k = i; k > 0; k--) {
      const int16_t right = sum->devices[k];
      if (right != home && (sum->devices[k - 1] == home || sum->devices[k - 1] < right)) break;
      const size_t ready = sum->ready[k];
      sum->devices[k] = sum->devices[k - 1];
      sum->ready[k] = sum->ready[k - 1];
      sum->devices[k - 1] = right;
      sum->ready[k - 1] = ready;
    }
}

/* Marks the refreshes of the parameter on the sum's devices; answers how many copies it has. */
static uint32_t mark_refreshes(finder *find, uint32_t parameter, const tdm_forecast_sum *sum) {
  const tdm_graph *graph = find->graph;
  uint32_t copies = 0;
  for (size_t d = 0; d < graph->deriveds.count; d++) {
    const tdm_graph_derived *derived = &graph->deriveds.items[d];
    if (derived->source != parameter) continue;
    copies++;
    const tdm_ir_value *copy = tdm_ir_value_at(graph, derived->value);
    if (sum && is_among(sum, copy->device))
      find->state->passed_over[find->step_of[copy->producer]] = true;
  }
  return copies;
}

/* The addition whose result the update reads, as it is or scaled (by clipping); NULL: none, or it
 * is read on other devices too. */
static const tdm_ir_node *sum_of(const finder *find, const tdm_ir_node *update) {
  for (uint32_t k = 0; k < update->input_count; k++) {
    uint32_t value = update->inputs[k];
    const tdm_ir_node *maker = value ? producer_of(find, value) : NULL;
    if (maker && maker->operation && strcmp(maker->operation->name, TDM_OP_SCALE) == 0) {
      value = maker->inputs[0];
      maker = producer_of(find, value);
    }
    if (is_sum(maker) && !find->leaves[value]) return maker;
  }
  return NULL;
}

/* All sums are over the same devices in the same order; first NULL: there is none yet. */
static bool is_over_the_same(const tdm_forecast_sum *sum, const tdm_forecast_sum *first) {
  if (!first) return true;
  return sum->count == first->count &&
         memcmp(sum->devices, first->devices, sum->count * sizeof *sum->devices) == 0;
}

static bool find_sum(finder *find, const tdm_ir_node *update, const tdm_forecast_sum *first,
                     tdm_forecast_sum *sum) {
  const tdm_ir_node *addition = sum_of(find, update);
  find->marked_count = 0;
  if (!addition || !take_in(find, sum, addition) || sum->count < 2) return false;
  if (!is_among(sum, update->device)) return false;
  put_in_order(sum, update->device);
  if (!is_over_the_same(sum, first)) return false;
  sum->sum_step = step_of(find, addition);
  sum->update_step = step_of(find, update);
  sum->bytes = (double)tdm_ir_value_at(find->graph, addition->first_output)->bytes;
  sum->add_ns /= sum->count - 1;
  for (size_t i = 0; i < find->marked_count; i++)
    find->state->passed_over[find->marked[i]] = true;
  return true;
}

/* The parameter that an update writes. */
static uint32_t parameter_of(const finder *find, const tdm_ir_node *update) {
  return tdm_ir_value_at(find->graph, update->first_output)->root;
}

static tdm_status prepare(finder *find) {
  const tdm_graph *graph = find->graph;
  tdm_region *region = &find->state->region;
  const tdm_lowered *lowered = &find->state->plan->lowered;
  find->step_of = tdm_region_take(region, graph->nodes.count * sizeof(uint32_t), "forecast");
  find->leaves = tdm_region_take(region, graph->values.count * sizeof(bool), "forecast");
  find->marked = tdm_region_take(region, (lowered->schedule.step_count * 2 + 1) * sizeof(uint32_t),
                                 "forecast");
  if (!find->step_of || !find->leaves || !find->marked) return TDM_OUT_OF_MEMORY;
  memset(find->step_of, 0xff, graph->nodes.count * sizeof(uint32_t));
  for (size_t i = 0; i < lowered->schedule.step_count; i++)
    find->step_of[lowered->sources[i].node] = (uint32_t)i;
  TDM_EACH_NODE(graph, node) {
    for (uint32_t k = 0; k < node->input_count; k++) {
      const uint32_t value = node->inputs[k];
      find->leaves[value] |= tdm_ir_value_at(graph, value)->device != node->device;
    }
  }
  return TDM_OK;
}

/* Steps of the main phase that the sums flow into: every device that has the sums does them. */
static void find_followers(const finder *find, const tdm_forecast_sum *sums, size_t count) {
  tdm_forecasting *state = find->state;
  for (size_t i = 0; i < count; i++)
    state->follows[sums[i].sum_step] = true; /* for now, to flow on from */
  for (size_t step = 0; step < state->plan->lowered.schedule.step_count; step++) {
    const tdm_ir_node *node = tdm_ir_node_at(find->graph, state->plan->lowered.sources[step].node);
    if (node->role != TDM_ROLE_GRADIENT || !node->operation) continue;
    for (uint32_t k = 0; k < node->input_count; k++) {
      const uint32_t value = node->inputs[k];
      const uint32_t maker = value ? step_that_makes(find, value) : NONE;
      if (maker != NONE && state->follows[maker]) state->follows[step] = true;
    }
  }
  for (size_t i = 0; i < count; i++)
    state->follows[sums[i].sum_step] = false;
}

tdm_status tdm_forecast_find_sums(tdm_forecasting *state, tdm_forecast_sum **out_sums,
                                  size_t *out_count) {
  *out_sums = NULL;
  *out_count = 0;
  const tdm_graph *graph = &state->plan->graph;
  finder find = {.state = state, .graph = graph};
  TDM_TRY(prepare(&find));
  tdm_forecast_sum *sums =
      tdm_region_take(&state->region, (graph->persistents.count + 1) * sizeof *sums, "forecast");
  if (!sums) return TDM_OUT_OF_MEMORY;
  TDM_EACH_NODE(graph, update) {
    if (update->role != TDM_ROLE_UPDATE || *out_count == graph->persistents.count) continue;
    tdm_forecast_sum *sum = &sums[*out_count];
    memset(sum, 0, sizeof *sum);
    const bool found = find_sum(&find, update, *out_count ? sums : NULL, sum);
    const uint32_t copies = mark_refreshes(&find, parameter_of(&find, update), found ? sum : NULL);
    *out_count += found;
    state->replaced_sums += found;
    state->kept_sums += !found && copies > 0;
  }
  find_followers(&find, sums, *out_count);
  *out_sums = sums;
  return TDM_OK;
}
