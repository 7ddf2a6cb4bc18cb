/* The public functions for data parallelism: they select the nodes and devices of a parallel
 * region, and how values enter it. Invariant: two parallel regions are disjoint, or one contains
 * the other. */
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/options.h"
#include "graph/describe/gradient_of.h"
#include "graph/describe/parallel_region.h"
#include "graph/describe/shard.h"
#include "graph/ir/names.h"
#include "graph/ir/rewriter.h"

static bool is_below(const char *path, const char *scope, size_t length) {
  return length == 0 ||
         (strncmp(path, scope, length) == 0 && (path[length] == '/' || path[length] == 0));
}

/* ---- Options --------------------------------------------------------------------------------- */

static tdm_status read_devices(tdm_graph *graph, const char *list,
                               tdm_parallel_region *parallel_region) {
  tdm_device *devices[TDM_MAX_PARTS];
  size_t count;
  TDM_TRY(tdm_context_find_placements(graph->context, list, TDM_MAX_PARTS, devices, &count));
  int16_t *indices =
      tdm_region_take(&graph->region, count * sizeof *parallel_region->devices, "parallel region");
  if (!indices) return TDM_OUT_OF_MEMORY;
  for (size_t i = 0; i < count; i++)
    indices[i] = (int16_t)devices[i]->context_index;
  parallel_region->devices = indices;
  parallel_region->device_count = (uint16_t)count;
  return TDM_OK;
}

static tdm_status read_weights(tdm_graph *graph, const double *weights,
                               tdm_parallel_region *parallel_region) {
  if (!weights) return TDM_OK;
  double *copy = tdm_region_take(&graph->region, parallel_region->device_count * sizeof *copy,
                                 "parallel region");
  if (!copy) return TDM_OUT_OF_MEMORY;
  double sum = 0;
  for (uint16_t i = 0; i < parallel_region->device_count; i++) {
    if (!(weights[i] >= 0 && weights[i] < 1e300))
      return tdm_fail(TDM_INVALID_ARGUMENT, "weight %g of device %d is not possible", weights[i],
                      (int)i);
    copy[i] = weights[i];
    sum += weights[i];
  }
  parallel_region->weights = copy;
  if (sum <= 0) return tdm_fail(TDM_INVALID_ARGUMENT, "all weights are 0");
  return TDM_OK;
}

static tdm_status read_scatter(tdm_graph *graph, const tdm_parallel_options *options,
                               tdm_parallel_region *parallel_region) {
  if (options->scatter_count == 0) return TDM_OK;
  parallel_region->inputs = tdm_region_take(
      &graph->region, options->scatter_count * sizeof *parallel_region->inputs, "parallel region");
  if (!parallel_region->inputs) return TDM_OUT_OF_MEMORY;
  for (size_t i = 0; i < options->scatter_count; i++) {
    const tdm_scatter *scatter = &options->scatter[i];
    const int rank = tdm_value_shape(graph, scatter->value).rank;
    if (rank < 0) return tdm_fail(TDM_INVALID_ARGUMENT, "scatter %zu names no value", i);
    int dimension = scatter->dimension;
    if (dimension != TDM_BROADCAST && dimension < 0) dimension += rank;
    if (dimension != TDM_BROADCAST && (dimension < 0 || dimension >= rank))
      return tdm_fail(TDM_INVALID_ARGUMENT, "scatter %zu: its value has no dimension %d", i,
                      scatter->dimension);
    parallel_region->inputs[parallel_region->input_count++] =
        (tdm_parallel_input){scatter->value.index, dimension};
  }
  return TDM_OK;
}

/* Fails if an array is missing and its count is not 0. */
static tdm_status check_arrays(const tdm_boundary *boundary, const tdm_parallel_options *options) {
  const char *missing = options->scatter_count > 0 && !options->scatter ? "scatter" : NULL;
  if (boundary && boundary->input_count > 0 && !boundary->inputs) missing = "inputs";
  if (boundary && boundary->output_count > 0 && !boundary->outputs) missing = "outputs";
  if (!missing) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s is NULL, and its count is not 0", missing);
}

/* Fails if a value with its own way of splitting does not enter the region. */
static tdm_status check_scatter(const tdm_boundary *boundary, const tdm_parallel_options *options) {
  for (size_t i = 0; i < options->scatter_count; i++) {
    bool enters = false;
    for (size_t k = 0; k < boundary->input_count && !enters; k++)
      enters = boundary->inputs[k].index == options->scatter[i].value.index;
    if (!enters)
      return tdm_fail(TDM_INVALID_ARGUMENT, "scatter %zu: its value is not named as entering", i);
  }
  return TDM_OK;
}

