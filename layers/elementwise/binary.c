/* Sums, differences, products, quotients and extremes of two values, element by element. Invariant:
 * an operand's adjoint is summed over the dimensions in which the operand was repeated. */
#include "layers/common.h"
#include "tandem/layers/layers.h"

/* ---- Shapes ---------------------------------------------------------------------------------- */

static tdm_status infer_numbers(tdm_infer *infer) {
  tdm_shape shape;
  TDM_TRY(tdm_expect_dtype_of_first(infer, 1, "a", "b"));
  TDM_TRY(tdm_expect_broadcast(infer, 0, "a", 1, "b", &shape));
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &shape);
  return TDM_OK;
}

static tdm_status infer_floating(tdm_infer *infer) {
  TDM_TRY(tdm_expect_floating(infer, 0, "a"));
  return infer_numbers(infer);
}

static tdm_status infer_integers(tdm_infer *infer) {
  TDM_TRY(tdm_expect_ids(infer, 0, "a"));
  return infer_numbers(infer);
}

/* Requires a floating dtype, int32 or int64. */
static tdm_status infer_countable(tdm_infer *infer) {
  if (!tdm_dtype_is_floating(infer->inputs[0].dtype))
    TDM_TRY(tdm_expect_ids(infer, 0, "a, if not floating,"));
  return infer_numbers(infer);
}

#define BINARY(operation, infer_rule, gradient_rule, class)                                        \
  {                                                                                                \
    .struct_size = sizeof(tdm_operation), .name = operation, .min_inputs = 2, .max_inputs = 2,     \
    .output_count = 1, .infer = infer_rule, .gradient = gradient_rule,                             \
    .chunk = tdm_chunk_broadcast, .elementwise = true, .work = tdm_work_streams,                   \
    .precision = class,                                                                            \
  }

static const tdm_operation maximum_share =
    BINARY(TDM_OP_MAXIMUM_SHARE, infer_floating, NULL, TDM_PRECISION_GIVEN);

static const tdm_operation power_base_slope =
    BINARY(TDM_OP_POWER_BASE_SLOPE, infer_floating, NULL, TDM_PRECISION_GIVEN);
static const tdm_operation power_exponent_slope =
    BINARY(TDM_OP_POWER_EXPONENT_SLOPE, infer_floating, NULL, TDM_PRECISION_GIVEN);

/* ---- Gradients ------------------------------------------------------------------------------- */

static tdm_status append_add_gradient(tdm_gradient *gradient) {
  for (size_t i = 0; i < 2; i++)
    if (tdm_gradient_wanted(gradient, i))
      tdm_gradient_set_summed(gradient, i, tdm_gradient_of_output(gradient, 0));
  return tdm_graph_status(tdm_gradient_graph(gradient));
}

static tdm_status append_sub_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const tdm_value d = tdm_gradient_of_output(gradient, 0);
  if (tdm_gradient_wanted(gradient, 0)) tdm_gradient_set_summed(gradient, 0, d);
  if (tdm_gradient_wanted(gradient, 1))
    tdm_gradient_set_summed(gradient, 1, tdm_neg(graph, tdm_gradient_name(gradient), d));
  return tdm_graph_status(graph);
}

/* d_a = d b, d_b = d a. */
static tdm_status append_mul_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  for (size_t i = 0; i < 2; i++)
    if (tdm_gradient_wanted(gradient, i))
      tdm_gradient_set_summed(gradient, i,
                              tdm_mul(graph, tdm_gradient_name(gradient),
                                      tdm_gradient_of_output(gradient, 0),
                                      tdm_gradient_input(gradient, 1 - i)));
  return tdm_graph_status(graph);
}

/* d_a = d / b, d_b = -d_a (a / b). */
static tdm_status append_div_gradient(tdm_gradient *gradient) {
  if (!tdm_gradient_wanted(gradient, 0) && !tdm_gradient_wanted(gradient, 1)) return TDM_OK;
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const char *name = tdm_gradient_name(gradient);
  const tdm_value d_a =
      tdm_div(graph, name, tdm_gradient_of_output(gradient, 0), tdm_gradient_input(gradient, 1));
  if (tdm_gradient_wanted(gradient, 0)) tdm_gradient_set_summed(gradient, 0, d_a);
  if (tdm_gradient_wanted(gradient, 1)) {
    const tdm_value d_b = tdm_mul(graph, name, d_a, tdm_gradient_output(gradient, 0));
    tdm_gradient_set_summed(gradient, 1, tdm_neg(graph, name, d_b));
  }
  return tdm_graph_status(graph);
}

/* Appends each operand's share of the adjoint, which depends on both operands. A share of 0 is 0
 * also if the adjoint is not finite. */
