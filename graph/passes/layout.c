/* Formats: prepares each node's kernel with the available formats, and inserts a reorder where the
 * kernel requires another format than the value has. Invariant: a value that is sent to another
 * device, fed, persistent or delivered is dense. There is at most one reorder per (value, format,
 * device). */
#include "graph/ir/rewriter.h"
#include "graph/passes/passes.h"

typedef struct reordered {
  uint32_t to;
  uint32_t next; /* next of the same value: 1 + index in reorders; 0: none */
} reordered;

typedef struct layout_state {
  tdm_graph *graph;
  tdm_prepared_cache *cache;
  TDM_ARRAY(reordered) reorders;
  TDM_ARRAY(uint32_t)
  newest; /* latest of each value: 1 + index in reorders; as long as needed */
} layout_state;

/* Writes the specs of a node's operands. Opaque values are offered as dense to consumers on other
 * devices; room has one spec per input. */
static void offered_specs(const tdm_graph *graph, const tdm_ir_node *node, tdm_spec *room,
                          const tdm_spec **specs) {
  for (uint32_t k = 0; k < node->input_count; k++) {
    const tdm_ir_value *value = tdm_ir_value_at(graph, node->inputs[k]);
    specs[k] = value->spec; /* that of value 0 is zeros */
    if (value->spec->format == TDM_FORMAT_DENSE || value->device == node->device) continue;
    room[k] = *value->spec;
    room[k].format = TDM_FORMAT_DENSE;
    specs[k] = &room[k];
  }
  for (uint32_t k = 0; k < node->output_count; k++)
    specs[node->input_count + k] = tdm_ir_value_at(graph, node->first_output + k)->spec;
}

tdm_status tdm_prepare_node(tdm_graph *graph, tdm_prepared_cache *cache, tdm_ir_node *node,
                            const tdm_kernel *kernel) {
  const tdm_device *device = tdm_context_device(graph->context, (size_t)node->device);
  tdm_spec room[TDM_KERNEL_MAX_INPUTS];
  const tdm_spec *specs[TDM_KERNEL_MAX_INPUTS + TDM_KERNEL_MAX_OUTPUTS];
  offered_specs(graph, node, room, specs);
  const tdm_prepare_key key = {.kernel = kernel,
                               .attributes = node->attributes,
                               .attribute_bytes = node->operation->attribute_bytes,
                               .specs = specs,
                               .input_count = node->input_count,
                               .output_count = node->output_count,
                               .team_size = device->team_size};
  tdm_prepared *prepared;
  TDM_TRY(TDM_ARRAY_RESERVE(graph, &graph->planned->prepared, 1));
  const tdm_status status = tdm_prepared_get(cache, &key, &prepared);
  if (status != TDM_OK)
    return tdm_fail_within(status, "%s %s on %s", node->operation->name, node->name, device->name);
  graph->planned->prepared.items[graph->planned->prepared.count++] = prepared;
  node->prepared = prepared;
  const tdm_kernel_answer *answer = &node->prepared->answer;
  for (uint32_t k = 0; k < node->output_count && k < TDM_KERNEL_FORMATS; k++) {
    tdm_ir_value *value = tdm_ir_value_at(graph, node->first_output + k);
    if (value->spec->format != answer->output_formats[k]) {
      tdm_spec spec = *value->spec;
      spec.format = answer->output_formats[k];
      value->spec = tdm_ir_share_spec(graph, &spec);
      if (!value->spec) return TDM_OUT_OF_MEMORY;
    }
    if (answer->output_bytes[k]) value->bytes = answer->output_bytes[k];
  }
  return TDM_OK;
}

