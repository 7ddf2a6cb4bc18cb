/* Inputs in a job of several ranks. All ranks are fed the same values, and the graph's input is
 * that of rank 0. A node of another rank that reads the input, or a view or part of it, reads its
 * own rank's input instead. Invariant: only kernels of a rank read that rank's inputs. */
#include <string.h>

#include "devices/kernels/moves/shape.h"
#include "graph/ir/rewriter.h"
#include "graph/passes/passes.h"

typedef struct own_state {
  tdm_graph *graph;
  tdm_prepared_cache *cache;
  size_t value_count; /* number of values before the pass */
  size_t rank_count;
  uint32_t *own; /* (value_count, rank_count): the replacement of a value on a rank; 0: not known */
} own_state;

static tdm_status own_input(own_state *state, uint32_t value, const tdm_device *device,
                            uint32_t *out_own) {
  tdm_graph *graph = state->graph;
  tdm_ir_value copy = *tdm_ir_value_at(graph, value);
  copy.device = (int16_t)device->context_index;
  copy.readers = 0;
  TDM_TRY(TDM_ARRAY_RESERVE(graph, &graph->inputs, 1));
  *out_own = tdm_ir_add_value(graph, &copy);
  if (!*out_own) return TDM_OUT_OF_MEMORY;
  tdm_ir_value_at(graph, *out_own)->bytes = copy.bytes;
  graph->inputs.items[graph->inputs.count++] = *out_own;
  return TDM_OK;
}

/* Returns true for a view, or for a copy of parts. Parallel regions split inputs by copies if rows
 * are not the first dimension. */
static bool shows_input(const tdm_ir_node *node) {
  return node && node->operation && node->input_count == 1 &&
         (node->operation->is_view || strcmp(node->operation->name, TDM_OP_SPLIT) == 0);
}

/* Writes the replacement of an input, or of a view or part of one, on a rank; 0: the value is none
 * of these. */
static tdm_status own_value(own_state *state, uint32_t value, int rank, tdm_ir_node *before,
                            uint32_t *out_own) {
  tdm_graph *graph = state->graph;
  *out_own = 0;
  if (value >= state->value_count) return TDM_OK;
  uint32_t *own = &state->own[value * state->rank_count + (size_t)rank];
  const tdm_ir_value *is = tdm_ir_value_at(graph, value);
  const tdm_device *device = tdm_context_counterpart(
      graph->context, tdm_context_device(graph->context, (size_t)is->device), rank);
  if (*own == 0 && device && is->kind == TDM_VALUE_INPUT)
    TDM_TRY(own_input(state, value, device, own));
  const tdm_ir_node *view = tdm_producer(graph, value);
  if (*own == 0 && device && shows_input(view)) {
    uint32_t source;
    TDM_TRY(own_value(state, view->inputs[0], rank, before, &source));
    if (source) {
      tdm_ir_node like = *view;
      like.device = (int16_t)device->context_index;
      tdm_ir_node *made;
      TDM_TRY(tdm_insert_like(graph, before, &like, &source, &made));
      if (made->prepared)
        TDM_TRY(tdm_prepare_node(graph, state->cache, made, made->prepared->kernel));
      *own = made->first_output + (value - view->first_output);
    }
  }
  *out_own = *own;
  return TDM_OK;
}

static tdm_status read_own(own_state *state) {
  tdm_graph *graph = state->graph;
  TDM_EACH_NODE(graph, node) {
    const int rank = tdm_rank_of(graph, node->device);
    for (uint32_t k = 0; k < node->input_count; k++) {
      const uint32_t input = node->inputs[k];
      if (!input || tdm_rank_of(graph, tdm_ir_value_at(graph, input)->device) == rank) continue;
      uint32_t own;
      TDM_TRY(own_value(state, input, rank, node, &own));
      if (own) tdm_set_input(graph, node, k, own);
    }
  }
  return TDM_OK;
}

tdm_status tdm_pass_own_feeds(tdm_graph *graph, tdm_prepared_cache *cache) {
  own_state state = {.graph = graph,
                     .cache = cache,
                     .value_count = graph->values.count,
                     .rank_count = (size_t)tdm_context_rank_count(graph->context)};
  if (state.rank_count == 1) return TDM_OK;
  const size_t bytes = state.value_count * state.rank_count * sizeof *state.own;
  state.own = tdm_allocate(graph->allocator, bytes, "inputs of ranks");
  if (!state.own) return TDM_OUT_OF_MEMORY;
  const tdm_status status = read_own(&state);
  tdm_release(graph->allocator, state.own, bytes);
  return status;
}
