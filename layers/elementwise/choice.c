/* Comparisons, and selection between values by a condition. Invariant: the adjoint of an element
 * goes to the operand that it came from; a condition has no gradient. */
#include "core/dtype_numbers.h"
#include "layers/common.h"
#include "tandem/layers/layers.h"

/* ---- compare --------------------------------------------------------------------------------- */

_Static_assert((int)TDM_LESS == (int)TDM_COMPARISON_LESS &&
                   (int)TDM_LESS_EQUAL == (int)TDM_COMPARISON_LESS_EQUAL &&
                   (int)TDM_GREATER == (int)TDM_COMPARISON_GREATER &&
                   (int)TDM_GREATER_EQUAL == (int)TDM_COMPARISON_GREATER_EQUAL &&
                   (int)TDM_EQUAL == (int)TDM_COMPARISON_EQUAL &&
                   (int)TDM_NOT_EQUAL == (int)TDM_COMPARISON_NOT_EQUAL,
               "the public relations are the kernels'");

static tdm_status infer_compare(tdm_infer *infer) {
  const tdm_dtype dtype = infer->inputs[0].dtype;
  if (dtype == TDM_DTYPE_NONE || dtype == TDM_FLOAT16 || dtype == TDM_BFLOAT16)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "a is %s, and must be float32, float64, int32, int64, uint8 or bool",
                    tdm_dtype_name(dtype));
  tdm_shape shape = *tdm_infer_shape(infer, 0);
  if (tdm_infer_has(infer, 1)) {
    TDM_TRY(tdm_expect_dtype_of_first(infer, 1, "a", "b"));
    TDM_TRY(tdm_expect_broadcast(infer, 0, "a", 1, "b", &shape));
  }
  tdm_infer_set(infer, 0, TDM_BOOL, &shape);
  return TDM_OK;
}

static const tdm_operation compare_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_COMPARE,
    .attribute_bytes = sizeof(tdm_compare_attributes),
    .min_inputs = 1,
    .max_inputs = 2,
    .output_count = 1,
    .infer = infer_compare,
    .chunk = tdm_chunk_broadcast,
    .elementwise = true,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_WIDEST,
};

/* Replaces *number by one that the dtype can represent, or by NaN, and adjusts *relation so that
 * the comparison has the same result for each element of the dtype, including NaN. */
static void make_exact(tdm_dtype dtype, tdm_relation *relation, double *number) {
  const bool floats = tdm_dtype_is_floating(dtype), is_nan = isnan(*number);
  if (floats && is_nan) return;
  const double below = is_nan ? NAN : tdm_dtype_floor(dtype, *number);
  if (below == *number && tdm_dtype_holds(dtype, below)) return;
  const bool by_equality = *relation == TDM_EQUAL || *relation == TDM_NOT_EQUAL;
  const bool is_greater = *relation == TDM_GREATER || *relation == TDM_GREATER_EQUAL;
  if (floats && by_equality) {
    *number = NAN; /* no element equals NaN */
  } else if (by_equality || is_nan || (!floats && below == -INFINITY)) {
    const bool always = *relation == TDM_NOT_EQUAL || (is_greater && !is_nan);
    *relation = always ? TDM_GREATER_EQUAL : TDM_LESS;
    *number = tdm_dtype_least(dtype);
  } else {
    *relation = is_greater ? TDM_GREATER : TDM_LESS_EQUAL;
    *number = below;
  }
}

static tdm_value make_compare(tdm_graph *graph, const char *name, tdm_value a,
                              tdm_relation relation, tdm_value b, double number) {
  name = tdm_graph_name(graph, name);
  if ((int)relation < TDM_LESS || (int)relation > TDM_NOT_EQUAL)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "compare %s: no relation %d", name,
                          (int)relation);
  const tdm_compare_attributes attributes = {.comparison = (int64_t)relation, .value = number};
  const tdm_value operands[] = {a, b};
  return tdm_append(graph, &compare_operation, name, &attributes, operands, 2, NULL);
}

tdm_value tdm_compare(tdm_graph *graph, const char *name, tdm_value a, tdm_relation relation,
                      tdm_value b) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_accepts(graph, "compare", name, b)) return TDM_NO_VALUE;
  return make_compare(graph, name, a, relation, b, 0);
}

