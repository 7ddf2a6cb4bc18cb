/* The backward pass: visits the forward nodes in reverse order, calls the rule of each, and sums
 * adjoints. It runs once for the trained loss, and once for each other loss of which nodes request
 * gradients (asked.c). adjoints.c describes the order of sums. The adjoint of a parameter is summed
 * after its earliest consumer was visited. Invariant: forward nodes are unchanged; each appended
 * node has a device. */
#include <string.h>

#include "core/untold.h"
#include "devices/kernels.h"
#include "graph/describe/gradient_of.h"
#include "graph/gradient/gradient.h"
#include "graph/gradient/walk.h"
#include "graph/ir/rewriter.h"
#include "graph/passes/device_sums.h"

/* ---- What records say ------------------------------------------------------------------------ */

/* Calls the operation's rule, or applies what its record states instead. */
static tdm_status apply(tdm_gradient *gradient, const tdm_operation *operation) {
  const uint32_t told = tdm_told_count();
  if (operation->gradient) return tdm_fail_untold(operation->gradient(gradient), told);
  tdm_value operands[3] = {tdm_gradient_of_output(gradient, 0)};
  size_t count = 1;
  if (operation->gradient_reads & TDM_READS_X) operands[count++] = tdm_gradient_input(gradient, 0);
  if (operation->gradient_reads & TDM_READS_Y) operands[count++] = tdm_gradient_output(gradient, 0);
  tdm_gradient_set(gradient, 0,
                   tdm_append(gradient->graph, operation->gradient_operation,
                              tdm_gradient_name(gradient), tdm_gradient_attributes(gradient),
                              operands, count, NULL));
  return tdm_graph_status(gradient->graph);
}

/* ---- The walk -------------------------------------------------------------------------------- */

/* Marks the parameters whose group has an optimizer as trained. */
static void mark_parameters(tdm_walk *walk, const tdm_update_groups *groups) {
  const tdm_graph *graph = walk->rule.graph;
  for (size_t i = 0; i < graph->persistents.count; i++) {
    const tdm_graph_persistent *persistent = &graph->persistents.items[i];
    if (!tdm_ir_value_at(graph, persistent->value)->trainable) continue;
    const size_t group = tdm_update_group_of(groups, tdm_persistent_table(persistent));
    walk->parameters[i].group = (uint8_t)group;
    walk->parameters[i].trained = groups->optimizers[group].rule != NULL;
    walk->rule.wanted[persistent->value] = walk->parameters[i].trained;
  }
}

/* Marks values that depend on wanted ones through operations that propagate adjoints. All values of
 * an earlier walk are marked, so that an adjoint that reaches one is refused and not lost. */
static void mark_wanted(tdm_walk *walk) {
  const tdm_graph *graph = walk->rule.graph;
  TDM_EACH_NODE(graph, node) {
    const uint32_t *inputs = node->inputs;
    bool wanted = false;
    for (uint32_t k = 0; k < node->input_count; k++) {
      wanted |= walk->rule.wanted[inputs[k]] && tdm_reads_elements(node->operation, k);
      if (!tdm_asks_gradient(node) && !walk->first_readers[inputs[k]])
        walk->first_readers[inputs[k]] = node->index;
    }
    if (!wanted || !(tdm_flows_back(node->operation) || node->role == TDM_ROLE_GRADIENT)) continue;
    for (uint32_t k = 0; k < node->output_count; k++)
      walk->rule.wanted[node->first_output + k] |=
          tdm_dtype_is_floating(tdm_ir_value_at(graph, node->first_output + k)->spec->dtype);
  }
}

static const char *loss_name(const tdm_walk *walk) {
  const bool made = tdm_ir_value_at(walk->rule.graph, walk->loss)->producer != 0;
  return made ? tdm_value_name(walk->rule.graph, walk->loss) : "loss";
}

static tdm_status check_trained(const tdm_walk *walk) {
  const tdm_ir_value *value = tdm_ir_value_at(walk->rule.graph, walk->loss);
  const char *name = loss_name(walk);
  if (!tdm_dtype_is_floating(value->spec->dtype) || value->spec->shape.rank != 0)
    return tdm_fail(TDM_INVALID_ARGUMENT, "loss %s is not a floating scalar", name);
  if (walk->rule.wanted[walk->loss]) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT, "loss %s does not depend on any parameter that is trained",
                  name);
}