static tdm_status append_extreme_gradient(tdm_gradient *gradient, bool larger) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const char *name = tdm_gradient_name(gradient);
  for (size_t i = 0; i < 2; i++) {
    if (!tdm_gradient_wanted(gradient, i)) continue;
    const size_t first = larger ? i : 1 - i;
    const tdm_value operands[] = {tdm_gradient_input(gradient, first),
                                  tdm_gradient_input(gradient, 1 - first)};
    const tdm_value share = tdm_append(graph, &maximum_share, name, NULL, operands, 2, NULL);
    const tdm_value d = tdm_gradient_of_output(gradient, 0);
    const tdm_value is_none = tdm_compare(graph, name, operands[0], TDM_LESS, operands[1]);
    const tdm_value d_x = tdm_mul(graph, name, d, share);
    tdm_gradient_set_summed(gradient, i, tdm_masked_fill(graph, name, d_x, is_none, 0));
  }
  return tdm_graph_status(graph);
}

static tdm_status append_maximum_gradient(tdm_gradient *gradient) {
  return append_extreme_gradient(gradient, true);
}

static tdm_status append_minimum_gradient(tdm_gradient *gradient) {
  return append_extreme_gradient(gradient, false);
}

/* Returns how many times b was subtracted from a to leave `left`. It is computed from a - left,
 * because a / b may be rounded up to the next integer. If a / b rounds to 0, the result is 0 or -1.
 * If b is 0, the result is a / b. */
static tdm_value times_taken(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                             tdm_value left) {
  const tdm_value quotient = tdm_div(graph, name, a, b);
  const tdm_value taken = tdm_div(graph, name, tdm_sub(graph, name, a, left), b);
  const tdm_value changed = tdm_compare(graph, name, left, TDM_NOT_EQUAL, a);
  const tdm_value is_small = tdm_compare_scalar(graph, name, quotient, TDM_EQUAL, 0);
  const tdm_value by_zero = tdm_compare_scalar(graph, name, b, TDM_EQUAL, 0);
  return tdm_where(graph, name, is_small, tdm_masked_fill(graph, name, quotient, changed, -1),
                   tdm_where(graph, name, by_zero, quotient, tdm_round(graph, name, taken)));
}

/* d_a = d, d_b = -d times the number of subtractions of b. */
static tdm_status append_remainder_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const char *name = tdm_gradient_name(gradient);
  const tdm_value d = tdm_gradient_of_output(gradient, 0);
  if (tdm_gradient_wanted(gradient, 0)) tdm_gradient_set_summed(gradient, 0, d);
  if (tdm_gradient_wanted(gradient, 1)) {
    const tdm_value times =
        times_taken(graph, name, tdm_gradient_input(gradient, 0), tdm_gradient_input(gradient, 1),
                    tdm_gradient_output(gradient, 0));
    tdm_gradient_set_summed(gradient, 1, tdm_neg(graph, name, tdm_mul(graph, name, d, times)));
  }
  return tdm_graph_status(graph);
}

/* Returns d times the slope. It is 0 if the exponent is 0, also if d is not finite. */
static tdm_value power_base_gradient(tdm_graph *graph, const char *name, tdm_value d,
                                     const tdm_value operands[2]) {
  const tdm_value slope = tdm_append(graph, &power_base_slope, name, NULL, operands, 2, NULL);
  const tdm_value is_none = tdm_compare_scalar(graph, name, operands[1], TDM_EQUAL, 0);
  return tdm_masked_fill(graph, name, tdm_mul(graph, name, d, slope), is_none, 0);
}

static tdm_status append_power_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const char *name = tdm_gradient_name(gradient);
  const tdm_value d = tdm_gradient_of_output(gradient, 0);
  const tdm_value operands[] = {tdm_gradient_input(gradient, 0), tdm_gradient_input(gradient, 1)};
  if (tdm_gradient_wanted(gradient, 0))
    tdm_gradient_set_summed(gradient, 0, power_base_gradient(graph, name, d, operands));
  if (tdm_gradient_wanted(gradient, 1)) {
    const tdm_value slope = tdm_append(graph, &power_exponent_slope, name, NULL, operands, 2, NULL);
    tdm_gradient_set_summed(gradient, 1, tdm_mul(graph, name, d, slope));
  }
  return tdm_graph_status(graph);
}

/* ---- Operations ------------------------------------------------------------------------------ */

static const tdm_operation add_operation =
    BINARY(TDM_OP_ADD, infer_numbers, append_add_gradient, TDM_PRECISION_WIDEST);
