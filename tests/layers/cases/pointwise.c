/* Builders of the golden cases of tests/golden/pointwise_cases.py. */
#include "devices/kernels/elementwise/functions.h"
#include "tests/layers/layer_cases.h"

/* Numbers of the case: kind, same. */
static void binary(layer_test *test, const layer_case *options) {
  typedef tdm_value (*binary_function)(tdm_graph *, const char *, tdm_value, tdm_value);
  static const binary_function functions[] = {tdm_add,     tdm_sub,     tdm_mul,       tdm_div,
                                              tdm_maximum, tdm_minimum, tdm_remainder, tdm_power};
  const tdm_value a = layer_parameter(test, "a");
  const tdm_value b = options->numbers[1] != 0 ? a : layer_parameter(test, "b");
  layer_judge(test, "y", functions[(int)options->numbers[0]](test->graph, "f", a, b));
}

/* Numbers of the case: kind, a, b. */
static void function(layer_test *test, const layer_case *options) {
  typedef tdm_value (*plain_function)(tdm_graph *, const char *, tdm_value);
  static const plain_function functions[] = {
      [3] = tdm_neg,        [4] = tdm_abs,         [5] = tdm_exp,     [6] = tdm_log,
      [7] = tdm_sqrt,       [8] = tdm_rsqrt,       [10] = tdm_square, [13] = tdm_relu6,
      [16] = tdm_hardswish, [17] = tdm_hardsigmoid};
  tdm_graph *graph = test->graph;
  const tdm_value x = layer_parameter(test, "x");
  const int kind = (int)options->numbers[0];
  const double a = options->numbers[1], b = options->numbers[2];
  layer_judge(test, "y",
              kind == 0    ? tdm_affine(graph, "f", x, a, b)
              : kind == 1  ? tdm_add_scalar(graph, "f", x, a)
              : kind == 2  ? tdm_mul_scalar(graph, "f", x, a)
              : kind == 9  ? tdm_pow(graph, "f", x, a)
              : kind == 11 ? tdm_clamp(graph, "f", x, a, b)
              : kind == 12 ? tdm_hardtanh(graph, "f", x, a, b)
              : kind == 14 ? tdm_softplus(graph, "f", x, a, b)
              : kind == 15 ? tdm_elu(graph, "f", x, a)
                           : functions[kind](graph, "f", x));
}

static void plain(layer_test *test, const layer_case *options) {
  layer_judge(test, "y", options->function(test->graph, "f", layer_parameter(test, "x")));
}

/* Numbers of the case: kind. */
static void steps(layer_test *test, const layer_case *options) {
  typedef tdm_value (*step_function)(tdm_graph *, const char *, tdm_value);
  static const step_function functions[] = {tdm_floor, tdm_round, tdm_sign};
  const tdm_value x = layer_parameter(test, "x");
  const tdm_value y = functions[(int)options->numbers[0]](test->graph, "f", x);
  layer_judge(test, "y", tdm_mul(test->graph, "times", y, x));
}

/* Checks the gradient of each operand separately. */
static void power_at_zero(layer_test *test, const layer_case *options) {
  (void)options;
  tdm_graph *graph = test->graph;
  const tdm_value a = layer_parameter(test, "a"), b = layer_parameter(test, "b");
  const tdm_value even = tdm_round(graph, "even", a), whole = tdm_round(graph, "whole", b);
  const tdm_value y = tdm_power(graph, "of_base", a, whole);
  const tdm_value z = tdm_power(graph, "of_exponent", tdm_abs(graph, "size", even), b);
  layer_judge(test, "y", tdm_add(graph, "y", y, b));
  layer_judge(test, "z", tdm_add(graph, "z", z, a));
}

/* Numbers of the case: slopes. */
static void prelu(layer_test *test, const layer_case *options) {
  const tdm_value x = layer_parameter(test, "x");
  layer_judge(test, "y", tdm_prelu(test->graph, "layer", x, (int64_t)options->numbers[0]));
}