tdm_value tdm_compare_scalar(tdm_graph *graph, const char *name, tdm_value x, tdm_relation relation,
                             double number) {
  const tdm_dtype dtype = tdm_value_dtype(graph, x);
  if (dtype != TDM_DTYPE_NONE) make_exact(dtype, &relation, &number);
  return make_compare(graph, name, x, relation, TDM_NO_VALUE, number);
}

/* ---- where ----------------------------------------------------------------------------------- */

/* Inputs: condition, [a], [b]; at least one of a and b is present. */
static tdm_status infer_where(tdm_infer *infer) {
  static const char *const names[] = {"condition", "a", "b"};
  if (infer->inputs[0].dtype != TDM_BOOL)
    return tdm_fail(TDM_INVALID_ARGUMENT, "its condition is %s, and must be bool",
                    tdm_dtype_name(infer->inputs[0].dtype));
  const bool both = tdm_infer_has(infer, 1) && tdm_infer_has(infer, 2);
  const size_t one = tdm_infer_has(infer, 1) ? 1 : 2;
  if (both && infer->inputs[1].dtype != infer->inputs[2].dtype)
    return tdm_fail(TDM_INVALID_ARGUMENT, "a is %s, b is %s: they must have one dtype",
                    tdm_dtype_name(infer->inputs[1].dtype), tdm_dtype_name(infer->inputs[2].dtype));
  if (!tdm_infer_has(infer, one)) return tdm_fail(TDM_INVALID_ARGUMENT, "a and b are missing");
  tdm_shape shape;
  TDM_TRY(tdm_expect_broadcast(infer, 0, "condition", one, names[one], &shape));
  if (both)
    TDM_TRY(tdm_shape_broadcast(&shape, "condition and a", tdm_infer_shape(infer, 2), "b", &shape));
  tdm_infer_set(infer, 0, infer->inputs[one].dtype, &shape);
  return TDM_OK;
}

static tdm_status append_where_gradient(tdm_gradient *gradient);

static const tdm_operation where_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_WHERE,
    .attribute_bytes = sizeof(tdm_where_attributes),
    .min_inputs = 1,
    .max_inputs = 3,
    .output_count = 1,
    .infer = infer_where,
    .gradient = append_where_gradient,
    .chunk = tdm_chunk_broadcast,
    .elementwise = true,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_WIDEST,
};

TDM_RECORDS(choice,
            {.operation = &compare_operation, .functions = "tdm_compare tdm_compare_scalar"},
            {.operation = &where_operation, .functions = "tdm_where tdm_masked_fill tdm_prelu"});

static tdm_value make_where(tdm_graph *graph, const char *name, tdm_value condition, tdm_value a,
                            tdm_value b, double number) {
  const tdm_where_attributes attributes = {.value = number};
  const tdm_value operands[] = {condition, a, b};
  return tdm_append(graph, &where_operation, name, &attributes, operands, 3, NULL);
}

/* The gradient is the adjoint where the operand was selected, and 0 elsewhere. */
static tdm_status append_where_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const char *name = tdm_gradient_name(gradient);
  const tdm_value condition = tdm_gradient_input(gradient, 0), none = {0, 0};
  const tdm_value d = tdm_gradient_of_output(gradient, 0);
  if (tdm_gradient_wanted(gradient, 1))
    tdm_gradient_set_summed(gradient, 1, make_where(graph, name, condition, d, none, 0));
  if (tdm_gradient_wanted(gradient, 2))
    tdm_gradient_set_summed(gradient, 2, make_where(graph, name, condition, none, d, 0));
  return tdm_graph_status(graph);
}

tdm_value tdm_where(tdm_graph *graph, const char *name, tdm_value condition, tdm_value a,
                    tdm_value b) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_accepts(graph, "where", name, a) || !tdm_layer_accepts(graph, "where", name, b))
    return TDM_NO_VALUE;
  return make_where(graph, name, condition, a, b, 0);
}

tdm_value tdm_masked_fill(tdm_graph *graph, const char *name, tdm_value x, tdm_value condition,
                          double number) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_accepts(graph, "masked_fill", name, x)) return TDM_NO_VALUE;
  return tdm_layer_holds(graph, "masked_fill", name, tdm_value_dtype(graph, x), "number", number)
             ? make_where(graph, name, condition, TDM_NO_VALUE, x, number)
             : TDM_NO_VALUE;
}
