/* Cases of functions of one value and numbers, and of functions of two or three values that are
 * broadcast to one shape. */
#include "core/status.h"
#include "tests/devices/kernels/cases.h"

#include <math.h>
#include <stdio.h>

/* ---- One value ------------------------------------------------------------------------------- */

static const int64_t counts[] = {0, 1, 15, 17, 100, 4099, 40001 /* for the first only */};
#define COUNTS (sizeof counts / sizeof counts[0])

/* Defines a reference whose element is expression, in a (and b), first and second. */
#define REFERENCE(name, expression)                                                                \
  static void name##_reference(const kernel_case *self, const double *const *inputs,               \
                               double *const *outputs) {                                           \
    const double first = self->attributes.function.first;                                          \
    const double second = self->attributes.function.second;                                        \
    (void)first, (void)second;                                                                     \
    for (int64_t i = 0; i < input_count_of(self, 0); i++) {                                        \
      const double a = inputs[0][i], b = self->input_count > 1 ? inputs[1][i] : 0;                 \
      (void)b;                                                                                     \
      outputs[0][i] = expression;                                                                  \
    }                                                                                              \
  }

REFERENCE(affine, first *a + second)
REFERENCE(absolute, fabs(a))
REFERENCE(absolute_gradient, b > 0 ? a : b < 0 ? -a : 0)
REFERENCE(exp, exp(a))
REFERENCE(log, log(a))
REFERENCE(sqrt, sqrt(a))
REFERENCE(sqrt_gradient, a / (2 * b))
REFERENCE(rsqrt, 1 / sqrt(a))
REFERENCE(rsqrt_gradient, -a / 2 * b * b * b)
REFERENCE(pow, pow(a, first))
REFERENCE(pow_gradient, first == 0 ? 0 : a * first * pow(b, first - 1))
REFERENCE(clamp, fmin(fmax(a, first), second))
REFERENCE(clamp_gradient, b > first && b < second ? a : 0)
REFERENCE(softplus, a *first > second ? a : log1p(exp(first * a)) / first)
REFERENCE(softplus_gradient, b *first > second ? a : a / (1 + exp(-first * b)))
REFERENCE(floor, floor(a))
REFERENCE(round, nearbyint(a))
REFERENCE(sign, a > 0 ? 1 : a < 0 ? -1 : 0)
REFERENCE(elu, a > 0 ? a : first * expm1(a))
REFERENCE(elu_gradient, b > 0 ? a : a * first * exp(b))

typedef struct function_case {
  const char *operation;
  kernel_reference reference;
  size_t inputs;
  double low; /* lower bound of the last input; a gradient's adjoint is in [-2, 2) */
  double high;
  tdm_function_attributes attributes;
} function_case;

static const function_case numbered_cases[] = {
    {TDM_OP_AFFINE, affine_reference, 1, -3, 3, {1.5, -0.25}},
    {"abs", absolute_reference, 1, -3, 3, {0, 0}},
    {"abs_gradient", absolute_gradient_reference, 2, -3, 3, {0, 0}},
    {TDM_OP_EXP, exp_reference, 1, -20, 3, {0, 0}},
    {TDM_OP_LOG, log_reference, 1, 1e-6, 100, {0, 0}},
    {TDM_OP_LOG, log_reference, 1, 0.9, 1.1, {0, 0}},
    {"sqrt", sqrt_reference, 1, 0, 100, {0, 0}},
    {"sqrt_gradient", sqrt_gradient_reference, 2, 0.1, 10, {0, 0}},
    {"rsqrt", rsqrt_reference, 1, 0.01, 100, {0, 0}},
    {"rsqrt_gradient", rsqrt_gradient_reference, 2, 0.1, 3, {0, 0}},
    {"clamp", clamp_reference, 1, -3, 3, {-1, 1.5}},
    {"clamp", clamp_reference, 1, -3, 3, {-INFINITY, 0.5}},
    {"clamp_gradient", clamp_gradient_reference, 2, -3, 3, {-1, 1.5}},
    {"clamp_gradient", clamp_gradient_reference, 2, -3, 3, {-INFINITY, 0.5}},
    {"softplus", softplus_reference, 1, -30, 30, {1, 20}},
    {"softplus", softplus_reference, 1, -5, 5, {2.5, 3}},
    {"softplus_gradient", softplus_gradient_reference, 2, -30, 30, {1, 20}},
    {"elu", elu_reference, 1, -60, 2, {1, 0}},
    {"elu", elu_reference, 1, -1e-3, 1e-3, {0.5, 0}},
    {TDM_OP_FLOOR, floor_reference, 1, -9, 9, {0, 0}},
    {TDM_OP_ROUND, round_reference, 1, -9, 9, {0, 0}},
    {TDM_OP_SIGN, sign_reference, 1, -9, 9, {0, 0}},
    {"elu_gradient", elu_gradient_reference, 2, -5, 2, {0.5, 0}},
};

