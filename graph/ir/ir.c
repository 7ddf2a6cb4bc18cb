/* Storage of the intermediate form: adding nodes and values, and running shape rules. Invariant:
 * a failed addition leaves the graph as it was, but for unused room. */
#include "graph/ir/ir.h"

#include <string.h>

static _Atomic uint32_t next_tag = 1; /* only tells graphs apart; never a state of the library */

tdm_status tdm_graph_init(tdm_graph *graph, tdm_context *context) {
  memset(graph, 0, sizeof *graph);
  graph->context = tdm_context_retain(context);
  graph->allocator = tdm_context_allocator(context);
  tdm_region_init(&graph->region, graph->allocator);
  tdm_map_init(&graph->persistent_names, graph->allocator);
  graph->tag = atomic_fetch_add(&next_tag, 1);
  if (graph->tag == 0) graph->tag = atomic_fetch_add(&next_tag, 1);
  graph->references = 1;
  graph->append_device = TDM_NO_DEVICE;
  graph->scopes[0] = (tdm_scope){"", NULL, TDM_FLOAT32};
  TDM_TRY(TDM_ARRAY_RESERVE(graph, &graph->nodes, 1));
  TDM_TRY(TDM_ARRAY_RESERVE(graph, &graph->values, 1));
  graph->nodes.count = 1;
  graph->values.count = 1;
  return TDM_OK;
}

void tdm_graph_deinit(tdm_graph *graph) {
  TDM_ARRAY_DEINIT(graph, &graph->nodes);
  TDM_ARRAY_DEINIT(graph, &graph->values);
  TDM_ARRAY_DEINIT(graph, &graph->operands);
  TDM_ARRAY_DEINIT(graph, &graph->order);
  TDM_ARRAY_DEINIT(graph, &graph->inputs);
  TDM_ARRAY_DEINIT(graph, &graph->persistents);
  tdm_map_deinit(&graph->persistent_names);
  TDM_ARRAY_DEINIT(graph, &graph->outputs);
  TDM_ARRAY_DEINIT(graph, &graph->deriveds);
  TDM_ARRAY_DEINIT(graph, &graph->logs);
  TDM_ARRAY_DEINIT(graph, &graph->row_conditions);
  TDM_ARRAY_DEINIT(graph, &graph->parallel_regions);
  tdm_region_deinit(&graph->region);
  tdm_context_release(graph->context);
}

uint32_t tdm_ir_add_value(tdm_graph *graph, const tdm_ir_value *value) {
  if (TDM_ARRAY_RESERVE(graph, &graph->values, 1) != TDM_OK) return 0;
  const uint32_t index = (uint32_t)graph->values.count++;
  graph->values.items[index] = *value;
  graph->values.items[index].root = index;
  const int64_t bytes = tdm_shape_bytes(&value->spec.shape, value->spec.dtype);
  graph->values.items[index].bytes = bytes > 0 ? (uint64_t)bytes : 0;
  return index;
}

uint32_t tdm_ir_add_node(tdm_graph *graph, const tdm_ir_node *node, const uint32_t *inputs,
                         const tdm_spec *output_specs) {
  if (TDM_ARRAY_RESERVE(graph, &graph->nodes, 1) != TDM_OK ||
      TDM_ARRAY_RESERVE(graph, &graph->operands, node->input_count) != TDM_OK ||
      TDM_ARRAY_RESERVE(graph, &graph->values, node->output_count) != TDM_OK)
    return 0;
  const uint32_t index = (uint32_t)graph->nodes.count++;
  tdm_ir_node *added = &graph->nodes.items[index];
  *added = *node;
  added->first_input = (uint32_t)graph->operands.count;
  if (node->input_count > 0)
    memcpy(&graph->operands.items[graph->operands.count], inputs,
           node->input_count * sizeof *inputs);
  graph->operands.count += node->input_count;
  added->first_output = (uint32_t)graph->values.count;
  for (uint16_t i = 0; i < node->output_count; i++) {
    tdm_ir_value value = {.producer = index, .device = node->device, .kind = TDM_VALUE_NODE};
    if (output_specs) value.spec = output_specs[i];
    tdm_ir_add_value(graph, &value); /* room was reserved above */
  }
  return index;
}

tdm_status tdm_ir_order_push(tdm_graph *graph, uint32_t node) {
  TDM_TRY(TDM_ARRAY_RESERVE(graph, &graph->order, 1));
  graph->order.items[graph->order.count++] = node;
  return TDM_OK;
}

