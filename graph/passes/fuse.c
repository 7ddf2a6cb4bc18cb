/* Fuses elementwise nodes: a tree or a small graph of them on one device becomes one node that
 * computes element by element, so values between members are never stored. An operation's record
 * states whether it is elementwise; a device states whether its kernels support it in fused nodes.
 * Invariant: a group is executed at the place of its last member, and nothing else reads a member
 * before that, so the order stays topological. No member except the last is overwritten, delivered
 * or read on another device. */
#include "graph/passes/fuse.h"

static int64_t count_of(const tdm_fusing *state, uint32_t value) {
  return tdm_shape_count(&tdm_fuse_value(state, value)->spec->shape);
}

/* ---- Which nodes ----------------------------------------------------------------------------- */

static void find_kernels(tdm_fusing *state) {
  tdm_context *context = state->graph->context;
  for (size_t d = 0; d < tdm_device_count(context); d++) {
    const char *executes = tdm_context_device(context, d)->ops->executes;
    state->kernels[d] = tdm_context_find_kernel(context, TDM_OP_FUSED, executes, TDM_FLOAT32);
  }
}

/* Returns true if the prepared kernel can compute a subset of the elements. */
static bool has_part(const tdm_ir_node *node) {
  const tdm_prepared *prepared = node->prepared;
  if (!prepared || prepared->answer.workspace_bytes > 0) return false;
  if (!prepared->kernel->execute_part && prepared->kernel->element == 0) return false;
  for (uint32_t k = 0; k < node->input_count + 1u; k++)
    if (prepared->specs[k].format != TDM_FORMAT_DENSE) return false;
  return true;
}

static bool may_be_member(const tdm_fusing *state, const tdm_ir_node *node) {
  const tdm_operation *operation = node->operation;
  if (!operation || !operation->elementwise || operation->is_view) return false;
  if (node->role != TDM_ROLE_FORWARD && node->role != TDM_ROLE_GRADIENT) return false;
  if (node->output_count != 1 || node->condition || operation->overwrites[0]) return false;
  if (node->input_count == 0 || node->input_count > TDM_FUSED_INPUTS || !has_part(node))
    return false;
  return state->kernels[node->device] && count_of(state, node->first_output) > 0;
}

static size_t count_candidates(const tdm_fusing *state) {
  size_t count = 0;
  TDM_EACH_NODE(state->graph, node)
    count += may_be_member(state, node);
  return count;
}

/* ---- Which groups ---------------------------------------------------------------------------- */

static bool are_alike(const tdm_fusing *state, const tdm_ir_node *a, const tdm_ir_node *b) {
  return a->device == b->device && a->role == b->role && a->part.replica == b->part.replica &&
         a->part.micro == b->part.micro &&
         count_of(state, a->first_output) == count_of(state, b->first_output);
}

/* Returns true if members that read the value read all of it. */
static bool is_read_whole(const tdm_fusing *state, const tdm_fuse_group *group, uint32_t output) {
  for (uint32_t m = 0; m < group->member_count; m++) {
    const tdm_ir_node *member = tdm_ir_node_at(state->graph, group->members[m]);
    const uint32_t *inputs = member->inputs;
    for (uint32_t k = 0; k < member->input_count; k++) {
      if (!inputs[k]) continue;
      const tdm_ir_value *read = tdm_fuse_value(state, inputs[k]);
      if (read->root == output && read->bytes != tdm_fuse_value(state, output)->bytes) return false;
    }
  }
  return true;
}

bool tdm_fuse_add_inputs(const tdm_fusing *state, const tdm_fuse_group *group, uint32_t reader,
                         uint32_t joining, uint32_t *inputs, uint32_t *count) {
  const tdm_ir_node *node = tdm_ir_node_at(state->graph, reader);
  const uint32_t *read = node->inputs;
  for (uint32_t k = 0; k < node->input_count; k++) {
    if (!read[k]) continue;
    const uint32_t producer = tdm_fuse_maker(state, read[k]);
    if ((producer && producer == joining) || tdm_fuse_is_inside(state, group, read[k])) continue;
    uint32_t at = 0;
    while (at < *count && inputs[at] != read[k])
      at++;
    if (at < *count) continue;
    if (*count == TDM_FUSED_INPUTS) return false;
    inputs[(*count)++] = read[k];
  }
  return true;
}

