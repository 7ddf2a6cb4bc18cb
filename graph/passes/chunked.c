/* Computes a batch in parts, which are micro-batches or the chunks of a parallel region: the
 * functions that rules `chunk` call, and the default for operations without a rule, one node per
 * part. Invariant: either the position of a value's rows is known, as a dimension and a number of
 * stretches, or the value is marked as torn. No rule has to mark a value explicitly. */
#include <string.h>

#include "core/last_failure.h"
#include "core/untold.h"
#include "devices/kernels.h"
#include "graph/passes/chunked.h"
#include "graph/passes/parts.h"

enum { SUM_OPERANDS = 16 }; /* terms per node of a sum */

/* ---- Asking ---------------------------------------------------------------------------------- */

tdm_graph *tdm_chunked_graph(tdm_chunked *chunked) {
  return chunked ? chunked->graph : NULL;
}

const char *tdm_chunked_name(const tdm_chunked *chunked) {
  if (!chunked) return "";
  return chunked->node->name;
}

const void *tdm_chunked_attributes(const tdm_chunked *chunked) {
  if (!chunked) return NULL;
  return chunked->node->attributes;
}

size_t tdm_chunked_count(const tdm_chunked *chunked) {
  return chunked ? chunked->count : 0;
}

static uint32_t input_of(const tdm_chunked *chunked, size_t index) {
  if (!chunked) return 0;
  const tdm_ir_node *node = chunked->node;
  return index < node->input_count ? node->inputs[index] : 0;
}

static uint32_t output_of(const tdm_chunked *chunked, size_t index) {
  if (!chunked) return 0;
  const tdm_ir_node *node = chunked->node;
  return index < node->output_count ? node->first_output + (uint32_t)index : 0;
}

tdm_cut tdm_chunked_cut(const tdm_chunked *chunked, size_t input) {
  const uint32_t value = input_of(chunked, input);
  const bool whole = !value || chunked->cuts[value].dimension == TDM_CUT_REPEATED;
  return whole ? (tdm_cut){-1, 1} : chunked->cuts[value];
}

tdm_shape tdm_chunked_shape(const tdm_chunked *chunked, size_t input) {
  const tdm_shape none = {.rank = -1};
  const uint32_t value = input_of(chunked, input);
  return value ? tdm_ir_value_at(chunked->graph, value)->spec->shape : none;
}

tdm_shape tdm_chunked_output_shape(const tdm_chunked *chunked, size_t output) {
  const tdm_shape none = {.rank = -1};
  const uint32_t value = output_of(chunked, output);
  return value ? tdm_ir_value_at(chunked->graph, value)->spec->shape : none;
}

uint32_t tdm_chunked_version(const tdm_chunked *chunked, uint32_t value, size_t i) {
  if (!value) return 0;
  const uint32_t *versions = tdm_chunked_versions(chunked, value);
  if (chunked->cuts[value].dimension != -1) return versions[i];
  return versions[0] ? versions[0] : value;
}

tdm_value tdm_chunked_input(const tdm_chunked *chunked, size_t input, size_t i) {
  if (!chunked || i >= chunked->count) return TDM_NO_VALUE;
  return tdm_ir_handle(chunked->graph, tdm_chunked_version(chunked, input_of(chunked, input), i));
}

bool tdm_chunked_is_joined(const tdm_chunked *chunked, uint32_t value) {
  return value && chunked->cuts[value].dimension == -1 && tdm_chunked_versions(chunked, value)[0];
}

bool tdm_chunked_joins(const tdm_chunked *chunked, const tdm_ir_node *node) {
  bool joins = false;
  for (uint32_t k = 0; k < node->input_count; k++) {
    const uint32_t value = node->inputs[k];
    const int dimension = value ? chunked->cuts[value].dimension : -1;
    if (dimension >= 0 || dimension == TDM_CUT_TORN) return false;
    joins |= tdm_chunked_is_joined(chunked, value);
  }
  return joins;
}

void tdm_chunked_join(tdm_chunked *chunked, uint32_t value, uint32_t by) {
  tdm_chunked_versions(chunked, value)[0] = by;
  chunked->cuts[value] = (tdm_cut){-1, 1};
}

static bool is_made_in_parts(const tdm_chunked *chunked, uint32_t value) {
  const uint32_t producer = tdm_ir_value_at(chunked->graph, value)->producer;
  return producer && (!chunked->sides || chunked->sides[producer] == TDM_SIDE_INSIDE);
}

