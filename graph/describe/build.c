/* Describes a graph: inputs, parameters, outputs, scopes, nodes. Invariant: after the first error
 * nothing is added; each function returns the invalid value, and the error remains. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/utf8.h"
#include "graph/describe/record_flaw.h"
#include "graph/ir/rewriter.h"

tdm_graph *tdm_graph_create(tdm_context *context) {
  if (!context) {
    (void)tdm_fail_null("tdm_graph_create: the context");
    return NULL;
  }
  if (tdm_context_check(context) != TDM_OK) return NULL;
  const tdm_allocator *allocator = tdm_context_allocator(context);
  tdm_graph *graph = tdm_allocate(allocator, sizeof *graph, "graph");
  if (!graph) return NULL;
  if (tdm_graph_init_described(graph, context) == TDM_OK) return graph;
  tdm_graph_deinit(graph);
  tdm_release(allocator, graph, sizeof *graph);
  return NULL;
}

tdm_graph *tdm_graph_retain(tdm_graph *graph) {
  if (graph && graph->described)
    atomic_fetch_add_explicit(&graph->described->references, 1, memory_order_relaxed);
  return graph;
}

void tdm_graph_release(tdm_graph *graph) {
  if (!graph || !graph->described || tdm_context_is_inherited(graph->context)) return;
  if (atomic_fetch_sub(&graph->described->references, 1) != 1) return;
  tdm_context *context = tdm_context_retain(graph->context);
  tdm_graph_deinit(graph);
  tdm_release(tdm_context_allocator(context), graph, sizeof *graph);
  tdm_context_release(context);
}

tdm_status tdm_graph_status(const tdm_graph *graph) {
  if (!graph) return tdm_fail_null("tdm_graph_status: the graph");
  TDM_TRY(tdm_context_check(graph->context));
  return graph->status == TDM_OK ? TDM_OK : tdm_fail(graph->status, "%s", graph->message);
}

tdm_context *tdm_graph_context(const tdm_graph *graph) {
  return graph ? graph->context : NULL;
}

tdm_value tdm_graph_fail(tdm_graph *graph, tdm_status status, const char *format, ...) {
  if (!graph) (void)tdm_fail_null("the graph");
  if (!graph || graph->status != TDM_OK) return TDM_NO_VALUE;
  char text[TDM_MESSAGE_BYTES];
  va_list arguments;
  va_start(arguments, format);
  tdm_message_format(text, sizeof text, format, arguments);
  va_end(arguments);
  (void)tdm_fail(status, "%s", text);
  graph->status = status == TDM_OK ? TDM_INTERNAL : status;
  memcpy(graph->message, text, sizeof text);
  return TDM_NO_VALUE;
}

tdm_value tdm_graph_fail_message(tdm_graph *graph, tdm_status status) {
  return tdm_graph_fail(graph, status, "%s", tdm_last_message());
}

bool tdm_graph_is_open(tdm_graph *graph, const char *name) {
  if (!graph) {
    (void)tdm_fail_null("the graph");
    return false;
  }
  if (graph->status != TDM_OK) return false;
  if (graph->described && graph->described->frozen) {
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s: the graph is frozen by a session",
                   name ? name : "?");
    return false;
  }
  if (name && graph->lent && name == graph->lent->name) return true;
  if (name && *name && tdm_utf8_is_valid(name, strlen(name))) return true;
  if (name && *name)
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "the name \"%s\" is not UTF-8", name);
  else
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "a name is missing");
  return false;
}

bool tdm_graph_describes(tdm_graph *graph, const char *name) {
  if (!tdm_graph_is_open(graph, name)) return false;
  if (graph->described) return true;
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s: a rule of an operation only appends nodes",
                 name);
  return false;
}

const tdm_scope *tdm_graph_scope(const tdm_graph *graph) {
  static const tdm_scope outermost = {.prefix = "", .dtype = TDM_FLOAT32};
  const tdm_described *described = graph->described;
  return described ? &described->scopes[described->scope_depth] : &outermost;
}

/* Returns the current scope of a user's graph. */
static tdm_scope *scope_of(tdm_graph *graph) {
  return &graph->described->scopes[graph->described->scope_depth];
}

static const char *path_of(tdm_graph *graph, const char *name) {
  if (graph->lent && name == graph->lent->name) return name;
  const char *prefix = tdm_graph_scope(graph)->prefix;
  return *prefix ? tdm_region_format(&graph->region, "%s%s", prefix, name)
                 : tdm_region_string(&graph->region, name);
}

