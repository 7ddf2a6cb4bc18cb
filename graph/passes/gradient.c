/* The backward pass: walks the forward nodes in reverse, asks each rule, sums adjoints; once for
 * the loss that is trained, and for every other whose gradients nodes ask for (asked.c). Adjoints
 * of a value are summed per device and replica (`deterministic`: per replica), micro-batch after
 * micro-batch and in each in consumer order, then across these in the order of first consumer (so
 * replicas in theirs), on the value's own device, each added as it comes. A parameter's are summed
 * once its earliest consumer has been visited. Invariant: forward nodes are untouched; every node
 * appended has a device. */
#include <string.h>

#include "devices/kernels.h"
#include "graph/describe/gradient_of.h"
#include "graph/ir/rewriter.h"
#include "graph/passes/device_sums.h"
#include "graph/passes/gradient.h"

/* ---- What rules may ask ---- */

tdm_graph *tdm_gradient_graph(tdm_gradient *gradient) {
  return gradient ? gradient->graph : NULL;
}

const char *tdm_gradient_name(const tdm_gradient *gradient) {
  return gradient ? gradient->node->name : "";
}

const void *tdm_gradient_attributes(const tdm_gradient *gradient) {
  return gradient ? gradient->node->attributes : NULL;
}

static uint32_t input_index(const tdm_gradient *gradient, size_t index) {
  if (!gradient) return 0;
  const tdm_ir_node *node = gradient->node;
  return index < node->input_count ? node->inputs[index] : 0;
}

static const tdm_value none = {0, 0};

tdm_value tdm_gradient_input(const tdm_gradient *gradient, size_t index) {
  return gradient ? tdm_ir_handle(gradient->graph, input_index(gradient, index)) : none;
}

tdm_value tdm_gradient_output(const tdm_gradient *gradient, size_t index) {
  if (!gradient) return none;
  const tdm_ir_node *node = gradient->node;
  return tdm_ir_handle(gradient->graph,
                       index < node->output_count ? node->first_output + (uint32_t)index : 0);
}

tdm_value tdm_gradient_of_output(const tdm_gradient *gradient, size_t index) {
  if (!gradient) return none;
  return tdm_ir_handle(gradient->graph,
                       index < TDM_KERNEL_MAX_OUTPUTS ? gradient->d_outputs[index] : 0);
}

bool tdm_gradient_wanted(const tdm_gradient *gradient, size_t index) {
  const uint32_t value = input_index(gradient, index);
  return value != 0 && gradient->wanted[value];
}

static void contribute(tdm_gradient *gradient, size_t index, tdm_adjoint adjoint) {
  const uint32_t value = input_index(gradient, index);
  if (!value || !gradient->wanted[value] || gradient->status != TDM_OK) return;
  gradient->status = TDM_ARRAY_RESERVE(gradient->graph, &gradient->adjoints, 1);
  if (gradient->status != TDM_OK) return;
  adjoint.device = gradient->node->device;
  adjoint.replica = gradient->node->replica;
  adjoint.micro = gradient->node->micro;
  adjoint.next = gradient->heads[value]; /* consumers are visited last to first */
  gradient->heads[value] = (uint32_t)gradient->adjoints.count;
  gradient->adjoints.items[gradient->adjoints.count++] = adjoint;
}

void tdm_gradient_set(tdm_gradient *gradient, size_t index, tdm_value d_input) {
  if (d_input.index) contribute(gradient, index, (tdm_adjoint){.dense = d_input.index});
}

void tdm_gradient_set_sparse(tdm_gradient *gradient, size_t index, tdm_value rows,
                             tdm_value indices, tdm_value count) {
  if (rows.index && indices.index && count.index)
    contribute(gradient, index,
               (tdm_adjoint){.rows = rows.index, .indices = indices.index, .count = count.index});
}

int tdm_gradient_micro_batch(const tdm_gradient *gradient) {
  return gradient ? gradient->node->micro : 0;
}

void tdm_gradient_add_rows(tdm_gradient *gradient, size_t index, tdm_value rows, tdm_value indices,
                           tdm_value count) {
  if (rows.index && indices.index && count.index)
    contribute(
        gradient, index,
        (tdm_adjoint){
            .rows = rows.index, .indices = indices.index, .count = count.index, .added = true});
}

/* ---- What records say ---- */