static tdm_status read_options(tdm_graph *graph, const tdm_parallel_options *options,
                               tdm_parallel_region *parallel_region) {
  TDM_TRY(read_devices(graph, options->devices, parallel_region));
  TDM_TRY(read_weights(graph, options->weights, parallel_region));
  parallel_region->output_device = parallel_region->devices[0];
  parallel_region->sharding = options->sharding;
  if ((unsigned)options->sharding > TDM_SHARDING_PARAMETERS)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "sharding is %d, expected TDM_SHARDING_NONE, TDM_SHARDING_OPTIMIZER_STATES or "
                    "TDM_SHARDING_PARAMETERS",
                    (int)options->sharding);
  if (options->output_device) {
    const tdm_device *device = tdm_context_find_placement(graph->context, options->output_device);
    if (!device) return tdm_last_status();
    parallel_region->output_device = (int16_t)device->context_index;
  }
  return read_scatter(graph, options, parallel_region);
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

/* The following functions take the region's nodes as `members`, one bool per node. */

/* For each existing region, with those inside it: the number of its nodes, and how many of them are
 * members. Index 0 is the whole graph. */
typedef struct region_counts {
  uint32_t *nodes;
  uint32_t *shared;
} region_counts;

static void count_nodes(const tdm_graph *graph, const bool *members, const region_counts *counts) {
  TDM_EACH_NODE(graph, node) {
    for (uint16_t w = node->part.parallel_region;; w = graph->parallel_regions.items[w].parent) {
      counts->nodes[w]++;
      counts->shared[w] += members[node->index];
      if (w == 0) break;
    }
  }
}

/* Fails unless each existing region is inside the new one, contains it, or is disjoint from it. */
static tdm_status check_nesting(const tdm_graph *graph, const region_counts *counts) {
  for (uint16_t w = 1; w < graph->parallel_regions.count; w++) {
    const uint32_t shared = counts->shared[w];
    if (shared > 0 && shared < counts->nodes[w] && shared < counts->shared[0])
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "a part of %s, which is a parallel region, and not all of it",
                      graph->parallel_regions.items[w].name);
  }
  return TDM_OK;
}

/* Returns true if the parallel region contains all members and at least one other node. */
static bool encloses(const region_counts *counts, uint16_t parallel_region) {
  const uint32_t shared = counts->shared[parallel_region];
  return shared == counts->shared[0] && shared < counts->nodes[parallel_region];
}

/* Returns the innermost region that contains the members, or 0. A region with the same nodes will
 * be inside the new one. */
static uint16_t enclosing_wrap(const tdm_graph *graph, const region_counts *counts) {
  uint16_t found = 0;
  for (uint16_t w = 1; w < graph->parallel_regions.count; w++)
    if (encloses(counts, w) && tdm_is_in_region(graph, w, found)) found = w;
  return found;
}

/* Assigns the members to the new region: either a node itself, or the outermost region inside the
 * new one that contains it. */
static void mark(tdm_graph *graph, const bool *members, uint16_t parallel_region, uint16_t parent) {
  graph->parallel_regions.items[parallel_region].parent = parent;
  TDM_EACH_NODE(graph, node) {
    if (!members[node->index]) continue;
    if (node->part.parallel_region == parent) {
      node->part.parallel_region = parallel_region;
      continue;
    }
    uint16_t outermost = node->part.parallel_region;
    while (outermost != parallel_region &&
           graph->parallel_regions.items[outermost].parent != parent)
      outermost = graph->parallel_regions.items[outermost].parent;
    if (outermost != parallel_region)
      graph->parallel_regions.items[outermost].parent = parallel_region;
  }
}

/* ---- Making them ----------------------------------------------------------------------------- */

static tdm_status fail_nothing_below(const tdm_graph *graph, const char *scope, size_t length) {
  char given[64];
  (void)snprintf(given, sizeof given, "%.*s", (int)length, scope);
  tdm_choices layers;
  return tdm_fail(TDM_INVALID_ARGUMENT, "nothing has been built below \"%s\"; %s", given,
                  tdm_layers_text(graph, given, &layers));
}

/* Sets members to the nodes below the scopes of the list. Fails if a scope has no nodes. */
static tdm_status find_below(const tdm_graph *graph, const char *scopes, bool *members) {
  for (const char *at = scopes;;) {
    const size_t length = strcspn(at, ",");
    bool any = false;
    TDM_EACH_NODE(graph, node) {
      const bool below = is_below(node->name, at, length);
      members[node->index] |=
          below && !tdm_asks_gradient(node); /* the gradient pass places these */
      any |= below;
    }
    if (!any || (length == 0 && *scopes)) return fail_nothing_below(graph, at, length);
    if (at[length] == 0) return TDM_OK;
    at += length + 1;
  }
}

