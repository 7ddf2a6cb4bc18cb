/* The backward pass: walks the forward nodes in reverse, asks each rule, sums adjoints. Adjoints of
 * a value are summed per device and replica (`deterministic`: per replica), micro-batch after
 * micro-batch and in each in consumer order, then across these in the order of first consumer (so
 * replicas in theirs), on the value's own device, each added as it comes. A parameter's are summed
 * once its earliest consumer has been visited. Invariant: forward nodes are untouched; every node
 * appended has a device. */
#include <assert.h>
#include <string.h>

#include "devices/kernels.h"
#include "graph/passes/gradient.h"

/* ---- What rules may ask ---- */

tdm_graph *tdm_gradient_graph(tdm_gradient *gradient) {
  return gradient ? gradient->graph : NULL;
}

const char *tdm_gradient_name(const tdm_gradient *gradient) {
  return gradient ? tdm_ir_node_at(gradient->graph, gradient->node)->name : "";
}

const void *tdm_gradient_attributes(const tdm_gradient *gradient) {
  return gradient ? tdm_ir_node_at(gradient->graph, gradient->node)->attributes : NULL;
}

static uint32_t input_index(const tdm_gradient *gradient, size_t index) {
  if (!gradient) return 0;
  const tdm_ir_node *node = tdm_ir_node_at(gradient->graph, gradient->node);
  return index < node->input_count ? tdm_ir_inputs(gradient->graph, node)[index] : 0;
}

static const tdm_value none = {0, 0};

tdm_value tdm_gradient_input(const tdm_gradient *gradient, size_t index) {
  return gradient ? tdm_ir_handle(gradient->graph, input_index(gradient, index)) : none;
}

tdm_value tdm_gradient_output(const tdm_gradient *gradient, size_t index) {
  if (!gradient) return none;
  const tdm_ir_node *node = tdm_ir_node_at(gradient->graph, gradient->node);
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
  adjoint.device = tdm_ir_node_at(gradient->graph, gradient->node)->device;
  adjoint.replica = tdm_ir_node_at(gradient->graph, gradient->node)->replica;
  adjoint.micro = tdm_ir_node_at(gradient->graph, gradient->node)->micro;
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
  return gradient ? tdm_ir_node_at(gradient->graph, gradient->node)->micro : 0;
}

void tdm_gradient_add_rows(tdm_gradient *gradient, size_t index, tdm_value rows, tdm_value indices,
                           tdm_value count) {
  if (rows.index && indices.index && count.index)
    contribute(
        gradient, index,
        (tdm_adjoint){
            .rows = rows.index, .indices = indices.index, .count = count.index, .added = true});
}

/* ---- Summing ---- */

static void append_on(tdm_graph *graph, int16_t device) {
  graph->append_device = device;
  graph->append_role = TDM_ROLE_GRADIENT;
}

/* At once: more are summed in steps, so that all of them need not lie there together. */
#define SUM_OPERANDS 16

static uint32_t sum_dense(tdm_graph *graph, const char *name, int16_t device,
                          const uint32_t *values, size_t count) {
  assert(count > 0);
  append_on(graph, device);
  graph->append_name = name; /* of a node or parameter */
  tdm_value total = tdm_ir_handle(graph, values[0]);
  for (size_t done = 1; done < count;) {
    tdm_value inputs[SUM_OPERANDS] = {total};
    size_t used = 1;
    while (used < SUM_OPERANDS && done < count)
      inputs[used++] = tdm_ir_handle(graph, values[done++]);
    total = tdm_append(graph, &tdm_operation_accumulate, name, NULL, inputs, used, NULL);
  }
  return total.index;
}

static tdm_adjoint sum_sparse(tdm_graph *graph, const char *name, tdm_adjoint a, tdm_adjoint b) {
  append_on(graph, a.device);
  const tdm_value inputs[6] = {tdm_ir_handle(graph, a.rows),    tdm_ir_handle(graph, a.indices),
                               tdm_ir_handle(graph, a.count),   tdm_ir_handle(graph, b.rows),
                               tdm_ir_handle(graph, b.indices), tdm_ir_handle(graph, b.count)};
  tdm_value sums[3];
  tdm_append(graph, &tdm_operation_sparse_add, name, NULL, inputs, 6, sums);
  return (tdm_adjoint){
      .rows = sums[0].index, .indices = sums[1].index, .count = sums[2].index, .device = a.device};
}