/* Returns how many times key was counted before. Sets the graph's error if memory is exhausted. */
static uintptr_t count_up(tdm_graph *graph, tdm_map *counts, const char *key) {
  const uintptr_t before = (uintptr_t)tdm_map_get(counts, key);
  if (tdm_map_put(counts, key, (void *)(before + 1)) != TDM_OK)
    tdm_graph_fail_message(graph, TDM_OUT_OF_MEMORY);
  return before;
}

const char *tdm_graph_name(tdm_graph *graph, const char *name) {
  if (name) return name;
  if (!tdm_graph_is_open(graph, "a layer without a name")) return "?";
  const uintptr_t number = count_up(graph, &graph->nameless, tdm_graph_scope(graph)->prefix);
  const char *made = tdm_region_format(&graph->region, "%zu", (size_t)number);
  if (made) return made;
  tdm_graph_fail_message(graph, TDM_OUT_OF_MEMORY);
  return "?";
}

uint64_t tdm_graph_stream(tdm_graph *graph, const char *name) {
  const char *path = tdm_graph_is_open(graph, name) ? path_of(graph, name) : NULL;
  if (!path) return 0;
  const uint64_t before = count_up(graph, &graph->streams, path);
  return tdm_random_stream(path) + before * UINT64_C(0x9e3779b97f4a7c15); /* the first has 0 here */
}

/* Returns index unless it is a part of a kept value that was overwritten later; then returns 0 with
 * an error. */
static uint32_t current_index(tdm_graph *graph, uint32_t index, const char *kind,
                              const char *name) {
  const tdm_graph_kept *kept = graph->kepts.count ? tdm_ir_kept(graph, index) : NULL;
  if (!kept || index >= kept->written) return index;
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                 "%s %s: %s was written since; read what the latest tdm_keep_rows has answered",
                 kind, name, tdm_ir_value_at(graph, kept->value)->name);
  return 0;
}

/* Returns the index of a value. Returns 0 for a foreign or invalid one, with an error unless the
 * graph has one already. kind: the kind of object that name belongs to. */
static uint32_t index_of(tdm_graph *graph, tdm_value value, const char *kind, const char *name) {
  if (tdm_ir_owns(graph, value)) return current_index(graph, value.index, kind, name);
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: %s", kind, name,
                 value.index == 0 ? "an input that it needs is not a value"
                                  : "an input is a value of another graph");
  return 0;
}

tdm_value tdm_input(tdm_graph *graph, const char *name, tdm_dtype dtype, tdm_shape shape) {
  if (!tdm_graph_describes(graph, name)) return TDM_NO_VALUE;
  if (tdm_dtype_bytes(dtype) == 0)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "input %s: %d is no dtype", name,
                          (int)dtype);
  if (!tdm_shape_is_valid(&shape))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "input %s: its shape is not legal: tdm_shape_of(rank, ...) takes as many "
                          "dimensions as rank says, %d at most, each a size or a name of 1 to 12 "
                          "letters a-z, digits and _",
                          name, TDM_MAX_RANK);
  const tdm_spec spec = {.dtype = dtype, .shape = shape};
  if (!tdm_ir_is_possible(&spec)) {
    char text[TDM_SHAPE_TEXT];
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "input %s: %s %s is larger than any memory",
                          name, tdm_dtype_name(dtype), tdm_shape_text(&shape, text, sizeof text));
  }
  const char *path = path_of(graph, name);
  if (path && tdm_map_get(&graph->described->input_names, path))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "input %s is declared twice", path);
  tdm_ir_value value = {.spec = tdm_ir_share_spec(graph, &spec),
                        .kind = TDM_VALUE_INPUT,
                        .binding = (uint32_t)graph->inputs.count,
                        .device = TDM_NO_DEVICE,
                        .name = path};
  if (!path || TDM_ARRAY_RESERVE(graph, &graph->inputs, 1) != TDM_OK)
    return tdm_graph_fail_message(graph, TDM_OUT_OF_MEMORY);
  const uint32_t index = tdm_ir_add_value(graph, &value);
  const uintptr_t number = graph->inputs.count + 1;
  if (!index || tdm_map_put(&graph->described->input_names, path, (void *)number) != TDM_OK)
    return tdm_graph_fail_message(graph, TDM_OUT_OF_MEMORY);
  graph->inputs.items[graph->inputs.count++] = index;
  return tdm_ir_handle(graph, index);
}

