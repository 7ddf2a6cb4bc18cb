/* What gradient rules ask of a node and tell of its adjoints. Invariant: an adjoint that nobody
 * wants is not kept; those of a value stand in the order of who reads it. */
#include "graph/ir/gradient_rule.h"

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

/* Is what the rule tells a value of the graph, and may it be the adjoint, or rows, of the input? */
static tdm_status check_told(const tdm_gradient *gradient, size_t index, tdm_value told,
                             bool is_rows) {
  const tdm_ir_node *node = gradient->node;
  if (!tdm_ir_owns(gradient->graph, told))
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "gradient of %s %s: what it tells of input %zu is a value of another graph",
                    node->operation->name, node->name, index);
  const tdm_spec *is = &tdm_ir_value_at(gradient->graph, told.index)->spec;
  tdm_spec wanted = tdm_ir_value_at(gradient->graph, input_index(gradient, index))->spec;
  if (is_rows && wanted.shape.rank > 0) wanted.shape.dims[0] = TDM_DIM_UNKNOWN;
  if (tdm_spec_may_be(is, &wanted)) return TDM_OK;
  char has[TDM_SHAPE_TEXT];
  char wants[TDM_SHAPE_TEXT];
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "gradient of %s %s: what it tells of input %zu is %s %s, and must be %s %s",
                  node->operation->name, node->name, index, tdm_dtype_name(is->dtype),
                  tdm_shape_text(&is->shape, has, sizeof has), tdm_dtype_name(wanted.dtype),
                  tdm_shape_text(&wanted.shape, wants, sizeof wants));
}

static void contribute(tdm_gradient *gradient, size_t index, tdm_value told, tdm_adjoint adjoint) {
  const uint32_t value = input_index(gradient, index);
  if (!value || !gradient->wanted[value] || gradient->status != TDM_OK) return;
  gradient->status = check_told(gradient, index, told, adjoint.rows != 0);
  if (gradient->status == TDM_OK)
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
  if (d_input.index) contribute(gradient, index, d_input, (tdm_adjoint){.dense = d_input.index});
}

void tdm_gradient_set_sparse(tdm_gradient *gradient, size_t index, tdm_value rows,
                             tdm_value indices, tdm_value count) {
  if (rows.index && indices.index && count.index)
    contribute(gradient, index, rows,
               (tdm_adjoint){.rows = rows.index, .indices = indices.index, .count = count.index});
}

int tdm_gradient_micro_batch(const tdm_gradient *gradient) {
  return gradient ? gradient->node->micro : 0;
}

void tdm_gradient_add_rows(tdm_gradient *gradient, size_t index, tdm_value rows, tdm_value indices,
                           tdm_value count) {
  if (rows.index && indices.index && count.index)
    contribute(
        gradient, index, rows,
        (tdm_adjoint){
            .rows = rows.index, .indices = indices.index, .count = count.index, .added = true});
}