#define MAX_SUMS 128

static bool is_dense(const tdm_adjoint *adjoint) {
  return adjoint->dense != 0 || adjoint->added;
}

static bool same_lane(const tdm_gradient *gradient, const tdm_adjoint *a, const tdm_adjoint *b) {
  return a->replica == b->replica && (gradient->any_device || a->device == b->device);
}

/* total with the rows added, in its own memory. */
static uint32_t add_rows(tdm_graph *graph, const char *name, uint32_t total,
                         const tdm_adjoint *of) {
  append_on(graph, of->device);
  graph->append_name = name;
  const tdm_value inputs[] = {tdm_ir_handle(graph, total), tdm_ir_handle(graph, of->rows),
                              tdm_ir_handle(graph, of->indices)};
  return tdm_append(graph, &tdm_operation_add_rows, name, NULL, inputs, 3, NULL).index;
}

/* The rows of an adjoint of `value` among zeros. */
static uint32_t spread_rows(tdm_graph *graph, const char *name, uint32_t value,
                            const tdm_adjoint *of) {
  append_on(graph, of->device);
  graph->append_name = name;
  tdm_fill_attributes zero;
  memset(&zero, 0, sizeof zero);
  const tdm_value like = tdm_ir_handle(graph, value);
  const tdm_value zeros = tdm_append(graph, &tdm_operation_fill, name, &zero, &like, 1, NULL);
  if (!zeros.index) return 0;
  tdm_ir_inputs(graph, tdm_ir_node_at(graph, tdm_ir_value_at(graph, zeros.index)->producer))[0] = 0;
  return add_rows(graph, name, zeros.index, of);
}

/* Sums the contributions of one micro-batch to `value` in first's lane, in consumer order, in
 * chunks of the stack's size. Rows to be added that are alone stay what they are. */
static tdm_adjoint sum_group(tdm_gradient *gradient, const char *name, uint32_t value,
                             const tdm_adjoint *first, uint32_t head, int micro) {
  tdm_graph *graph = gradient->graph;
  tdm_adjoint latest = {0};
  size_t count = 0;
  for (uint32_t at = head; at; at = gradient->adjoints.items[at].next) {
    const tdm_adjoint *adjoint = &gradient->adjoints.items[at];
    if (!same_lane(gradient, adjoint, first) || adjoint->micro != micro) continue;
    latest = *adjoint;
    count++;
  }
  if (count == 1 && latest.added) return latest;
  uint32_t batch[64];
  size_t used = 0;
  for (uint32_t at = head; at; at = gradient->adjoints.items[at].next) {
    const tdm_adjoint adjoint = gradient->adjoints.items[at];
    if (!same_lane(gradient, &adjoint, first) || adjoint.micro != micro) continue;
    if (used == TDM_COUNT_OF(batch)) {
      batch[0] = sum_dense(graph, name, first->device, batch, used);
      used = 1;
    }
    batch[used++] = adjoint.added ? spread_rows(graph, name, value, &adjoint) : adjoint.dense;
  }
  assert(used > 0); /* first is one of them */
  return (tdm_adjoint){.dense = sum_dense(graph, name, first->device, batch, used)};
}

/* The first micro-batch behind `after` that contributes; -1: none. lane NULL: any. */
static int next_micro(const tdm_gradient *gradient, const tdm_adjoint *lane, uint32_t head,
                      int after) {
  int found = -1;
  for (uint32_t at = head; at; at = gradient->adjoints.items[at].next) {
    const tdm_adjoint *adjoint = &gradient->adjoints.items[at];
    if (adjoint->micro <= after || (found >= 0 && adjoint->micro >= found)) continue;
    if (!lane || same_lane(gradient, adjoint, lane)) found = adjoint->micro;
  }
  return found;
}

/* Does only this sum read the value, so that it may be overwritten? What contributes it to several
 * values, or reads it, stands behind its producer. */