/* Adds entry 0, which is unused. */
static tdm_status reserve_wrap(tdm_graph *graph) {
  TDM_TRY(TDM_ARRAY_RESERVE(graph, &graph->parallel_regions, 2));
  if (graph->parallel_regions.count == 0)
    memset(&graph->parallel_regions.items[graph->parallel_regions.count++], 0,
           sizeof graph->parallel_regions.items[0]);
  if (graph->parallel_regions.count > UINT16_MAX)
    return tdm_fail(TDM_UNSUPPORTED, "too many parallel regions");
  return TDM_OK;
}

static tdm_status add_wrap(tdm_graph *graph, const bool *members, const region_counts *counts,
                           const char *name, const tdm_parallel_options *options) {
  TDM_TRY(check_nesting(graph, counts));
  tdm_parallel_region parallel_region = {.name = name};
  TDM_TRY(read_options(graph, options, &parallel_region));
  const uint16_t parent = enclosing_wrap(graph, counts);
  const uint16_t index = (uint16_t)graph->parallel_regions.count;
  graph->parallel_regions.items[graph->parallel_regions.count++] = parallel_region;
  mark(graph, members, index, parent);
  return tdm_shard_parameters(graph, index);
}

static tdm_status count_and_add(tdm_graph *graph, const bool *members, const char *name,
                                const tdm_parallel_options *options) {
  TDM_TRY(reserve_wrap(graph));
  const size_t bytes = 2 * graph->parallel_regions.count * sizeof(uint32_t);
  uint32_t *room = tdm_allocate(graph->allocator, bytes, "parallel region");
  if (!room) return TDM_OUT_OF_MEMORY;
  const region_counts counts = {room, room + graph->parallel_regions.count};
  count_nodes(graph, members, &counts);
  const tdm_status status = add_wrap(graph, members, &counts, name, options);
  tdm_release(graph->allocator, room, bytes);
  return status;
}

/* Finds the nodes by scopes or, if boundary is given, between its values, and makes them a
 * region. */
static tdm_status replicate_nodes(tdm_graph *graph, const char *scopes,
                                  const tdm_boundary *boundary, const char *name,
                                  const tdm_parallel_options *options) {
  TDM_TRY(check_arrays(boundary, options));
  const size_t count = graph->nodes.count;
  bool *members = tdm_allocate(graph->allocator, count * sizeof *members, "parallel region");
  if (!members) return TDM_OUT_OF_MEMORY;
  tdm_status status =
      boundary ? tdm_boundary_mark(graph, boundary, members) : find_below(graph, scopes, members);
  if (status == TDM_OK && boundary) status = check_scatter(boundary, options);
  if (status == TDM_OK) status = count_and_add(graph, members, name, options);
  tdm_release(graph->allocator, members, count * sizeof *members);
  return status;
}

static void replicate_or_fail(tdm_graph *graph, const char *scopes, const tdm_boundary *boundary,
                              const char *called, const tdm_parallel_options *options) {
  const char *name = called ? tdm_region_string(&graph->region, called) : NULL;
  tdm_parallel_options read;
  tdm_status status;
  if (graph->described->frozen)
    status = tdm_fail(TDM_INVALID_ARGUMENT, "a session was made from the graph");
  else if (!called || !options)
    status = tdm_fail(TDM_INVALID_ARGUMENT, "no scope or no options");
  else if (!name)
    status = TDM_OUT_OF_MEMORY;
  else
    status = TDM_OPTIONS_READ("its options", parallel, options, &read);
  if (status == TDM_OK) status = replicate_nodes(graph, scopes, boundary, name, &read);
  if (status == TDM_OK) return;
  tdm_fail_within(status, "data parallel over %s", called ? called : "the graph");
  tdm_graph_fail_message(graph, status);
}

void tdm_data_parallel(tdm_graph *graph, const char *scope, const tdm_parallel_options *options) {
  if (!tdm_graph_describes(graph, "tdm_data_parallel")) return;
  replicate_or_fail(graph, scope, NULL, scope && !*scope ? "the graph" : scope, options);
}

static const char *name_or(const tdm_graph *graph, const tdm_value *values, size_t count,
                           const char *otherwise) {
  if (count == 0 || !values || !values[0].index || values[0].index >= graph->values.count)
    return otherwise;
  return tdm_value_name(graph, values[0].index);
}

void tdm_data_parallel_between(tdm_graph *graph, const tdm_value *inputs, size_t input_count,
                               const tdm_value *outputs, size_t output_count,
                               const tdm_parallel_options *options) {
  if (!tdm_graph_describes(graph, "tdm_data_parallel_between")) return;
  const tdm_boundary boundary = {inputs, input_count, outputs, output_count};
  const char *name =
      tdm_region_format(&graph->region, "%s..%s", name_or(graph, inputs, input_count, ""),
                        name_or(graph, outputs, output_count, ""));
  if (!name)
    tdm_graph_fail_message(graph, TDM_OUT_OF_MEMORY);
  else
    replicate_or_fail(graph, NULL, &boundary, name, options);
}