static tdm_status seed_loss(tdm_walk *walk, const tdm_ir_node **out_seed) {
  tdm_graph *graph = walk->rule.graph;
  const uint32_t loss = walk->loss;
  const tdm_ir_value *value = tdm_ir_value_at(graph, loss);
  const tdm_insertion at = tdm_adjoint_insertion(walk->before, loss_name(walk), value->device, 0);
  const uint32_t seed = tdm_insert_constant(graph, &at, 1.0, loss);
  TDM_TRY(tdm_graph_status(graph));
  TDM_TRY(TDM_ARRAY_RESERVE(graph, &walk->rule.adjoints, 2));
  walk->rule.adjoints.count = 1;
  walk->rule.adjoints.items[walk->rule.adjoints.count] =
      (tdm_adjoint){.dense = seed, .device = value->device};
  walk->rule.heads[loss] = (uint32_t)walk->rule.adjoints.count++;
  *out_seed = tdm_producer(graph, seed);
  return TDM_OK;
}

/* Sums the adjoints of a node's outputs, as far as they are required. Writes false if there are
 * none. */
static tdm_status sum_outputs(tdm_walk *walk, const tdm_ir_node *node, bool *out_flows) {
  bool back = false;
  for (uint32_t k = 0; k < node->input_count; k++)
    back |= walk->rule.wanted[node->inputs[k]] && tdm_reads_elements(node->operation, k);
  back &= tdm_flows_back(node->operation) || node->role == TDM_ROLE_GRADIENT;
  *out_flows = false;
  memset(walk->rule.d_outputs, 0, sizeof walk->rule.d_outputs);
  for (uint32_t k = 0; k < node->output_count; k++) {
    const uint32_t value = node->first_output + k;
    if (!back && !walk->asked[value]) continue;
    tdm_adjoint adjoint;
    TDM_TRY(tdm_sum_adjoints(walk, value, node->name, &adjoint));
    if (walk->asked[value]) TDM_TRY(tdm_give_asked(walk, value, &adjoint));
    walk->rule.d_outputs[k] = adjoint.dense;
    *out_flows |= back && adjoint.dense != 0;
  }
  return TDM_OK;
}

/* Fails for a node that an earlier walk appended. */
static tdm_status refuse_again(const tdm_ir_node *node) {
  return tdm_fail(TDM_UNSUPPORTED,
                  "the loss reads a gradient that depends on what is trained, by way of %s, and a "
                  "gradient is not differentiated again (tdm_detach of it may be read)",
                  node->name);
}

static tdm_status visit(tdm_walk *walk, const tdm_ir_node *node) {
  bool flows;
  TDM_TRY(sum_outputs(walk, node, &flows));
  if (!flows) return TDM_OK;
  if (node->role == TDM_ROLE_GRADIENT) return refuse_again(node);
  tdm_insertion at =
      tdm_adjoint_insertion(walk->before, node->name, node->device, node->part.micro);
  at.part.replica = node->part.replica;
  walk->rule.node = node;
  tdm_lend_insertion(walk->rule.graph, &at);
  const tdm_status status = apply(&walk->rule, node->operation);
  tdm_take_insertion_back(walk->rule.graph);
  if (status != TDM_OK)
    return tdm_fail_within(status, "gradient of %s %s", tdm_operation_layer(node->operation),
                           node->name);
  TDM_TRY(tdm_graph_status(walk->rule.graph));
  return walk->rule.status;
}

static tdm_status check_loss(tdm_graph *graph, uint32_t loss) {
  const tdm_insertion at =
      tdm_adjoint_insertion(NULL, "loss", tdm_ir_value_at(graph, loss)->device, 0);
  (void)tdm_insert(graph, &at, &tdm_operation_check_finite, NULL, &loss, 1);
  return tdm_graph_status(graph);
}

/* ---- Alike ranks ----------------------------------------------------------------------------- */

/* Combines the values of all ranks, of which this rank has its own. Returns 0 with the graph's
 * error. */
