/* Declares parameters and states. Invariant: a name has one value; two layers share it only if they
 * are tied. No name is one that checkpoints reserve. */
#include <inttypes.h>
#include <string.h>

#include "core/dtype_numbers.h"
#include "core/hash.h"
#include "graph/describe/layer_parameters.h"
#include "graph/ir/names.h"
#include "tandem/graph/sessions.h"

static tdm_value find_known(tdm_graph *graph, size_t index, tdm_dtype dtype,
                            const tdm_shape *shape) {
  const uint32_t value = graph->persistents.items[index].value;
  const tdm_spec *spec = tdm_ir_value_at(graph, value)->spec;
  if (spec->dtype == dtype && tdm_shape_equal(&spec->shape, shape))
    return tdm_ir_handle(graph, value);
  char has[TDM_SHAPE_TEXT];
  char wants[TDM_SHAPE_TEXT];
  return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "parameter %s: %s %s here, %s %s before",
                        graph->persistents.items[index].name, tdm_dtype_name(dtype),
                        tdm_shape_text(shape, wants, sizeof wants), tdm_dtype_name(spec->dtype),
                        tdm_shape_text(&spec->shape, has, sizeof has));
}

/* Fills the shard of a state that belongs to a shard of a table. The table's state is named like
 * the shard's, with the shard's name replaced by the table's. Returns false if memory is
 * exhausted. */
static bool shard_of_state(tdm_graph *graph, uint32_t like, const char *path, const tdm_spec *spec,
                           tdm_table_shard *out_shard) {
  const tdm_ir_value *value = like ? tdm_ir_value_at(graph, like) : NULL;
  if (!value || value->kind != TDM_VALUE_PERSISTENT) return true;
  const tdm_graph_persistent *parameter = &graph->persistents.items[value->binding];
  const char *at = parameter->shard.table ? strstr(path, parameter->name) : NULL;
  if (!at) return true;
  *out_shard = parameter->shard;
  const bool has_rows = spec->shape.rank == value->spec->shape.rank && spec->shape.rank > 0 &&
                        spec->shape.dims[0] == value->spec->shape.dims[0];
  if (!has_rows) out_shard->first = out_shard->table_rows = 0; /* a scalar, which all shards have */
  out_shard->table = tdm_region_format(&graph->region, "%.*s%s%s", (int)(at - path), path,
                                       parameter->shard.table, at + strlen(parameter->name));
  return out_shard->table != NULL;
}

/* kind: "parameter", "constant" */
static bool is_legal(tdm_graph *graph, const char *kind, const char *name, const tdm_spec *spec) {
  char text[TDM_SHAPE_TEXT];
  if (!tdm_shape_is_valid(&spec->shape) || !tdm_shape_is_concrete(&spec->shape) ||
      tdm_dtype_bytes(spec->dtype) == 0) {
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: its dtype or shape is not legal", kind,
                   name);
    return false;
  }
  if (tdm_ir_is_possible(spec)) return true;
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: %s %s is larger than any memory", kind, name,
                 tdm_dtype_name(spec->dtype), tdm_shape_text(&spec->shape, text, sizeof text));
  return false;
}

/* Returns true if dtype can represent the initializer's numbers; otherwise the graph has an
 * error. */
static bool holds_initial(tdm_graph *graph, const char *path, tdm_dtype dtype,
                          const tdm_initializer *initializer) {
  if (!initializer) return true;
  const bool is_uniform = initializer->kind == TDM_INIT_UNIFORM && tdm_dtype_is_floating(dtype);
  tdm_status status = TDM_OK;
  if (is_uniform || initializer->kind == TDM_INIT_CONSTANT)
    status = tdm_dtype_check(dtype, "its initial value", initializer->a);
  if (status == TDM_OK && is_uniform)
    status = tdm_dtype_check(dtype, "the end of its initial values", initializer->b);
  if (status == TDM_OK) return true;
  tdm_graph_fail_message(graph, tdm_fail_within(status, "parameter %s", path));
  return false;
}