tdm_value tdm_chunked_whole(const tdm_chunked *chunked, size_t input) {
  uint32_t value = input_of(chunked, input);
  if (!value) return TDM_NO_VALUE;
  if (value &&
      (chunked->cuts[value].dimension == -1 || chunked->cuts[value].dimension == TDM_CUT_REPEATED))
    value = tdm_chunked_version(chunked, value, 0);
  else if (is_made_in_parts(chunked, value))
    value = 0;
  return tdm_ir_handle(chunked->graph, value);
}

tdm_value tdm_chunked_output(const tdm_chunked *chunked, size_t output, size_t i) {
  const uint32_t value = output_of(chunked, output);
  if (!value || i >= chunked->count) return TDM_NO_VALUE;
  return tdm_ir_handle(chunked->graph, tdm_chunked_versions(chunked, value)[i]);
}

/* ---- A node a part --------------------------------------------------------------------------- */

/* Writes how often the rows repeat. Fails unless it is the same number in the parts of all inputs
 * that are split. */
static tdm_status common_outer(const tdm_chunked *chunked, int64_t *out_outer) {
  const tdm_ir_node *node = chunked->node;
  *out_outer = 0;
  for (uint32_t k = 0; k < node->input_count; k++) {
    const tdm_cut cut = tdm_chunked_cut(chunked, k);
    if (cut.dimension == -1) continue;
    if (*out_outer && cut.outer != *out_outer)
      return tdm_fail(TDM_INVALID_ARGUMENT, "its inputs hold the rows of the batch in two orders");
    *out_outer = cut.outer;
  }
  return TDM_OK;
}

static tdm_status clone_node(tdm_chunked *chunked, const void *attributes, size_t i) {
  tdm_ir_node *node = chunked->node;
  uint32_t inputs[TDM_KERNEL_MAX_INPUTS];
  for (uint32_t k = 0; k < node->input_count; k++)
    inputs[k] = tdm_chunked_version(chunked, node->inputs[k], i);
  tdm_ir_node like = *node;
  if (attributes) like.attributes = attributes;
  like.part.parallel_region =
      chunked->parallel_regions[i * chunked->region_count + node->part.parallel_region];
  chunked->settle(chunked, &like, i);
  tdm_ir_node *made;
  TDM_TRY(tdm_insert_like(chunked->graph, chunked->before, &like, inputs, &made));
  for (uint32_t k = 0; k < node->output_count; k++)
    tdm_chunked_versions(chunked, node->first_output + k)[i] = made->first_output + k;
  return TDM_OK;
}

/* Returns the only dimension in which the shapes of the parts differ from the whole's and add up to
 * it, or TDM_CUT_TORN. */
static int cut_dimension(const tdm_chunked *chunked, uint32_t value) {
  const tdm_graph *graph = chunked->graph;
  const tdm_shape *whole = &tdm_ir_value_at(graph, value)->spec->shape;
  const uint32_t *versions = tdm_chunked_versions(chunked, value);
  int found = TDM_CUT_TORN;
  for (int d = 0; d < whole->rank; d++) {
    int64_t sum = 0;
    for (size_t i = 0; i < chunked->count; i++) {
      const tdm_shape *part = &tdm_ir_value_at(graph, versions[i])->spec->shape;
      if (part->rank != whole->rank) return TDM_CUT_TORN;
      sum += part->dims[d];
    }
    if (tdm_ir_value_at(graph, versions[0])->spec->shape.dims[d] == whole->dims[d]) continue;
    if (found >= 0 || sum != whole->dims[d]) return TDM_CUT_TORN;
    found = d;
  }
  return found;
}

/* Returns true if the rows are in that many stretches along the dimension, in each part and so in
 * the whole. */
static bool has_stretches(const tdm_chunked *chunked, uint32_t value, tdm_cut cut) {
  for (size_t i = 0; i < chunked->count; i++) {
    const uint32_t part = tdm_chunked_versions(chunked, value)[i];
    if (tdm_ir_value_at(chunked->graph, part)->spec->shape.dims[cut.dimension] % cut.outer != 0)
      return false;
  }
  return true;
}

/* Returns the attributes of a part's node with the position of the part in the whole. If the node
 * is itself a part, positions are combined. Returns NULL after a failure. */
