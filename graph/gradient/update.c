/* The optimizer's part of the gradient pass: calls the rule, then finds which of the appended nodes
 * belong to the last phase. Invariant: exactly the nodes that overwrite persistent values, and
 * those that depend on them, have the role UPDATE, in the order in which they were appended. */
#include <stdlib.h>

#include "core/untold.h"
#include "graph/gradient/gradient.h"
#include "graph/gradient/walk.h"

tdm_graph *tdm_update_graph(tdm_update *update) {
  return update ? update->graph : NULL;
}

const tdm_optimizer *tdm_update_optimizer(const tdm_update *update) {
  return update ? update->optimizer : NULL;
}

size_t tdm_update_count(const tdm_update *update) {
  return update ? update->count : 0;
}

static tdm_value handle(const tdm_update *update, size_t index, uint32_t value) {
  return index < tdm_update_count(update) ? tdm_ir_handle(update->graph, value) : TDM_NO_VALUE;
}

static const tdm_adjoint *gradient_of(const tdm_update *update, size_t index) {
  static const tdm_adjoint none;
  return index < tdm_update_count(update) ? &update->items[index].gradient : &none;
}

tdm_value tdm_update_parameter(const tdm_update *update, size_t index) {
  return index < tdm_update_count(update) ? handle(update, index, update->items[index].parameter)
                                          : TDM_NO_VALUE;
}

const char *tdm_update_name(const tdm_update *update, size_t index) {
  if (index >= tdm_update_count(update)) return "";
  return tdm_ir_value_at(update->graph, update->items[index].parameter)->name;
}

bool tdm_update_is_sparse(const tdm_update *update, size_t index) {
  const tdm_adjoint *gradient = gradient_of(update, index);
  return gradient->dense == 0 && gradient->rows != 0;
}

tdm_value tdm_update_gradient(const tdm_update *update, size_t index) {
  const tdm_adjoint *gradient = gradient_of(update, index);
  return handle(update, index, gradient->dense ? gradient->dense : gradient->rows);
}

tdm_value tdm_update_indices(const tdm_update *update, size_t index) {
  return handle(update, index, gradient_of(update, index)->indices);
}

tdm_value tdm_update_rows_count(const tdm_update *update, size_t index) {
  return handle(update, index, gradient_of(update, index)->count);
}

/* Returns the persistent value that output k overwrites, or NULL. */
static const tdm_ir_value *overwritten(const tdm_graph *graph, const tdm_ir_node *node,
                                       uint32_t k) {
  if (!node->operation->overwrites[k]) return NULL;
  const uint32_t input = node->inputs[node->operation->overwrites[k] - 1];
  const tdm_ir_value *root = tdm_ir_value_at(graph, tdm_ir_value_at(graph, input)->root);
  return root->kind == TDM_VALUE_PERSISTENT ? root : NULL;
}

static const char *device_name(const tdm_graph *graph, int16_t device) {
  return tdm_context_device(graph->context, (size_t)device)->name;
}

/* Number of updates so far that write each persistent value. */
typedef struct settling {
  tdm_graph *graph;
  uint32_t *writes; /* (persistents) */
} settling;

/* Returns the device of the input if an earlier update produced it, otherwise TDM_NO_DEVICE. */
static int16_t updated_device(const settling *state, uint32_t input) {
  const tdm_graph *graph = state->graph;
  const tdm_ir_node *producer = tdm_producer(graph, input);
  const tdm_ir_value *root = tdm_ir_value_at(graph, tdm_ir_value_at(graph, input)->root);
  const bool written = root->kind == TDM_VALUE_PERSISTENT && state->writes[root->binding] > 0;
  return written || (producer && producer->role == TDM_ROLE_UPDATE) ? root->device : TDM_NO_DEVICE;
}

/* Places an update on the device of the persistent values that it overwrites. They must have one
 * device, because otherwise all but one would be written in a copy and lost. Results of updates are
 * not sent to other devices. */