static uint32_t share(tdm_walk *walk, const char *name, uint32_t value, bool gathers) {
  const tdm_insertion at = tdm_adjoint_insertion(
      walk->before, name, tdm_ir_value_at(walk->rule.graph, value)->device, 0);
  const tdm_share_attributes attributes = {.ranks = walk->alike_ranks, .gathers = gathers};
  return tdm_insert(walk->rule.graph, &at, &tdm_operation_share, &attributes, &value, 1);
}

/* Shares a gradient with the other ranks: dense ones are summed, rows of tables are gathered. */
static tdm_status share_gradient(tdm_walk *walk, const char *name, tdm_adjoint *adjoint) {
  tdm_graph *graph = walk->rule.graph;
  const uint32_t made = adjoint->dense ? adjoint->dense : adjoint->rows;
  if (walk->alike_ranks <= 1 || !made) return TDM_OK;
  const int16_t place = tdm_ir_value_at(graph, made)->device;
  const tdm_device *device = tdm_context_device(graph->context, (size_t)place);
  if (!device->described || tdm_context_rank_count(graph->context) > 1)
    return tdm_fail(TDM_UNSUPPORTED,
                    "%s: equal ranks are for forecasts, and its gradient is on %s, which is not "
                    "only described",
                    name, device->name);
  if (adjoint->dense) {
    adjoint->dense = share(walk, name, adjoint->dense, false);
  } else {
    adjoint->rows = share(walk, name, adjoint->rows, true);
    adjoint->indices = share(walk, name, adjoint->indices, true);
  }
  return tdm_graph_status(graph);
}

/* ---- Leaves ---------------------------------------------------------------------------------- */

/* Sums the gradient of a fed or persistent value at the first node that reads it, because no more
 * contributions follow. */
static tdm_status settle_leaf(tdm_walk *walk, uint32_t value) {
  const tdm_ir_value *leaf = tdm_ir_value_at(walk->rule.graph, value);
  tdm_adjoint adjoint;
  TDM_TRY(tdm_sum_adjoints(walk, value, leaf->name, &adjoint));
  if (leaf->kind == TDM_VALUE_PERSISTENT) {
    tdm_parameter_gradient *item = &walk->parameters[leaf->binding];
    TDM_TRY(share_gradient(walk, leaf->name, &adjoint));
    item->gradient = adjoint;
    if (item->trained && walk->rule.heads[value]) item->parameter = value;
  }
  return walk->asked[value] ? tdm_give_asked(walk, value, &adjoint) : TDM_OK;
}

static tdm_status settle_leaves(tdm_walk *walk, const tdm_ir_node *node) {
  for (uint32_t k = 0; k < node->input_count; k++) {
    const uint32_t value = node->inputs[k];
    if (!walk->rule.wanted[value] || walk->first_readers[value] != node->index ||
        tdm_ir_value_at(walk->rule.graph, value)->kind == TDM_VALUE_NODE)
      continue;
    bool again = false; /* an earlier input is the same value */
    for (uint32_t i = 0; i < k; i++)
      again |= node->inputs[i] == value;
    if (!again) TDM_TRY(settle_leaf(walk, value));
  }
  return TDM_OK;
}

/* Appends updates of the parameters with a gradient, in the order of the graph. */
static tdm_status append_updates(tdm_walk *walk, const tdm_training *training) {
  tdm_graph *graph = walk->rule.graph;
  size_t count = 0;
  for (size_t i = 0; i < walk->parameter_count; i++)
    if (walk->parameters[i].parameter) walk->parameters[count++] = walk->parameters[i];
  if (training->check_finite) TDM_TRY(check_loss(graph, training->loss));
  return tdm_append_updates(walk, training, walk->parameters, count);
}

/* Returns true if the node requested a gradient that a view has replaced. It is no longer in the
 * graph, and the view has its outputs. */
static bool is_answered(const tdm_ir_node *node) {
  return tdm_asks_gradient(node) && !node->inputs[TDM_GRADIENT_LOSS];
}