static bool is_own(const tdm_gradient *gradient, uint32_t value) {
  const tdm_graph *graph = gradient->graph;
  const tdm_ir_value *is = tdm_ir_value_at(graph, value);
  if (is->root != value || !is->producer) return false;
  const tdm_ir_node *producer = tdm_ir_node_at(graph, is->producer);
  if (producer->role != TDM_ROLE_GRADIENT) return false;
  const uint32_t first = producer->first_input;
  for (size_t i = first; i < graph->operands.count; i++)
    if (graph->operands.items[i] == value) return false;
  size_t contributions = 0;
  for (size_t i = 1; i < gradient->adjoints.count; i++)
    contributions += gradient->adjoints.items[i].dense == value;
  return contributions <= 1;
}

/* Adds what comes from other devices and replicas on the value's own, one after the other into one
 * total: a device holds one that came in at a time. owned: the first may be overwritten. */
static uint32_t sum_incoming(tdm_gradient *gradient, const char *name, int16_t home,
                             const uint32_t *sums, size_t count, bool owned) {
  tdm_graph *graph = gradient->graph;
  if (count == 1) return sums[0];
  append_on(graph, home);
  graph->append_name = name;
  tdm_value total = tdm_ir_handle(graph, sums[0]);
  if (tdm_ir_value_at(graph, sums[0])->device != home || (!owned && !is_own(gradient, sums[0])))
    total = tdm_append(graph, &tdm_operation_begin_sum, name, NULL, &total, 1, NULL);
  for (size_t i = 1; i < count; i++) {
    const tdm_value operands[] = {total, tdm_ir_handle(graph, sums[i])};
    total = tdm_append(graph, &tdm_operation_add_incoming, name, NULL, operands, 2, NULL);
  }
  return total.index;
}

static uint32_t copy_of(tdm_graph *graph, const char *name, int16_t device, uint32_t value) {
  append_on(graph, device);
  graph->append_name = name;
  const tdm_value from = tdm_ir_handle(graph, value);
  return tdm_append(graph, &tdm_operation_accumulate, name, NULL, &from, 1, NULL).index;
}

/* Adds a micro-batch's part to the total of a lane, in its memory where it may be overwritten. */
static uint32_t add_part(tdm_gradient *gradient, const char *name, uint32_t total,
                         const tdm_adjoint *part, int16_t device, bool owned) {
  tdm_graph *graph = gradient->graph;
  owned = owned || is_own(gradient, total);
  if (part->added)
    return add_rows(graph, name, owned ? total : copy_of(graph, name, device, total), part);
  const uint32_t terms[2] = {total, part->dense};
  if (!owned) return sum_dense(graph, name, device, terms, 2);
  return sum_incoming(gradient, name, device, terms, 2, true);
}

/* One device's and replica's sum: a micro-batch's is added as soon as it is there. */
static uint32_t sum_lane(tdm_gradient *gradient, const char *name, uint32_t value, uint32_t head,
                         uint32_t at) {
  tdm_graph *graph = gradient->graph;
  const tdm_adjoint first = gradient->adjoints.items[at];
  uint32_t total = 0;
  bool owned = false;
  for (int micro = next_micro(gradient, &first, head, -1); micro >= 0;
       micro = next_micro(gradient, &first, head, micro)) {
    graph->append_micro = (uint16_t)micro;
    const tdm_adjoint part = sum_group(gradient, name, value, &first, head, micro);
    if (total) {
      total = add_part(gradient, name, total, &part, first.device, owned);
      owned = true;
    } else {
      owned = part.added; /* among zeros of its own */
      total = part.added ? spread_rows(graph, name, value, &part) : part.dense;
    }
  }
  graph->append_micro = 0;
  return total;
}

static tdm_adjoint sum_all_sparse(tdm_gradient *gradient, const char *name, uint32_t head) {
  tdm_graph *graph = gradient->graph;
  tdm_adjoint total = {0};
  for (int micro = next_micro(gradient, NULL, head, -1); micro >= 0;
       micro = next_micro(gradient, NULL, head, micro)) {
    tdm_adjoint part = {0};
    graph->append_micro = (uint16_t)micro;
    for (uint32_t at = head; at; at = gradient->adjoints.items[at].next) {
      const tdm_adjoint adjoint = gradient->adjoints.items[at];
      if (adjoint.micro != micro) continue;
      part = part.rows ? sum_sparse(graph, name, part, adjoint) : adjoint;
    }
    total = total.rows ? sum_sparse(graph, name, total, part) : part;
  }
  graph->append_micro = 0;
  return total;
}

