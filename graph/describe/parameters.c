/* Declaring parameters and states. Invariant: one value a name; naming it again with the same
 * shape and dtype is how weights are tied; no name is one of a checkpoint's own. */
#include <string.h>

#include "graph/ir/ir.h"
#include "tandem/graph/sessions.h"

static const tdm_value invalid = {0, 0};

static tdm_value tie(tdm_graph *graph, size_t index, tdm_dtype dtype, const tdm_shape *shape) {
  const uint32_t value = graph->persistents.items[index].value;
  const tdm_spec *spec = &tdm_ir_value_at(graph, value)->spec;
  if (spec->dtype == dtype && tdm_shape_equal(&spec->shape, shape))
    return tdm_ir_handle(graph, value);
  char has[TDM_SHAPE_TEXT];
  char wants[TDM_SHAPE_TEXT];
  return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "parameter %s: %s %s here, %s %s before",
                        graph->persistents.items[index].name, tdm_dtype_name(dtype),
                        tdm_shape_text(shape, wants, sizeof wants), tdm_dtype_name(spec->dtype),
                        tdm_shape_text(&spec->shape, has, sizeof has));
}

static tdm_value declare(tdm_graph *graph, const char *name, const tdm_spec *spec,
                         const tdm_initializer *initializer, bool is_state, uint32_t like) {
  if (!tdm_graph_is_open(graph, name)) return invalid;
  if (!tdm_shape_is_valid(&spec->shape) || !tdm_shape_is_concrete(&spec->shape) ||
      tdm_dtype_bytes(spec->dtype) == 0)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "parameter %s: its dtype or shape is not legal", name);
  if (!tdm_ir_is_possible(spec)) {
    char text[TDM_SHAPE_TEXT];
    return tdm_graph_fail(
        graph, TDM_INVALID_ARGUMENT, "parameter %s: %s %s is larger than any memory", name,
        tdm_dtype_name(spec->dtype), tdm_shape_text(&spec->shape, text, sizeof text));
  }
  const char *prefix = graph->scopes[graph->scope_depth].prefix;
  const char *path = tdm_region_format(&graph->region, "%s%s", prefix, name);
  if (!path) return tdm_graph_fail_message(graph, TDM_OUT_OF_MEMORY);
  if (strncmp(path, TDM_CHECKPOINT_PREFIX, sizeof TDM_CHECKPOINT_PREFIX - 1) == 0)
    return tdm_graph_fail(
        graph, TDM_INVALID_ARGUMENT,
        "parameter %s: names that begin with \"%s\" are those of what checkpoints "
        "have besides parameters; give its scope or layer another",
        path, TDM_CHECKPOINT_PREFIX);
  const uintptr_t known = (uintptr_t)tdm_map_get(&graph->persistent_names, path);
  if (known) return tie(graph, known - 1, spec->dtype, &spec->shape);
  const tdm_ir_value value = {.spec = *spec,
                              .kind = TDM_VALUE_PERSISTENT,
                              .binding = (uint32_t)graph->persistents.count,
                              .device = TDM_NO_DEVICE,
                              .trainable = !is_state && tdm_dtype_is_floating(spec->dtype),
                              .name = path};
  if (TDM_ARRAY_RESERVE(graph, &graph->persistents, 1) != TDM_OK)
    return tdm_graph_fail_message(graph, TDM_OUT_OF_MEMORY);
  const uint32_t index = tdm_ir_add_value(graph, &value);
  const uintptr_t number = graph->persistents.count + 1;
  if (!index || tdm_map_put(&graph->persistent_names, path, (void *)number) != TDM_OK)
    return tdm_graph_fail_message(graph, TDM_OUT_OF_MEMORY);
  const tdm_initializer zeros = {TDM_INIT_ZEROS, 0, 0, -1};
  graph->persistents.items[graph->persistents.count++] = (tdm_graph_persistent){
      path, index, initializer ? *initializer : zeros, like, UINT32_MAX, is_state};
  if (like) tdm_ir_value_at(graph, index)->device = tdm_ir_value_at(graph, like)->device;
  return tdm_ir_handle(graph, index);
}

tdm_value tdm_parameter(tdm_graph *graph, const char *name, tdm_dtype dtype, tdm_shape shape,
                        const tdm_initializer *initializer) {
  const tdm_spec spec = {dtype, TDM_FORMAT_DENSE, shape};
  return declare(graph, name, &spec, initializer, false, 0);
}

tdm_value tdm_state(tdm_graph *graph, const char *name, tdm_dtype dtype, tdm_shape shape,
                    const tdm_initializer *initializer, tdm_value like) {
  const tdm_spec spec = {dtype, TDM_FORMAT_DENSE, shape};
  if (graph && like.index && !tdm_ir_owns(graph, like))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "state %s: what it is to live with is no value of the graph",
                          name ? name : "?");
  return declare(graph, name, &spec, initializer, true, like.index);
}
