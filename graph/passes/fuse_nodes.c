/* The second part of the pass fuse: creates one node for each group, and adjusts the order and the
 * readers. Invariant: a view of a member's output comes after the group's node, or is removed with
 * all its readers. */
#include <string.h>

#include "graph/ir/rewriter.h"
#include "graph/passes/fuse.h"

/* Returns the index among members of the node that produced the value's memory. Members are stored
 * in reverse order. */
static uint32_t number_of(const tdm_fuse_group *group, uint32_t producer) {
  uint32_t m = 0;
  while (group->members[m] != producer)
    m++;
  return group->member_count - 1u - m;
}

static void describe_member(const tdm_fusing *state, const tdm_fuse_group *group,
                            const tdm_ir_node *node, const uint32_t *inputs,
                            tdm_fused_member *out) {
  const uint32_t *read = node->inputs;
  out->operation = node->operation;
  out->kernel = node->prepared->kernel;
  out->attributes = node->prepared->attributes;
  out->attribute_bytes = (uint32_t)node->prepared->attribute_bytes;
  out->state = node->prepared->answer.state;
  out->specs = node->prepared->specs;
  out->input_count = (uint8_t)node->input_count;
  out->splits = node->prepared->answer.splits;
  for (uint32_t k = 0; k < node->input_count; k++) {
    uint32_t at = 0;
    if (!read[k])
      at = TDM_FUSED_ABSENT;
    else if (tdm_fuse_is_inside(state, group, read[k]))
      at = TDM_FUSED_INPUTS + number_of(group, tdm_fuse_maker(state, read[k]));
    else
      while (inputs[at] != read[k])
        at++;
    out->inputs[k] = (uint8_t)at;
  }
}

/* Returns the members' names in order, each once if it repeats: "block/gate+block/act". */
static const char *join_names(const tdm_fusing *state, const tdm_fuse_group *group) {
  const char *before = "";
  size_t bytes = 1;
  for (uint32_t m = group->member_count; m-- > 0;)
    bytes += strlen(tdm_ir_node_at(state->graph, group->members[m])->name) + 1;
  char *text = tdm_region_take(&state->graph->region, bytes, "a name");
  if (!text) return NULL;
  size_t at = 0;
  for (uint32_t m = group->member_count; m-- > 0;) {
    const char *name = tdm_ir_node_at(state->graph, group->members[m])->name;
    if (strcmp(name, before) == 0) continue;
    if (at > 0) text[at++] = '+';
    const size_t length = strlen(name);
    memcpy(text + at, name, length);
    at += length;
    before = name;
  }
  text[at] = 0;
  return text;
}

/* Inserts the node that replaces the group. */
static tdm_status add_fused(tdm_fusing *state, const tdm_fuse_group *group, tdm_ir_node *before) {
  tdm_graph *graph = state->graph;
  tdm_fused_attributes *program =
      tdm_region_take(&graph->region, sizeof *program, "a fused node"); /* zeroed */
  tdm_ir_node node = *tdm_ir_node_at(graph, group->members[0]);
  node.name = join_names(state, group);
  if (!program || !node.name) return TDM_OUT_OF_MEMORY;
  uint32_t inputs[TDM_FUSED_INPUTS], count = 0, outputs[TDM_FUSED_OUTPUTS];
  tdm_spec specs[TDM_FUSED_OUTPUTS];
  for (uint32_t m = group->member_count; m-- > 0;)
    (void)tdm_fuse_add_inputs(state, group, group->members[m], 0, inputs, &count);
  node.output_count = 0;
  for (uint32_t m = group->member_count; m-- > 0;) {
    const tdm_ir_node *made = tdm_ir_node_at(graph, group->members[m]);
    tdm_fused_member *member = &program->members[program->member_count++];
    describe_member(state, group, made, inputs, member);
    if (state->uses[made->first_output].inside) continue;
    outputs[node.output_count] = made->first_output;
    specs[node.output_count++] = *tdm_fuse_value(state, made->first_output)->spec;
    member->output = (uint8_t)node.output_count;
  }
  node.operation = &tdm_operation_fused;
  node.attributes = program;
  node.prepared = NULL;
  node.input_count = (uint8_t)count;
  tdm_ir_node *fused = tdm_insert_as(graph, before, &node, inputs, specs);
  if (!fused) return TDM_OUT_OF_MEMORY;
  for (uint32_t k = 0; k < node.output_count; k++)
    state->moved[outputs[k]] = fused->first_output + k;
  return tdm_prepare_node(graph, state->cache, fused, state->kernels[node.device]);
}

/* Removes a view that only members read. Otherwise, if the view is of a group's output and comes
 * before the group, it is moved later, after the group. */
static void hold_view(tdm_fusing *state, tdm_ir_node *view, uint32_t at) {
  const uint32_t root = tdm_fuse_value(state, view->first_output)->root;
  const uint32_t producer = tdm_fuse_value(state, root)->producer;
  tdm_fuse_group *group = producer ? state->groups[producer] : NULL;
  if (!group || group->member_count < 2) return;
  if (state->uses[root].inside) {
    tdm_remove_node(state->graph, view);
  } else if (group->at >= at) {
    if (group->views)
      state->views[group->last_view] = view->index;
    else
      group->views = view->index;
    group->last_view = view->index;
  }
}

/* Inserts the group's node, and the views that come after it, at the place of its last member. */
static tdm_status replace_group(tdm_fusing *state, const tdm_fuse_group *group,
                                const tdm_ir_node *last) {
  tdm_graph *graph = state->graph;
  tdm_ir_node *behind = last->next;
  TDM_TRY(add_fused(state, group, behind));
  for (uint32_t view = group->views; view; view = state->views[view])
    tdm_move_node(graph, tdm_ir_node_at(graph, view), behind);
  for (uint32_t m = 0; m < group->member_count; m++)
    tdm_remove_node(graph, tdm_ir_node_at(graph, group->members[m]));
  return TDM_OK;
}

static tdm_status replace_groups(tdm_fusing *state) {
  uint32_t place = 0;
  TDM_EACH_NODE(state->graph, node) {
    const tdm_fuse_group *group = state->groups[node->index];
    const uint32_t at = place++;
    if (!tdm_fuse_is_step(node))
      hold_view(state, node, at);
    else if (group && group->member_count > 1 && group->at == at)
      TDM_TRY(replace_group(state, group, node));
  }
  return TDM_OK;
}

tdm_status tdm_fuse_replace(tdm_fusing *state) {
  TDM_TRY(replace_groups(state));
  tdm_replace_values(state->graph, state->moved, state->value_count);
  return TDM_OK;
}