static bool has_room(const tdm_fusing *state, const tdm_fuse_group *group, uint32_t joining) {
  const uint32_t output = tdm_ir_node_at(state->graph, joining)->first_output;
  const tdm_value_use *use = &state->uses[output];
  if (group->member_count == TDM_FUSED_MEMBERS) return false;
  if (use->first != use->last && group->output_count == TDM_FUSED_OUTPUTS) return false;
  uint32_t inputs[TDM_FUSED_INPUTS], count = 0;
  for (uint32_t m = 0; m < group->member_count; m++)
    if (!tdm_fuse_add_inputs(state, group, group->members[m], joining, inputs, &count))
      return false;
  return tdm_fuse_add_inputs(state, group, joining, joining, inputs, &count);
}

/* Returns true if the node at `from` may be executed with the group instead. Its inputs must exist
 * until then and take no more memory than its output would. Across other steps, at most one value
 * may live longer. */
static bool may_move(const tdm_fusing *state, const tdm_fuse_group *group, const tdm_ir_node *node,
                     uint32_t from) {
  const bool passes = state->steps[group->at] - state->steps[from] > group->member_count;
  const uint32_t *inputs = node->inputs;
  uint32_t longer = 0;
  for (uint32_t k = 0; k < node->input_count; k++) {
    if (!inputs[k]) continue;
    const tdm_ir_value *root = tdm_fuse_value(state, tdm_fuse_value(state, inputs[k])->root);
    const tdm_value_use *use = &state->uses[tdm_fuse_value(state, inputs[k])->root];
    if (use->rewritten) return false;
    const bool lives = root->kind != TDM_VALUE_NODE ||
                       root->bytes < tdm_fuse_value(state, node->first_output)->bytes ||
                       (use->first != TDM_FUSE_NONE && use->last >= group->at);
    longer += !lives;
  }
  return !passes || longer <= 1;
}

/* Returns the group that the node at that place joins, which is that of its first consumer, or
 * NULL. */
static tdm_fuse_group *find_group(const tdm_fusing *state, uint32_t index, uint32_t from) {
  const tdm_ir_node *node = tdm_ir_node_at(state->graph, index);
  const tdm_value_use *use = &state->uses[node->first_output];
  if (use->first == TDM_FUSE_NONE || use->leaves || use->rewritten) return NULL;
  tdm_fuse_group *group = state->groups[use->reader];
  if (!group || !are_alike(state, node, tdm_ir_node_at(state->graph, use->reader))) return NULL;
  if (!is_read_whole(state, group, node->first_output) || !has_room(state, group, index))
    return NULL;
  return may_move(state, group, node, from) ? group : NULL;
}

static void join_group(tdm_fusing *state, tdm_fuse_group *group, uint32_t index) {
  tdm_value_use *use = &state->uses[tdm_ir_node_at(state->graph, index)->first_output];
  use->inside = group->member_count > 0 && use->first == use->last;
  group->members[group->member_count++] = index;
  group->output_count += !use->inside;
  state->groups[index] = group;
}

static void note_reads(tdm_fusing *state, const tdm_ir_node *node, uint32_t at) {
  const uint32_t *inputs = node->inputs;
  for (uint32_t k = 0; k < node->input_count; k++) {
    if (!inputs[k]) continue;
    const tdm_ir_value *value = tdm_fuse_value(state, inputs[k]);
    tdm_value_use *use = &state->uses[value->root];
    if (value->device != node->device) use->leaves = true;
    if (use->first == TDM_FUSE_NONE || at > use->last) use->last = at;
    if (use->first != TDM_FUSE_NONE && at >= use->first) continue;
    use->first = at;
    use->reader = node->index;
  }
}

/* Marks memory as read on another device if a view of it is there. Readers of a view count as
 * readers of its memory. */
static void note_view(tdm_fusing *state, const tdm_ir_node *node) {
  const tdm_ir_value *shown = tdm_fuse_value(state, node->inputs[0]);
  if (shown->device != node->device) state->uses[shown->root].leaves = true;
}