/* Asks the operation's rule, or does what its record says instead. */
static tdm_status apply(tdm_gradient *gradient, const tdm_operation *operation) {
  if (operation->gradient) return operation->gradient(gradient);
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

/* ---- The walk ---- */

/* Trained are the parameters whose group has an optimizer. */
static void mark_parameters(tdm_gradient *gradient, const tdm_update_groups *groups) {
  const tdm_graph *graph = gradient->graph;
  for (size_t i = 0; i < graph->persistents.count; i++) {
    const tdm_graph_persistent *persistent = &graph->persistents.items[i];
    if (!tdm_ir_value_at(graph, persistent->value)->trainable) continue;
    const size_t group = tdm_update_group_of(groups, tdm_persistent_table(persistent));
    gradient->parameters[i].group = (uint8_t)group;
    gradient->parameters[i].trained = groups->optimizers[group].rule != NULL;
    gradient->wanted[persistent->value] = gradient->parameters[i].trained;
  }
}

/* What depends on what is wanted, in a way that an adjoint goes back. All of an earlier walk does,
 * so that an adjoint which reaches it is refused and not lost. */
static void mark_wanted(tdm_gradient *gradient) {
  const tdm_graph *graph = gradient->graph;
  TDM_EACH_NODE(graph, node) {
    const uint32_t *inputs = node->inputs;
    bool wanted = false;
    for (uint32_t k = 0; k < node->input_count; k++) {
      wanted |= gradient->wanted[inputs[k]];
      if (!tdm_asks_gradient(node) && !gradient->first_readers[inputs[k]])
        gradient->first_readers[inputs[k]] = node->index;
    }
    if (!wanted || !(tdm_flows_back(node->operation) || node->role == TDM_ROLE_GRADIENT)) continue;
    for (uint32_t k = 0; k < node->output_count; k++)
      gradient->wanted[node->first_output + k] |=
          tdm_dtype_is_floating(tdm_ir_value_at(graph, node->first_output + k)->spec.dtype);
  }
}

static const char *loss_name(const tdm_gradient *gradient) {
  const bool made = tdm_ir_value_at(gradient->graph, gradient->loss)->producer != 0;
  return made ? tdm_value_name(gradient->graph, gradient->loss) : "loss";
}

static tdm_status check_trained(const tdm_gradient *gradient) {
  const tdm_ir_value *value = tdm_ir_value_at(gradient->graph, gradient->loss);
  const char *name = loss_name(gradient);
  if (!tdm_dtype_is_floating(value->spec.dtype) || value->spec.shape.rank != 0)
    return tdm_fail(TDM_INVALID_ARGUMENT, "loss %s is not a floating scalar", name);
  if (gradient->wanted[gradient->loss]) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT, "loss %s does not depend on any parameter that is trained",
                  name);
}

static tdm_status seed_loss(tdm_gradient *gradient, const tdm_ir_node **out_seed) {
  tdm_graph *graph = gradient->graph;
  const uint32_t loss = gradient->loss;
  const tdm_ir_value *value = tdm_ir_value_at(graph, loss);
  const tdm_insertion at =
      tdm_adjoint_insertion(gradient->before, loss_name(gradient), value->device, 0);
  const uint32_t seed = tdm_insert_constant(graph, &at, 1.0, loss);
  TDM_TRY(tdm_graph_status(graph));
  TDM_TRY(TDM_ARRAY_RESERVE(graph, &gradient->adjoints, 2));
  gradient->adjoints.count = 1;
  gradient->adjoints.items[gradient->adjoints.count] =
      (tdm_adjoint){.dense = seed, .device = value->device};
  gradient->heads[loss] = (uint32_t)gradient->adjoints.count++;
  *out_seed = tdm_producer(graph, seed);
  return TDM_OK;
}

/* The adjoints of a node's outputs, as far as they are of use; false: nothing flows. */
static tdm_status sum_outputs(tdm_gradient *gradient, const tdm_ir_node *node, bool *out_flows) {
  bool back = false;
  for (uint32_t k = 0; k < node->input_count; k++)
    back |= gradient->wanted[node->inputs[k]];
  back &= tdm_flows_back(node->operation) || node->role == TDM_ROLE_GRADIENT;
  *out_flows = false;
  memset(gradient->d_outputs, 0, sizeof gradient->d_outputs);
  for (uint32_t k = 0; k < node->output_count; k++) {
    const uint32_t value = node->first_output + k;
    if (!back && !gradient->asked[value]) continue;
    tdm_adjoint adjoint;
    TDM_TRY(tdm_sum_adjoints(gradient, value, node->name, &adjoint));
    if (gradient->asked[value]) TDM_TRY(tdm_give_asked(gradient, value, &adjoint));
    gradient->d_outputs[k] = adjoint.dense;
    *out_flows |= back && adjoint.dense != 0;
  }
  return TDM_OK;
}