/* Returns the existing reorder of a value, or 0. */
static uint32_t known_reorder(const layout_state *state, uint32_t from, tdm_format format,
                              int16_t on) {
  uint32_t next = from < state->newest.count ? state->newest.items[from] : 0;
  while (next) {
    const reordered *known = &state->reorders.items[next - 1];
    const tdm_ir_value *to = tdm_ir_value_at(state->graph, known->to);
    if (to->spec->format == format && to->device == on) return known->to;
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

/* Returns the value `from` in another format, computed on a device. If that is not its own device,
 * it is sent there as dense first. Returns 0 on failure. */
static uint32_t reorder(layout_state *state, uint32_t from, tdm_format format, int16_t on,
                        tdm_ir_node *before) {
  tdm_graph *graph = state->graph;
  const uint32_t known = known_reorder(state, from, format, on);
  if (known) return known;
  const tdm_device *device = tdm_context_device(graph->context, (size_t)on);
  tdm_spec spec = *tdm_ir_value_at(graph, from)->spec;
  const tdm_ir_node like = {.operation = &tdm_operation_reorder,
                            .name = tdm_value_name(graph, from),
                            .input_count = 1,
                            .output_count = 1,
                            .device = on,
                            .role = TDM_ROLE_REORDER};
  const tdm_kernel *kernel =
      tdm_context_find_kernel(graph->context, "reorder", device->ops->executes, spec.dtype);
  if (!kernel) {
    tdm_graph_fail(graph, TDM_UNSUPPORTED, "%s: %s has no kernel to reorder it", like.name,
                   device->name);
    return 0;
  }
  spec.format = format;
  tdm_ir_node *node = tdm_insert_as(graph, before, &like, &from, &spec);
  if (!node) return 0;
  const tdm_status status = tdm_prepare_node(graph, state->cache, node, kernel);
  if (status != TDM_OK) {
    tdm_graph_fail_message(graph, status);
    return 0;
  }
  return remember_reorder(state, from, node->first_output) == TDM_OK ? node->first_output : 0;
}

static tdm_status failure_of(const layout_state *state) {
  return state->graph->status == TDM_OK ? TDM_OUT_OF_MEMORY : tdm_graph_status(state->graph);
}

/* Returns the format in which the node reads its input k. */
static tdm_format format_read(const tdm_ir_node *node, uint32_t k) {
  return node->prepared ? node->prepared->specs[k].format : TDM_FORMAT_DENSE;
}

/* Returns the value as a node of device `on` reads it. Values are sent as dense, so an opaque value
 * is unpacked on its device and packed on the reader's. Returns 0 on failure. */
static uint32_t fitted(layout_state *state, uint32_t input, tdm_format wanted,
                       tdm_ir_node *reader) {
  const tdm_ir_value *value = tdm_ir_value_at(state->graph, input);
  const int16_t on = reader->device;
  if (value->device != on && value->spec->format != TDM_FORMAT_DENSE) {
    input = reorder(state, input, TDM_FORMAT_DENSE, value->device, reader);
    if (!input || wanted == TDM_FORMAT_DENSE) return input;
    return reorder(state, input, wanted, on, reader);
  }
  return value->spec->format == wanted ? input : reorder(state, input, wanted, on, reader);
}

static tdm_status fit_inputs(layout_state *state, tdm_ir_node *node) {
  for (uint32_t k = 0; k < node->input_count; k++) {
    if (!node->inputs[k]) continue;
    const uint32_t to = fitted(state, node->inputs[k], format_read(node, k), node);
    if (!to) return failure_of(state);
    if (to != node->inputs[k]) tdm_set_input(state->graph, node, k, to);
  }
  return TDM_OK;
}

static tdm_status lay_out(layout_state *state) {
  tdm_graph *graph = state->graph;
  TDM_EACH_NODE(graph, node) {
    if (tdm_ir_has_kernel(node)) {
      const tdm_kernel *kernel;
      TDM_TRY(tdm_find_kernel(graph, node, &kernel));
      TDM_TRY(tdm_prepare_node(graph, state->cache, node, kernel));
    }
    TDM_TRY(fit_inputs(state, node));
  }
  for (size_t i = 0; i < graph->planned->deliveries.count; i++) {
    uint32_t *delivered = &graph->planned->deliveries.items[i].value;
    const tdm_ir_value *value = tdm_ir_value_at(graph, *delivered);
    if (value->spec->format == TDM_FORMAT_DENSE) continue;
    *delivered = reorder(state, *delivered, TDM_FORMAT_DENSE, value->device, NULL);
    if (!*delivered) return failure_of(state);
  }
  return TDM_OK;
}

tdm_status tdm_pass_layout(tdm_graph *graph, tdm_prepared_cache *cache) {
  layout_state state = {.graph = graph, .cache = cache};
  const tdm_status status = lay_out(&state);
  TDM_ARRAY_DEINIT(graph, &state.reorders);
  TDM_ARRAY_DEINIT(graph, &state.newest);
  return status;
}
