/* Concatenation without a copy. If parts are contiguous in the whole, the producer of a part, or
 * its last transfer, writes it directly into the whole, and no kernel concatenates. Invariant: a
 * joined part is the whole memory of its value and of no other part. */
#include "graph/passes/parts.h"
#include "graph/passes/passes.h"

typedef struct join_state {
  tdm_graph *graph;
  uint32_t *wholes;     /* per value: the concatenation that contains it; 0: none */
  bool *delivered;      /* per value: its memory is delivered */
  uint32_t *last_read;  /* per memory: 1 + index in order of its last reader */
  uint32_t *last_write; /* the same for its last writer; 0: none */
} join_state;

static bool is_dense(const tdm_ir_value *value) {
  return value->spec->format == TDM_FORMAT_DENSE && value->bytes > 0;
}

/* Returns true if the parts are contiguous in the whole. */
static bool parts_follow(const tdm_shape *whole, int64_t dimension) {
  for (int64_t d = 0; d < dimension; d++)
    if (whole->dims[d] != 1) return false;
  return true;
}

/* Returns true if the memory of the value is needed after the node at index in order. Sums
 * overwrite memory that only they read: a part after its concatenation, or the whole, which then no
 * longer contains the part. */
static bool is_needed_behind(const join_state *state, uint32_t value, uint32_t whole, size_t at) {
  const uint32_t root = tdm_ir_value_at(state->graph, value)->root;
  if (state->last_write[root] > at + 1) return true;
  if (!state->last_write[whole]) return false;
  const uint32_t producer = tdm_ir_value_at(state->graph, root)->producer;
  return state->last_read[root] > at + 1 || tdm_ir_node_at(state->graph, producer)->joined;
}

/* Returns true if the value may be produced directly in another value's memory. */
static bool may_move(const join_state *state, uint32_t value, int16_t device) {
  const tdm_ir_value *part = tdm_ir_value_at(state->graph, value);
  const tdm_ir_value *root = tdm_ir_value_at(state->graph, part->root);
  return root->kind == TDM_VALUE_NODE && root->producer && root->device == device &&
         is_dense(part) && is_dense(root) && part->bytes == root->bytes &&
         !state->wholes[part->root] && !state->delivered[part->root];
}

static void join(join_state *state, tdm_ir_node *node, size_t at) {
  const tdm_graph *graph = state->graph;
  if (node->operation != &tdm_operation_concat) return;
  const tdm_parts_attributes *attributes = node->attributes;
  const tdm_ir_value *whole = tdm_ir_value_at(graph, node->first_output);
  if (!is_dense(whole) || !parts_follow(&whole->spec->shape, attributes->dimension)) return;
  const uint32_t *inputs = node->inputs;
  uint32_t taken = 0;
  while (taken < node->input_count && may_move(state, inputs[taken], node->device) &&
         !is_needed_behind(state, inputs[taken], node->first_output, at))
    state->wholes[tdm_ir_value_at(graph, inputs[taken++])->root] = node->first_output;
  node->joined = taken == node->input_count;
  while (!node->joined && taken > 0)
    state->wholes[tdm_ir_value_at(graph, inputs[--taken])->root] = 0;
}

static void note_uses(join_state *state) {
  const tdm_graph *graph = state->graph;
  uint32_t place = 0;
  TDM_EACH_NODE(graph, node) {
    place++;
    for (uint32_t k = 0; k < node->input_count; k++)
      state->last_read[tdm_ir_value_at(graph, node->inputs[k])->root] = place;
    if (!node->operation || node->operation->is_view) continue;
    for (uint32_t k = 0; k < node->output_count; k++)
      if (node->operation->overwrites[k])
        state->last_write[tdm_ir_value_at(graph, node->first_output + k)->root] = place;
  }
}

/* Sets the offset of each part in its concatenation. */
static void settle_parts(const join_state *state, const tdm_ir_node *node, uint64_t *offsets) {
  const uint32_t *inputs = node->inputs;
  uint64_t offset = 0;
  for (uint32_t k = 0; k < node->input_count && node->joined; k++) {
    offsets[tdm_ir_value_at(state->graph, inputs[k])->root] = offset;
    offset += tdm_ir_value_at(state->graph, inputs[k])->bytes;
  }
}

/* Places a value; a concatenation may itself be part of another one. */
static void settle_value(const join_state *state, uint32_t value, const uint64_t *offsets) {
  tdm_ir_value *moved = tdm_ir_value_at(state->graph, value);
  while (state->wholes[moved->root]) {
    moved->offset += offsets[moved->root];
    moved->root = state->wholes[moved->root];
  }
}

static void join_all(join_state *state, uint64_t *offsets) {
  const tdm_graph *graph = state->graph;
  for (size_t i = 0; i < graph->planned->deliveries.count; i++)
    state->delivered[tdm_ir_value_at(graph, graph->planned->deliveries.items[i].value)->root] =
        true;
  note_uses(state);
  size_t place = 0;
  TDM_EACH_NODE(graph, node)
    join(state, node, place++);
  TDM_EACH_NODE(graph, node)
    settle_parts(state, node, offsets);
  for (uint32_t v = 1; v < graph->values.count; v++)
    settle_value(state, v, offsets);
}

static bool has_concat(const tdm_graph *graph) {
  TDM_EACH_NODE(graph, node)
    if (node->operation == &tdm_operation_concat) return true;
  return false;
}

tdm_status tdm_pass_concat_in_place(tdm_graph *graph) {
  if (!has_concat(graph)) return TDM_OK;
  join_state state = {.graph = graph};
  const size_t n = graph->values.count;
  tdm_region scratch;
  tdm_region_init(&scratch, graph->allocator);
  state.wholes = tdm_region_take(&scratch, n * sizeof *state.wholes, "parts");
  state.delivered = tdm_region_take(&scratch, n * sizeof *state.delivered, "parts");
  state.last_read = tdm_region_take(&scratch, n * sizeof *state.last_read, "parts");
  state.last_write = tdm_region_take(&scratch, n * sizeof *state.last_write, "parts");
  uint64_t *offsets = tdm_region_take(&scratch, n * sizeof *offsets, "parts");
  const bool taken =
      state.wholes && state.delivered && state.last_read && state.last_write && offsets;
  if (taken) join_all(&state, offsets);
  tdm_region_deinit(&scratch);
  return taken ? TDM_OK : TDM_OUT_OF_MEMORY;
}