/* Returns the path from the top, or NULL with an error. */
static const char *path_from_top(tdm_graph *graph, const char *name, const char *suffix) {
  const char *prefix = tdm_graph_scope(graph)->prefix;
  const char *path = tdm_region_format(&graph->region, "%s%s%s", prefix, name, suffix);
  if (!path) {
    tdm_graph_fail_message(graph, TDM_OUT_OF_MEMORY);
    return NULL;
  }
  if (strncmp(path, TDM_CHECKPOINT_PREFIX, sizeof TDM_CHECKPOINT_PREFIX - 1) != 0) return path;
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                 "parameter %s: names that begin with \"%s\" are those of what checkpoints "
                 "have besides parameters; give its scope or layer another",
                 path, TDM_CHECKPOINT_PREFIX);
  return NULL;
}

/* Adds a persistent value with a new path. */
static tdm_value add_persistent(tdm_graph *graph, const char *path, const tdm_spec *spec,
                                const tdm_initializer *initializer, bool is_state, uint32_t like) {
  if (!holds_initial(graph, path, spec->dtype, initializer)) return TDM_NO_VALUE;
  const tdm_ir_value value = {.spec = tdm_ir_share_spec(graph, spec),
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
  tdm_table_shard shard = {0};
  if (!shard_of_state(graph, like, path, spec, &shard))
    return tdm_graph_fail_message(graph, TDM_OUT_OF_MEMORY);
  graph->persistents.items[graph->persistents.count++] =
      (tdm_graph_persistent){.name = path,
                             .value = index,
                             .initializer = initializer ? *initializer : zeros,
                             .like = like,
                             .origin = UINT32_MAX,
                             .is_state = is_state,
                             .shard = shard};
  if (like) tdm_ir_value_at(graph, index)->device = tdm_ir_value_at(graph, like)->device;
  return tdm_ir_handle(graph, index);
}

static size_t number_of(const tdm_graph *graph, const char *path) {
  return (uintptr_t)tdm_map_get(&graph->persistent_names, path);
}

/* Returns the existing value of that path, or adds one. */
static tdm_value declare(tdm_graph *graph, const char *path, const tdm_spec *spec,
                         const tdm_initializer *initializer, bool is_state, uint32_t like) {
  const size_t known = number_of(graph, path);
  return known ? find_known(graph, known - 1, spec->dtype, &spec->shape)
               : add_persistent(graph, path, spec, initializer, is_state, like);
}

tdm_value tdm_parameter(tdm_graph *graph, const char *name, tdm_dtype dtype, tdm_shape shape,
                        const tdm_initializer *initializer) {
  const tdm_spec spec = {dtype, TDM_FORMAT_DENSE, shape};
  if (!tdm_graph_is_open(graph, name) || !is_legal(graph, "parameter", name, &spec))
    return TDM_NO_VALUE;
  const char *path = path_from_top(graph, name, "");
  return path ? declare(graph, path, &spec, initializer, false, 0) : TDM_NO_VALUE;
}

tdm_value tdm_get_parameter(tdm_graph *graph, const char *name) {
  if (!tdm_graph_is_open(graph, name)) return TDM_NO_VALUE;
  const char *path = path_from_top(graph, name, "");
  const size_t number = path ? number_of(graph, path) : 0;
  if (number) return tdm_ir_handle(graph, graph->persistents.items[number - 1].value);
  tdm_choices parameters;
  if (!path) return TDM_NO_VALUE;
  return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "the graph has no parameter '%.64s'; %s", path,
                        tdm_parameters_text(graph, path, &parameters));
}

tdm_value tdm_state(tdm_graph *graph, const char *name, tdm_dtype dtype, tdm_shape shape,
                    const tdm_initializer *initializer, tdm_value like) {
  const tdm_spec spec = {dtype, TDM_FORMAT_DENSE, shape};
  if (graph && like.index && !tdm_ir_owns(graph, like))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "state %s: what it is to live with is no value of the graph",
                          name ? name : "?");
  if (!tdm_graph_is_open(graph, name) || !is_legal(graph, "parameter", name, &spec))
    return TDM_NO_VALUE;
  const char *path = path_from_top(graph, name, "");
  return path ? declare(graph, path, &spec, initializer, true, like.index) : TDM_NO_VALUE;
}

