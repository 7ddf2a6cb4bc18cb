/* The functions with which gradient rules query a node and set its adjoints. Invariant: adjoints
 * that are not required are dropped; those of a value are listed in the order of their
 * consumers. */
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

tdm_value tdm_gradient_input(const tdm_gradient *gradient, size_t index) {
  return gradient ? tdm_ir_handle(gradient->graph, input_index(gradient, index)) : TDM_NO_VALUE;
}

tdm_value tdm_gradient_output(const tdm_gradient *gradient, size_t index) {
  if (!gradient) return TDM_NO_VALUE;
  const tdm_ir_node *node = gradient->node;
  return tdm_ir_handle(gradient->graph,
                       index < node->output_count ? node->first_output + (uint32_t)index : 0);
}

tdm_value tdm_gradient_of_output(const tdm_gradient *gradient, size_t index) {
  if (!gradient) return TDM_NO_VALUE;
  return tdm_ir_handle(gradient->graph,
                       index < TDM_KERNEL_MAX_OUTPUTS ? gradient->d_outputs[index] : 0);
}

bool tdm_gradient_wanted(const tdm_gradient *gradient, size_t index) {
  const uint32_t value = input_index(gradient, index);
  return value != 0 && gradient->wanted[value];
}

/* Fails unless the value that a rule set as `part` of an adjoint belongs to the graph and fits
 * it. */
static tdm_status check_told(const tdm_gradient *gradient, size_t index, const char *part,
                             tdm_value told, const tdm_spec *wanted) {
  const tdm_ir_node *node = gradient->node;
  if (!tdm_ir_owns(gradient->graph, told))
    return tdm_fail(
        TDM_INVALID_ARGUMENT,
        "gradient of %s %s: what the rule returns for input %zu%s is a value of another graph",
        node->operation->name, node->name, index, part);
  const tdm_spec *is = tdm_ir_value_at(gradient->graph, told.index)->spec;
  if (tdm_spec_may_be(is, wanted)) return TDM_OK;
  char has[TDM_SHAPE_TEXT];
  char wants[TDM_SHAPE_TEXT];
  return tdm_fail(
      TDM_INVALID_ARGUMENT,
      "gradient of %s %s: what the rule returns for input %zu%s is %s %s, and must be %s %s",
      node->operation->name, node->name, index, part, tdm_dtype_name(is->dtype),
      tdm_shape_text(&is->shape, has, sizeof has), tdm_dtype_name(wanted->dtype),
      tdm_shape_text(&wanted->shape, wants, sizeof wants));
}

static bool is_heard(const tdm_gradient *gradient, size_t index) {
  return tdm_gradient_wanted(gradient, index) && gradient->status == TDM_OK;
}

static void contribute(tdm_gradient *gradient, size_t index, tdm_adjoint adjoint) {
  const uint32_t value = input_index(gradient, index);
  if (gradient->status == TDM_OK)
    gradient->status = TDM_ARRAY_RESERVE(gradient->graph, &gradient->adjoints, 1);
  if (gradient->status != TDM_OK) return;
  adjoint.device = gradient->node->device;
  adjoint.replica = gradient->node->part.replica;
  adjoint.micro = gradient->node->part.micro;
  adjoint.next = gradient->heads[value]; /* consumers are visited from last to first */
  gradient->heads[value] = (uint32_t)gradient->adjoints.count;
  gradient->adjoints.items[gradient->adjoints.count++] = adjoint;
}

void tdm_gradient_set(tdm_gradient *gradient, size_t index, tdm_value d_input) {
  if (!d_input.index || !is_heard(gradient, index)) return;
  const tdm_spec *input = tdm_ir_value_at(gradient->graph, input_index(gradient, index))->spec;
  gradient->status = check_told(gradient, index, "", d_input, input);
  contribute(gradient, index, (tdm_adjoint){.dense = d_input.index});
}

/* Fails unless there is one index per row. */
static tdm_status check_rows(const tdm_gradient *gradient, size_t index, tdm_value rows,
                             tdm_value indices, tdm_value count) {
  tdm_spec wanted = *tdm_ir_value_at(gradient->graph, input_index(gradient, index))->spec;
  if (wanted.shape.rank > 0) wanted.shape.dims[0] = TDM_DIM_UNKNOWN;
  TDM_TRY(check_told(gradient, index, "", rows, &wanted));
  const tdm_dim row_count = tdm_ir_value_at(gradient->graph, rows.index)->spec->shape.dims[0];
  const tdm_spec of_indices = {.dtype = TDM_INT64, .shape = tdm_shape_of(1, row_count)};
  const tdm_spec of_count = {.dtype = TDM_INT64, .shape = tdm_shape_scalar()};
  TDM_TRY(check_told(gradient, index, ", the indices of rows,", indices, &of_indices));
  return check_told(gradient, index, ", the count of rows,", count, &of_count);
}

static void contribute_rows(tdm_gradient *gradient, size_t index, tdm_value rows, tdm_value indices,
                            tdm_value count, bool added) {
  if (!rows.index || !indices.index || !count.index || !is_heard(gradient, index)) return;
  gradient->status = check_rows(gradient, index, rows, indices, count);
  contribute(
      gradient, index,
      (tdm_adjoint){
          .rows = rows.index, .indices = indices.index, .count = count.index, .added = added});
}

void tdm_gradient_set_sparse(tdm_gradient *gradient, size_t index, tdm_value rows,
                             tdm_value indices, tdm_value count) {
  contribute_rows(gradient, index, rows, indices, count, false);
}

void tdm_gradient_add_rows(tdm_gradient *gradient, size_t index, tdm_value rows, tdm_value indices,
                           tdm_value count) {
  contribute_rows(gradient, index, rows, indices, count, true);
}

int tdm_gradient_micro_batch(const tdm_gradient *gradient) {
  return gradient ? gradient->node->part.micro : 0;
}