static void *numbered(const tdm_chunked *chunked, const tdm_ir_node *made, const tdm_chunk *place) {
  const size_t at = made->operation->chunk_at - 1u;
  char *copy =
      (char *)tdm_ir_copy_bytes(chunked->graph, made->attributes, made->operation->attribute_bytes);
  if (!copy) return NULL;
  tdm_chunk chunk;
  memcpy(&chunk, copy + at, sizeof chunk);
  if (chunk.whole != 0 && chunk.dimension != place->dimension) {
    (void)tdm_fail(TDM_UNSUPPORTED, "it is cut along two dimensions");
    return NULL;
  }
  if (chunk.whole == 0) chunk.whole = place->whole;
  chunk.dimension = place->dimension;
  chunk.offset += place->offset;
  memcpy(copy + at, &chunk, sizeof chunk);
  return copy;
}

/* Reshapes the output of a part's node whose rows are in several stretches, so that the stretches
 * become rows and elements of each are consecutive. The part becomes a view of that output. */
static tdm_status see_stretches(const tdm_chunked *chunked, uint32_t *part, tdm_cut cut,
                                const tdm_chunk *place) {
  tdm_graph *graph = chunked->graph;
  tdm_ir_node *node = tdm_producer(graph, *part);
  const tdm_shape shape = tdm_ir_value_at(graph, *part)->spec->shape;
  tdm_shape rows = tdm_stretches_of(&shape, cut), back = shape;
  rows.dims[1] = back.dims[cut.dimension] = TDM_INFER; /* TDM_INFER, because these rows may be split
                                                        * again */
  const tdm_insertion at = {.before = node,
                            .name = node->name,
                            .wanted = node->wanted,
                            .device = node->device,
                            .part = node->part};
  const uint32_t seen = tdm_insert_view(graph, &at, node->inputs[0], &rows);
  if (!seen) return tdm_graph_status(graph);
  tdm_ir_node like = *node, *made;
  like.attributes = numbered(chunked, node, place);
  if (!like.attributes) return tdm_last_status();
  TDM_TRY(tdm_insert_like(graph, node, &like, &seen, &made));
  const uint32_t whole = tdm_insert_view(graph, &at, made->first_output, &back);
  if (!whole) return tdm_graph_status(graph);
  *part = whole;
  tdm_remove_node(graph, node);
  return TDM_OK;
}

/* Returns the number of consecutive elements for each row of a stretch. */
static int64_t row_elements(const tdm_shape *shape, tdm_cut cut) {
  int64_t count = 1;
  for (int d = cut.dimension + 1; d < shape->rank; d++)
    count *= shape->dims[d];
  return count;
}

/* Sets in each part of a node whose random numbers depend on positions which part of the whole it
 * is. */
static tdm_status number_parts(tdm_chunked *chunked, const tdm_ir_node *node) {
  tdm_graph *graph = chunked->graph;
  const tdm_cut cut = chunked->cuts[node->first_output];
  if (node->operation->chunk_at == 0 || cut.dimension < 0) return TDM_OK;
  const tdm_shape whole = tdm_ir_value_at(graph, node->first_output)->spec->shape;
  const bool by_stretch = cut.outer != 1;
  if (by_stretch && !(node->operation->elementwise && node->input_count == 1))
    return tdm_fail(TDM_UNSUPPORTED, "the rows of its parts do not follow one another");
  const int64_t scale = by_stretch ? row_elements(&whole, cut) : 1;
  tdm_chunk place = {.dimension = by_stretch ? 1 : cut.dimension,
                     .whole = whole.dims[cut.dimension] / cut.outer * scale};
  for (size_t i = 0; i < chunked->count; i++) {
    uint32_t *part = &tdm_chunked_versions(chunked, node->first_output)[i];
    const int64_t rows = tdm_ir_value_at(graph, *part)->spec->shape.dims[cut.dimension] / cut.outer;
    if (by_stretch) {
      TDM_TRY(see_stretches(chunked, part, cut, &place));
    } else {
      tdm_ir_node *made = tdm_producer(graph, *part);
      void *attributes = numbered(chunked, made, &place);
      if (!attributes) return tdm_last_status();
      made->attributes = attributes;
    }
    place.offset += rows * scale;
  }
  return TDM_OK;
}

static tdm_status clone_for_all(tdm_chunked *chunked, const void *attributes) {
  for (size_t i = 0; i < chunked->count; i++)
    TDM_TRY(clone_node(chunked, attributes, i));
  return TDM_OK;
}

/* Returns the cut of an output for which no rule sets one. */
static tdm_cut torn_by_shape(const tdm_ir_node *node) {
  return (tdm_cut){TDM_CUT_TORN, -(int64_t)node->index};
}