static void function_case_visit(const function_case *function, tdm_dtype dtype, int64_t count,
                                kernel_visit visit, void *user) {
  kernel_case test = kernel_case_make(
      function->operation, dtype, function->reference, "%lld elements, %g %g %g", (long long)count,
      function->attributes.first, function->attributes.second, function->high);
  test.attributes.function = function->attributes;
  if (function->inputs == 2) kernel_case_input(&test, dtype, tdm_shape_of(1, count), -2, 2);
  kernel_case_input(&test, dtype, tdm_shape_of(1, count), function->low, function->high);
  kernel_case_output(&test, dtype, tdm_shape_of(1, count));
  visit(&test, user);
}

/* Each exponent that goes its own way, whose slope's is one less, and some that do not. */
static void pow_cases(tdm_dtype dtype, kernel_visit visit, void *user) {
  static const double exponents[] = {0, 1, 2, 3, 0.5, -0.5, -1, -2, 1.5, 4, -3, 2.7};
  for (size_t i = 0; i < sizeof exponents / sizeof exponents[0]; i++) {
    const function_case power = {"pow", pow_reference, 1, 0.3, 3, {.first = exponents[i]}};
    const function_case slope = {"pow_gradient",         pow_gradient_reference, 2, 0.3, 3,
                                 {.first = exponents[i]}};
    function_case_visit(&power, dtype, 77, visit, user);
    function_case_visit(&slope, dtype, 77, visit, user);
  }
  const function_case cube = {"pow", pow_reference, 1, -3, 3, {.first = 3}};
  function_case_visit(&cube, dtype, 9001, visit, user);
}

/* ---- Two or three ---------------------------------------------------------------------------- */

/* Returns the position in a broadcast operand for element i of the result (shape). */
static int64_t place_in(const tdm_shape *operand, const tdm_shape *shape, int64_t i) {
  int64_t place = 0, step = 1;
  for (int d = shape->rank - 1; d >= 0; d--) {
    const int at = d - (shape->rank - operand->rank);
    const int64_t index = i % shape->dims[d];
    i /= shape->dims[d];
    if (at < 0) continue;
    if (operand->dims[at] != 1) place += index * step;
    step *= operand->dims[at];
  }
  return place;
}

static double operand_at(const kernel_case *self, const double *const *inputs, size_t k,
                         int64_t i) {
  return inputs[k][place_in(&self->inputs[k].spec.shape, &self->outputs[0].shape, i)];
}

#define BINARY_REFERENCE(name, expression)                                                         \
  static void name##_reference(const kernel_case *self, const double *const *inputs,               \
                               double *const *outputs) {                                           \
    for (int64_t i = 0; i < tdm_shape_count(&self->outputs[0].shape); i++) {                       \
      const double a = operand_at(self, inputs, 0, i), b = operand_at(self, inputs, 1, i);         \
      outputs[0][i] = expression;                                                                  \
    }                                                                                              \
  }