static void note_fixed_uses(tdm_fusing *state) {
  const tdm_graph *graph = state->graph;
  for (size_t v = 0; v < graph->values.count; v++)
    state->uses[v].first = TDM_FUSE_NONE;
  for (size_t i = 0; i < graph->planned->deliveries.count; i++)
    state->uses[tdm_fuse_value(state, graph->planned->deliveries.items[i].value)->root].leaves =
        true;
  uint32_t *counts = &state->steps[graph->order.count]; /* per device */
  size_t place = 0;
  TDM_EACH_NODE(graph, node) {
    state->steps[place++] = counts[node->device];
    counts[node->device] += tdm_fuse_is_step(node);
    if (!node->operation || !tdm_fuse_is_step(node) || node->role == TDM_ROLE_UPDATE)
      continue; /* updates come after all other nodes */
    for (uint32_t k = 0; k < node->output_count; k++)
      if (node->operation->overwrites[k])
        state->uses[tdm_fuse_value(state, node->first_output + k)->root].rewritten = true;
  }
}

/* Forms groups from the last node to the first, so all consumers of a node have their groups before
 * it. */
static size_t form_groups(tdm_fusing *state, tdm_fuse_group *groups) {
  size_t used = 0, joined = 0;
  uint32_t place = (uint32_t)state->graph->order.count;
  TDM_EACH_NODE_BACKWARD(state->graph, node) {
    uint32_t at = --place;
    if (!tdm_fuse_is_step(node)) {
      note_view(state, node);
      continue;
    }
    if (may_be_member(state, node)) {
      tdm_fuse_group *group = find_group(state, node->index, place);
      joined += group != NULL;
      if (!group) {
        group = &groups[used++];
        group->at = place;
      }
      join_group(state, group, node->index);
      at = group->at;
    }
    note_reads(state, node, at);
  }
  return joined;
}

/* ---- The pass -------------------------------------------------------------------------------- */

static tdm_status take_scratch(tdm_fusing *state) {
  const tdm_graph *graph = state->graph;
  const size_t values = graph->values.count, nodes = graph->nodes.count;
  const size_t devices = tdm_device_count(graph->context);
  tdm_region *scratch = &state->scratch;
  state->value_count = (uint32_t)values;
  state->uses = tdm_region_take(scratch, values * sizeof *state->uses, "fusing");
  state->groups = tdm_region_take(scratch, nodes * sizeof *state->groups, "fusing");
  state->views = tdm_region_take(scratch, nodes * sizeof *state->views, "fusing");
  state->moved = tdm_region_take(scratch, values * sizeof *state->moved, "fusing");
  state->steps =
      tdm_region_take(scratch, (graph->order.count + devices) * sizeof *state->steps, "fusing");
  return state->uses && state->groups && state->views && state->moved && state->steps
             ? TDM_OK
             : TDM_OUT_OF_MEMORY;
}

static tdm_status fuse(tdm_fusing *state) {
  const size_t devices = tdm_device_count(state->graph->context);
  state->kernels = tdm_region_take(&state->scratch, devices * sizeof *state->kernels, "fusing");
  if (!state->kernels) return TDM_OUT_OF_MEMORY;
  find_kernels(state);
  const size_t candidates = count_candidates(state);
  if (candidates < 2) return TDM_OK;
  tdm_fuse_group *groups = tdm_region_take(&state->scratch, candidates * sizeof *groups, "fusing");
  if (!groups) return TDM_OUT_OF_MEMORY;
  TDM_TRY(take_scratch(state));
  note_fixed_uses(state);
  if (form_groups(state, groups) == 0) return TDM_OK;
  return tdm_fuse_replace(state);
}

tdm_status tdm_pass_fuse(tdm_graph *graph, tdm_prepared_cache *cache) {
  tdm_fusing state = {.graph = graph, .cache = cache};
  tdm_region_init(&state.scratch, graph->allocator);
  const tdm_status status = fuse(&state);
  tdm_region_deinit(&state.scratch);
  return status;
}