static void add_output(tdm_graph *graph, const char *name, tdm_value value, int16_t device) {
  tdm_described *described = graph->described;
  const uint32_t index = index_of(graph, value, "output", name);
  if (!index) return;
  if (tdm_map_get(&described->output_names, name)) {
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "output %s is declared twice", name);
    return;
  }
  const char *copy = tdm_region_string(&graph->region, name);
  const uintptr_t number = described->outputs.count + 1;
  if (!copy || TDM_ARRAY_RESERVE(graph, &described->outputs, 1) != TDM_OK ||
      tdm_map_put(&described->output_names, copy, (void *)number) != TDM_OK) {
    tdm_graph_fail_message(graph, TDM_OUT_OF_MEMORY);
    return;
  }
  described->outputs.items[described->outputs.count++] = (tdm_graph_output){copy, index, device};
}

void tdm_output(tdm_graph *graph, const char *name, tdm_value value) {
  if (tdm_graph_describes(graph, name)) add_output(graph, name, value, TDM_HOST_DEVICE);
}

void tdm_output_on(tdm_graph *graph, const char *name, tdm_value value, const char *device) {
  if (!tdm_graph_describes(graph, name)) return;
  if (!device) {
    add_output(graph, name, value, TDM_NO_DEVICE);
    return;
  }
  const tdm_device *found = tdm_context_find_placement(graph->context, device);
  if (!found) {
    const tdm_status status = tdm_fail_within(TDM_UNAVAILABLE, "output %s", name);
    tdm_graph_fail_message(graph, status);
  } else if (found->rank != 0) {
    tdm_graph_fail(
        graph, TDM_INVALID_ARGUMENT,
        "output %s: %s is a device of rank %d; every rank is handed it on its own device "
        "of rank 0's kind and number, so name one of those",
        name, found->name, found->rank);
  } else {
    add_output(graph, name, value, (int16_t)found->context_index);
  }
}

void tdm_place(tdm_graph *graph, const char *device) {
  if (!tdm_graph_describes(graph, "tdm_place")) return;
  const tdm_device *found = tdm_context_find_placement(graph->context, device ? device : "");
  tdm_scope *scope = scope_of(graph);
  scope->absent = NULL;
  if (found) {
    scope->device = found;
    return;
  }
  scope->absent = tdm_region_string(&graph->region, tdm_last_message());
  if (!scope->absent) tdm_graph_fail_message(graph, TDM_OUT_OF_MEMORY);
}

void tdm_place_value(tdm_graph *graph, tdm_value value, const char *device) {
  if (!tdm_graph_is_open(graph, "tdm_place_value")) return;
  const uint32_t index = index_of(graph, value, "tdm_place_value", device ? device : "");
  if (!index) return;
  const tdm_device *found = tdm_context_find_placement(graph->context, device ? device : "");
  const uint32_t producer = tdm_ir_value_at(graph, index)->producer;
  if (!found)
    tdm_graph_fail_message(graph, TDM_UNAVAILABLE);
  else if (producer)
    tdm_ir_node_at(graph, producer)->wanted = tdm_wanted(found);
  else
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s: inputs and parameters follow their consumer",
                   tdm_ir_value_at(graph, index)->name);
}

/* Enters a scope. prefix is NULL if memory was exhausted. */
static void enter_scope(tdm_graph *graph, const char *name, const char *prefix) {
  if (!prefix) {
    tdm_graph_fail_message(graph, TDM_OUT_OF_MEMORY);
    return;
  }
  if (graph->described->scope_depth + 1 >= TDM_MAX_SCOPES) {
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s: more than %d scopes", name, TDM_MAX_SCOPES);
    return;
  }
  const tdm_scope outer = *scope_of(graph);
  graph->described->scope_depth++;
  *scope_of(graph) = outer;
  scope_of(graph)->prefix = prefix;
}

void tdm_scope_push(tdm_graph *graph, const char *name) {
  name = tdm_graph_name(graph, name);
  if (!tdm_graph_describes(graph, name)) return;
  const char *outer = scope_of(graph)->prefix;
  enter_scope(graph, name, tdm_region_format(&graph->region, "%s%s/", outer, name));
}

void tdm_scope_push_index(tdm_graph *graph, const char *name, int64_t index) {
  if (!tdm_graph_describes(graph, name)) return;
  const char *outer = scope_of(graph)->prefix;
  enter_scope(graph, name,
              tdm_region_format(&graph->region, "%s%s/%" PRId64 "/", outer, name, index));
}