BINARY_REFERENCE(add, a + b)
BINARY_REFERENCE(sub, a - b)
BINARY_REFERENCE(mul, a *b)
BINARY_REFERENCE(div, a / b)
BINARY_REFERENCE(maximum, a > b ? a : b)
BINARY_REFERENCE(minimum, a < b ? a : b)
BINARY_REFERENCE(remainder, fmod(fmod(a, b) + b, b))
BINARY_REFERENCE(integer_remainder, b == 0 ? a : a - floor(a / b) * b)
BINARY_REFERENCE(div_floor, b == 0 ? 0 : floor(a / b))
BINARY_REFERENCE(div_trunc, b == 0 ? 0 : trunc(a / b))
BINARY_REFERENCE(power, pow(a, b))
BINARY_REFERENCE(power_base_slope, b == 0 ? 0 : b * pow(a, b - 1))
BINARY_REFERENCE(power_exponent_slope, a == 0 && b >= 0 ? 0 : pow(a, b) * log(a))
BINARY_REFERENCE(share, a < b ? 0 : a == b ? 0.5 : 1)

static void compare_reference(const kernel_case *self, const double *const *inputs,
                              double *const *outputs) {
  for (int64_t i = 0; i < tdm_shape_count(&self->outputs[0].shape); i++) {
    const double a = operand_at(self, inputs, 0, i);
    const double b = inputs[1] ? operand_at(self, inputs, 1, i) : self->attributes.compare.value;
    const bool results[] = {a<b, a <= b, a> b, a >= b, a == b, a != b};
    outputs[0][i] = results[self->attributes.compare.comparison];
  }
}

static void where_reference(const kernel_case *self, const double *const *inputs,
                            double *const *outputs) {
  for (int64_t i = 0; i < tdm_shape_count(&self->outputs[0].shape); i++) {
    const size_t k = operand_at(self, inputs, 0, i) != 0 ? 1 : 2;
    outputs[0][i] = inputs[k] ? operand_at(self, inputs, k, i) : self->attributes.where.value;
  }
}

typedef struct shapes_case {
  tdm_shape a;
  tdm_shape b;
  tdm_shape out;
} shapes_case;

#define MOST_SHAPES 32
#define LARGE_SHAPES 2 /* number of shapes, at the end, that a team splits */

static size_t broadcast_shapes(bool with_large, shapes_case *cases) {
  const shapes_case found[] = {
      {tdm_shape_of(1, 4099), tdm_shape_of(1, 4099), tdm_shape_of(1, 4099)},
      {tdm_shape_of(2, 37, 50), tdm_shape_of(1, 50), tdm_shape_of(2, 37, 50)},
      {tdm_shape_of(1, 50), tdm_shape_of(2, 37, 50), tdm_shape_of(2, 37, 50)},
      {tdm_shape_of(2, 37, 50), tdm_shape_of(2, 37, 1), tdm_shape_of(2, 37, 50)},
      {tdm_shape_of(2, 37, 1), tdm_shape_of(2, 1, 50), tdm_shape_of(2, 37, 50)},
      {tdm_shape_of(2, 37, 50), tdm_shape_scalar(), tdm_shape_of(2, 37, 50)},
      {tdm_shape_of(1, 1), tdm_shape_of(2, 37, 50), tdm_shape_of(2, 37, 50)},
      {tdm_shape_scalar(), tdm_shape_scalar(), tdm_shape_scalar()},
      {tdm_shape_of(2, 1, 1), tdm_shape_of(1, 1), tdm_shape_of(2, 1, 1)},
      {tdm_shape_of(3, 4, 5, 3), tdm_shape_of(2, 5, 1), tdm_shape_of(3, 4, 5, 3)},
      {tdm_shape_of(4, 2, 1, 6, 1), tdm_shape_of(4, 1, 3, 1, 7), tdm_shape_of(4, 2, 3, 6, 7)},
      {tdm_shape_of(8, 2, 1, 2, 1, 2, 1, 2, 3), tdm_shape_of(8, 2, 2, 1, 2, 1, 2, 1, 3),
       tdm_shape_of(8, 2, 2, 2, 2, 2, 2, 2, 3)},
      {tdm_shape_of(2, 0, 5), tdm_shape_of(1, 5), tdm_shape_of(2, 0, 5)},
      {tdm_shape_of(2, 300, 171), tdm_shape_of(2, 300, 171), tdm_shape_of(2, 300, 171)},
      {tdm_shape_of(1, 50), tdm_shape_of(2, 1700, 50), tdm_shape_of(2, 1700, 50)},
  };
  const size_t count = sizeof found / sizeof found[0] - (with_large ? 0 : LARGE_SHAPES);
  for (size_t i = 0; i < count; i++)
    cases[i] = found[i];
  return count;
}

