/* Storage of the intermediate form: adds nodes and values, and runs shape rules. Invariant: a
 * failed addition leaves the graph unchanged, except for unused capacity. */
#include "graph/ir/ir.h"

#include <string.h>

#include "core/untold.h"

static _Atomic uint32_t next_tag = 1; /* distinguishes graphs */

static tdm_status init(tdm_graph *graph, tdm_context *context) {
  memset(graph, 0, sizeof *graph);
  graph->context = tdm_context_retain(context);
  graph->allocator = tdm_context_allocator(context);
  tdm_region_init(&graph->region, graph->allocator);
  tdm_map_init(&graph->persistent_names, graph->allocator);
  tdm_map_init(&graph->nameless, graph->allocator);
  tdm_map_init(&graph->streams, graph->allocator);
  graph->tag = atomic_fetch_add(&next_tag, 1);
  if (graph->tag == 0) graph->tag = atomic_fetch_add(&next_tag, 1);
  TDM_TRY(tdm_ir_reserve_nodes(graph, 1));
  TDM_TRY(tdm_ir_reserve_values(graph, 1));
  graph->nodes.count = 1;
  graph->values.count = 1;
  *tdm_ir_node_at(graph, 0) = (tdm_ir_node){0};
  *tdm_ir_value_at(graph, 0) = (tdm_ir_value){.spec = tdm_ir_share_spec(graph, &(tdm_spec){0})};
  return tdm_ir_value_at(graph, 0)->spec ? TDM_OK : TDM_OUT_OF_MEMORY;
}

tdm_status tdm_graph_init(tdm_graph *graph, tdm_context *context) {
  TDM_TRY(init(graph, context));
  graph->planned = tdm_region_take(&graph->region, sizeof *graph->planned, "graph");
  return graph->planned ? TDM_OK : TDM_OUT_OF_MEMORY;
}

tdm_status tdm_graph_init_described(tdm_graph *graph, tdm_context *context) {
  TDM_TRY(init(graph, context));
  tdm_described *described = tdm_region_take(&graph->region, sizeof *described, "graph");
  if (!described) return TDM_OUT_OF_MEMORY;
  graph->described = described;
  described->references = 1;
  described->scopes[0] = (tdm_scope){.prefix = "", .dtype = TDM_FLOAT32};
  tdm_map_init(&described->input_names, graph->allocator);
  tdm_map_init(&described->output_names, graph->allocator);
  tdm_map_init(&described->tie_names, graph->allocator);
  tdm_map_init(&described->alias_names, graph->allocator);
  return TDM_OK;
}

static void deinit_described(tdm_graph *graph) {
  tdm_described *described = graph->described;
  if (!described) return;
  TDM_ARRAY_DEINIT(graph, &described->ties);
  TDM_ARRAY_DEINIT(graph, &described->aliases);
  TDM_ARRAY_DEINIT(graph, &described->outputs);
  tdm_map_deinit(&described->input_names);
  tdm_map_deinit(&described->output_names);
  tdm_map_deinit(&described->tie_names);
  tdm_map_deinit(&described->alias_names);
}

static void deinit_planned(tdm_graph *graph) {
  tdm_planned *planned = graph->planned;
  if (!planned) return;
  TDM_ARRAY_DEINIT(graph, &planned->deliveries);
  TDM_ARRAY_DEINIT(graph, &planned->deriveds);
  TDM_ARRAY_DEINIT(graph, &planned->logs);
  TDM_ARRAY_DEINIT(graph, &planned->row_conditions);
  for (size_t i = planned->prepared.count; i-- > 0;) /* fused kernels refer to their members */
    tdm_prepared_let_go(planned->prepared.items[i]);
  TDM_ARRAY_DEINIT(graph, &planned->prepared);
}

void tdm_graph_deinit(tdm_graph *graph) {
  deinit_described(graph);
  deinit_planned(graph);
  TDM_ARRAY_DEINIT(graph, &graph->inputs);
  TDM_ARRAY_DEINIT(graph, &graph->kepts);
  TDM_ARRAY_DEINIT(graph, &graph->persistents);
  TDM_ARRAY_DEINIT(graph, &graph->shardings);
  TDM_ARRAY_DEINIT(graph, &graph->parallel_regions);
  tdm_map_deinit(&graph->persistent_names);
  tdm_map_deinit(&graph->nameless);
  tdm_map_deinit(&graph->streams);
  tdm_region_deinit(&graph->region);
  tdm_context_release(graph->context);
}