void tdm_scope_pop(tdm_graph *graph) {
  if (graph && graph->described && graph->described->frozen)
    return; /* the end of a scope may come after the session, which does
             * not need it */
  if (!tdm_graph_describes(graph, "tdm_scope_pop")) return;
  if (graph->described->scope_depth == 0)
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "tdm_scope_pop without a matching push");
  else
    graph->described->scope_depth--;
}

void tdm_scope_dtype(tdm_graph *graph, tdm_dtype dtype) {
  if (!tdm_graph_describes(graph, "tdm_scope_dtype")) return;
  if (tdm_dtype_is_floating(dtype))
    scope_of(graph)->dtype = dtype;
  else
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "a scope's dtype is floating, not %s",
                   tdm_dtype_name(dtype));
}

void tdm_scope_evaluate(tdm_graph *graph, bool evaluates) {
  if (!tdm_graph_describes(graph, "tdm_scope_evaluate")) return;
  scope_of(graph)->evaluates = evaluates;
}

tdm_dtype tdm_graph_dtype(const tdm_graph *graph) {
  return graph ? tdm_graph_scope(graph)->dtype : TDM_DTYPE_NONE;
}

tdm_shape tdm_value_shape(const tdm_graph *graph, tdm_value value) {
  tdm_shape none = {.rank = -1};
  if (!graph || !tdm_ir_owns(graph, value)) return none;
  return tdm_ir_value_at(graph, value.index)->spec->shape;
}

tdm_dtype tdm_value_dtype(const tdm_graph *graph, tdm_value value) {
  if (!graph || !tdm_ir_owns(graph, value)) return TDM_DTYPE_NONE;
  return tdm_ir_value_at(graph, value.index)->spec->dtype;
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

/* Returns true if the operation has all that shape inference requires; otherwise false with an
 * error. */
static bool check_operation(tdm_graph *graph, const tdm_operation *operation, const char *name,
                            const void *attributes) {
  const tdm_operation **sound = &graph->sound[(uintptr_t)operation / 64 % TDM_SOUND_RECORDS];
  const char *flaw = *sound == operation ? NULL : tdm_record_flaw(operation);
  if (!flaw) *sound = operation;
  if (!flaw && operation->attribute_bytes > 0 && !attributes) flaw = "it lacks attributes";
  if (!flaw) return true;
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: %s", operation->name ? operation->name : "?",
                 name, flaw);
  return false;
}

/* Returns true if the operation overwrites only values that persist, and only in the last phase of
 * a run. Only optimizers and rules `persist` append to that phase. Otherwise returns false with an
 * error. */
static bool check_overwriting(tdm_graph *graph, const tdm_operation *operation, const char *name,
                              const uint32_t *inputs, size_t output_count) {
  if (operation == &tdm_operation_index_copy || operation == &tdm_operation_keep) return true;
  for (size_t i = 0; i < output_count; i++) {
    if (!operation->overwrites[i]) continue;
    const uint32_t input = inputs[operation->overwrites[i] - 1];
    const tdm_ir_value *root = tdm_ir_value_at(graph, tdm_ir_value_at(graph, input)->root);
    const bool updates = graph->lent && graph->lent->updates;
    if (updates && root->kind == TDM_VALUE_PERSISTENT) continue;
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                   "%s %s: it overwrites its input %d, which a parameter or state alone may be, of "
                   "what an optimizer or a rule `persist` appends",
                   operation->name, name, operation->overwrites[i] - 1);
    return false;
  }
  return true;
}

/* Returns the number of a node's inputs: the operation's maximum, so that missing optional inputs
 * have an index in rules and kernels. An operation that accepts a list has as many as were
 * passed. */
static size_t node_inputs(const tdm_operation *operation, size_t given) {
  const bool is_list = !TDM_OPERATION_HAS(operation, takes_list) || operation->takes_list;
  return is_list || operation->max_inputs > TDM_KERNEL_MAX_INPUTS ? given : operation->max_inputs;
}

/* Reads the handles. Returns false, with an error unless the graph has one already, if a handle
 * does not belong to the graph. */
static bool read_inputs(tdm_graph *graph, const tdm_operation *operation, const char *name,
                        const tdm_value *inputs, size_t count, uint32_t *out_indices) {
  if (count < operation->min_inputs || count > operation->max_inputs ||
      count > TDM_KERNEL_MAX_INPUTS) {
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: %zu inputs, and it takes %d to %d",
                   operation->name, name, count, operation->min_inputs, operation->max_inputs);
    return false;
  }
  if (count > 0 && !inputs) {
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: %zu inputs, and the list of them is NULL",
                   operation->name, name, count);
    return false;
  }
  for (size_t i = 0; i < operation->max_inputs && i < TDM_KERNEL_MAX_INPUTS; i++) {
    out_indices[i] = 0;
    if (i >= count || (i >= operation->min_inputs && !tdm_value_is_valid(inputs[i]))) continue;
    out_indices[i] = index_of(graph, inputs[i], tdm_operation_layer(operation), name);
    if (!out_indices[i]) return false;
  }
  return true;
}