static tdm_status sum_all_dense(tdm_gradient *gradient, uint32_t value, const char *name,
                                uint32_t head, uint32_t *out_sum) {
  tdm_adjoint firsts[MAX_SUMS];
  uint32_t sums[MAX_SUMS];
  size_t sum_count = 0;
  gradient->any_device = gradient->deterministic;
  for (uint32_t at = head; at; at = gradient->adjoints.items[at].next)
    gradient->any_device &= !gradient->adjoints.items[at].added; /* to a total, where that is */
  for (uint32_t at = head; at; at = gradient->adjoints.items[at].next) {
    const tdm_adjoint adjoint = gradient->adjoints.items[at];
    size_t k = 0;
    while (k < sum_count && !same_lane(gradient, &firsts[k], &adjoint))
      k++;
    if (k < sum_count) continue;
    if (sum_count == MAX_SUMS)
      return tdm_fail(TDM_UNSUPPORTED, "%s: used by more than %d devices and replicas", name,
                      MAX_SUMS);
    firsts[sum_count] = adjoint;
    sums[sum_count++] = sum_lane(gradient, name, value, head, at);
  }
  const int16_t home = tdm_ir_value_at(gradient->graph, value)->device;
  *out_sum = sum_incoming(gradient, name, home, sums, sum_count, false);
  return TDM_OK;
}

/* The whole adjoint of a value on its own device; dense and rows 0 when nothing flows. */
static tdm_status adjoint_of(tdm_gradient *gradient, uint32_t value, const char *name,
                             tdm_adjoint *out) {
  memset(out, 0, sizeof *out);
  const uint32_t head = gradient->heads[value];
  if (!head) return TDM_OK;
  *out = gradient->adjoints.items[head];
  const bool dense = is_dense(out);
  for (uint32_t at = head; at; at = gradient->adjoints.items[at].next)
    if (is_dense(&gradient->adjoints.items[at]) != dense)
      return tdm_fail(TDM_UNSUPPORTED, "%s: it has a sparse gradient and a dense one", name);
  if (dense)
    TDM_TRY(sum_all_dense(gradient, value, name, head, &out->dense));
  else
    *out = sum_all_sparse(gradient, name, head);
  return tdm_graph_status(gradient->graph);
}

/* ---- The walk ---- */

/* Trained are the parameters whose group has an optimizer. */
static void mark_parameters(tdm_gradient *gradient, const tdm_update_groups *groups) {
  const tdm_graph *graph = gradient->graph;
  for (size_t i = 0; i < graph->persistents.count; i++) {
    const tdm_graph_persistent *persistent = &graph->persistents.items[i];
    if (!graph->values.items[persistent->value].trainable) continue;
    const size_t group = tdm_update_group_of(groups, persistent->name);
    gradient->parameters[i].group = (uint8_t)group;
    gradient->wanted[persistent->value] = groups->optimizers[group].rule != NULL;
  }
}

static void mark_wanted(tdm_gradient *gradient, size_t forward_count) {
  const tdm_graph *graph = gradient->graph;
  for (size_t i = 0; i < forward_count; i++) {
    const tdm_ir_node *node = tdm_ir_node_at(graph, graph->order.items[i]);
    const uint32_t *inputs = tdm_ir_inputs(graph, node);
    bool wanted = false;
    for (uint32_t k = 0; k < node->input_count; k++) {
      wanted |= gradient->wanted[inputs[k]];
      if (!gradient->first_readers[inputs[k]])
        gradient->first_readers[inputs[k]] = graph->order.items[i];
    }
    if (!wanted || !node->operation->gradient) continue;
    for (uint32_t k = 0; k < node->output_count; k++)
      gradient->wanted[node->first_output + k] =
          tdm_dtype_is_floating(graph->values.items[node->first_output + k].spec.dtype);
  }
}

