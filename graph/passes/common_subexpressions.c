/* Merges common subexpressions: the first of several nodes that compute the same replaces the
 * others, for example two look-ups of one table by one input, or two casts of one value. The pass
 * comes after gradient, so that sums of adjoints keep their terms and their order; the bits of
 * results do not change.
 * Invariant: a value that is delivered or overwritten is never merged, nor are nodes with effects,
 * updates and refreshes. Merged nodes have the same device, role, replica and micro-batch. */
#include <string.h>

#include "core/hash.h"
#include "core/table.h"
#include "graph/ir/rewriter.h"
#include "graph/passes/passes.h"

typedef struct common_state {
  tdm_graph *graph;
  bool *apart;      /* per value: delivered, or its memory is overwritten */
  uint32_t *by;     /* per value: its replacement; 0: itself */
  tdm_table firsts; /* the first node of each kind */
  tdm_common_savings *savings;
} common_state;

/* The field does not exist in programs built with an older header. Their operations are executed
 * each time, as before. */
static bool has_effects(const tdm_operation *operation) {
  return !TDM_OPERATION_HAS(operation, has_effects) || operation->has_effects;
}

static bool may_merge(const common_state *state, const tdm_ir_node *node) {
  const tdm_operation *operation = node->operation;
  if (node->role != TDM_ROLE_FORWARD && node->role != TDM_ROLE_GRADIENT) return false;
  if (!operation || operation == &tdm_operation_observe || node->condition ||
      has_effects(operation))
    return false;
  for (uint32_t k = 0; k < node->output_count; k++) {
    const uint32_t output = node->first_output + k;
    if (operation->overwrites[k] || state->apart[output] ||
        state->apart[tdm_ir_value_at(state->graph, output)->root])
      return false;
  }
  return true;
}

static uint64_t hash_of(const tdm_ir_node *node) {
  uint64_t hash = tdm_hash_mix((uint64_t)(uintptr_t)node->operation,
                               (uint64_t)(uint16_t)node->device << 32 | node->part.micro);
  hash = tdm_hash_bytes(node->attributes, node->operation->attribute_bytes, hash);
  for (uint32_t k = 0; k < node->input_count; k++)
    hash = tdm_hash_mix(hash, node->inputs[k]);
  return hash;
}

/* Returns true if outputs have equal dtypes and shapes. For nodes without inputs nothing else
 * determines the shape. */
static bool same_outputs(const tdm_graph *graph, const tdm_ir_node *a, const tdm_ir_node *b) {
  for (uint32_t k = 0; k < a->output_count; k++) {
    const tdm_spec *one = tdm_ir_value_at(graph, a->first_output + k)->spec;
    const tdm_spec *other = tdm_ir_value_at(graph, b->first_output + k)->spec;
    if (one->dtype != other->dtype || !tdm_shape_equal(&one->shape, &other->shape)) return false;
  }
  return true;
}

typedef struct alike {
  const tdm_graph *graph;
  const tdm_ir_node *node;
} alike;

static bool is_same(const void *key, const void *sought) {
  const tdm_ir_node *a = key, *b = ((const alike *)sought)->node;
  return a->operation == b->operation && a->device == b->device && a->role == b->role &&
         a->part.replica == b->part.replica && a->part.micro == b->part.micro &&
         a->update_group == b->update_group && a->part.parallel_region == b->part.parallel_region &&
         a->input_count == b->input_count && a->output_count == b->output_count &&
         memcmp(a->inputs, b->inputs, a->input_count * sizeof *a->inputs) == 0 &&
         (a->attributes == b->attributes ||
          memcmp(a->attributes, b->attributes, a->operation->attribute_bytes) == 0) &&
         same_outputs(((const alike *)sought)->graph, a, b);
}

/* Returns an earlier node that computes the same, or adds the node as the first of its kind and
 * returns NULL. */
static const tdm_ir_node *first_like(common_state *state, tdm_ir_node *node) {
  const uint64_t hash = hash_of(node);
  const alike sought = {state->graph, node};
  const tdm_ir_node *first = tdm_table_get(&state->firsts, hash, &sought, is_same);
  if (!first) tdm_table_put(&state->firsts, hash, node, node);
  return first;
}

static void merge(common_state *state, tdm_ir_node *node, const tdm_ir_node *first) {
  tdm_graph *graph = state->graph;
  for (uint32_t k = 0; k < node->output_count; k++)
    state->by[node->first_output + k] = first->first_output + k;
  if (!node->operation->is_view) {
    state->savings->nodes++;
    for (uint32_t k = 0; k < node->output_count; k++)
      state->savings->bytes += tdm_ir_value_at(graph, node->first_output + k)->bytes;
  }
  tdm_remove_node(graph, node);
}

static void read_firsts(const common_state *state, tdm_ir_node *node) {
  for (uint32_t k = 0; k < node->input_count; k++)
    if (state->by[node->inputs[k]])
      tdm_set_input(state->graph, node, k, state->by[node->inputs[k]]);
}

static void find_apart(common_state *state) {
  const tdm_graph *graph = state->graph;
  for (size_t i = 0; i < graph->planned->deliveries.count; i++) {
    const uint32_t value = graph->planned->deliveries.items[i].value;
    state->apart[value] = state->apart[tdm_ir_value_at(graph, value)->root] = true;
  }
  TDM_EACH_NODE(graph, node) {
    for (uint32_t k = 0; k < node->output_count; k++)
      if (node->operation->overwrites[k])
        state->apart[tdm_ir_value_at(graph, node->first_output + k)->root] = true;
  }
}

static void merge_all(common_state *state) {
  tdm_graph *graph = state->graph;
  TDM_EACH_NODE(graph, node) {
    read_firsts(state, node);
    if (!may_merge(state, node)) continue;
    const tdm_ir_node *first = first_like(state, node);
    if (first) merge(state, node, first);
  }
}

tdm_status tdm_pass_common_subexpressions(tdm_graph *graph, tdm_common_savings *out_savings) {
  *out_savings = (tdm_common_savings){0};
  common_state state = {.graph = graph, .savings = out_savings};
  tdm_table_init(&state.firsts, graph->allocator);
  tdm_region scratch;
  tdm_region_init(&scratch, graph->allocator);
  const size_t count = graph->values.count;
  state.apart = tdm_region_take(&scratch, count * sizeof *state.apart, "common subexpressions");
  state.by = tdm_region_take(&scratch, count * sizeof *state.by, "common subexpressions");
  const bool taken =
      state.apart && state.by &&
      tdm_table_reserve(&state.firsts, graph->order.count, "common subexpressions") == TDM_OK;
  if (taken) {
    find_apart(&state);
    merge_all(&state);
    if (out_savings->nodes > 0) tdm_replace_values(graph, state.by, count);
  }
  tdm_table_deinit(&state.firsts);
  tdm_region_deinit(&scratch);
  return taken ? TDM_OK : TDM_OUT_OF_MEMORY;
}
