/* Cases of activations, sums and whole-tensor reductions. */
#include "tests/devices/kernels/cases.h"

#include <math.h>
#include <string.h>

static const int64_t counts[] = {0, 1, 3, 15, 16, 17, 100, 4099, 70001};
#define COUNTS (sizeof counts / sizeof counts[0])

/* ---- One or two operands --------------------------------------------------------------------- */

/* Defines a reference whose element is expression, in a and b. */
#define REFERENCE(name, expression)                                                                \
  static void name##_reference(const kernel_case *self, const double *const *inputs,               \
                               double *const *outputs) {                                           \
    for (int64_t i = 0; i < input_count_of(self, 0); i++) {                                        \
      const double a = inputs[0][i], b = self->input_count > 1 ? inputs[1][i] : 0;                 \
      (void)b;                                                                                     \
      outputs[0][i] = expression;                                                                  \
    }                                                                                              \
  }

REFERENCE(relu, a > 0 ? a : 0)
REFERENCE(tanh, tanh(a))
REFERENCE(sigmoid, 1 / (1 + exp(-a)))
REFERENCE(relu_gradient, b > 0 ? a : 0)
REFERENCE(tanh_gradient, a *(1 - b * b))
REFERENCE(sigmoid_gradient, a *b *(1 - b))
REFERENCE(silu, a / (1 + exp(-a)))
REFERENCE(silu_gradient, a / (1 + exp(-b)) * (1 + b * (1 - 1 / (1 + exp(-b)))))
REFERENCE(gelu, a / 2 * (1 + erf(a / sqrt(2))))
REFERENCE(gelu_gradient, a *((1 + erf(b / sqrt(2))) / 2 + b * exp(-b * b / 2) / sqrt(2 * acos(-1))))
REFERENCE(gelu_tanh, a / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (a + 0.044715 * a * a * a))))
REFERENCE(leaky_relu, a < 0 ? self->attributes.leaky_relu.slope * a : a)
REFERENCE(leaky_relu_gradient, b > 0 ? a : self->attributes.leaky_relu.slope * a)

static void gelu_tanh_gradient_reference(const kernel_case *self, const double *const *inputs,
                                         double *const *outputs) {
  const double scale = sqrt(2 / acos(-1));
  for (int64_t i = 0; i < input_count_of(self, 0); i++) {
    const double x = inputs[1][i], t = tanh(scale * (x + 0.044715 * x * x * x));
    const double slope = (1 - t * t) * scale * (1 + 3 * 0.044715 * x * x);
    outputs[0][i] = inputs[0][i] * ((1 + t) / 2 + x / 2 * slope);
  }
}

static void simple_case(const char *operation, tdm_dtype dtype, kernel_reference reference,
                        size_t inputs, double range, kernel_visit visit, void *user) {
  for (size_t i = 0; i < COUNTS; i++) {
    kernel_case test = kernel_case_make(operation, dtype, reference, "%lld elements, range %g",
                                        (long long)counts[i], range);
    const tdm_shape shape = tdm_shape_of(1, counts[i]);
    if (strncmp(operation, "leaky", 5) == 0) test.attributes.leaky_relu.slope = 0.2;
    test.attributes.gelu.by_tanh |=
        reference == gelu_tanh_reference || reference == gelu_tanh_gradient_reference;
    for (size_t input = 0; input < inputs; input++)
      kernel_case_input(&test, dtype, shape, -range, range);
    kernel_case_output(&test, dtype, shape);
    visit(&test, user);
  }
}

/* ---- accumulate, scale, divide --------------------------------------------------------------- */

static void accumulate_reference(const kernel_case *self, const double *const *inputs,
                                 double *const *outputs) {
  for (int64_t i = 0; i < input_count_of(self, 0); i++) {
    double sum = 0;
    for (size_t input = 0; input < self->input_count; input++)
      sum += inputs[input][i];
    outputs[0][i] = sum;
  }
}

static void scale_reference(const kernel_case *self, const double *const *inputs,
                            double *const *outputs) {
  for (int64_t i = 0; i < input_count_of(self, 0); i++)
    outputs[0][i] = inputs[0][i] * inputs[1][0];
}

static void divide_reference(const kernel_case *self, const double *const *inputs,
                             double *const *outputs) {
  for (int64_t i = 0; i < input_count_of(self, 0); i++)
    outputs[0][i] = inputs[0][i] / inputs[1][0];
}

static void scale_case(const char *operation, tdm_dtype dtype, kernel_reference reference,
                       int64_t count, kernel_visit visit, void *user) {
  kernel_case test =
      kernel_case_make(operation, dtype, reference, "%lld elements", (long long)count);
  kernel_case_input(&test, dtype, tdm_shape_of(1, count), -2, 2);
  kernel_case_input(&test, dtype, tdm_shape_scalar(), 0.5, 3);
  kernel_case_output(&test, dtype, tdm_shape_of(1, count));
  visit(&test, user);
}

/* ---- Reductions ------------------------------------------------------------------------------ */

