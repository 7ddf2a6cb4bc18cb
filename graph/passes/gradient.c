/* The backward pass: walks the forward nodes in reverse, asks each rule, sums adjoints. Adjoints of
 * a value are summed per device and replica (`deterministic`: per replica), micro-batch after
 * micro-batch and in each in consumer order, then across these in the order of first consumer (so
 * replicas in theirs), on the value's own device, each added as it comes. A parameter's are summed
 * once its earliest consumer has been visited. Invariant: forward nodes are untouched; every node
 * appended has a device. */
#include <string.h>

#include "devices/kernels.h"
#include "graph/ir/rewriter.h"
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

static const tdm_operation *function_gradient(const tdm_operation *operation) {
  return TDM_OPERATION_HAS(operation, gradient_reads) ? operation->gradient_operation : NULL;
}

/* Does an adjoint flow back through the operation? */
static bool flows_back(const tdm_operation *operation) {
  return operation->gradient || function_gradient(operation);
}

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
    gradient->wanted[persistent->value] = groups->optimizers[group].rule != NULL;
  }
}

static void mark_wanted(tdm_gradient *gradient) {
  const tdm_graph *graph = gradient->graph;
  TDM_EACH_NODE(graph, node) {
    const uint32_t *inputs = node->inputs;
    bool wanted = false;
    for (uint32_t k = 0; k < node->input_count; k++) {
      wanted |= gradient->wanted[inputs[k]];
      if (!gradient->first_readers[inputs[k]]) gradient->first_readers[inputs[k]] = node->index;
    }
    if (!wanted || !flows_back(node->operation)) continue;
    for (uint32_t k = 0; k < node->output_count; k++)
      gradient->wanted[node->first_output + k] =
          tdm_dtype_is_floating(tdm_ir_value_at(graph, node->first_output + k)->spec.dtype);
  }
}

static tdm_status seed_loss(tdm_gradient *gradient, uint32_t loss) {
  tdm_graph *graph = gradient->graph;
  const tdm_ir_value *value = tdm_ir_value_at(graph, loss);
  const char *name = value->producer ? tdm_value_name(graph, loss) : "loss";
  if (!tdm_dtype_is_floating(value->spec.dtype) || value->spec.shape.rank != 0)
    return tdm_fail(TDM_INVALID_ARGUMENT, "loss %s is not a floating scalar", name);
  if (!gradient->wanted[loss])
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "loss %s does not depend on any parameter that is trained", name);
  const tdm_insertion at = tdm_adjoint_insertion(name, value->device, 0);
  const uint32_t seed = tdm_insert_constant(graph, &at, 1.0, loss);
  TDM_TRY(tdm_graph_status(graph));
  TDM_TRY(TDM_ARRAY_RESERVE(graph, &gradient->adjoints, 2));
  gradient->adjoints.count = 1;
  gradient->adjoints.items[gradient->adjoints.count] =
      (tdm_adjoint){.dense = seed, .device = value->device};
  gradient->heads[loss] = (uint32_t)gradient->adjoints.count++;
  return TDM_OK;
}

static tdm_status visit(tdm_gradient *gradient, const tdm_ir_node *node) {
  if (!flows_back(node->operation)) return TDM_OK;
  bool flows = false;
  memset(gradient->d_outputs, 0, sizeof gradient->d_outputs);
  for (uint32_t k = 0; k < node->output_count; k++) {
    tdm_adjoint adjoint;
    TDM_TRY(tdm_sum_adjoints(gradient, node->first_output + k, node->name, &adjoint));
    gradient->d_outputs[k] = adjoint.dense;
    flows |= adjoint.dense != 0;
  }
  if (!flows) return TDM_OK;
  tdm_insertion at = tdm_adjoint_insertion(node->name, node->device, node->micro);
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
  const tdm_insertion at = tdm_adjoint_insertion("loss", tdm_ir_value_at(graph, loss)->device, 0);
  (void)tdm_insert(graph, &at, &tdm_operation_check_finite, NULL, &loss, 1);
  return tdm_graph_status(graph);
}

/* Sums the gradients of the parameters that the node is the first to read: no more will come. */
static tdm_status settle_parameters(tdm_gradient *gradient, const tdm_ir_node *node) {
  for (uint32_t k = 0; k < node->input_count; k++) {
    const uint32_t value = node->inputs[k];
    const tdm_ir_value *parameter = tdm_ir_value_at(gradient->graph, value);
    if (parameter->kind != TDM_VALUE_PERSISTENT || !gradient->wanted[value] ||
        gradient->first_readers[value] != node->index ||
        gradient->parameters[parameter->binding].parameter)
      continue;
    tdm_parameter_gradient *item = &gradient->parameters[parameter->binding];
    TDM_TRY(tdm_sum_adjoints(gradient, value, parameter->name, &item->gradient));
    if (gradient->heads[value]) item->parameter = value;
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

static tdm_status walk(tdm_gradient *gradient, const tdm_training *training) {
  tdm_graph *graph = gradient->graph;
  mark_parameters(gradient, training->groups);
  mark_wanted(gradient);
  TDM_TRY(seed_loss(gradient, training->loss));
  TDM_EACH_NODE_BACKWARD(graph, node) { /* the seed first, and no node behind it */
    TDM_TRY(visit(gradient, node));
    TDM_TRY(settle_parameters(gradient, node));
  }
  return append_updates(gradient, training);
}

tdm_status tdm_pass_gradient(tdm_graph *graph, const tdm_training *training) {
  tdm_gradient gradient = {.graph = graph,
                           .deterministic = training->deterministic,
                           .value_count = graph->values.count,
                           .parameter_count = graph->persistents.count};
  const size_t index_bytes = gradient.value_count * sizeof *gradient.heads;
  const size_t parameter_bytes = (gradient.parameter_count + 1) * sizeof *gradient.parameters;
  gradient.heads = tdm_allocate(graph->allocator, index_bytes, "gradients");
  gradient.first_readers = tdm_allocate(graph->allocator, index_bytes, "gradients");
  gradient.wanted = tdm_allocate(graph->allocator, gradient.value_count, "gradients");
  gradient.parameters = tdm_allocate(graph->allocator, parameter_bytes, "gradients");
  tdm_status status = TDM_OUT_OF_MEMORY;
  if (gradient.heads && gradient.first_readers && gradient.wanted && gradient.parameters)
    status = walk(&gradient, training);
  TDM_ARRAY_DEINIT(graph, &gradient.adjoints);
  tdm_release(graph->allocator, gradient.heads, index_bytes);
  tdm_release(graph->allocator, gradient.first_readers, index_bytes);
  tdm_release(graph->allocator, gradient.wanted, gradient.value_count);
  tdm_release(graph->allocator, gradient.parameters, parameter_bytes);
  return status;
}