static tdm_status seed_loss(tdm_gradient *gradient, uint32_t loss) {
  tdm_graph *graph = gradient->graph;
  const tdm_ir_value *value = tdm_ir_value_at(graph, loss);
  const char *name = value->producer ? tdm_ir_node_at(graph, value->producer)->name : "loss";
  if (!tdm_dtype_is_floating(value->spec.dtype) || value->spec.shape.rank != 0)
    return tdm_fail(TDM_INVALID_ARGUMENT, "loss %s is not a floating scalar", name);
  if (!gradient->wanted[loss])
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "loss %s does not depend on any parameter that is trained", name);
  append_on(graph, value->device);
  tdm_fill_attributes one;
  memset(&one, 0, sizeof one);
  one.value = 1.0;
  const tdm_value like = tdm_ir_handle(graph, loss);
  const tdm_value seed = tdm_append(graph, &tdm_operation_fill, name, &one, &like, 1, NULL);
  TDM_TRY(tdm_graph_status(graph));
  /* It had to be like the loss, and need not wait for it: the backward pass of a micro-batch may
   * begin before another has its loss. */
  tdm_ir_inputs(graph, tdm_ir_node_at(graph, tdm_ir_value_at(graph, seed.index)->producer))[0] = 0;
  TDM_TRY(TDM_ARRAY_RESERVE(graph, &gradient->adjoints, 2));
  gradient->adjoints.count = 1;
  gradient->adjoints.items[gradient->adjoints.count] =
      (tdm_adjoint){.dense = seed.index, .device = tdm_ir_value_at(graph, loss)->device};
  gradient->heads[loss] = (uint32_t)gradient->adjoints.count++;
  return TDM_OK;
}

static tdm_status visit(tdm_gradient *gradient, uint32_t index) {
  tdm_graph *graph = gradient->graph;
  const tdm_ir_node node = *tdm_ir_node_at(graph, index); /* appending moves the array */
  if (!node.operation->gradient) return TDM_OK;
  bool flows = false;
  memset(gradient->d_outputs, 0, sizeof gradient->d_outputs);
  for (uint32_t k = 0; k < node.output_count; k++) {
    tdm_adjoint adjoint;
    TDM_TRY(adjoint_of(gradient, node.first_output + k, node.name, &adjoint));
    gradient->d_outputs[k] = adjoint.dense;
    flows |= adjoint.dense != 0;
  }
  if (!flows) return TDM_OK;
  gradient->node = index;
  graph->append_name = node.name;
  append_on(graph, node.device);
  graph->append_replica = node.replica;
  graph->append_micro = node.micro;
  const tdm_status status = node.operation->gradient(gradient);
  graph->append_replica = 0;
  graph->append_micro = 0;
  if (status != TDM_OK)
    return tdm_fail_within(status, "gradient of %s %s", node.operation->name, node.name);
  TDM_TRY(tdm_graph_status(graph));
  return gradient->status;
}

static tdm_status check_loss(tdm_graph *graph, uint32_t loss) {
  append_on(graph, tdm_ir_value_at(graph, loss)->device);
  const tdm_value value = tdm_ir_handle(graph, loss);
  tdm_append(graph, &tdm_operation_check_finite, "loss", NULL, &value, 1, NULL);
  return tdm_graph_status(graph);
}

/* Sums the gradients of the parameters that the node is the first to read: no more will come. */
static tdm_status settle_parameters(tdm_gradient *gradient, uint32_t index) {
  const tdm_graph *graph = gradient->graph;
  const uint32_t input_count = tdm_ir_node_at(graph, index)->input_count;
  for (uint32_t k = 0; k < input_count; k++) {
    const uint32_t value = tdm_ir_inputs(graph, tdm_ir_node_at(graph, index))[k];
    const tdm_ir_value *parameter = tdm_ir_value_at(graph, value);
    if (parameter->kind != TDM_VALUE_PERSISTENT || !gradient->wanted[value] ||
        gradient->first_readers[value] != index ||
        gradient->parameters[parameter->binding].parameter)
      continue;
    tdm_parameter_gradient *item = &gradient->parameters[parameter->binding];
    TDM_TRY(adjoint_of(gradient, value, parameter->name, &item->gradient));
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
  const size_t forward_count = graph->order.count;
  mark_parameters(gradient, training->groups);
  mark_wanted(gradient, forward_count);
  TDM_TRY(seed_loss(gradient, training->loss));
  for (size_t i = forward_count; i-- > 0;) {
    TDM_TRY(visit(gradient, graph->order.items[i]));
    TDM_TRY(settle_parameters(gradient, graph->order.items[i]));
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
  graph->append_device = TDM_NO_DEVICE;
  graph->append_role = TDM_ROLE_FORWARD;
  return status;
}