static void sum_of_squares_reference(const kernel_case *self, const double *const *inputs,
                                     double *const *outputs) {
  outputs[0][0] = 0;
  for (int64_t i = 0; i < input_count_of(self, 0); i++)
    outputs[0][0] += inputs[0][i] * inputs[0][i];
  outputs[1][0] = outputs[0][0];
  if (self->dtype == TDM_FLOAT32) outputs[0][0] = (double)(float)outputs[0][0];
}

static void clip_factor_reference(const kernel_case *self, const double *const *inputs,
                                  double *const *outputs) {
  const double factor = self->attributes.clip.max_norm / (sqrt(inputs[0][0]) + 1e-6);
  outputs[0][0] = outputs[1][0] = factor < 1 ? factor : 1;
}

static void check_finite_reference(const kernel_case *self, const double *const *inputs,
                                   double *const *outputs) {
  for (int64_t i = 0; i < input_count_of(self, 0); i++)
    outputs[0][i] = inputs[0][i];
}

static void whole_tensor_cases(tdm_dtype dtype, int64_t count, kernel_visit visit, void *user) {
  for (int large = 0; large < 2; large++) { /* squares of 1e25 leave the range of float32 */
    const double size = large ? 1e25 : 1;
    kernel_case squares = kernel_case_make(TDM_OP_SUM_OF_SQUARES, dtype, sum_of_squares_reference,
                                           "%lld elements of %g", (long long)count, size);
    kernel_case_input(&squares, dtype, tdm_shape_of(1, count), -2 * size, 3 * size);
    kernel_case_output(&squares, dtype, tdm_shape_scalar());
    kernel_case_output(&squares, TDM_FLOAT64, tdm_shape_scalar());
    visit(&squares, user);
  }

  kernel_case finite = kernel_case_make(TDM_OP_CHECK_FINITE, dtype, check_finite_reference,
                                        "%lld elements", (long long)count);
  kernel_case_input(&finite, dtype, tdm_shape_of(1, count), -2, 3);
  kernel_case_overwrite(&finite, 0);
  visit(&finite, user);
}

static void clip_cases(tdm_dtype dtype, kernel_visit visit, void *user) {
  static const double sums[] = {0.0, 0.01, 24.9, 1e6};
  for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
    kernel_case test =
        kernel_case_make(TDM_OP_CLIP_FACTOR, dtype, clip_factor_reference, "sum %g", sums[i]);
    test.attributes.clip.max_norm = 5.0;
    kernel_case_input(&test, TDM_FLOAT64, tdm_shape_scalar(), sums[i], sums[i]);
    kernel_case_output(&test, dtype, tdm_shape_scalar());
    kernel_case_output(&test, TDM_FLOAT64, tdm_shape_scalar());
    visit(&test, user);
  }
}

/* ---- The family ------------------------------------------------------------------------------ */

static void real_cases(tdm_dtype dtype, kernel_visit visit, void *user) {
  static const double ranges[] = {1e-4, 1, 30, 1000}; /* tiny, usual, saturating, beyond exp */
  for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
    simple_case("tanh", dtype, tanh_reference, 1, ranges[i], visit, user);
    simple_case("sigmoid", dtype, sigmoid_reference, 1, ranges[i], visit, user);
    simple_case("silu", dtype, silu_reference, 1, ranges[i], visit, user);
    simple_case("gelu", dtype, gelu_reference, 1, ranges[i], visit, user);
    simple_case("gelu", dtype, gelu_tanh_reference, 1, ranges[i], visit, user);
  }
  simple_case("relu", dtype, relu_reference, 1, 2, visit, user);
  simple_case("relu_gradient", dtype, relu_gradient_reference, 2, 2, visit, user);
  simple_case("tanh_gradient", dtype, tanh_gradient_reference, 2, 1, visit, user);
  simple_case("sigmoid_gradient", dtype, sigmoid_gradient_reference, 2, 1, visit, user);
  simple_case("silu_gradient", dtype, silu_gradient_reference, 2, 8, visit, user);
  simple_case("gelu_gradient", dtype, gelu_gradient_reference, 2, 8, visit, user);
  simple_case("gelu_gradient", dtype, gelu_tanh_gradient_reference, 2, 8, visit, user);
  simple_case("leaky_relu", dtype, leaky_relu_reference, 1, 2, visit, user);
  simple_case("leaky_relu_gradient", dtype, leaky_relu_gradient_reference, 2, 2, visit, user);
  simple_case(TDM_OP_ACCUMULATE, dtype, accumulate_reference, 1, 5, visit, user);
  simple_case(TDM_OP_ACCUMULATE, dtype, accumulate_reference, 3, 5, visit, user);
  simple_case(TDM_OP_ACCUMULATE, dtype, accumulate_reference, 16, 4, visit, user);
  for (size_t i = 0; i < COUNTS; i++) {
    scale_case(TDM_OP_SCALE, dtype, scale_reference, counts[i], visit, user);
    scale_case(TDM_OP_DIVIDE, dtype, divide_reference, counts[i], visit, user);
    whole_tensor_cases(dtype, counts[i], visit, user);
  }
  clip_cases(dtype, visit, user);
}

void elementwise_cases(kernel_visit visit, void *user) {
  EACH_REAL(dtype) real_cases(dtype, visit, user);
}
