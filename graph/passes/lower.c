/* Makes the concrete copy of what a run needs: prunes to the targets, binds named dimensions to the
 * sizes that are fed, and runs each shape rule again. Invariant: names and attributes are shared
 * with the source, which outlives the copy. */
#include <string.h>

#include "graph/describe/gradient_of.h"
#include "graph/ir/rewriter.h"
#include "graph/passes/passes.h"

#define MAX_NAMES 64

typedef struct lowering_state {
  const tdm_lowering *lowering;
  const tdm_graph *source;
  tdm_graph *out;
  uint32_t *map; /* source value to new value; NEEDED before it is created */
  struct {
    tdm_dim name;
    tdm_dim size;
    const char *input;
  } names[MAX_NAMES];
  size_t name_count;
  bool differentiates; /* the run computes gradients */
} lowering_state;

#define NEEDED UINT32_MAX

bool tdm_is_asked_for(const tdm_graph *source, uint32_t parameter) {
  for (size_t i = 0; i < source->described->outputs.count; i++)
    if (source->described->outputs.items[i].value == parameter) return true;
  TDM_EACH_NODE(source, node) {
    if (!tdm_asks_gradient(node)) continue;
    for (uint32_t k = 0; k < node->input_count; k++)
      if (node->inputs[k] == parameter) return true;
  }
  return false;
}

static bool is_kept_whole(const lowering_state *state, const tdm_sharding *sharding) {
  return sharding->is_gathered &&
         (state->lowering->keeps_whole || tdm_is_asked_for(state->source, sharding->table));
}

/* Marks the values that needed values depend on. */
static void mark_back(lowering_state *state) {
  const tdm_graph *source = state->source;
  TDM_EACH_NODE_BACKWARD(source, node) {
    bool needed = false;
    for (uint32_t k = 0; k < node->output_count; k++)
      needed |= state->map[node->first_output + k] == NEEDED;
    if (!needed) continue;
    for (uint32_t k = 0; k < node->output_count; k++)
      state->map[node->first_output + k] = NEEDED;
    const uint32_t *inputs = node->inputs;
    for (uint32_t k = 0; k < node->input_count; k++)
      if (inputs[k]) state->map[inputs[k]] = NEEDED;
  }
  for (size_t i = 0; i < source->shardings.count; i++) {
    const tdm_sharding *sharding = &source->shardings.items[i];
    if (is_kept_whole(state, sharding)) continue;
    for (size_t k = 1; state->map[sharding->table] == NEEDED && k < sharding->count; k++)
      state->map[sharding->shards[k]] = NEEDED;
  }
}

/* Marks the writes of kept values that are needed. Returns true if this marked a new value. */
static bool mark_writes(lowering_state *state) {
  const tdm_graph *source = state->source;
  bool more = false;
  TDM_EACH_NODE(source, node) {
    const tdm_graph_kept *kept = tdm_ir_kept_by(source, node);
    if (!kept || state->map[kept->value] != NEEDED || state->map[node->first_output] == NEEDED)
      continue;
    state->map[node->first_output] = NEEDED;
    more = true;
  }
  return more;
}

static void mark_needed(lowering_state *state) {
  for (size_t i = 0; i < state->lowering->target_count; i++)
    state->map[state->lowering->targets[i]] = NEEDED;
  do {
    mark_back(state);
  } while (state->source->kepts.count > 0 && mark_writes(state));
}

/* Binds a name to a size. Equal names have equal sizes within a run. */
static tdm_status bind_name(lowering_state *state, tdm_dim name, tdm_dim size, const char *input) {
  char text[24];
  for (size_t i = 0; i < state->name_count; i++) {
    if (state->names[i].name != name) continue;
    if (state->names[i].size == size) return TDM_OK;
    return tdm_fail(TDM_INVALID_ARGUMENT, "dimension %s is %lld in input %s and %lld in input %s",
                    tdm_dim_text(name, text), (long long)state->names[i].size,
                    state->names[i].input, (long long)size, input);
  }
  if (state->name_count == MAX_NAMES)
    return tdm_fail(TDM_UNSUPPORTED, "more than %d named dimensions", MAX_NAMES);
  state->names[state->name_count].name = name;
  state->names[state->name_count].size = size;
  state->names[state->name_count++].input = input;
  return TDM_OK;
}