static tdm_status settle_update(const settling *state, tdm_ir_node *node) {
  const tdm_graph *graph = state->graph;
  const tdm_ir_value *first = NULL;
  for (uint32_t k = 0; k < node->output_count; k++) {
    const tdm_ir_value *value = overwritten(graph, node, k);
    if (!value) continue;
    if (!first) first = value;
    if (value->device == first->device) continue;
    return tdm_fail(TDM_UNSUPPORTED,
                    "%s: its update writes %s, whose home is %s, and %s, whose home is %s; let one "
                    "session bind both",
                    node->name, first->name, device_name(graph, first->device), value->name,
                    device_name(graph, value->device));
  }
  int16_t device = first ? first->device : TDM_NO_DEVICE;
  for (uint32_t k = 0; k < node->input_count; k++) {
    const int16_t there = updated_device(state, node->inputs[k]);
    if (there == TDM_NO_DEVICE) continue;
    if (device == TDM_NO_DEVICE) device = there;
    if (there == device) continue;
    return tdm_fail(
        TDM_UNSUPPORTED,
        "%s: its update reads what one on %s has written, and belongs on %s; append what "
        "reads it before it is written, or place together what both write",
        node->name, device_name(graph, there), device_name(graph, device));
  }
  if (device == TDM_NO_DEVICE) return TDM_OK;
  node->role = TDM_ROLE_UPDATE;
  node->device = device;
  for (uint32_t k = 0; k < node->output_count; k++) {
    const tdm_ir_value *value = overwritten(graph, node, k);
    if (value) state->writes[value->binding]++;
  }
  return TDM_OK;
}

static int16_t device_of_inputs(const tdm_graph *graph, const tdm_ir_node *node) {
  const uint32_t *inputs = node->inputs;
  for (uint32_t k = 0; k < node->input_count; k++)
    if (inputs[k]) return tdm_ir_value_at(graph, inputs[k])->device;
  return 0;
}

/* Sets the devices and roles of the nodes from `first` on, and moves all updates after the other
 * nodes. Both keep their order. */
static tdm_status settle_roles(const settling *state, tdm_ir_node *first) {
  tdm_graph *graph = state->graph;
  const tdm_ir_node *last = graph->order.last;
  TDM_EACH_NODE_FROM(first, node) {
    node->role = TDM_ROLE_GRADIENT;
    TDM_TRY(settle_update(state, node));
    if (node->role == TDM_ROLE_GRADIENT)
      node->device = device_of_inputs(graph, node);
    else
      tdm_move_node(graph, node, NULL);
    for (uint32_t k = 0; k < node->output_count; k++)
      tdm_ir_value_at(graph, node->first_output + k)->device = node->device;
    if (node == last) break; /* the following nodes were moved */
  }
  return TDM_OK;
}

/* Returns where updates are inserted: at the end. settle_roles sets their devices and roles. */
static tdm_insertion update_insertion(const char *name) {
  tdm_insertion at = tdm_adjoint_insertion(NULL, name, TDM_NO_DEVICE, 0);
  at.updates = true;
  return at;
}

static tdm_status persist_node(tdm_walk *walk, tdm_ir_node *node) {
  tdm_graph *graph = walk->rule.graph;
  if (!node->later_replica) {
    const tdm_insertion at = update_insertion(node->name);
    walk->rule.node = node;
    tdm_lend_insertion(graph, &at);
    const uint32_t told = tdm_told_count();
    const tdm_status status = tdm_fail_untold(node->operation->persist(&walk->rule), told);
    tdm_take_insertion_back(graph);
    if (status != TDM_OK)
      return tdm_fail_within(status, "%s %s", node->operation->name, node->name);
    TDM_TRY(tdm_graph_status(graph));
  }
  for (uint32_t k = 0; k < node->input_count; k++)
    if (tdm_ir_is_persisted(node, k)) tdm_set_input(graph, node, k, 0);
  return TDM_OK;
}

/* A node that persists a value, and its position. */
typedef struct persisting {
  tdm_ir_node *node;
  size_t place;
} persisting;

/* Compares by micro-batch, then by the order in the graph's description. Parallel regions have
 * changed both orders, and of two nodes that share a state the later one determines its value. */
static int compare_persisting(const void *one, const void *other) {
  const persisting *a = one, *b = other;
  if (a->node->part.micro != b->node->part.micro)
    return a->node->part.micro < b->node->part.micro ? -1 : 1;
  if (a->node->described != b->node->described)
    return a->node->described < b->node->described ? -1 : 1;
  return a->place < b->place ? -1 : a->place > b->place;
}

/* Calls the rules `persist` of forward nodes; nodes that they append are not among these. */
static tdm_status persist_all(tdm_walk *walk) {
  tdm_graph *graph = walk->rule.graph;
  const size_t bytes = (graph->order.count + 1) * sizeof(persisting);
  persisting *nodes = tdm_allocate(graph->allocator, bytes, "running statistics");
  if (!nodes) return TDM_OUT_OF_MEMORY;
  size_t count = 0;
  TDM_EACH_NODE(graph, node) {
    if (node->role != TDM_ROLE_FORWARD || !node->operation->persist) continue;
    nodes[count] = (persisting){node, count};
    count++;
  }
  qsort(nodes, count, sizeof *nodes, compare_persisting);
  tdm_status status = TDM_OK;
  for (size_t i = 0; i < count && status == TDM_OK; i++)
    status = persist_node(walk, nodes[i].node);
  tdm_release(graph->allocator, nodes, bytes);
  return status;
}

