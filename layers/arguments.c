/* Checks of the arguments of composed layers; see arguments.h. Invariant: the checked value is an
 * output of the check, so its consumers never compute with an illegal value. */
#include "layers/arguments.h"

#include <stdio.h>

#include "layers/common.h"

static tdm_status infer_check(tdm_infer *infer) {
  TDM_TRY(tdm_expect_ids(infer, 0, "x"));
  return tdm_infer_like_first(infer);
}

static const tdm_operation check_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_CHECK,
    .attribute_bytes = sizeof(tdm_check_attributes),
    .min_inputs = 1,
    .max_inputs = 2,
    .output_count = 1,
    .infer = infer_check,
    .work = tdm_work_moves,
    .precision = TDM_PRECISION_GIVEN,
    .shape_inputs = 1u << 1,
};

TDM_RECORDS(arguments, {.operation = &check_operation, .functions = "tdm_ctc tdm_multi_margin"});

/* ---- When described -------------------------------------------------------------------------- */

bool tdm_argument_is_value(tdm_graph *graph, const char *layer, const char *name, const char *what,
                           tdm_value x) {
  if (tdm_value_shape(graph, x).rank >= 0) return true;
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: %s is not a value of this graph", layer, name,
                 what);
  return false;
}

bool tdm_argument_is_floating(tdm_graph *graph, const char *layer, const char *name,
                              const char *what, tdm_value x) {
  if (!tdm_argument_is_value(graph, layer, name, what, x)) return false;
  const tdm_dtype dtype = tdm_value_dtype(graph, x);
  if (tdm_dtype_is_floating(dtype)) return true;
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: %s is %s, and must be floating", layer, name,
                 what, tdm_dtype_name(dtype));
  return false;
}

bool tdm_argument_has_dtype(tdm_graph *graph, const char *layer, const char *name, const char *what,
                            tdm_value x, tdm_dtype dtype) {
  if (!tdm_argument_is_value(graph, layer, name, what, x)) return false;
  if (tdm_value_dtype(graph, x) == dtype) return true;
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: %s is %s, expected %s", layer, name, what,
                 tdm_dtype_name(tdm_value_dtype(graph, x)), tdm_dtype_name(dtype));
  return false;
}

bool tdm_argument_has_integers(tdm_graph *graph, const char *layer, const char *name,
                               const char *what, tdm_value x) {
  if (!tdm_argument_is_value(graph, layer, name, what, x)) return false;
  const tdm_dtype dtype = tdm_value_dtype(graph, x);
  if (dtype == TDM_INT32 || dtype == TDM_INT64) return true;
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: %s are %s, and must be int32 or int64", layer,
                 name, what, tdm_dtype_name(dtype));
  return false;
}

bool tdm_argument_has_rank(tdm_graph *graph, const char *layer, const char *name, const char *what,
                           tdm_value x, int least, int most) {
  if (!tdm_argument_is_value(graph, layer, name, what, x)) return false;
  const tdm_shape shape = tdm_value_shape(graph, x);
  char text[TDM_SHAPE_TEXT], range[32] = "";
  if (shape.rank >= least && shape.rank <= most) return true;
  if (least != most) (void)snprintf(range, sizeof range, "%d to ", least);
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: %s is %s, expected %s%d dimensions", layer,
                 name, what, tdm_shape_text(&shape, text, sizeof text), range, most);
  return false;
}

bool tdm_argument_has_shape(tdm_graph *graph, const char *layer, const char *name, const char *what,
                            tdm_value x, const tdm_shape *expected) {
  if (!tdm_argument_is_value(graph, layer, name, what, x)) return false;
  const tdm_shape shape = tdm_value_shape(graph, x);
  char text[TDM_SHAPE_TEXT], wanted[TDM_SHAPE_TEXT];
  bool agrees = shape.rank == expected->rank;
  for (int i = 0; agrees && i < shape.rank; i++)
    agrees = tdm_dim_agree(shape.dims[i], expected->dims[i]);
  if (!agrees)
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: %s is %s, expected %s", layer, name, what,
                   tdm_shape_text(&shape, text, sizeof text),
                   tdm_shape_text(expected, wanted, sizeof wanted));
  return agrees;
}