size_t tdm_ir_output_count(const tdm_operation *operation, const void *attributes) {
  return operation->count_outputs ? operation->count_outputs(attributes) : operation->output_count;
}

bool tdm_ir_is_possible(const tdm_spec *spec) {
  tdm_shape sizes = spec->shape;
  for (int i = 0; i < sizes.rank; i++)
    if (!tdm_dim_is_size(sizes.dims[i])) sizes.dims[i] = 1;
  return tdm_shape_bytes(&sizes, spec->dtype) >= 0;
}

static tdm_status check_outputs(const tdm_infer *infer, const char *operation, const char *name) {
  for (size_t i = 0; i < infer->output_count; i++) {
    const tdm_spec *spec = &infer->outputs[i];
    char text[TDM_SHAPE_TEXT];
    if (spec->dtype == TDM_DTYPE_NONE || !tdm_shape_is_valid(&spec->shape))
      return tdm_fail(TDM_INVALID_ARGUMENT, "%s %s: its shape rule set no shape for output %zu",
                      operation, name, i);
    if (!tdm_ir_is_possible(spec))
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "%s %s: output %zu would be %s %s, which is larger than any memory",
                      operation, name, i, tdm_dtype_name(spec->dtype),
                      tdm_shape_text(&spec->shape, text, sizeof text));
  }
  return TDM_OK;
}

tdm_status tdm_ir_infer(const tdm_graph *graph, const tdm_operation *operation, const char *name,
                        const void *attributes, const uint32_t *inputs, size_t input_count,
                        tdm_spec *output_specs) {
  tdm_spec specs[TDM_KERNEL_MAX_INPUTS];
  for (size_t i = 0; i < input_count; i++) {
    if (inputs[i])
      specs[i] = graph->values.items[inputs[i]].spec;
    else
      memset(&specs[i], 0, sizeof specs[i]);
    specs[i].format = TDM_FORMAT_DENSE;
  }
  const size_t output_count = tdm_ir_output_count(operation, attributes);
  memset(output_specs, 0, output_count * sizeof *output_specs);
  tdm_infer infer = {attributes, specs, input_count, output_specs, output_count};
  const tdm_status status = operation->infer(&infer);
  if (status != TDM_OK) return tdm_fail_within(status, "%s %s", operation->name, name);
  return check_outputs(&infer, operation->name, name);
}

uint32_t tdm_ir_add_log(tdm_graph *graph, uint32_t persistent, int32_t age, int64_t window) {
  const tdm_ir_value *table = tdm_ir_value_at(graph, graph->persistents.items[persistent].value);
  const tdm_ir_value value = {.spec = {.dtype = TDM_INT64, .shape = tdm_shape_of(1, window)},
                              .kind = TDM_VALUE_LOG,
                              .binding = (uint32_t)graph->logs.count,
                              .device = table->device,
                              .name = table->name};
  if (TDM_ARRAY_RESERVE(graph, &graph->logs, 1) != TDM_OK) return 0;
  const uint32_t index = tdm_ir_add_value(graph, &value);
  if (index) graph->logs.items[graph->logs.count++] = (tdm_graph_log){index, persistent, age};
  return index;
}

const void *tdm_ir_copy_bytes(tdm_graph *graph, const void *bytes, size_t count) {
  if (count == 0) return NULL;
  void *copy = tdm_region_take(&graph->region, count, "attributes");
  if (copy) memcpy(copy, bytes, count);
  return copy;
}

static void settle_view(tdm_graph *graph, const tdm_ir_node *node) {
  const tdm_ir_value *source = &graph->values.items[tdm_ir_inputs(graph, node)[0]];
  uint64_t offset = source->offset;
  for (uint16_t i = 0; i < node->output_count; i++) {
    tdm_ir_value *value = &graph->values.items[node->first_output + i];
    value->root = source->root;
    value->offset = offset;
    offset += value->bytes;
  }
}

void tdm_ir_settle_outputs(tdm_graph *graph, const tdm_ir_node *node) {
  const tdm_operation *operation = node->operation;
  if (!operation) return;
  if (operation->is_view) {
    settle_view(graph, node);
    return;
  }
  const uint32_t *inputs = tdm_ir_inputs(graph, node);
  for (uint16_t i = 0; i < node->output_count; i++) {
    if (!operation->overwrites[i]) continue;
    const tdm_ir_value *same = &graph->values.items[inputs[operation->overwrites[i] - 1]];
    tdm_ir_value *value = &graph->values.items[node->first_output + i];
    value->root = same->root;
    value->offset = same->offset;
    value->bytes = same->bytes;
  }
}
