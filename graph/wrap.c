/* The user's side of data parallelism: which nodes a wrapped part has, its devices, how values
 * enter it. Invariant: two wrapped parts are apart, or one lies in the other. */
#include <string.h>

#include "core/allocate.h"
#include "graph/ir.h"

static bool is_below(const char *path, const char *scope, size_t length) {
  return length == 0 ||
         (strncmp(path, scope, length) == 0 && (path[length] == '/' || path[length] == 0));
}

/* Is it below one of the scopes of the list? "": everything is. */
static bool is_below_any(const char *path, const char *scopes) {
  for (const char *at = scopes;;) {
    const size_t length = strcspn(at, ",");
    if (is_below(path, at, length)) return true;
    if (at[length] == 0) return false;
    at += length + 1;
  }
}

static bool is_inside(const tdm_graph *graph, uint16_t wrap, uint16_t outer) {
  while (wrap && wrap != outer)
    wrap = graph->wraps.items[wrap].parent;
  return wrap == outer;
}

/* ---- Options ---- */

static tdm_status read_devices(tdm_graph *graph, const char *list, tdm_graph_wrap *wrap) {
  tdm_device *devices[TDM_MAX_PARTS];
  size_t count;
  TDM_TRY(tdm_context_find_devices(graph->context, list, TDM_MAX_PARTS, devices, &count));
  for (size_t i = 0; i < count; i++)
    wrap->devices[i] = (int16_t)devices[i]->context_index;
  wrap->device_count = (uint16_t)count;
  return TDM_OK;
}

static tdm_status read_weights(const double *weights, tdm_graph_wrap *wrap) {
  wrap->weighted = weights != NULL;
  double sum = 0;
  for (uint16_t i = 0; weights && i < wrap->device_count; i++) {
    if (!(weights[i] >= 0 && weights[i] < 1e300))
      return tdm_fail(TDM_INVALID_ARGUMENT, "weight %g of device %d is not possible", weights[i],
                      (int)i);
    wrap->weights[i] = weights[i];
    sum += weights[i];
  }
  if (weights && sum <= 0) return tdm_fail(TDM_INVALID_ARGUMENT, "all weights are 0");
  return TDM_OK;
}

static tdm_status read_scatter(tdm_graph *graph, const tdm_parallel_options *options,
                               tdm_graph_wrap *wrap) {
  if (options->scatter_count == 0) return TDM_OK;
  wrap->inputs = tdm_region_take(&graph->region, options->scatter_count * sizeof *wrap->inputs,
                                 "wrapped part");
  if (!wrap->inputs) return TDM_OUT_OF_MEMORY;
  for (size_t i = 0; i < options->scatter_count; i++) {
    const tdm_scatter *scatter = &options->scatter[i];
    const int rank = tdm_value_shape(graph, scatter->value).rank;
    if (rank < 0) return tdm_fail(TDM_INVALID_ARGUMENT, "scatter %zu names no value", i);
    int dimension = scatter->dimension;
    if (dimension != TDM_BROADCAST && dimension < 0) dimension += rank;
    if (dimension != TDM_BROADCAST && (dimension < 0 || dimension >= rank))
      return tdm_fail(TDM_INVALID_ARGUMENT, "scatter %zu: its value has no dimension %d", i,
                      scatter->dimension);
    wrap->inputs[wrap->input_count++] = (tdm_wrap_input){scatter->value.index, dimension};
  }
  return TDM_OK;
}

static tdm_status read_options(tdm_graph *graph, const tdm_parallel_options *options,
                               tdm_graph_wrap *wrap) {
  TDM_TRY(read_devices(graph, options->devices, wrap));
  TDM_TRY(read_weights(options->weights, wrap));
  wrap->output_device = wrap->devices[0];
  if (options->output_device) {
    const tdm_device *device = tdm_context_find_device(graph->context, options->output_device);
    if (!device) return TDM_UNAVAILABLE;
    wrap->output_device = (int16_t)device->context_index;
  }
  return read_scatter(graph, options, wrap);
}

/* ---- Nodes ---- */

/* Puts a node into the new wrap: itself, or the outermost of those it lies in. */
static void enclose(tdm_graph *graph, tdm_ir_node *node, uint16_t wrap) {
  if (!node->wrap) {
    node->wrap = wrap;
    return;
  }
  uint16_t outermost = node->wrap;
  while (graph->wraps.items[outermost].parent && graph->wraps.items[outermost].parent != wrap)
    outermost = graph->wraps.items[outermost].parent;
  if (!is_inside(graph, node->wrap, wrap)) graph->wraps.items[outermost].parent = wrap;
}