tdm_status tdm_chunked_each(tdm_chunked *chunked, const void *attributes) {
  if (!chunked) return tdm_fail(TDM_INVALID_ARGUMENT, "tdm_chunked_each: there is no node");
  tdm_graph *graph = chunked->graph;
  const tdm_ir_node *node = chunked->node;
  if (attributes)
    attributes = tdm_ir_copy_bytes(graph, attributes, node->operation->attribute_bytes);
  int64_t outer;
  TDM_TRY(common_outer(chunked, &outer));
  TDM_TRY(clone_for_all(chunked, attributes));
  for (uint32_t k = 0; k < node->output_count; k++) {
    const uint32_t value = node->first_output + k;
    tdm_cut cut = {cut_dimension(chunked, value), outer};
    if (cut.dimension < 0 || !has_stretches(chunked, value, cut)) cut = torn_by_shape(node);
    chunked->cuts[value] = cut;
  }
  return number_parts(chunked, node);
}

tdm_status tdm_chunked_repeat(tdm_chunked *chunked, tdm_ir_node *node) {
  chunked->node = node;
  TDM_TRY(clone_for_all(chunked, NULL));
  for (uint32_t k = 0; k < node->output_count; k++)
    chunked->cuts[node->first_output + k] = (tdm_cut){TDM_CUT_REPEATED, 1};
  return TDM_OK;
}

tdm_status tdm_chunked_rows(tdm_chunked *chunked, int dimension, size_t input) {
  if (!chunked) return tdm_fail(TDM_INVALID_ARGUMENT, "tdm_chunked_rows: there is no node");
  if (tdm_chunked_cut(chunked, input).dimension == dimension)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "it mixes the rows of dimension %d, along which the batch is cut", dimension);
  return tdm_chunked_each(chunked, NULL);
}

/* ---- What is torn ---------------------------------------------------------------------------- */

struct tdm_tear {
  tdm_tear *before;
  int64_t number;   /* number of the split, from 1; `outer` of its cuts */
  const char *name; /* name of the node */
  char why[];       /* message of its rule */
};

static void set_cuts(tdm_chunked *chunked, tdm_cut cut) {
  for (uint32_t k = 0; k < chunked->node->output_count; k++)
    chunked->cuts[chunked->node->first_output + k] = cut;
}

/* Records that the node tore its rows. The reason is the thread's last message, which the node's
 * rule set. */
static tdm_status tear(tdm_chunked *chunked) {
  const size_t bytes = strlen(tdm_last_message()) + 1;
  tdm_tear *made = tdm_region_take(&chunked->graph->region, sizeof *made + bytes, "batch in parts");
  if (!made) return TDM_OUT_OF_MEMORY;
  made->before = chunked->tears;
  made->number = chunked->tears ? chunked->tears->number + 1 : 1;
  made->name = chunked->node->name;
  memcpy(made->why, tdm_last_message(), bytes);
  chunked->tears = made;
  set_cuts(chunked, (tdm_cut){TDM_CUT_TORN, made->number});
  return TDM_OK;
}

tdm_status tdm_chunked_fail_torn(const tdm_chunked *chunked, uint32_t value) {
  const int64_t by = chunked->cuts[value].outer;
  for (const tdm_tear *tear = chunked->tears; tear && by > 0; tear = tear->before)
    if (tear->number == by) return tdm_fail(TDM_INVALID_ARGUMENT, "%s: %s", tear->name, tear->why);
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "%s: it reduces over the batch without a rule for its parts",
                  tdm_ir_node_at(chunked->graph, (uint32_t)-by)->name);
}

static uint32_t torn_input(const tdm_chunked *chunked) {
  const tdm_ir_node *node = chunked->node;
  for (uint32_t k = 0; k < node->input_count; k++)
    if (tdm_chunked_is_torn(chunked, node->inputs[k])) return node->inputs[k];
  return 0;
}

/* Fails unless a rule that succeeded has set the cut of each output. */
static tdm_status check_said(const tdm_chunked *chunked) {
  for (uint32_t k = 0; k < chunked->node->output_count; k++)
    if (tdm_chunked_versions(chunked, chunked->node->first_output + k)[0] == 0)
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "its rule `chunk` neither computes output %u (tdm_chunked_each) nor sets it",
                      k);
  return TDM_OK;
}