static tdm_status bind_shape(lowering_state *state, const tdm_ir_value *input,
                             const tdm_feed_spec *feed) {
  const tdm_shape *expected = &input->spec->shape;
  bool fits = feed->shape.rank == expected->rank;
  for (int i = 0; fits && i < expected->rank; i++) {
    if (tdm_dim_is_named(expected->dims[i]))
      TDM_TRY(bind_name(state, expected->dims[i], feed->shape.dims[i], input->name));
    else
      fits = expected->dims[i] == TDM_DIM_UNKNOWN || expected->dims[i] == feed->shape.dims[i];
  }
  if (fits) return TDM_OK;
  char has[TDM_SHAPE_TEXT];
  char want[TDM_SHAPE_TEXT];
  return tdm_fail(TDM_INVALID_ARGUMENT, "input %s is declared %s and was fed %s", input->name,
                  tdm_shape_text(expected, want, sizeof want),
                  tdm_shape_text(&feed->shape, has, sizeof has));
}

static tdm_status refuse_unfed(const lowering_state *state, const tdm_ir_value *input) {
  if (!input->kept)
    return tdm_fail(TDM_INVALID_ARGUMENT, "input %s is needed and was not fed", input->name);
  if (state->lowering->training)
    return tdm_fail(TDM_UNSUPPORTED, "%s is kept between runs of a sequence, which do not train",
                    input->name);
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "%s is kept between runs of a sequence, and this is a run of none "
                  "(tdm_sequence_run)",
                  input->name);
}

/* Copies a kept value, with its requested device. */
static tdm_status lower_kept(lowering_state *state, uint32_t described, uint32_t made) {
  const tdm_graph_kept *kept = tdm_ir_kept(state->source, described);
  tdm_graph *out = state->out;
  TDM_TRY(TDM_ARRAY_RESERVE(out, &out->kepts, 1));
  out->kepts.items[out->kepts.count++] =
      (tdm_graph_kept){.value = made, .wanted_device = kept->wanted_device};
  tdm_ir_value_at(out, made)->kept = (uint32_t)out->kepts.count;
  return TDM_OK;
}

static tdm_status lower_inputs(lowering_state *state) {
  const tdm_graph *source = state->source;
  tdm_graph *out = state->out;
  TDM_TRY(TDM_ARRAY_RESERVE(out, &out->inputs, source->inputs.count + 1));
  for (size_t i = 0; i < source->inputs.count; i++) {
    const uint32_t index = source->inputs.items[i];
    if (state->map[index] != NEEDED) continue;
    tdm_ir_value value = *tdm_ir_value_at(source, index);
    if (state->lowering->feeds) {
      const tdm_feed_spec *feed = &state->lowering->feeds[i];
      if (!feed->fed) return refuse_unfed(state, &value);
      TDM_TRY(bind_shape(state, &value, feed));
      tdm_spec spec = *value.spec;
      spec.shape = feed->shape;
      value.spec = tdm_ir_share_spec(out, &spec);
      value.device = feed->device;
      value.pinned = feed->pinned;
    }
    const uint32_t made = tdm_ir_add_value(out, &value);
    if (!made) return TDM_OUT_OF_MEMORY;
    if (value.kept) TDM_TRY(lower_kept(state, index, made));
    state->map[index] = made;
    out->inputs.items[out->inputs.count++] = made; /* binding: the source's index so far */
  }
  return TDM_OK;
}

static tdm_status lower_persistents(lowering_state *state) {
  const tdm_graph *source = state->source;
  tdm_graph *out = state->out;
  TDM_TRY(TDM_ARRAY_RESERVE(out, &out->persistents, source->persistents.count + 1));
  for (size_t i = 0; i < source->persistents.count; i++) {
    tdm_graph_persistent persistent = source->persistents.items[i];
    if (state->map[persistent.value] != NEEDED) continue;
    tdm_ir_value value = *tdm_ir_value_at(source, persistent.value);
    value.binding = (uint32_t)out->persistents.count;
    const uint32_t made = tdm_ir_add_value(out, &value);
    if (!made) return TDM_OUT_OF_MEMORY;
    state->map[persistent.value] = made;
    persistent.value = made;
    persistent.origin = (uint32_t)i;
    out->persistents.items[out->persistents.count++] = persistent;
  }
  return TDM_OK;
}

/* Selects the node that replaces a node in this run. */
static tdm_status choose_node(const lowering_state *state, const tdm_ir_node *node,
                              tdm_ir_node *out_node) {
  *out_node = *node;
  out_node->described = node->index;
  const tdm_operation *operation = node->operation;
  const tdm_operation *other = NULL;
  const bool training = state->lowering->training;
  if (training && !node->evaluates)
    other = operation->when_training;
  else if ((training || state->differentiates) && TDM_OPERATION_HAS(operation, when_differentiated))
    other = operation->when_differentiated;
  if (!other) return TDM_OK;
  const size_t output_count = tdm_ir_output_count(other, node->attributes);
  if (output_count < node->output_count || output_count > TDM_KERNEL_MAX_OUTPUTS)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s %s: its replacement has %zu outputs, expected %u",
                    operation->name, node->name, output_count, node->output_count);
  out_node->operation = other;
  out_node->output_count = (uint16_t)output_count;
  return TDM_OK;
}

