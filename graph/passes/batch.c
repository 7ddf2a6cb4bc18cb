/* Finds the dimension of a graph that is the batch's, and checks whether a batch can be split.
 * Invariant: the graph is not changed. */
#include <string.h>

#include "graph/passes/passes.h"

/* ---- The name -------------------------------------------------------------------------------- */

/* Marks the values that target depends on. */
static void mark_needed(const tdm_graph *graph, uint32_t target, bool *needed) {
  needed[target] = true;
  TDM_EACH_NODE_BACKWARD(graph, node) {
    bool reached = false;
    for (uint32_t k = 0; k < node->output_count; k++)
      reached |= needed[node->first_output + k];
    for (uint32_t k = 0; reached && k < node->input_count; k++)
      needed[node->inputs[k]] = true;
  }
}

static bool has_dimension(const tdm_shape *shape, tdm_dim name) {
  for (int d = 0; d < shape->rank; d++)
    if (shape->dims[d] == name) return true;
  return false;
}

/* Removes the names that shape lacks. */
static void keep_shared(tdm_shape *names, const tdm_shape *shape) {
  int kept = 0;
  for (int d = 0; d < names->rank; d++)
    if (has_dimension(shape, names->dims[d])) names->dims[kept++] = names->dims[d];
  names->rank = kept;
}

static void first_names(tdm_shape *names, const tdm_shape *shape) {
  names->rank = 0;
  for (int d = 0; d < shape->rank; d++)
    if (tdm_dim_is_named(shape->dims[d]) && !has_dimension(names, shape->dims[d]))
      names->dims[names->rank++] = shape->dims[d];
}

/* Returns the names that all needed inputs share; rank -1: no input is needed. */
static tdm_shape shared_names(const tdm_graph *graph, const bool *needed) {
  tdm_shape names = {.rank = -1};
  for (size_t i = 0; i < graph->inputs.count; i++) {
    if (!needed[graph->inputs.items[i]]) continue;
    const tdm_shape *shape = &tdm_ir_value_at(graph, graph->inputs.items[i])->spec->shape;
    if (names.rank < 0)
      first_names(&names, shape);
    else
      keep_shared(&names, shape);
  }
  return names;
}

static tdm_status choose_name(const tdm_shape *names, tdm_dim *out_batch) {
  char text[TDM_SHAPE_TEXT];
  *out_batch = TDM_DIM("batch");
  if (names->rank == 1) *out_batch = names->dims[0];
  if (names->rank > 0 && has_dimension(names, *out_batch)) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "micro-batches: the inputs share %s: batch_dimension has to say what is cut",
                  names->rank > 1 ? tdm_shape_text(names, text, sizeof text)
                                  : "no named dimension");
}

/* Fails unless each input has the name at most once, and at least one has it. */
static tdm_status check_name(const tdm_graph *graph, const char *text, tdm_dim name) {
  bool any = false;
  for (size_t i = 0; i < graph->inputs.count; i++) {
    const tdm_ir_value *input = tdm_ir_value_at(graph, graph->inputs.items[i]);
    int found = 0;
    for (int d = 0; d < input->spec->shape.rank; d++)
      found += input->spec->shape.dims[d] == name;
    any |= found > 0;
    if (found > 1)
      return tdm_fail(TDM_INVALID_ARGUMENT, "micro-batches: input %s has %d dimensions %s",
                      input->name, found, text);
  }
  return any ? TDM_OK
             : tdm_fail(TDM_INVALID_ARGUMENT, "micro-batches: no input has a dimension %s", text);
}

tdm_status tdm_find_batch(const tdm_graph *source, const char *name, const uint32_t *targets,
                          size_t target_count, bool all_targets, tdm_dim *out_batch) {
  char text[24];
  if (name) {
    *out_batch = TDM_DIM(name);
    if (!tdm_dim_is_named(*out_batch))
      return tdm_fail(TDM_INVALID_ARGUMENT, "batch_dimension: %s is no name of a dimension", name);
    return check_name(source, name, *out_batch);
  }
  if (target_count == 0) return tdm_fail(TDM_INVALID_ARGUMENT, "micro-batches: of nothing");
  const size_t bytes = source->values.count;
  bool *needed = tdm_allocate(source->allocator, bytes, "micro-batches");
  if (!needed) return TDM_OUT_OF_MEMORY;
  for (size_t i = all_targets ? 0 : target_count - 1; i < target_count; i++)
    mark_needed(source, targets[i], needed);
  const tdm_shape names = shared_names(source, needed);
  tdm_release(source->allocator, needed, bytes);
  TDM_TRY(choose_name(&names, out_batch));
  return check_name(source, tdm_dim_text(*out_batch, text), *out_batch);
}

/* ---- The check ------------------------------------------------------------------------------- */

enum { CHECKED_ROWS = 4, CHECKED_SIZE = 3 };

static void make_up_feeds(const tdm_micro_batching *batching, tdm_feed_spec *feeds) {
  const tdm_graph *source = batching->source;
  for (size_t i = 0; i < source->inputs.count; i++) {
    const tdm_ir_value *input = tdm_ir_value_at(source, source->inputs.items[i]);
    feeds[i] = (tdm_feed_spec){.fed = true, .device = TDM_NO_DEVICE, .shape = input->spec->shape};
    for (int d = 0; d < feeds[i].shape.rank; d++) {
      tdm_dim *size = &feeds[i].shape.dims[d];
      if (!tdm_dim_is_size(*size)) *size = *size == batching->batch ? CHECKED_ROWS : CHECKED_SIZE;
    }
  }
}

static tdm_status try_on(tdm_graph *copy, const tdm_micro_batching *batching,
                         const tdm_feed_spec *feeds, const uint32_t *targets, size_t target_count,
                         bool training) {
  const tdm_lowering lowering = {.source = batching->source,
                                 .feeds = feeds,
                                 .targets = targets,
                                 .target_count = target_count,
                                 .training = training,
                                 .batch = batching->batch};
  const tdm_status status = tdm_lower(&lowering, copy);
  if (status != TDM_OK) return status == TDM_OUT_OF_MEMORY ? status : TDM_OK;
  tdm_micro_batching two = *batching;
  two.count = 2;
  size_t count;
  return tdm_pass_micro_batch(copy, &two, &count);
}

tdm_status tdm_check_micro_batch(const tdm_micro_batching *batching, const uint32_t *targets,
                                 size_t target_count, bool training) {
  const tdm_graph *source = batching->source;
  const size_t feed_bytes = (source->inputs.count + 1) * sizeof(tdm_feed_spec);
  tdm_feed_spec *feeds = tdm_allocate(source->allocator, feed_bytes, "micro-batches");
  tdm_status status = TDM_OUT_OF_MEMORY;
  if (feeds) {
    tdm_graph copy;
    make_up_feeds(batching, feeds);
    status = tdm_graph_init(&copy, source->context);
    if (status == TDM_OK) status = try_on(&copy, batching, feeds, targets, target_count, training);
    tdm_graph_deinit(&copy);
  }
  tdm_release(source->allocator, feeds, feed_bytes);
  return status;
}