static tdm_status ask_rule(tdm_chunked *chunked, const tdm_insertion *at) {
  if (!chunked->node->operation->chunk) return tdm_chunked_each(chunked, NULL);
  tdm_lend_insertion(chunked->graph, at);
  const uint32_t told = tdm_told_count();
  const tdm_status status = tdm_fail_untold(chunked->node->operation->chunk(chunked), told);
  tdm_take_insertion_back(chunked->graph);
  TDM_TRY(tdm_graph_status(chunked->graph));
  return status == TDM_OK ? check_said(chunked) : status;
}

/* Returns true if each part has its node. */
static bool all_made(const tdm_chunked *chunked) {
  return tdm_chunked_versions(chunked, chunked->node->first_output)[chunked->count - 1] != 0;
}

tdm_status tdm_chunked_compute(tdm_chunked *chunked, tdm_ir_node *node, const tdm_insertion *at) {
  chunked->node = node;
  const uint32_t torn = torn_input(chunked);
  if (torn) {
    const tdm_status made = clone_for_all(chunked, NULL);
    if (made == TDM_INVALID_ARGUMENT || made == TDM_UNSUPPORTED)
      return tdm_chunked_fail_torn(chunked, torn); /* shapes of the parts do not fit */
    set_cuts(chunked, chunked->cuts[torn]);
    return made;
  }
  tdm_last_failure before, refusal;
  tdm_last_failure_keep(&before);
  const size_t first_made = chunked->graph->nodes.count;
  tdm_status status = ask_rule(chunked, at);
  if (status != TDM_INVALID_ARGUMENT && status != TDM_UNSUPPORTED) return status;
  tdm_last_failure_keep(&refusal);
  if (tdm_graph_status(chunked->graph) != TDM_OK ||
      (!all_made(chunked) &&
       (chunked->graph->nodes.count > first_made || clone_for_all(chunked, NULL) != TDM_OK))) {
    tdm_last_failure_restore(&refusal); /* nor can each part be computed separately */
    return status;
  }
  tdm_last_failure_restore(&refusal);
  status = tear(chunked);
  if (status == TDM_OK) tdm_last_failure_restore(&before);
  return status;
}

/* ---- Saying ---------------------------------------------------------------------------------- */

void tdm_chunked_set_cut(tdm_chunked *chunked, size_t output, tdm_cut cut) {
  const uint32_t value = output_of(chunked, output);
  if (!value) return;
  const tdm_shape *shape = &tdm_ir_value_at(chunked->graph, value)->spec->shape;
  if (cut.dimension < shape->rank && (cut.dimension < 0 || cut.outer >= 1))
    chunked->cuts[value] = cut;
  else
    tdm_graph_fail(chunked->graph, TDM_INVALID_ARGUMENT,
                   "%s: its rule `chunk` cuts output %zu, of %d dimensions, along dimension %d in "
                   "%lld stretches",
                   chunked->node->name, output, shape->rank, cut.dimension, (long long)cut.outer);
}

void tdm_chunked_set_whole(tdm_chunked *chunked, size_t output, tdm_value whole) {
  const uint32_t value = output_of(chunked, output);
  if (!value || !whole.index) return; /* the graph has an error */
  if (tdm_ir_owns(chunked->graph, whole) &&
      tdm_spec_may_be(tdm_ir_value_at(chunked->graph, whole.index)->spec,
                      tdm_ir_value_at(chunked->graph, value)->spec))
    tdm_chunked_join(chunked, value, whole.index);
  else
    tdm_graph_fail(chunked->graph, TDM_INVALID_ARGUMENT,
                   "%s: what its rule `chunk` sets as the whole of output %zu is not of its dtype "
                   "and shape",
                   chunked->node->name, output);
}

tdm_value tdm_chunked_sum(tdm_chunked *chunked, const tdm_value *parts) {
  if (!chunked || !parts)
    return tdm_graph_fail(tdm_chunked_graph(chunked), TDM_INVALID_ARGUMENT,
                          "tdm_chunked_sum: no node, or no parts");
  tdm_value sum = parts[0];
  for (size_t done = 1; done < chunked->count;) {
    tdm_value inputs[SUM_OPERANDS] = {sum};
    size_t used = 1;
    while (used < SUM_OPERANDS && done < chunked->count)
      inputs[used++] = parts[done++];
    sum = tdm_append(chunked->graph, &tdm_operation_accumulate, tdm_chunked_name(chunked), NULL,
                     inputs, used, NULL);
  }
  return sum;
}