/* Numbers of the case: dimension. */
static void glu(layer_test *test, const layer_case *options) {
  const tdm_value x = layer_parameter(test, "x");
  layer_judge(test, "y", tdm_glu(test->graph, "f", x, (int)options->numbers[0]));
}

/* Numbers of the case: fills, number. */
static void where(layer_test *test, const layer_case *options) {
  const tdm_value condition = layer_input(test, "condition"), a = layer_parameter(test, "a");
  layer_judge(test, "y",
              options->numbers[0] != 0
                  ? tdm_masked_fill(test->graph, "f", a, condition, options->numbers[1])
                  : tdm_where(test->graph, "f", condition, a, layer_parameter(test, "b")));
}

/* Numbers of the case: relation, of a number, the number. */
static void compare(layer_test *test, const layer_case *options) {
  tdm_graph *graph = test->graph;
  const tdm_value a = layer_parameter(test, "a");
  const tdm_relation relation = (tdm_relation)options->numbers[0];
  const tdm_value holds =
      options->numbers[1] != 0
          ? tdm_compare_scalar(graph, "relation", a, relation, options->numbers[2])
          : tdm_compare(graph, "relation", a, relation, layer_input(test, "b"));
  const tdm_value numbers = tdm_cast(graph, "numbers", holds, tdm_value_dtype(graph, a));
  const tdm_value fails = tdm_compare_scalar(graph, "fails", numbers, TDM_EQUAL, 0);
  layer_judge(test, "y", tdm_masked_fill(graph, "f", a, fails, 0));
}

/* Numbers of the case: least, dimension, keep. */
static void extreme(layer_test *test, const layer_case *options) {
  const int dimension = (int)options->numbers[1];
  const bool least = options->numbers[0] != 0, keep = options->numbers[2] != 0;
  const tdm_value x = layer_parameter(test, "x");
  tdm_value indices;
  const tdm_value y = (least ? tdm_min : tdm_max)(test->graph, "f", x, dimension, keep, &indices);
  layer_output(test, "indices", indices);
  layer_judge(test, "y", y);
}

/* Numbers of the case: dimension. */
static void cumsum(layer_test *test, const layer_case *options) {
  const tdm_value x = layer_parameter(test, "x");
  layer_judge(test, "y", tdm_cumsum(test->graph, "f", x, (int)options->numbers[0]));
}

/* Numbers of the case: unbiased, keep, dimensions. */
static void variance(layer_test *test, const layer_case *options) {
  int dimensions[16];
  const size_t count = options->number_count - 2;
  for (size_t i = 0; i < count; i++)
    dimensions[i] = (int)options->numbers[2 + i];
  layer_judge(test, "y",
              tdm_variance(test->graph, "f", layer_parameter(test, "x"), dimensions, count,
                           options->numbers[0], options->numbers[1] != 0));
}

#define KINKED "its elements lie where the slope is a matter of convention"

const layer_builder pointwise_builders[] = {
    {"two_values", {.build = binary}},
    {"two_values_tied", {.build = binary, .not_smooth = KINKED}},
    {"function", {.build = function}},
    {"function_at_ends", {.build = function, .not_smooth = KINKED}},
    {"steps", {.build = steps}},
    {"steps_at_halves", {.build = steps, .not_smooth = KINKED}},
    {"power_at_zero", {.build = power_at_zero, .not_smooth = KINKED}},
    {"prelu", {.build = prelu}},
    {"glu", {.build = glu}},
    {"where", {.build = where}},
    {"compare", {.build = compare}},
    {"extreme", {.build = extreme}},
    {"cumsum", {.build = cumsum}},
    {"variance", {.build = variance}},
#define PLAIN(name, reads, precision) {#name, {.build = plain, .function = tdm_##name}},
    TDM_FUNCTIONS(PLAIN){.layer = NULL},
};
