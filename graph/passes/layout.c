/* Formats: prepares every node's kernel with the formats on offer, and inserts a reorder where a
 * kernel wants another than the value has. Invariant: what crosses to another device, is fed,
 * persistent or delivered is dense; at most one reorder per (value, format, device). */
#include <string.h>

#include "graph/passes/passes.h"

typedef struct reordered {
  uint32_t to;
  uint32_t next; /* of the same value: 1 + index in reorders; 0: none */
} reordered;

typedef struct layout_state {
  tdm_graph *graph;
  tdm_prepared_cache *cache;
  TDM_ARRAY(uint32_t) order;
  TDM_ARRAY(reordered) reorders;
  TDM_ARRAY(uint32_t)
  newest; /* of each value: 1 + index in reorders; ends with the last that has */
} layout_state;

static tdm_status push_order(layout_state *state, uint32_t node) {
  TDM_TRY(TDM_ARRAY_RESERVE(state->graph, &state->order, 1));
  state->order.items[state->order.count++] = node;
  return TDM_OK;
}

/* Specs of a node's operands; opaque values are offered dense to consumers elsewhere. */
static void offered_specs(const tdm_graph *graph, const tdm_ir_node *node, tdm_spec *specs) {
  const uint32_t *inputs = tdm_ir_inputs(graph, node);
  for (uint32_t k = 0; k < node->input_count; k++) {
    if (!inputs[k]) {
      memset(&specs[k], 0, sizeof specs[k]);
      continue;
    }
    const tdm_ir_value *value = tdm_ir_value_at(graph, inputs[k]);
    specs[k] = value->spec;
    if (value->device != node->device) specs[k].format = TDM_FORMAT_DENSE;
  }
  for (uint32_t k = 0; k < node->output_count; k++)
    specs[node->input_count + k] = graph->values.items[node->first_output + k].spec;
}

tdm_status tdm_prepare_node(tdm_graph *graph, tdm_prepared_cache *cache, uint32_t index) {
  tdm_ir_node *node = tdm_ir_node_at(graph, index);
  const tdm_device *device = tdm_context_device(graph->context, (size_t)node->device);
  tdm_spec specs[TDM_KERNEL_MAX_INPUTS + TDM_KERNEL_MAX_OUTPUTS];
  offered_specs(graph, node, specs);
  const tdm_prepare_key key = {.kernel = node->kernel,
                               .attributes = node->attributes,
                               .attribute_bytes = node->operation->attribute_bytes,
                               .specs = specs,
                               .input_count = node->input_count,
                               .output_count = node->output_count,
                               .team_size = device->team_size};
  const tdm_status status = tdm_prepared_get(cache, &key, &node->prepared);
  if (status != TDM_OK)
    return tdm_fail_within(status, "%s %s on %s", node->operation->name, node->name, device->name);
  const tdm_kernel_answer *answer = &node->prepared->answer;
  for (uint32_t k = 0; k < node->output_count && k < TDM_KERNEL_FORMATS; k++) {
    tdm_ir_value *value = &graph->values.items[node->first_output + k];
    value->spec.format = answer->output_formats[k];
    if (answer->output_bytes[k]) value->bytes = answer->output_bytes[k];
  }
  return TDM_OK;
}

/* The reorder of a value that there is already; 0: none. */
static uint32_t known_reorder(const layout_state *state, uint32_t from, tdm_format format,
                              int16_t on) {
  uint32_t next = from < state->newest.count ? state->newest.items[from] : 0;
  while (next) {
    const reordered *known = &state->reorders.items[next - 1];
    const tdm_ir_value *to = tdm_ir_value_at(state->graph, known->to);
    if (to->spec.format == format && to->device == on) return known->to;
    next = known->next;
  }
  return 0;
}

static tdm_status remember_reorder(layout_state *state, uint32_t from, uint32_t to) {
  tdm_graph *graph = state->graph;
  TDM_TRY(TDM_ARRAY_RESERVE(graph, &state->reorders, 1));
  if (from >= state->newest.count) {
    TDM_TRY(TDM_ARRAY_RESERVE(graph, &state->newest, from + 1 - state->newest.count));
    while (state->newest.count <= from)
      state->newest.items[state->newest.count++] = 0;
  }
  state->reorders.items[state->reorders.count++] = (reordered){to, state->newest.items[from]};
  state->newest.items[from] = (uint32_t)state->reorders.count;
  return TDM_OK;
}

/* The value `from` in another format, made on a device; on another than its own it is dense and
 * crosses first. 0 on failure. */