/* Appends the logs of the rows that updates change. */
static tdm_status log_rows(tdm_graph *graph, const tdm_parameter_gradient *item) {
  const tdm_ir_value *parameter = tdm_ir_value_at(graph, item->parameter);
  const tdm_insertion at = {
      .name = parameter->name, .device = parameter->device, .role = TDM_ROLE_UPDATE};
  const uint32_t kept =
      tdm_insert(graph, &at, &tdm_operation_log_rows, NULL, &item->gradient.indices, 1);
  TDM_TRY(tdm_graph_status(graph));
  TDM_TRY(TDM_ARRAY_RESERVE(graph, &graph->planned->logs, 1));
  tdm_ir_value *value = tdm_ir_value_at(graph, kept);
  value->kind = TDM_VALUE_LOG;
  value->binding = (uint32_t)graph->planned->logs.count;
  graph->planned->logs.items[graph->planned->logs.count++] =
      (tdm_graph_log){kept, parameter->binding, -1};
  return TDM_OK;
}

/* Appends the updates of one group. mine: scratch memory for all items, receives those of the
 * group. */
static tdm_status append_group(tdm_graph *graph, const tdm_training *training, size_t group,
                               const tdm_parameter_gradient *items, size_t count,
                               tdm_parameter_gradient *mine) {
  const tdm_optimizer *optimizer = &training->groups->optimizers[group];
  const tdm_optimizer_rule *rule = optimizer->rule;
  if (!rule) return TDM_OK;
  tdm_update update = {graph, optimizer, mine, 0};
  for (size_t i = 0; i < count; i++) {
    if (items[i].group != group) continue;
    mine[update.count++] = items[i];
    if (tdm_update_is_sparse(&update, update.count - 1) && !rule->accepts_sparse)
      return tdm_fail(TDM_INVALID_ARGUMENT, "%s does not take the sparse gradient of %s",
                      rule->name, tdm_update_name(&update, update.count - 1));
  }
  tdm_insertion at = update_insertion(NULL);
  at.update_group = (uint8_t)group;
  tdm_lend_insertion(graph, &at);
  const uint32_t told = tdm_told_count();
  const tdm_status status = tdm_fail_untold(rule->append(&update), told);
  tdm_take_insertion_back(graph);
  if (status != TDM_OK) return tdm_fail_within(status, "optimizer %s", rule->name);
  return tdm_graph_status(graph);
}

static tdm_status append_groups(tdm_graph *graph, const tdm_training *training,
                                const tdm_parameter_gradient *items, size_t count) {
  const size_t bytes = (count + 1) * sizeof *items;
  tdm_parameter_gradient *mine = tdm_allocate(graph->allocator, bytes, "updates");
  if (!mine) return TDM_OUT_OF_MEMORY;
  tdm_status status = TDM_OK;
  for (size_t g = 0; g < training->groups->count && status == TDM_OK; g++)
    status = append_group(graph, training, g, items, count, mine);
  tdm_release(graph->allocator, mine, bytes);
  return status;
}

/* Settles the nodes from `first` on, and logs the rows of tables that one update wrote. Several
 * updates may write any rows. */
static tdm_status settle(const settling *state, tdm_ir_node *first,
                         const tdm_parameter_gradient *items, size_t count) {
  tdm_graph *graph = state->graph;
  TDM_TRY(settle_roles(state, first));
  for (size_t i = 0; i < count; i++) {
    const tdm_ir_value *parameter = tdm_ir_value_at(graph, items[i].parameter);
    if (items[i].gradient.dense == 0 && state->writes[parameter->binding] < 2)
      TDM_TRY(log_rows(graph, &items[i]));
  }
  return TDM_OK;
}

tdm_status tdm_append_updates(tdm_walk *walk, const tdm_training *training,
                              tdm_parameter_gradient *items, size_t count) {
  tdm_graph *graph = walk->rule.graph;
  tdm_ir_node *last = graph->order.last;
  TDM_TRY(persist_all(walk));
  TDM_TRY(append_groups(graph, training, items, count));
  const size_t bytes = (graph->persistents.count + 1) * sizeof(uint32_t);
  const settling state = {graph, tdm_allocate(graph->allocator, bytes, "updates")};
  if (!state.writes) return TDM_OUT_OF_MEMORY;
  const tdm_status status = settle(&state, last->next, items, count);
  tdm_release(graph->allocator, state.writes, bytes);
  return status;
}