bool tdm_argument_has_parameter_dtype(tdm_graph *graph, const char *layer, const char *name,
                                      const char *what, tdm_value x) {
  return tdm_argument_is_floating(graph, layer, name, what, x) &&
         tdm_argument_has_dtype(graph, layer, name, what, x, tdm_graph_dtype(graph));
}

bool tdm_argument_is_within(tdm_graph *graph, const char *layer, const char *name, const char *what,
                            int64_t number, int position, int64_t least, int64_t most) {
  char at[32] = "";
  if (number >= least && number <= most) return true;
  if (position >= 0) (void)snprintf(at, sizeof at, " at position %d", position);
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: %s is %lld%s, expected %lld to %lld", layer,
                 name, what, (long long)number, at, (long long)least, (long long)most);
  return false;
}

bool tdm_argument_is_probability(tdm_graph *graph, const char *layer, const char *name,
                                 const char *what, double number) {
  if (number >= 0 && number <= 1) return true;
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: %s is %g, expected a probability, 0 to 1",
                 layer, name, what, number);
  return false;
}

/* ---- In a run -------------------------------------------------------------------------------- */

tdm_value tdm_argument_check(tdm_graph *graph, const tdm_argument *argument, tdm_value x) {
  if (!tdm_argument_has_integers(graph, argument->layer, argument->name, argument->what, x))
    return TDM_NO_VALUE;
  tdm_check_attributes attributes = {.least = argument->least,
                                     .most = argument->most,
                                     .has_ignored = argument->has_ignored,
                                     .ignored = argument->ignored};
  (void)snprintf(attributes.layer, sizeof attributes.layer, "%s", argument->layer);
  (void)snprintf(attributes.argument, sizeof attributes.argument, "%s", argument->what);
  const tdm_value operands[] = {x, argument->like};
  size_t count = 1;
  if (tdm_value_is_valid(argument->like)) {
    const tdm_dim size = tdm_value_shape(graph, argument->like).dims[argument->dimension];
    count = tdm_dim_is_size(size) ? 1 : 2;
    attributes.dimension = count == 2 ? argument->dimension : 0;
    if (count == 1) attributes.most += size;
  }
  return tdm_append(graph, &check_operation, argument->name, &attributes, operands, count, NULL);
}

/* ---- Operands that are broadcast ------------------------------------------------------------- */

static bool has_legal_dtype(tdm_graph *graph, const char *layer, const char *name,
                            const tdm_operand *operands, size_t index) {
  const tdm_dtype first = tdm_value_dtype(graph, operands[0].value);
  const tdm_dtype dtype = tdm_value_dtype(graph, operands[index].value);
  if (operands[index].may_be_integers || (index > 0 && dtype == first)) return true;
  if (index == 0)
    return tdm_argument_is_floating(graph, layer, name, operands[0].what, operands[0].value);
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: %s is %s, %s is %s: they must have one dtype",
                 layer, name, operands[0].what, tdm_dtype_name(first), operands[index].what,
                 tdm_dtype_name(dtype));
  return false;
}

bool tdm_arguments_broadcast(tdm_graph *graph, const char *layer, const char *name,
                             const tdm_operand *operands, size_t count) {
  tdm_shape whole = {.rank = 0};
  for (size_t i = 0; i < count; i++)
    if (!tdm_argument_is_value(graph, layer, name, operands[i].what, operands[i].value) ||
        !has_legal_dtype(graph, layer, name, operands, i))
      return false;
  for (size_t i = 0; i < count; i++) {
    const tdm_shape shape = tdm_value_shape(graph, operands[i].value);
    const char *others = i > 1 ? "the shape of those before it" : operands[0].what;
    const tdm_status status = tdm_shape_broadcast(&whole, others, &shape, operands[i].what, &whole);
    if (status == TDM_OK) continue;
    (void)tdm_graph_fail_message(graph, tdm_fail_within(status, "%s %s", layer, name));
    return false;
  }
  return true;
}