static uint32_t reorder(layout_state *state, uint32_t from, tdm_format format, int16_t on) {
  tdm_graph *graph = state->graph;
  const uint32_t known = known_reorder(state, from, format, on);
  if (known) return known;
  const tdm_ir_value value = graph->values.items[from];
  const char *name = value.producer ? tdm_ir_node_at(graph, value.producer)->name : value.name;
  const tdm_device *device = tdm_context_device(graph->context, (size_t)on);
  tdm_ir_node node = {.operation = &tdm_operation_reorder,
                      .name = name,
                      .input_count = 1,
                      .output_count = 1,
                      .device = on,
                      .role = TDM_ROLE_REORDER};
  node.kernel =
      tdm_context_find_kernel(graph->context, "reorder", device->ops->executes, value.spec.dtype);
  if (!node.kernel) {
    tdm_graph_fail(graph, TDM_UNSUPPORTED, "%s: %s has no kernel to reorder it", name,
                   device->name);
    return 0;
  }
  tdm_spec spec = value.spec;
  spec.format = format;
  const uint32_t index = tdm_ir_add_node(graph, &node, &from, &spec);
  if (!index || push_order(state, index) != TDM_OK) return 0;
  const tdm_status status = tdm_prepare_node(graph, state->cache, index);
  if (status != TDM_OK) {
    tdm_graph_fail_message(graph, status);
    return 0;
  }
  const uint32_t to = tdm_ir_node_at(graph, index)->first_output;
  return remember_reorder(state, from, to) == TDM_OK ? to : 0;
}

static tdm_status failure_of(const layout_state *state) {
  return state->graph->status == TDM_OK ? TDM_OUT_OF_MEMORY : tdm_graph_status(state->graph);
}

/* Which format does the node read its input k in? */
static tdm_format format_read(const tdm_ir_node *node, uint32_t k) {
  return node->prepared ? node->prepared->specs[k].format : TDM_FORMAT_DENSE;
}

/* The value as a node of device `on` reads it. What crosses is dense, so an opaque value is
 * unpacked where it is and packed where it is wanted. 0 on failure. */
static uint32_t fitted(layout_state *state, uint32_t input, tdm_format wanted, int16_t on) {
  const tdm_ir_value value = state->graph->values.items[input];
  if (value.device != on && value.spec.format != TDM_FORMAT_DENSE) {
    input = reorder(state, input, TDM_FORMAT_DENSE, value.device);
    if (!input || wanted == TDM_FORMAT_DENSE) return input;
    return reorder(state, input, wanted, on);
  }
  return value.spec.format == wanted ? input : reorder(state, input, wanted, on);
}

static tdm_status fit_inputs(layout_state *state, uint32_t index) {
  tdm_graph *graph = state->graph;
  for (uint32_t k = 0; k < tdm_ir_node_at(graph, index)->input_count; k++) {
    const tdm_ir_node *node = tdm_ir_node_at(graph, index);
    const uint32_t input = tdm_ir_inputs(graph, node)[k];
    if (!input) continue;
    const uint32_t to = fitted(state, input, format_read(node, k), node->device);
    if (!to) return failure_of(state);
    tdm_ir_inputs(graph, tdm_ir_node_at(graph, index))[k] = to;
  }
  return TDM_OK;
}

static tdm_status lay_out(layout_state *state, uint32_t *deliveries, size_t delivery_count) {
  tdm_graph *graph = state->graph;
  for (size_t i = 0; i < graph->order.count; i++) {
    const uint32_t index = graph->order.items[i];
    if (!tdm_ir_node_at(graph, index)->operation->is_view)
      TDM_TRY(tdm_prepare_node(graph, state->cache, index));
    TDM_TRY(fit_inputs(state, index));
    TDM_TRY(push_order(state, index));
  }
  for (size_t i = 0; i < delivery_count; i++) {
    if (graph->values.items[deliveries[i]].spec.format == TDM_FORMAT_DENSE) continue;
    deliveries[i] =
        reorder(state, deliveries[i], TDM_FORMAT_DENSE, graph->values.items[deliveries[i]].device);
    if (!deliveries[i]) return failure_of(state);
  }
  return TDM_OK;
}

tdm_status tdm_pass_layout(tdm_graph *graph, tdm_prepared_cache *cache, uint32_t *deliveries,
                           size_t delivery_count) {
  TDM_TRY(tdm_find_kernels(graph));
  layout_state state = {.graph = graph, .cache = cache};
  const tdm_status status = lay_out(&state, deliveries, delivery_count);
  if (status == TDM_OK) {
    TDM_ARRAY_DEINIT(graph, &graph->order);
    graph->order.items = state.order.items;
    graph->order.count = state.order.count;
    graph->order.capacity = state.order.capacity;
  } else {
    TDM_ARRAY_DEINIT(graph, &state.order);
  }
  TDM_ARRAY_DEINIT(graph, &state.reorders);
  TDM_ARRAY_DEINIT(graph, &state.newest);
  return status;
}