/* What an earlier walk has made. */
static tdm_status refuse_again(const tdm_ir_node *node) {
  return tdm_fail(TDM_UNSUPPORTED,
                  "the loss reads a gradient that depends on what is trained, by way of %s, and a "
                  "gradient is not differentiated again (tdm_detach of it may be read)",
                  node->name);
}

static tdm_status visit(tdm_gradient *gradient, const tdm_ir_node *node) {
  bool flows;
  TDM_TRY(sum_outputs(gradient, node, &flows));
  if (!flows) return TDM_OK;
  if (node->role == TDM_ROLE_GRADIENT) return refuse_again(node);
  tdm_insertion at = tdm_adjoint_insertion(gradient->before, node->name, node->device, node->micro);
  at.replica = node->replica;
  gradient->node = node;
  tdm_lend_insertion(gradient->graph, &at);
  const tdm_status status = apply(gradient, node->operation);
  tdm_take_insertion_back(gradient->graph);
  if (status != TDM_OK)
    return tdm_fail_within(status, "gradient of %s %s", node->operation->name, node->name);
  TDM_TRY(tdm_graph_status(gradient->graph));
  return gradient->status;
}

static tdm_status check_loss(tdm_graph *graph, uint32_t loss) {
  const tdm_insertion at =
      tdm_adjoint_insertion(NULL, "loss", tdm_ir_value_at(graph, loss)->device, 0);
  (void)tdm_insert(graph, &at, &tdm_operation_check_finite, NULL, &loss, 1);
  return tdm_graph_status(graph);
}

/* ---- Alike ranks ---- */

/* What all ranks have of a value, which this one has its own of; 0 with the graph's error. */
static uint32_t share(tdm_gradient *gradient, const char *name, uint32_t value, bool gathers) {
  const tdm_insertion at = tdm_adjoint_insertion(
      gradient->before, name, tdm_ir_value_at(gradient->graph, value)->device, 0);
  const tdm_share_attributes attributes = {.ranks = gradient->alike_ranks, .gathers = gathers};
  return tdm_insert(gradient->graph, &at, &tdm_operation_share, &attributes, &value, 1);
}

/* Dense gradients are summed over the ranks; rows of tables come from all of them. */
static tdm_status share_gradient(tdm_gradient *gradient, const char *name, tdm_adjoint *adjoint) {
  tdm_graph *graph = gradient->graph;
  const uint32_t made = adjoint->dense ? adjoint->dense : adjoint->rows;
  if (gradient->alike_ranks <= 1 || !made) return TDM_OK;
  const int16_t place = tdm_ir_value_at(graph, made)->device;
  const tdm_device *device = tdm_context_device(graph->context, (size_t)place);
  if (!device->described || tdm_context_rank_count(graph->context) > 1)
    return tdm_fail(TDM_UNSUPPORTED,
                    "%s: alike ranks are for forecasts, and its gradient is on %s, which is not "
                    "only described",
                    name, device->name);
  if (adjoint->dense) {
    adjoint->dense = share(gradient, name, adjoint->dense, false);
  } else {
    adjoint->rows = share(gradient, name, adjoint->rows, true);
    adjoint->indices = share(gradient, name, adjoint->indices, true);
  }
  return tdm_graph_status(graph);
}

/* ---- Leaves ---- */

/* Sums the gradient of what is fed or persistent, which the node is the first to read: no more will
 * come. */
static tdm_status settle_leaf(tdm_gradient *gradient, uint32_t value) {
  const tdm_ir_value *leaf = tdm_ir_value_at(gradient->graph, value);
  tdm_adjoint adjoint;
  TDM_TRY(tdm_sum_adjoints(gradient, value, leaf->name, &adjoint));
  if (leaf->kind == TDM_VALUE_PERSISTENT) {
    tdm_parameter_gradient *item = &gradient->parameters[leaf->binding];
    TDM_TRY(share_gradient(gradient, leaf->name, &adjoint));
    item->gradient = adjoint;
    if (item->trained && gradient->heads[value]) item->parameter = value;
  }
  return gradient->asked[value] ? tdm_give_asked(gradient, value, &adjoint) : TDM_OK;
}

static tdm_status settle_leaves(tdm_gradient *gradient, const tdm_ir_node *node) {
  for (uint32_t k = 0; k < node->input_count; k++) {
    const uint32_t value = node->inputs[k];
    if (!gradient->wanted[value] || gradient->first_readers[value] != node->index ||
        tdm_ir_value_at(gradient->graph, value)->kind == TDM_VALUE_NODE)
      continue;
    bool again = false; /* an input of the node before this one is the same */
    for (uint32_t i = 0; i < k; i++)
      again |= node->inputs[i] == value;
    if (!again) TDM_TRY(settle_leaf(gradient, value));
  }
  return TDM_OK;
}