/* Returns the size that a fed input gives the name, even if no target needs that input, or the name
 * itself if none does. */
static tdm_dim size_as_fed(const lowering_state *state, tdm_dim name) {
  for (size_t i = 0; i < state->source->inputs.count; i++) {
    const tdm_shape *declared =
        &tdm_ir_value_at(state->source, state->source->inputs.items[i])->spec->shape;
    const tdm_feed_spec *feed = &state->lowering->feeds[i];
    for (int d = 0; feed->fed && feed->shape.rank == declared->rank && d < declared->rank; d++)
      if (declared->dims[d] == name) return feed->shape.dims[d];
  }
  return name;
}

static tdm_dim size_of_name(const void *user, tdm_dim name) {
  const lowering_state *state = user;
  for (size_t i = 0; i < state->name_count; i++)
    if (state->names[i].name == name) return state->names[i].size;
  return size_as_fed(state, name);
}

/* Binds names in the attributes whose sizes inputs do not determine. */
static tdm_status bind_attributes(const lowering_state *state, tdm_ir_node *node) {
  const tdm_operation *operation = node->operation;
  if (!state->lowering->feeds || !TDM_OPERATION_HAS(operation, bind) || !operation->bind)
    return TDM_OK;
  void *attributes =
      tdm_region_take(&state->out->region, operation->attribute_bytes, operation->name);
  if (!attributes) return TDM_OUT_OF_MEMORY;
  memcpy(attributes, node->attributes, operation->attribute_bytes);
  const tdm_dim batch = state->lowering->batch;
  const tdm_bound_names names = {size_of_name, state, batch != 0 ? batch : TDM_DIM("batch")};
  operation->bind(attributes, &names);
  node->attributes = attributes;
  return TDM_OK;
}

static tdm_status refuse_open(const tdm_ir_node *node, const tdm_shape *shape) {
  char text[TDM_SHAPE_TEXT];
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "%s %s: %s has dimensions that are not known: no input that is fed names them",
                  node->operation->name, node->name, tdm_shape_text(shape, text, sizeof text));
}

/* Returns true if input k is used only by the operation's rule `persist`, which is not called for
 * nodes of an evaluation scope. */
static bool drops_input(const lowering_state *state, const tdm_ir_node *node, uint32_t k) {
  return state->lowering->training && node->evaluates && tdm_ir_is_persisted(node, k);
}

static tdm_status lower_node(lowering_state *state, const tdm_ir_node *described) {
  tdm_ir_node chosen;
  const tdm_ir_node *node = &chosen;
  tdm_graph *out = state->out;
  TDM_TRY(choose_node(state, described, &chosen));
  TDM_TRY(bind_attributes(state, &chosen));
  uint32_t inputs[TDM_KERNEL_MAX_INPUTS];
  tdm_spec specs[TDM_KERNEL_MAX_OUTPUTS];
  const uint32_t *old = node->inputs;
  for (uint32_t k = 0; k < node->input_count; k++)
    inputs[k] = old[k] && !drops_input(state, node, k) ? state->map[old[k]] : 0;
  if (state->lowering->feeds || node->operation != described->operation) {
    TDM_TRY(tdm_ir_infer(out, node->operation, node->name, node->attributes, inputs,
                         node->input_count, specs));
    for (uint32_t k = 0; state->lowering->feeds && k < node->output_count; k++)
      if (!tdm_shape_is_concrete(&specs[k].shape)) return refuse_open(node, &specs[k].shape);
  } else {
    for (uint32_t k = 0; k < node->output_count; k++)
      specs[k] = *tdm_ir_value_at(state->source, node->first_output + k)->spec;
  }
  const tdm_ir_node *made = tdm_insert_as(out, NULL, node, inputs, specs);
  if (!made) return TDM_OUT_OF_MEMORY;
  if (node->part.parallel_region && state->source->kepts.count > 0 && tdm_ir_kept_by(out, made))
    return tdm_fail(TDM_UNSUPPORTED, "%s: what is kept between runs cannot be written in replicas",
                    node->name);
  for (uint32_t k = 0; k < described->output_count; k++)
    state->map[node->first_output + k] = made->first_output + k;
  return TDM_OK;
}

/* Reserves capacity for the whole plan: training appends about five nodes for each described one,
 * and two values. */
