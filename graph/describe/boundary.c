/* Finds the nodes between boundary values: those that outputs depend on, without those that inputs
 * depend on. Invariant: an accepted set is convex, so a pass can execute it as a unit. No path
 * leaves the set and enters it again, because a value on such a path would have to be a named
 * input. */
#include "core/allocate.h"
#include "graph/describe/gradient_of.h"
#include "graph/describe/parallel_region.h"
#include "graph/ir/rewriter.h"

/* Marks of a node. The first two propagate from results to operands, the third from operands to
 * results. */
enum { MADE_OF = 1, NEEDED = 2, BEHIND = 4 };

typedef struct between {
  const tdm_graph *graph;
  const tdm_boundary *boundary;
  uint8_t *marks; /* per node: an input depends on it, an output depends on it, it depends on an
                   * input */
  bool *members;
} between;

static bool is_named(const tdm_value *values, size_t count, uint32_t value) {
  for (size_t i = 0; i < count; i++)
    if (values[i].index == value) return true;
  return false;
}

static bool is_input(const between *state, uint32_t value) {
  return is_named(state->boundary->inputs, state->boundary->input_count, value);
}

static uint32_t producer_of(const between *state, uint32_t value) {
  return tdm_ir_value_at(state->graph, value)->producer;
}

static tdm_status check_values(const between *state, const char *side, const tdm_value *values,
                               size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!tdm_ir_owns(state->graph, values[i]))
      return tdm_fail(TDM_INVALID_ARGUMENT, "%s %zu is no value of the graph", side, i);
  return TDM_OK;
}

/* ---- Marks ----------------------------------------------------------------------------------- */

static void mark_producers(between *state, const tdm_value *values, size_t count, uint8_t mark) {
  const tdm_graph *graph = state->graph;
  for (size_t i = 0; i < count; i++)
    state->marks[producer_of(state, values[i].index)] |= mark;
  TDM_EACH_NODE_BACKWARD(graph, node) {
    if (!(state->marks[node->index] & mark)) continue;
    for (uint32_t k = 0; k < node->input_count; k++)
      state->marks[producer_of(state, node->inputs[k])] |= mark;
  }
  state->marks[0] = 0; /* index 0 represents values without a producer */
}

static void mark_behind_inputs(between *state) {
  const tdm_graph *graph = state->graph;
  TDM_EACH_NODE(graph, node) {
    const uint32_t index = node->index;
    for (uint32_t k = 0; k < node->input_count; k++) {
      const uint32_t input = node->inputs[k];
      if (is_input(state, input) || (state->marks[producer_of(state, input)] & BEHIND))
        state->marks[index] |= BEHIND;
    }
  }
}

/* ---- What crosses the boundary --------------------------------------------------------------- */

/* Returns true if the value depends on one named input and another named input depends on it. */
static bool lies_between_inputs(const between *state, uint32_t value) {
  const uint8_t marks = state->marks[producer_of(state, value)];
  return (marks & MADE_OF) && (marks & BEHIND) && !is_input(state, value);
}

static tdm_status check_output(const between *state, uint32_t value) {
  const uint32_t producer = producer_of(state, value);
  const char *name = tdm_value_name(state->graph, value);
  if (!producer)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s is named as leaving it, and no node makes it", name);
  if (state->members[producer]) return TDM_OK;
  if (lies_between_inputs(state, value))
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "its nodes are not convex: %s, which leaves it, is needed for a value that "
                    "enters it",
                    name);
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s is named as leaving it, and lies before it", name);
}

static tdm_status check_entering(const between *state, const tdm_ir_node *node, uint32_t value) {
  const tdm_graph *graph = state->graph;
  if (!value || state->members[producer_of(state, value)] || is_input(state, value)) return TDM_OK;
  if (tdm_ir_value_at(graph, value)->kind == TDM_VALUE_PERSISTENT) return TDM_OK;
  const char *name = tdm_value_name(graph, value);
  if (lies_between_inputs(state, value))
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "its nodes are not convex: %s lies behind one value that enters it, is needed "
                    "for another, and %s reads it",
                    name, node->name);
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s reads %s, which enters it and is not named", node->name,
                  name);
}

static tdm_status check_leaving(const between *state, const char *reader, uint32_t value) {
  const tdm_boundary *boundary = state->boundary;
  if (!state->members[producer_of(state, value)]) return TDM_OK;
  if (is_named(boundary->outputs, boundary->output_count, value)) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s reads %s, which leaves it and is not named", reader,
                  tdm_value_name(state->graph, value));
}

static tdm_status check_nodes(const between *state) {
  const tdm_graph *graph = state->graph;
  TDM_EACH_NODE(graph, node) {
    const uint32_t index = node->index;
    for (uint32_t k = 0; k < node->input_count; k++) {
      const uint32_t value = node->inputs[k];
      if (state->members[index])
        TDM_TRY(check_entering(state, node, value));
      else if (!tdm_asks_gradient(node) || k == TDM_GRADIENT_LOSS)
        TDM_TRY(check_leaving(state, node->name, value));
    }
  }
  for (size_t i = 0; i < graph->described->outputs.count; i++)
    TDM_TRY(
        check_leaving(state, "an output of the graph", graph->described->outputs.items[i].value));
  return TDM_OK;
}

static tdm_status check_inputs(const between *state) {
  const tdm_graph *graph = state->graph;
  const tdm_boundary *boundary = state->boundary;
  for (size_t i = 0; i < boundary->input_count; i++) {
    const uint32_t value = boundary->inputs[i].index;
    bool read = false;
    TDM_EACH_NODE(graph, node) {
      for (uint32_t k = 0; k < node->input_count && state->members[node->index]; k++)
        read |= node->inputs[k] == value;
    }
    if (!read)
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "%s is named as entering it, and nothing in it reads it",
                      tdm_value_name(graph, value));
  }
  return TDM_OK;
}

static tdm_status find_members(between *state) {
  const tdm_boundary *boundary = state->boundary;
  mark_producers(state, boundary->inputs, boundary->input_count, MADE_OF);
  mark_producers(state, boundary->outputs, boundary->output_count, NEEDED);
  mark_behind_inputs(state);
  for (size_t i = 1; i < state->graph->nodes.count; i++)
    state->members[i] = (state->marks[i] & NEEDED) && !(state->marks[i] & MADE_OF) &&
                        !tdm_asks_gradient(tdm_ir_node_at(state->graph, i));
  for (size_t i = 0; i < boundary->output_count; i++)
    TDM_TRY(check_output(state, boundary->outputs[i].index));
  TDM_TRY(check_nodes(state));
  return check_inputs(state);
}

tdm_status tdm_boundary_mark(const tdm_graph *graph, const tdm_boundary *boundary, bool *members) {
  between state = {.graph = graph, .boundary = boundary, .members = members};
  TDM_TRY(check_values(&state, "input", boundary->inputs, boundary->input_count));
  TDM_TRY(check_values(&state, "output", boundary->outputs, boundary->output_count));
  if (boundary->output_count == 0) return tdm_fail(TDM_INVALID_ARGUMENT, "no output is named");
  state.marks = tdm_allocate(graph->allocator, graph->nodes.count, "parallel region");
  if (!state.marks) return TDM_OUT_OF_MEMORY;
  const tdm_status status = find_members(&state);
  tdm_release(graph->allocator, state.marks, graph->nodes.count);
  return status;
}