static const char *shapes_text(const shapes_case *shapes, char text[2 * TDM_SHAPE_TEXT]) {
  char a[TDM_SHAPE_TEXT];
  char b[TDM_SHAPE_TEXT];
  (void)snprintf(text, 2 * TDM_SHAPE_TEXT, "%s %s", tdm_shape_text(&shapes->a, a, sizeof a),
                 tdm_shape_text(&shapes->b, b, sizeof b));
  return text;
}

/* Adds cases with a in [a_low, 5) and b in [low, 5). */
static void binary_cases(const char *operation, tdm_dtype dtype, kernel_reference reference,
                         double a_low, double low, kernel_visit visit, void *user) {
  shapes_case cases[MOST_SHAPES];
  const size_t count = broadcast_shapes(reference == add_reference, cases);
  for (size_t i = 0; i < count; i++) {
    char text[2 * TDM_SHAPE_TEXT];
    kernel_case test =
        kernel_case_make(operation, dtype, reference, "%s", shapes_text(&cases[i], text));
    kernel_case_input(&test, dtype, cases[i].a, a_low, 5);
    kernel_case_input(&test, dtype, cases[i].b, low, 5);
    kernel_case_output(&test, dtype, cases[i].out);
    visit(&test, user);
  }
}

static void integer_affine_reference(const kernel_case *self, const double *const *inputs,
                                     double *const *outputs) {
  const tdm_function_attributes *attributes = &self->attributes.function;
  for (int64_t i = 0; i < input_count_of(self, 0); i++)
    outputs[0][i] = attributes->first * inputs[0][i] + attributes->second;
}

static void integer_affine_cases(tdm_dtype dtype, kernel_visit visit, void *user) {
  static const int64_t lengths[] = {0, 1, 301, 40000};
  for (size_t i = 0; i < TDM_COUNT_OF(lengths); i++) {
    kernel_case test = kernel_case_make(TDM_OP_AFFINE, dtype, integer_affine_reference,
                                        "%lld integers", (long long)lengths[i]);
    test.attributes.function = (tdm_function_attributes){.first = -3, .second = 40};
    kernel_case_input(&test, dtype, tdm_shape_of(1, lengths[i]), -1000, 1000);
    kernel_case_output(&test, dtype, tdm_shape_of(1, lengths[i]));
    visit(&test, user);
  }
}

static void compare_cases(tdm_dtype dtype, kernel_visit visit, void *user) {
  shapes_case cases[MOST_SHAPES];
  const size_t count = broadcast_shapes(dtype == TDM_FLOAT32, cases);
  for (size_t i = 0; i < count; i++)
    for (int k = 0; k < 2; k++) { /* with b, and without */
      char text[2 * TDM_SHAPE_TEXT];
      kernel_case test =
          kernel_case_make(TDM_OP_COMPARE, TDM_BOOL, compare_reference, "%s of %s %d",
                           tdm_dtype_name(dtype), shapes_text(&cases[i], text), k);
      test.attributes.compare =
          (tdm_compare_attributes){.comparison = (int64_t)((i + (size_t)k) % 6), .value = 1};
      const double low = dtype == TDM_UINT8 || dtype == TDM_BOOL ? 0 : -3;
      const double high = dtype == TDM_BOOL ? 2 : 4;
      kernel_case_input(&test, dtype, k == 0 ? cases[i].a : cases[i].out, low, high);
      if (k == 0)
        kernel_case_input(&test, dtype, cases[i].b, low, high);
      else
        kernel_case_absent_input(&test);
      kernel_case_output(&test, TDM_BOOL, cases[i].out);
      visit(&test, user);
    }
}