/* The updates of those that have a gradient, as the graph declares them. */
static tdm_status append_updates(tdm_gradient *gradient, const tdm_training *training) {
  tdm_graph *graph = gradient->graph;
  size_t count = 0;
  for (size_t i = 0; i < gradient->parameter_count; i++)
    if (gradient->parameters[i].parameter) gradient->parameters[count++] = gradient->parameters[i];
  if (training->check_finite) TDM_TRY(check_loss(graph, training->loss));
  return tdm_append_updates(gradient, training, gradient->parameters, count);
}

/* groups NULL: nothing is trained. */
static tdm_status walk(tdm_gradient *gradient, const tdm_update_groups *groups) {
  if (groups) {
    mark_parameters(gradient, groups);
    mark_wanted(gradient);
    TDM_TRY(check_trained(gradient));
  }
  tdm_mark_asked(gradient);
  mark_wanted(gradient);
  if (!gradient->wanted[gradient->loss])
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "in such a run no gradient flows back from %s to what is asked for",
                    loss_name(gradient));
  const tdm_ir_node *node;
  TDM_TRY(seed_loss(gradient, &node));
  for (node = node->previous; node; node = node->previous) {
    TDM_TRY(visit(gradient, node));
    TDM_TRY(settle_leaves(gradient, node));
  }
  return tdm_end_asked(gradient);
}

/* ---- All of them ---- */

static void end(tdm_gradient *gradient) {
  tdm_graph *graph = gradient->graph;
  const size_t index_bytes = gradient->value_count * sizeof *gradient->heads;
  TDM_ARRAY_DEINIT(graph, &gradient->adjoints);
  tdm_release(graph->allocator, gradient->heads, index_bytes);
  tdm_release(graph->allocator, gradient->first_readers, index_bytes);
  tdm_release(graph->allocator, gradient->wanted, gradient->value_count);
  tdm_release(graph->allocator, gradient->asked, gradient->value_count);
  tdm_release(graph->allocator, gradient->parameters,
              (gradient->parameter_count + 1) * sizeof *gradient->parameters);
}

/* Walks back from a loss; the caller ends what this has begun, failed or not. */
static tdm_status begin(tdm_gradient *gradient, tdm_graph *graph, uint32_t loss,
                        const tdm_training *training, const tdm_update_groups *groups) {
  *gradient = (tdm_gradient){.graph = graph,
                             .loss = loss,
                             .deterministic = training->deterministic,
                             .alike_ranks = training->alike_ranks,
                             .value_count = graph->values.count,
                             .parameter_count = graph->persistents.count};
  const tdm_allocator *allocator = graph->allocator;
  const size_t index_bytes = gradient->value_count * sizeof *gradient->heads;
  gradient->heads = tdm_allocate(allocator, index_bytes, "gradients");
  gradient->first_readers = tdm_allocate(allocator, index_bytes, "gradients");
  gradient->wanted = tdm_allocate(allocator, gradient->value_count, "gradients");
  gradient->asked = tdm_allocate(allocator, gradient->value_count, "gradients");
  gradient->parameters = tdm_allocate(
      allocator, (gradient->parameter_count + 1) * sizeof *gradient->parameters, "gradients");
  if (!gradient->heads || !gradient->first_readers || !gradient->wanted || !gradient->asked ||
      !gradient->parameters)
    return TDM_OUT_OF_MEMORY;
  return walk(gradient, groups);
}

/* What nodes ask for, loss after loss; what trains is walked with those that ask for its own. */
static tdm_status walk_all(tdm_graph *graph, const tdm_training *training, tdm_gradient *trains) {
  tdm_status status = TDM_OK;
  for (const tdm_ir_node *node = tdm_first_asking(graph); node && status == TDM_OK;
       node = tdm_first_asking(graph)) {
    const uint32_t loss = node->inputs[TDM_GRADIENT_LOSS];
    if (training->groups && loss == training->loss) {
      status = begin(trains, graph, loss, training, training->groups);
      continue;
    }
    tdm_gradient asked;
    status = begin(&asked, graph, loss, training, NULL);
    end(&asked);
  }
  if (status != TDM_OK || !training->groups || trains->graph) return status;
  return begin(trains, graph, training->loss, training, training->groups);
}

tdm_status tdm_pass_gradient(tdm_graph *graph, const tdm_training *training) {
  tdm_gradient trains = {.graph = NULL};
  tdm_status status = walk_all(graph, training, &trains);
  if (status == TDM_OK && training->groups) status = append_updates(&trains, training);
  if (trains.graph) end(&trains);
  return status;
}