/* Scopes inside an older wrap: their nodes that belong to the older one now belong to the new. */
static bool lies_inside_one(const tdm_graph *graph, const char *scopes, uint16_t *out_outer) {
  *out_outer = 0;
  bool any = false;
  for (size_t i = 0; i < graph->order.count; i++) {
    const tdm_ir_node *node = tdm_ir_node_at(graph, graph->order.items[i]);
    if (!is_below_any(node->name, scopes)) continue;
    if (any && node->wrap != *out_outer) return false;
    *out_outer = node->wrap;
    any = true;
  }
  if (!any || !*out_outer) return false;
  for (size_t i = 0; i < graph->order.count; i++) {
    const tdm_ir_node *node = tdm_ir_node_at(graph, graph->order.items[i]);
    if (node->wrap == *out_outer && !is_below_any(node->name, scopes)) return true;
  }
  return false; /* the same nodes: the new one is around the old one */
}

/* Every scope of the list has nodes. */
static tdm_status check_scopes(const tdm_graph *graph, const char *scopes) {
  for (const char *at = scopes;;) {
    const size_t length = strcspn(at, ",");
    bool any = false;
    for (size_t i = 0; i < graph->order.count && !any; i++)
      any = is_below(tdm_ir_node_at(graph, graph->order.items[i])->name, at, length);
    if (!any || (length == 0 && *scopes))
      return tdm_fail(TDM_INVALID_ARGUMENT, "nothing has been built below \"%.*s\"", (int)length,
                      at);
    if (at[length] == 0) return TDM_OK;
    at += length + 1;
  }
}

/* An older wrap lies in the scopes, or they in it, or they are apart. */
static tdm_status check_nesting(const tdm_graph *graph, const char *scopes) {
  for (uint16_t w = 1; w < graph->wraps.count; w++) {
    bool shared = false;
    bool only_old = false;
    bool only_new = false;
    for (size_t i = 0; i < graph->order.count; i++) {
      const tdm_ir_node *node = tdm_ir_node_at(graph, graph->order.items[i]);
      const bool in_old = is_inside(graph, node->wrap, w);
      const bool in_new = is_below_any(node->name, scopes);
      shared |= in_old && in_new;
      only_old |= in_old && !in_new;
      only_new |= in_new && !in_old;
    }
    if (shared && only_old && only_new)
      return tdm_fail(TDM_INVALID_ARGUMENT, "a part of %s, which is wrapped, and not all of it",
                      graph->wraps.items[w].name);
  }
  return TDM_OK;
}

static void mark(tdm_graph *graph, const char *scopes, uint16_t wrap) {
  uint16_t outer;
  const bool inner = lies_inside_one(graph, scopes, &outer);
  if (inner) graph->wraps.items[wrap].parent = outer;
  for (size_t i = 0; i < graph->order.count; i++) {
    tdm_ir_node *node = tdm_ir_node_at(graph, graph->order.items[i]);
    if (!is_below_any(node->name, scopes)) continue;
    if (inner)
      node->wrap = wrap;
    else
      enclose(graph, node, wrap);
  }
}

static tdm_status add_wrap(tdm_graph *graph, const char *scope,
                           const tdm_parallel_options *options) {
  if (graph->wraps.count == 0) {
    TDM_TRY(TDM_ARRAY_RESERVE(graph, &graph->wraps, 2));
    memset(&graph->wraps.items[0], 0, sizeof graph->wraps.items[0]);
    graph->wraps.count = 1; /* 0 is none */
  }
  if (graph->wraps.count > UINT16_MAX) return tdm_fail(TDM_UNSUPPORTED, "too many wrapped parts");
  TDM_TRY(check_scopes(graph, scope));
  TDM_TRY(check_nesting(graph, scope));
  TDM_TRY(TDM_ARRAY_RESERVE(graph, &graph->wraps, 1));
  tdm_graph_wrap wrap = {.name = tdm_region_string(&graph->region, *scope ? scope : "the graph")};
  if (!wrap.name) return TDM_OUT_OF_MEMORY;
  TDM_TRY(read_options(graph, options, &wrap));
  graph->wraps.items[graph->wraps.count++] = wrap;
  mark(graph, scope, (uint16_t)(graph->wraps.count - 1));
  return TDM_OK;
}

void tdm_data_parallel(tdm_graph *graph, const char *scope, const tdm_parallel_options *options) {
  if (!graph || graph->status != TDM_OK) return;
  tdm_status status;
  if (graph->frozen)
    status = tdm_fail(TDM_INVALID_ARGUMENT, "a session was made from the graph");
  else if (!scope || !options)
    status = tdm_fail(TDM_INVALID_ARGUMENT, "no scope or no options");
  else
    status = add_wrap(graph, scope, options);
  if (status == TDM_OK) return;
  tdm_fail_within(status, "data parallel over %s", scope && *scope ? scope : "the graph");
  tdm_graph_fail_message(graph, status);
}