/* Writes the dtypes that kernels of the operation on the host support, "float32, float64", or an
 * empty text if there are none. */
static const char *kernel_dtypes(const tdm_graph *graph, const char *operation, char *text,
                                 size_t capacity) {
  size_t length = 0;
  text[0] = 0;
  for (int i = TDM_DTYPE_NONE + 1; i < TDM_DTYPE_COUNT; i++) {
    const tdm_dtype dtype = (tdm_dtype)i;
    if (length >= capacity || !tdm_context_find_kernel(graph->context, operation, "cpu", dtype))
      continue;
    const int added = snprintf(text + length, capacity - length, "%s%s", length > 0 ? ", " : "",
                               tdm_dtype_name(dtype));
    length += added > 0 ? (size_t)added : 0;
  }
  return text;
}

/* Returns true if a kernel supports the dtype of the node's first output, or if the operation has
 * no kernels yet, because users may register theirs later. Otherwise the graph's error names the
 * legal dtypes. */
static bool check_dtype(tdm_graph *graph, const tdm_operation *operation, const char *path,
                        uint32_t first) {
  const tdm_dtype dtype = tdm_ir_value_at(graph, first)->spec->dtype;
  if (graph->lent || operation->is_view ||
      tdm_context_find_kernel(graph->context, operation->name, "cpu", dtype))
    return true;
  char text[128];
  if (!*kernel_dtypes(graph, operation->name, text, sizeof text)) return true;
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: its result would be %s, and can be %s",
                 tdm_operation_layer(operation), path, tdm_dtype_name(dtype), text);
  return false;
}

/* Returns where to insert: at the insertion that was lent to a rule, or at the end for a user's
 * call. */
static tdm_insertion insertion_for(const tdm_graph *graph, const char *path) {
  const tdm_scope *scope = tdm_graph_scope(graph);
  tdm_insertion at = {
      .device = TDM_NO_DEVICE, .wanted = tdm_wanted(scope->device), .evaluates = scope->evaluates};
  if (graph->lent) at = *graph->lent;
  at.name = path;
  return at;
}

tdm_value tdm_append(tdm_graph *graph, const tdm_operation *operation, const char *name,
                     const void *attributes, const tdm_value *inputs, size_t input_count,
                     tdm_value *outputs) {
  const bool asked = operation && (attributes || operation->attribute_bytes == 0);
  const size_t output_count = asked ? tdm_ir_output_count(operation, attributes) : 0;
  for (size_t i = 0; outputs && i < output_count; i++)
    outputs[i] = TDM_NO_VALUE;
  name = tdm_graph_name(graph, name);
  if (!operation) return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s: no operation", name);
  if (!tdm_graph_is_open(graph, name)) return TDM_NO_VALUE;
  if (!check_operation(graph, operation, name, attributes)) return TDM_NO_VALUE;
  if (output_count == 0 || output_count > TDM_KERNEL_MAX_OUTPUTS)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: %zu outputs", operation->name, name,
                          output_count);
  uint32_t indices[TDM_KERNEL_MAX_INPUTS];
  if (!read_inputs(graph, operation, name, inputs, input_count, indices)) return TDM_NO_VALUE;
  if (!check_overwriting(graph, operation, name, indices, output_count)) return TDM_NO_VALUE;
  const char *path = path_of(graph, name);
  if (!path) return tdm_graph_fail_message(graph, TDM_OUT_OF_MEMORY);
  const char *absent = tdm_graph_scope(graph)->absent;
  if (!graph->lent && absent) return tdm_graph_fail(graph, TDM_UNAVAILABLE, "%s: %s", path, absent);
  const tdm_insertion at = insertion_for(graph, path);
  const uint32_t first =
      tdm_insert(graph, &at, operation, attributes, indices, node_inputs(operation, input_count));
  if (first && !check_dtype(graph, operation, path, first)) return TDM_NO_VALUE;
  for (uint32_t i = 0; outputs && first && i < output_count; i++)
    outputs[i] = tdm_ir_handle(graph, first + i);
  return tdm_ir_handle(graph, first);
}