static const tdm_operation sub_operation =
    BINARY(TDM_OP_SUB, infer_countable, append_sub_gradient, TDM_PRECISION_WIDEST);
const tdm_operation tdm_operation_mul =
    BINARY(TDM_OP_MUL, infer_countable, append_mul_gradient, TDM_PRECISION_WIDEST);
const tdm_operation tdm_operation_div =
    BINARY(TDM_OP_DIV, infer_floating, append_div_gradient, TDM_PRECISION_WIDEST);
static const tdm_operation maximum_operation =
    BINARY(TDM_OP_MAXIMUM, infer_countable, append_maximum_gradient, TDM_PRECISION_WIDEST);
static const tdm_operation minimum_operation =
    BINARY(TDM_OP_MINIMUM, infer_countable, append_minimum_gradient, TDM_PRECISION_WIDEST);
static const tdm_operation remainder_operation =
    BINARY(TDM_OP_REMAINDER, infer_countable, append_remainder_gradient, TDM_PRECISION_WIDEST);
static const tdm_operation div_floor_operation =
    BINARY(TDM_OP_DIV_FLOOR, infer_integers, NULL, TDM_PRECISION_GIVEN);
static const tdm_operation div_trunc_operation =
    BINARY(TDM_OP_DIV_TRUNC, infer_integers, NULL, TDM_PRECISION_GIVEN);
static const tdm_operation power_operation =
    BINARY(TDM_OP_POWER, infer_floating, append_power_gradient, TDM_PRECISION_FLOAT32);

#define INTEGERS "tests/layers/integers_test.c has PyTorch's numbers and those that it refuses"

TDM_RECORDS(
    binary, {.operation = &add_operation, .functions = "tdm_add"},
    {.operation = &sub_operation, .functions = "tdm_sub"},
    {.operation = &tdm_operation_mul, .functions = "tdm_mul tdm_glu tdm_outer"},
    {.operation = &tdm_operation_div, .functions = "tdm_div"},
    {.operation = &maximum_operation, .functions = "tdm_maximum"},
    {.operation = &minimum_operation, .functions = "tdm_minimum"},
    {.operation = &remainder_operation, .functions = "tdm_remainder"},
    {.operation = &div_floor_operation, .functions = "tdm_integer_div", .no_golden = INTEGERS},
    {.operation = &div_trunc_operation, .no_golden = INTEGERS},
    {.operation = &power_operation, .functions = "tdm_power"}, {.operation = &maximum_share},
    {.operation = &power_base_slope}, {.operation = &power_exponent_slope});

static tdm_value make(tdm_graph *graph, const tdm_operation *operation, const char *name,
                      tdm_value a, tdm_value b) {
  const tdm_value operands[] = {a, b};
  return tdm_append(graph, operation, name, NULL, operands, 2, NULL);
}

tdm_value tdm_add(tdm_graph *graph, const char *name, tdm_value a, tdm_value b) {
  return make(graph, &add_operation, name, a, b);
}

tdm_value tdm_sub(tdm_graph *graph, const char *name, tdm_value a, tdm_value b) {
  return make(graph, &sub_operation, name, a, b);
}

tdm_value tdm_mul(tdm_graph *graph, const char *name, tdm_value a, tdm_value b) {
  return make(graph, &tdm_operation_mul, name, a, b);
}

tdm_value tdm_div(tdm_graph *graph, const char *name, tdm_value a, tdm_value b) {
  return make(graph, &tdm_operation_div, name, a, b);
}

tdm_value tdm_maximum(tdm_graph *graph, const char *name, tdm_value a, tdm_value b) {
  return make(graph, &maximum_operation, name, a, b);
}

tdm_value tdm_minimum(tdm_graph *graph, const char *name, tdm_value a, tdm_value b) {
  return make(graph, &minimum_operation, name, a, b);
}

tdm_value tdm_remainder(tdm_graph *graph, const char *name, tdm_value a, tdm_value b) {
  return make(graph, &remainder_operation, name, a, b);
}

tdm_value tdm_integer_div(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                          tdm_rounding rounding) {
  name = tdm_graph_name(graph, name);
  if (rounding != TDM_ROUND_DOWN && rounding != TDM_ROUND_TOWARD_ZERO)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "integer_div %s: rounding is %d, and must be TDM_ROUND_DOWN or "
                          "TDM_ROUND_TOWARD_ZERO",
                          name, (int)rounding);
  return make(graph, rounding == TDM_ROUND_DOWN ? &div_floor_operation : &div_trunc_operation, name,
              a, b);
}

tdm_value tdm_power(tdm_graph *graph, const char *name, tdm_value a, tdm_value b) {
  return make(graph, &power_operation, name, a, b);
}
