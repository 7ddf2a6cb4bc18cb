/* The other half of the pass fuse: one node for each group, and the order and the readers that go
 * with it. Invariant: a view of what members make follows the node that stands for them, or is gone
 * with all its readers. */
#include <string.h>

#include "graph/passes/fuse.h"

/* Which number among members has the one that made the value's memory? They are stored last first.
 */
static uint32_t number_of(const tdm_fuse_group *group, uint32_t producer) {
  uint32_t m = 0;
  while (group->members[m] != producer)
    m++;
  return group->member_count - 1u - m;
}

static void describe_member(const tdm_fusing *state, const tdm_fuse_group *group,
                            const tdm_ir_node *node, const uint32_t *inputs,
                            tdm_fused_member *out) {
  const uint32_t *read = tdm_ir_inputs(state->graph, node);
  out->kernel = node->kernel;
  out->attributes = node->prepared->attributes;
  out->attribute_bytes = (uint32_t)node->prepared->attribute_bytes;
  out->state = node->prepared->answer.state;
  out->specs = node->prepared->specs;
  out->input_count = (uint8_t)node->input_count;
  out->splits = node->prepared->answer.splits;
  for (uint32_t k = 0; k < node->input_count; k++) {
    uint32_t at = 0;
    if (tdm_fuse_is_inside(state, group, read[k]))
      at = TDM_FUSED_INPUTS + number_of(group, tdm_fuse_maker(state, read[k]));
    else
      while (inputs[at] != read[k])
        at++;
    out->inputs[k] = (uint8_t)at;
  }
}

/* "block/gate+block/act": the members' names in their order, each once where it repeats. */
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

/* Adds the node that stands for the group. */
static tdm_status add_fused(tdm_fusing *state, const tdm_fuse_group *group, uint32_t *out_index) {
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
    specs[node.output_count++] = tdm_fuse_value(state, made->first_output)->spec;
    member->output = (uint8_t)node.output_count;
  }
  node.operation = &tdm_operation_fused;
  node.kernel = *tdm_fuse_kernel(state, node.device, specs[0].dtype);
  node.attributes = program;
  node.prepared = NULL;
  node.input_count = (uint16_t)count;
  *out_index = tdm_ir_add_node(graph, &node, inputs, specs);
  if (!*out_index) return TDM_OUT_OF_MEMORY;
  for (uint32_t k = 0; k < node.output_count; k++)
    state->moved[outputs[k]] = tdm_ir_node_at(graph, *out_index)->first_output + k;
  return tdm_prepare_node(graph, state->cache, *out_index);
}

/* A view of what a group makes follows it. True: it is not the view's turn yet, or it is nothing
 * that anybody reads. */
static bool hold_view(tdm_fusing *state, uint32_t view, uint32_t at) {
  const tdm_ir_node *node = tdm_ir_node_at(state->graph, view);
  const uint32_t root = tdm_fuse_value(state, node->first_output)->root;
  const uint32_t producer = tdm_fuse_value(state, root)->producer;
  tdm_fuse_group *group = producer ? state->groups[producer] : NULL;
  if (!group || group->member_count < 2) return false;
  if (state->uses[root].inside) return true;
  if (group->at < at) return false;
  if (group->views)
    state->views[group->last_view] = view;
  else
    group->views = view;
  group->last_view = view;
  return true;
}

/* Rewrites the order, one node for each group. */
static tdm_status replace_groups(tdm_fusing *state) {
  tdm_graph *graph = state->graph;
  const size_t count = graph->order.count;
  size_t kept = 0; /* never ahead of what was read: a group's views stood before it */
  for (uint32_t i = 0; i < count; i++) {
    uint32_t index = graph->order.items[i];
    const tdm_ir_node *node = tdm_ir_node_at(graph, index);
    tdm_fuse_group *group = state->groups[index];
    if (!tdm_fuse_is_step(node) && hold_view(state, index, i)) continue;
    if (group && group->member_count > 1) {
      if (group->at != i) continue;
      TDM_TRY(add_fused(state, group, &index));
    }
    graph->order.items[kept++] = index;
    for (uint32_t view = group ? group->views : 0; view; view = state->views[view])
      graph->order.items[kept++] = view;
  }
  graph->order.count = kept;
  return TDM_OK;
}

static uint32_t moved_to(const tdm_fusing *state, uint32_t value) {
  return value < state->value_count && state->moved[value] ? state->moved[value] : value;
}

/* Everybody reads what stands for the members' outputs. */
static void redirect(tdm_fusing *state, uint32_t *deliveries, size_t delivery_count) {
  tdm_graph *graph = state->graph;
  for (size_t i = 0; i < graph->operands.count; i++)
    graph->operands.items[i] = moved_to(state, graph->operands.items[i]);
  for (size_t v = 1; v < graph->values.count; v++)
    graph->values.items[v].root = moved_to(state, graph->values.items[v].root);
  for (size_t i = 0; i < delivery_count; i++)
    deliveries[i] = moved_to(state, deliveries[i]);
}

tdm_status tdm_fuse_replace(tdm_fusing *state, uint32_t *deliveries, size_t delivery_count) {
  TDM_TRY(replace_groups(state));
  redirect(state, deliveries, delivery_count);
  return TDM_OK;
}