/* The condition has b's shape, b that of the result; then one of both is absent. */
static void where_cases(tdm_dtype dtype, kernel_visit visit, void *user) {
  shapes_case cases[MOST_SHAPES];
  const size_t count = broadcast_shapes(dtype == TDM_FLOAT32, cases);
  for (size_t i = 0; i < count; i++)
    for (int absent = 0; absent < 3; absent++) {
      char text[2 * TDM_SHAPE_TEXT];
      kernel_case test = kernel_case_make(TDM_OP_WHERE, dtype, where_reference, "%s absent %d",
                                          shapes_text(&cases[i], text), absent);
      const bool is_signed = dtype == TDM_INT32 || dtype == TDM_INT64;
      const bool is_real = dtype == TDM_FLOAT32 || dtype == TDM_FLOAT64;
      test.attributes.where.value = is_real ? -7.5 : is_signed ? -7 : dtype == TDM_UINT8;
      kernel_case_input(&test, TDM_BOOL, cases[i].b, 0, 1);
      if (absent == 1)
        kernel_case_absent_input(&test);
      else
        kernel_case_any_input(&test, dtype, absent == 2 ? cases[i].out : cases[i].a);
      if (absent == 2)
        kernel_case_absent_input(&test);
      else
        kernel_case_any_input(&test, dtype, cases[i].out);
      kernel_case_output(&test, dtype, cases[i].out);
      visit(&test, user);
    }
}

/* ---- The family ------------------------------------------------------------------------------ */

void pointwise_cases(kernel_visit visit, void *user) {
  EACH_REAL(dtype) {
    for (size_t i = 0; i < sizeof numbered_cases / sizeof numbered_cases[0]; i++)
      for (size_t k = 0; k < (i == 0 ? COUNTS : COUNTS - 1); k++)
        function_case_visit(&numbered_cases[i], dtype, counts[k], visit, user);
    pow_cases(dtype, visit, user);
    binary_cases(TDM_OP_ADD, dtype, add_reference, -5, -5, visit, user);
    binary_cases(TDM_OP_SUB, dtype, sub_reference, -5, -5, visit, user);
    binary_cases(TDM_OP_MUL, dtype, mul_reference, -5, -5, visit, user);
    binary_cases(TDM_OP_DIV, dtype, div_reference, -5, 0.5, visit, user);
    binary_cases(TDM_OP_MAXIMUM, dtype, maximum_reference, -5, -5, visit, user);
    binary_cases(TDM_OP_MINIMUM, dtype, minimum_reference, -5, -5, visit, user);
    binary_cases(TDM_OP_MAXIMUM_SHARE, dtype, share_reference, -5, -5, visit, user);
    binary_cases(TDM_OP_REMAINDER, dtype, remainder_reference, -5, 0.5, visit, user);
    binary_cases(TDM_OP_POWER, dtype, power_reference, 0.1, -5, visit, user);
    binary_cases(TDM_OP_POWER_BASE_SLOPE, dtype, power_base_slope_reference, 0.3, -3, visit, user);
    binary_cases(TDM_OP_POWER_EXPONENT_SLOPE, dtype, power_exponent_slope_reference, 0.3, -3, visit,
                 user);
    compare_cases(dtype, visit, user);
  }
  for (size_t i = 0; i < EVERY_DTYPE; i++)
    where_cases(every_dtype[i], visit, user);
  static const tdm_dtype integers[] = {TDM_INT32, TDM_INT64};
  for (size_t i = 0; i < TDM_COUNT_OF(integers); i++) {
    binary_cases(TDM_OP_ADD, integers[i], add_reference, -1000, -1000, visit, user);
    binary_cases(TDM_OP_SUB, integers[i], sub_reference, -1000, -1000, visit, user);
    binary_cases(TDM_OP_MUL, integers[i], mul_reference, -1000, -1000, visit, user);
    binary_cases(TDM_OP_MAXIMUM, integers[i], maximum_reference, -5, -5, visit, user);
    binary_cases(TDM_OP_MINIMUM, integers[i], minimum_reference, -5, -5, visit, user);
    binary_cases(TDM_OP_REMAINDER, integers[i], integer_remainder_reference, -99, -4, visit, user);
    binary_cases(TDM_OP_DIV_FLOOR, integers[i], div_floor_reference, -99, -4, visit, user);
    binary_cases(TDM_OP_DIV_TRUNC, integers[i], div_trunc_reference, -99, -4, visit, user);
    integer_affine_cases(integers[i], visit, user);
    compare_cases(integers[i], visit, user);
  }
  compare_cases(TDM_UINT8, visit, user);
  compare_cases(TDM_BOOL, visit, user);
}