static tdm_status add_blocks(tdm_region *region, tdm_stable_array *array, size_t more,
                             size_t item_bytes) {
  const size_t had = array->capacity / TDM_STABLE_ITEMS;
  const size_t count = (array->count + more + TDM_STABLE_ITEMS - 1) / TDM_STABLE_ITEMS;
  if (count > array->block_room) {
    const size_t room = 2 * count < 8 ? 8 : 2 * count;
    void **blocks = tdm_region_take(region, room * sizeof *blocks, "graph");
    if (!blocks) return TDM_OUT_OF_MEMORY;
    for (size_t i = 0; i < had; i++)
      blocks[i] = array->blocks[i];
    array->blocks = blocks;
    array->block_room = room;
  }
  const size_t block_bytes = TDM_STABLE_ITEMS * item_bytes;
  char *items = tdm_region_take_room(region, (count - had) * block_bytes, "graph");
  if (!items) return TDM_OUT_OF_MEMORY;
  for (size_t i = had; i < count; i++)
    array->blocks[i] = items + (i - had) * block_bytes;
  array->capacity = count * TDM_STABLE_ITEMS;
  return TDM_OK;
}

static tdm_status reserve(tdm_region *region, tdm_stable_array *array, size_t more,
                          size_t item_bytes) {
  if (array->count + more <= array->capacity) return TDM_OK;
  return add_blocks(region, array, more, item_bytes);
}

tdm_status tdm_ir_reserve_nodes(tdm_graph *graph, size_t more) {
  return reserve(&graph->region, &graph->nodes, more, sizeof(tdm_ir_node));
}

tdm_status tdm_ir_reserve_values(tdm_graph *graph, size_t more) {
  return reserve(&graph->region, &graph->values, more, sizeof(tdm_ir_value));
}

uint32_t tdm_ir_add_value(tdm_graph *graph, const tdm_ir_value *value) {
  if (!value->spec || tdm_ir_reserve_values(graph, 1) != TDM_OK) return 0;
  const uint32_t index = (uint32_t)graph->values.count++;
  tdm_ir_value *added = tdm_ir_value_at(graph, index);
  *added = *value;
  added->root = index;
  added->readers = 0;
  const int64_t bytes = tdm_shape_bytes(&value->spec->shape, value->spec->dtype);
  added->bytes = bytes > 0 ? (uint64_t)bytes : 0;
  return index;
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
    if (tdm_dtype_bytes(spec->dtype) == 0 || !tdm_shape_is_valid(&spec->shape))
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

/* Fails if an output that shares an input's memory does not fit into it, as far as sizes are
 * fixed. */
static tdm_status check_view(const tdm_infer *infer, const char *operation, const char *name) {
  const int64_t room = tdm_shape_bytes(&infer->inputs[0].shape, infer->inputs[0].dtype);
  int64_t bytes = 0;
  for (size_t i = 0; i < infer->output_count; i++) {
    const int64_t more = tdm_shape_bytes(&infer->outputs[i].shape, infer->outputs[i].dtype);
    if (more < 0 || __builtin_add_overflow(bytes, more, &bytes)) return TDM_OK;
  }
  if (room < 0 || bytes <= room) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "%s %s: it is a view of %lld bytes, and its shape rule says %lld", operation,
                  name, (long long)room, (long long)bytes);
}

static tdm_status check_overwritten(const tdm_infer *infer, const tdm_operation *operation,
                                    const char *name) {
  for (size_t i = 0; i < infer->output_count; i++) {
    if (!operation->overwrites[i]) continue;
    const size_t input = operation->overwrites[i] - 1u;
    const bool fits =
        input < infer->input_count && tdm_spec_may_be(&infer->outputs[i], &infer->inputs[input]);
    if (!fits)
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "%s %s: output %zu overwrites input %zu, and is not of its dtype and shape",
                      operation->name, name, i, input);
  }
  return TDM_OK;
}