tdm_value tdm_declare_state_of_each(tdm_graph *graph, const char *path, tdm_dtype dtype,
                                    tdm_shape shape, const tdm_initializer *initializer,
                                    tdm_value like) {
  const tdm_value state = tdm_state(graph, path, dtype, shape, initializer, like);
  if (!tdm_value_is_valid(state)) return state;
  tdm_graph_persistent *persistent =
      &graph->persistents.items[tdm_ir_value_at(graph, state.index)->binding];
  if (!persistent->shard.table) return state;
  persistent->shard.first = persistent->shard.index * shape.dims[0];
  persistent->shard.table_rows = persistent->shard.count * shape.dims[0];
  return state;
}

/* ---- Constants ------------------------------------------------------------------------------- */

/* Copies the elements into the graph's region. Returns NULL if memory is exhausted. An empty
 * constant has one byte, so that no constant has NULL. */
static const void *copy_elements(tdm_graph *graph, const void *data, size_t bytes) {
  void *copy = tdm_region_take(&graph->region, bytes > 0 ? bytes : 1, "constant");
  if (copy && bytes > 0) memcpy(copy, data, bytes);
  return copy;
}

/* Returns the name of a constant in stores. It is derived from the path and the contents, so graphs
 * that share a store share only equal constants. */
static const char *constant_name(tdm_graph *graph, const char *path, const tdm_spec *spec,
                                 const void *data, size_t bytes) {
  const uint64_t seed =
      tdm_hash_bytes(&spec->shape.dims, sizeof *spec->shape.dims * (size_t)spec->shape.rank,
                     (uint64_t)spec->dtype);
  return tdm_region_format(&graph->region, "constant:%s:%016" PRIx64 "%016" PRIx64, path,
                           tdm_hash_bytes(data, bytes, seed), tdm_hash_bytes(data, bytes, ~seed));
}

static tdm_value add_constant(tdm_graph *graph, const char *path, const tdm_spec *spec,
                              const void *data) {
  const size_t bytes = (size_t)tdm_shape_bytes(&spec->shape, spec->dtype);
  const char *name = constant_name(graph, path, spec, data, bytes);
  const size_t known = name ? number_of(graph, name) : 0;
  if (known) return tdm_ir_handle(graph, graph->persistents.items[known - 1].value);
  const void *copy = name ? copy_elements(graph, data, bytes) : NULL;
  if (!copy) return tdm_graph_fail_message(graph, TDM_OUT_OF_MEMORY);
  const tdm_value value = add_persistent(graph, name, spec, NULL, true, 0);
  if (!tdm_value_is_valid(value)) return value;
  tdm_ir_value_at(graph, value.index)->name = path;
  graph->persistents.items[graph->persistents.count - 1].data = copy;
  return value;
}

tdm_value tdm_constant(tdm_graph *graph, const char *name, tdm_dtype dtype, tdm_shape shape,
                       const void *data) {
  name = tdm_graph_name(graph, name);
  const tdm_spec spec = {dtype, TDM_FORMAT_DENSE, shape};
  if (!tdm_graph_is_open(graph, name) || !is_legal(graph, "constant", name, &spec))
    return TDM_NO_VALUE;
  if (!data && tdm_shape_count(&shape) > 0)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "constant %s: its data is NULL", name);
  const char *path = path_from_top(graph, name, "");
  return path ? add_constant(graph, path, &spec, data) : TDM_NO_VALUE;
}

/* ---- Layers, and ties ------------------------------------------------------------------------ */

void tdm_tie(tdm_graph *graph, const char *name, const char *of) {
  if (!tdm_graph_describes(graph, name) || !tdm_graph_describes(graph, of)) return;
  tdm_described *described = graph->described;
  const char *prefix = tdm_graph_scope(graph)->prefix;
  const tdm_graph_tie tie = {tdm_region_format(&graph->region, "%s%s", prefix, name),
                             tdm_region_format(&graph->region, "%s%s", prefix, of)};
  const uintptr_t number = described->ties.count + 1;
  if (!tie.name || !tie.of || TDM_ARRAY_RESERVE(graph, &described->ties, 1) != TDM_OK ||
      tdm_map_put(&described->tie_names, tie.name, (void *)number) != TDM_OK)
    tdm_graph_fail_message(graph, TDM_OUT_OF_MEMORY);
  else
    described->ties.items[described->ties.count++] = tie;
}