static tdm_status reserve_room(const lowering_state *state) {
  tdm_graph *out = state->out;
  const bool grows = state->lowering->training || state->differentiates;
  TDM_TRY(tdm_ir_reserve_nodes(out, (grows ? 6 : 2) * state->source->nodes.count));
  return tdm_ir_reserve_values(out, (grows ? 3 : 2) * state->source->values.count);
}

/* Copies the parallel regions. Values that are not needed enter none. */
static tdm_status lower_regions(lowering_state *state) {
  tdm_graph *out = state->out;
  const size_t count = state->source->parallel_regions.count;
  if (count == 0) return TDM_OK;
  TDM_TRY(TDM_ARRAY_RESERVE(out, &out->parallel_regions, count));
  out->parallel_regions.count = count;
  for (size_t w = 0; w < count; w++) {
    tdm_parallel_region *parallel_region = &out->parallel_regions.items[w];
    *parallel_region = state->source->parallel_regions.items[w];
    if (parallel_region->input_count == 0) continue;
    const tdm_parallel_input *inputs = parallel_region->inputs;
    parallel_region->inputs = tdm_region_take(
        &out->region, parallel_region->input_count * sizeof *parallel_region->inputs,
        "parallel region");
    if (!parallel_region->inputs) return TDM_OUT_OF_MEMORY;
    for (size_t i = 0; i < parallel_region->input_count; i++)
      parallel_region->inputs[i] =
          (tdm_parallel_input){state->map[inputs[i].value], inputs[i].dimension};
  }
  return TDM_OK;
}

/* Copies the nodes. Nodes that write whole kept values come last. */
static tdm_status lower_nodes(lowering_state *state, bool updates) {
  TDM_EACH_NODE(state->source, node) {
    if (state->map[node->first_output] != NEEDED) continue;
    if ((node->role == TDM_ROLE_UPDATE) == updates) TDM_TRY(lower_node(state, node));
  }
  return TDM_OK;
}

static tdm_status lower_shardings(lowering_state *state) {
  tdm_graph *out = state->out;
  TDM_TRY(TDM_ARRAY_RESERVE(out, &out->shardings, state->source->shardings.count + 1));
  for (size_t i = 0; i < state->source->shardings.count; i++) {
    tdm_sharding sharding = state->source->shardings.items[i];
    if (!state->map[sharding.table]) continue;
    if (is_kept_whole(state, &sharding)) {
      tdm_ir_value_at(out, state->map[sharding.table])->device = TDM_NO_DEVICE;
      continue;
    }
    uint32_t *shards =
        tdm_region_take(&out->region, sharding.count * sizeof *shards, "sharded table");
    if (!shards) return TDM_OUT_OF_MEMORY;
    for (size_t k = 0; k < sharding.count; k++)
      shards[k] = state->map[sharding.shards[k]];
    sharding.shards = shards;
    sharding.table = shards[0];
    out->shardings.items[out->shardings.count++] = sharding;
  }
  return TDM_OK;
}

/* Copies the targets, in their order. */
static tdm_status lower_targets(const lowering_state *state) {
  const tdm_lowering *lowering = state->lowering;
  tdm_graph *out = state->out;
  TDM_TRY(TDM_ARRAY_RESERVE(out, &out->planned->deliveries, lowering->target_count));
  for (size_t i = 0; i < lowering->target_count; i++)
    out->planned->deliveries.items[out->planned->deliveries.count++] = (tdm_graph_delivery){
        .value = state->map[lowering->targets[i]],
        .device = lowering->target_devices ? lowering->target_devices[i] : TDM_HOST_DEVICE};
  return TDM_OK;
}

static tdm_status lower_all(lowering_state *state) {
  mark_needed(state);
  TDM_EACH_NODE(state->source, node)
    state->differentiates |= tdm_asks_gradient(node) && state->map[node->first_output] == NEEDED;
  TDM_TRY(reserve_room(state));
  TDM_TRY(lower_inputs(state));
  TDM_TRY(lower_persistents(state));
  TDM_TRY(lower_shardings(state));
  TDM_TRY(lower_nodes(state, false));
  if (state->source->kepts.count > 0) TDM_TRY(lower_nodes(state, true));
  TDM_TRY(lower_targets(state));
  return lower_regions(state);
}

tdm_status tdm_lower(const tdm_lowering *lowering, tdm_graph *out_graph) {
  lowering_state state = {.lowering = lowering, .source = lowering->source, .out = out_graph};
  const size_t map_bytes = state.source->values.count * sizeof *state.map;
  state.map = tdm_allocate(out_graph->allocator, map_bytes, "lowering");
  if (!state.map) return TDM_OUT_OF_MEMORY;
  const tdm_status status = lower_all(&state);
  tdm_release(out_graph->allocator, state.map, map_bytes);
  return status;
}