bool tdm_spec_may_be(const tdm_spec *a, const tdm_spec *b) {
  if (a->dtype != b->dtype || a->shape.rank != b->shape.rank) return false;
  for (int d = 0; d < a->shape.rank; d++)
    if (tdm_dim_is_size(a->shape.dims[d]) && tdm_dim_is_size(b->shape.dims[d]) &&
        a->shape.dims[d] != b->shape.dims[d])
      return false;
  return true;
}

tdm_status tdm_ir_infer(const tdm_graph *graph, const tdm_operation *operation, const char *name,
                        const void *attributes, const uint32_t *inputs, size_t input_count,
                        tdm_spec *output_specs) {
  tdm_spec specs[TDM_KERNEL_MAX_INPUTS];
  for (size_t i = 0; i < input_count; i++) {
    if (inputs[i])
      specs[i] = *tdm_ir_value_at(graph, inputs[i])->spec;
    else
      memset(&specs[i], 0, sizeof specs[i]);
    specs[i].format = TDM_FORMAT_DENSE;
  }
  const size_t output_count = tdm_ir_output_count(operation, attributes);
  memset(output_specs, 0, output_count * sizeof *output_specs);
  tdm_infer infer = {attributes, specs, input_count, output_specs, output_count};
  const uint32_t told = tdm_told_count();
  const tdm_status status = tdm_fail_untold(operation->infer(&infer), told);
  if (status != TDM_OK)
    return tdm_fail_within(status, "%s %s", tdm_operation_layer(operation), name);
  TDM_TRY(check_outputs(&infer, operation->name, name));
  if (operation->is_view) return check_view(&infer, operation->name, name);
  return check_overwritten(&infer, operation, name);
}

uint32_t tdm_ir_add_log(tdm_graph *graph, uint32_t persistent, int32_t age, int64_t window) {
  const tdm_ir_value *table = tdm_ir_value_at(graph, graph->persistents.items[persistent].value);
  const tdm_spec spec = {.dtype = TDM_INT64, .shape = tdm_shape_of(1, window)};
  const tdm_ir_value value = {.spec = tdm_ir_share_spec(graph, &spec),
                              .kind = TDM_VALUE_LOG,
                              .binding = (uint32_t)graph->planned->logs.count,
                              .device = table->device,
                              .name = table->name};
  if (TDM_ARRAY_RESERVE(graph, &graph->planned->logs, 1) != TDM_OK) return 0;
  const uint32_t index = tdm_ir_add_value(graph, &value);
  if (index)
    graph->planned->logs.items[graph->planned->logs.count++] =
        (tdm_graph_log){index, persistent, age};
  return index;
}

const void *tdm_ir_copy_bytes(tdm_graph *graph, const void *bytes, size_t count) {
  if (count == 0) return NULL;
  void *copy = tdm_region_take(&graph->region, count, "attributes");
  if (copy) memcpy(copy, bytes, count);
  return copy;
}

/* A shared spec never changes. Two equal specs may have different addresses, because each entry of
 * the table holds only the latest spec: that is enough for the few specs of a graph, and keeps
 * values small. */
const tdm_spec *tdm_ir_share_spec(tdm_graph *graph, const tdm_spec *spec) {
  const tdm_spec **shared = &graph->specs[tdm_spec_hash(spec, 0) % TDM_SHARED_SPECS];
  if (*shared && tdm_spec_equal(*shared, spec)) return *shared;
  const tdm_spec *copy = tdm_ir_copy_bytes(graph, spec, sizeof *spec);
  if (copy) *shared = copy;
  return copy;
}

bool tdm_ir_is_exchange(const tdm_graph *graph, const tdm_ir_node *node) {
  return tdm_ir_is_message(graph, node) &&
         !tdm_context_device(graph->context, (size_t)node->device)->host_addressable;
}

bool tdm_ir_is_message(const tdm_graph *graph, const tdm_ir_node *node) {
  return !node->operation && tdm_rank_of(graph, tdm_ir_value_at(graph, node->inputs[0])->device) !=
                                 tdm_rank_of(graph, node->device);
}