/* Returns the latest tie for the path, or NULL. */
static const tdm_graph_tie *find_tie(const tdm_graph *graph, const char *path) {
  const tdm_described *described = graph->described;
  uintptr_t latest = 0;
  for (size_t length = described && described->ties.count ? strcspn(path, "./") : 0; length > 0;) {
    const uintptr_t number = (uintptr_t)tdm_map_get_part(&described->tie_names, path, length);
    if (number > latest) latest = number;
    length = path[length] ? length + 1 + strcspn(path + length + 1, "./") : 0;
  }
  return latest ? &described->ties.items[latest - 1] : NULL;
}

static tdm_status add_alias(tdm_graph *graph, const char *path, size_t persistent) {
  tdm_described *described = graph->described;
  if (tdm_map_get(&described->alias_names, path)) return TDM_OK;
  TDM_TRY(TDM_ARRAY_RESERVE(graph, &described->aliases, 1));
  TDM_TRY(tdm_map_put(&described->alias_names, path, (void *)(described->aliases.count + 1)));
  described->aliases.items[described->aliases.count++] = (tdm_graph_alias){path, persistent};
  return TDM_OK;
}

static tdm_value declare_tied(tdm_graph *graph, const tdm_graph_tie *tie, const char *path,
                              const tdm_spec *spec) {
  const char *of = tdm_region_format(&graph->region, "%s%s", tie->of, path + strlen(tie->name));
  if (!of) return tdm_graph_fail_message(graph, TDM_OUT_OF_MEMORY);
  const size_t known = number_of(graph, of);
  if (known && add_alias(graph, path, known - 1) != TDM_OK)
    return tdm_graph_fail_message(graph, TDM_OUT_OF_MEMORY);
  if (known) return find_known(graph, known - 1, spec->dtype, &spec->shape);
  tdm_choices parameters;
  return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                        "parameter %s is tied to %s, which is not there; %s", path, of,
                        tdm_parameters_text(graph, of, &parameters));
}

static tdm_value declare_for_layer(tdm_graph *graph, const char *layer, const char *suffix,
                                   const tdm_spec *spec, const tdm_initializer *initializer,
                                   bool is_state, uint32_t like) {
  if (!tdm_graph_is_open(graph, layer)) return TDM_NO_VALUE;
  const char *path = path_from_top(graph, layer, suffix);
  if (!path || !is_legal(graph, "parameter", path, spec)) return TDM_NO_VALUE;
  const tdm_graph_tie *tie = find_tie(graph, path);
  const size_t known = number_of(graph, path);
  if (tie && strcmp(tie->name, tie->of) != 0) return declare_tied(graph, tie, path, spec);
  if (known && !tie && graph->persistents.items[known - 1].is_taken)
    return tdm_graph_fail(
        graph, TDM_INVALID_ARGUMENT,
        "%s: there is a layer of that name, which has parameter %s; give this one "
        "another name, or have it share parameters by tdm_tie(graph, \"%s\", "
        "\"%s\")",
        layer, path, layer, layer);
  const tdm_value value = declare(graph, path, spec, initializer, is_state, like);
  const size_t number = number_of(graph, path);
  if (number) graph->persistents.items[number - 1].is_taken = true;
  return value;
}

tdm_value tdm_declare_for_layer(tdm_graph *graph, const char *layer, const char *suffix,
                                tdm_dtype dtype, const tdm_shape *shape,
                                const tdm_initializer *initializer) {
  const tdm_spec spec = {dtype, TDM_FORMAT_DENSE, *shape};
  return declare_for_layer(graph, layer, suffix, &spec, initializer, false, 0);
}

tdm_value tdm_declare_state_for_layer(tdm_graph *graph, const char *layer, const char *suffix,
                                      tdm_dtype dtype, const tdm_shape *shape,
                                      const tdm_initializer *initializer, tdm_value like) {
  const tdm_spec spec = {dtype, TDM_FORMAT_DENSE, *shape};
  return declare_for_layer(graph, layer, suffix, &spec, initializer, true, like.index);
}