/* Visits the nodes. groups NULL: nothing is trained. */
static tdm_status walk_back(tdm_walk *walk, const tdm_update_groups *groups) {
  if (groups) {
    mark_parameters(walk, groups);
    mark_wanted(walk);
    TDM_TRY(check_trained(walk));
  }
  tdm_mark_asked(walk);
  mark_wanted(walk);
  if (!walk->rule.wanted[walk->loss])
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "in such a run no gradient flows back from %s to what is asked for",
                    loss_name(walk));
  const tdm_ir_node *seed;
  TDM_TRY(seed_loss(walk, &seed));
  TDM_EACH_NODE_BACKWARD_FROM(seed->previous, node) {
    if (is_answered(node)) continue;
    TDM_TRY(visit(walk, node));
    TDM_TRY(settle_leaves(walk, node));
  }
  const bool read = walk->first_readers[walk->loss] != 0;
  if (!read && tdm_ir_value_at(walk->rule.graph, walk->loss)->kind != TDM_VALUE_NODE)
    TDM_TRY(settle_leaf(walk, walk->loss)); /* the loss is itself a parameter */
  return tdm_end_asked(walk);
}

/* ---- All of them ----------------------------------------------------------------------------- */

static void end(tdm_walk *walk) {
  tdm_graph *graph = walk->rule.graph;
  const size_t index_bytes = walk->value_count * sizeof *walk->rule.heads;
  TDM_ARRAY_DEINIT(graph, &walk->rule.adjoints);
  tdm_release(graph->allocator, walk->rule.heads, index_bytes);
  tdm_release(graph->allocator, walk->first_readers, index_bytes);
  tdm_release(graph->allocator, walk->rule.wanted, walk->value_count);
  tdm_release(graph->allocator, walk->asked, walk->value_count);
  tdm_release(graph->allocator, walk->parameters,
              (walk->parameter_count + 1) * sizeof *walk->parameters);
}

/* Starts a walk from a loss. The caller ends it, also after a failure. */
static tdm_status begin(tdm_walk *walk, tdm_graph *graph, uint32_t loss,
                        const tdm_training *training, const tdm_update_groups *groups) {
  *walk = (tdm_walk){.rule.graph = graph,
                     .loss = loss,
                     .deterministic = training->deterministic,
                     .alike_ranks = training->alike_ranks,
                     .value_count = graph->values.count,
                     .parameter_count = graph->persistents.count};
  const tdm_allocator *allocator = graph->allocator;
  const size_t index_bytes = walk->value_count * sizeof *walk->rule.heads;
  walk->rule.heads = tdm_allocate(allocator, index_bytes, "gradients");
  walk->first_readers = tdm_allocate(allocator, index_bytes, "gradients");
  walk->rule.wanted = tdm_allocate(allocator, walk->value_count, "gradients");
  walk->asked = tdm_allocate(allocator, walk->value_count, "gradients");
  walk->parameters =
      tdm_allocate(allocator, (walk->parameter_count + 1) * sizeof *walk->parameters, "gradients");
  if (!walk->rule.heads || !walk->first_readers || !walk->rule.wanted || !walk->asked ||
      !walk->parameters)
    return TDM_OUT_OF_MEMORY;
  return walk_back(walk, groups);
}

/* Computes requested gradients, one loss after another. The trained loss is visited together with
 * the requests for its gradients. */
static tdm_status walk_all(tdm_graph *graph, const tdm_training *training, tdm_walk *trains) {
  tdm_status status = TDM_OK;
  for (const tdm_ir_node *node = tdm_first_asking(graph); node && status == TDM_OK;
       node = tdm_first_asking(graph)) {
    const uint32_t loss = node->inputs[TDM_GRADIENT_LOSS];
    if (training->groups && loss == training->loss) {
      status = begin(trains, graph, loss, training, training->groups);
      continue;
    }
    tdm_walk asked;
    status = begin(&asked, graph, loss, training, NULL);
    end(&asked);
  }
  if (status != TDM_OK || !training->groups || trains->rule.graph) return status;
  return begin(trains, graph, training->loss, training, training->groups);
}

tdm_status tdm_pass_gradient(tdm_graph *graph, const tdm_training *training) {
  tdm_walk trains = {.loss = 0};
  tdm_status status = walk_all(graph, training, &trains);
  if (status == TDM_OK) tdm_move_updates_behind(graph);
  if (status == TDM_OK && training->groups) status = append_updates(&trains, training);
  if (trains.rule.graph) end(&trains);
  return status;
}
