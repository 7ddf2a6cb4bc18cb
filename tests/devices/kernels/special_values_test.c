/* Results at the limits of numbers: NaN, infinities, saturation; and the precision of the
 * transcendental functions, element by element. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <string.h>

#include "tests/devices/kernels/direct.h"

#define EACH_ISA(isa)                                                                              \
  for (const char *const *isa = direct_isas; isa < direct_isas + direct_isa_count; isa++)

/* Runs an elementwise operation of one input on count elements; false without the instruction
 * set. */
static bool run_unary(const char *isa, const char *operation, tdm_dtype dtype, const void *x,
                      void *y, int64_t count) {
  const tdm_kernel *kernel = direct_kernel(isa, operation, dtype);
  if (!kernel) return false;
  const direct_operand operands[] = {{dtype, tdm_shape_of(1, count), (void *)x},
                                     {dtype, tdm_shape_of(1, count), y}};
  const tdm_function_attributes none = {0, 0}; /* attributes for functions that have any */
  assert_int_equal(direct_run(kernel, &none, operands, 1, 1, NULL), TDM_OK);
  return true;
}

/* ---- Activations ----------------------------------------------------------------------------- */

static void activations_keep_nan_and_limits(void **state) {
  (void)state;
  const float x[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, FLT_MAX, -FLT_MAX};
  float y[7];
  EACH_ISA(isa) {
    if (!run_unary(*isa, "tanh", TDM_FLOAT32, x, y, 7)) continue;
    assert_true(isnan(y[0]));
    assert_true(y[1] == 1 && y[2] == -1 && y[5] == 1 && y[6] == -1);
    assert_true(y[3] == 0 && y[4] == 0 && signbit(y[4]) && !signbit(y[3]));
    (void)run_unary(*isa, "sigmoid", TDM_FLOAT32, x, y, 7);
    assert_true(isnan(y[0]));
    assert_true(y[1] == 1 && y[2] == 0 && y[3] == 0.5f && y[4] == 0.5f && y[5] == 1 && y[6] == 0);
    (void)run_unary(*isa, "relu", TDM_FLOAT32, x, y, 7);
    assert_true(isnan(y[0]));
    assert_true(y[1] == INFINITY && y[2] == 0 && y[5] == FLT_MAX && y[6] == 0);
  }
}

/* Relative to the exact value, also where that is almost zero. Beyond, the result may be 0. */
static void gelu_is_right_to_a_few_bits(void **state) {
  (void)state;
  enum { COUNT = 21000 };
  static float x[COUNT], y[COUNT];
  for (int i = 0; i < COUNT; i++)
    x[i] = -13.0f + (float)i * 1e-3f;
  x[0] = -14.0f;
  x[1] = -1e30f;
  x[2] = NAN;
  x[3] = INFINITY;
  EACH_ISA(isa) {
    if (!run_unary(*isa, "gelu", TDM_FLOAT32, x, y, COUNT)) continue;
    assert_true(fabsf(y[0]) < 1e-37f && y[1] == 0 && isnan(y[2]) && y[3] == INFINITY);
    for (int i = 4; i < COUNT; i++) {
      const double wanted = 0.5 * (double)x[i] * erfc(-(double)x[i] / sqrt(2));
      if (fabs((double)y[i] - wanted) > 1e-6 * fabs(wanted))
        fail_msg("%s: gelu(%g) is %g, not %g", *isa, (double)x[i], (double)y[i], wanted);
    }
  }
}

static void functions_keep_nan_and_limits(void **state) {
  (void)state;
  const float x[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, FLT_MIN / 4, -1.0f};
  float y[7];
  EACH_ISA(isa) {
    if (!run_unary(*isa, TDM_OP_EXP, TDM_FLOAT32, x, y, 7)) continue;
    assert_true(isnan(y[0]) && y[1] == INFINITY && y[2] == 0 && y[3] == 1 && y[4] == 1);
    (void)run_unary(*isa, TDM_OP_LOG, TDM_FLOAT32, x, y, 7);
    assert_true(isnan(y[0]) && y[1] == INFINITY && isnan(y[2]) && isnan(y[6]));
    assert_true(y[3] == -INFINITY && y[4] == -INFINITY);
    assert_true(fabs((double)y[5] - log((double)x[5])) < 1e-5);
    (void)run_unary(*isa, "abs", TDM_FLOAT32, x, y, 7);
    assert_true(isnan(y[0]) && y[2] == INFINITY && !signbit(y[4]) && y[6] == 1);
  }
}

/* Gradients at kinks, of an infinity and of a NaN, times an adjoint of 2, as in PyTorch since
 * 2.15. */
static void slopes_at_kinks(void **state) {
  (void)state;
  static const struct {
    const char *operation;
    double first; /* value of the first attribute */
    double second;
    float slopes[7]; /* gradients at -3, -1, 0, 1, 3, infinity and a NaN */
  } cases[] = {
      {"clamp_gradient", -1, 1, {0, 0, 2, 0, 0, 0, 0}},
      {"clamp_gradient", 0, INFINITY, {0, 0, 0, 2, 2, 2, 0}},
      {"hardswish_gradient", 0, 0, {0, 1.0f / 3, 1, 5.0f / 3, 2, 2, NAN}},
      {"hardsigmoid_gradient", 0, 0, {0, 1.0f / 3, 1.0f / 3, 1.0f / 3, 0, 0, 0}},
      {"relu_gradient", 0, 0, {0, 0, 0, 2, 2, 2, 2}},
      {"elu_gradient", 2, 0, {0.199148f, 1.471518f, 4, 2, 2, 2, NAN}},
  };
  float d[] = {2, 2, 2, 2, 2, 2, 2}, x[] = {-3, -1, 0, 1, 3, INFINITY, NAN}, d_x[7];
  const tdm_shape shape = tdm_shape_of(1, 7);
  const direct_operand operands[] = {
      {TDM_FLOAT32, shape, d}, {TDM_FLOAT32, shape, x}, {TDM_FLOAT32, shape, d_x}};
  EACH_ISA(isa) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
      const tdm_kernel *kernel = direct_kernel(*isa, cases[i].operation, TDM_FLOAT32);
      if (!kernel) continue;
      const tdm_function_attributes attributes = {cases[i].first, cases[i].second};
      assert_int_equal(direct_run(kernel, &attributes, operands, 2, 1, NULL), TDM_OK);
      for (int k = 0; k < 7; k++) {
        const float wanted = cases[i].slopes[k];
        if (isnan(wanted) ? !isnan(d_x[k]) : !(fabsf(d_x[k] - wanted) < 1e-5f))
          fail_msg("%s of %g: %g, not %g", cases[i].operation, (double)x[k], (double)d_x[k],
                   (double)wanted);
      }
    }
  }
}

/* The larger and the smaller of a and b are NaN if either is NaN. */
static void extremes_of_two_keep_nan(void **state) {
  (void)state;
  float a[] = {NAN, 1, 2, -INFINITY, NAN}, b[] = {1, NAN, 3, 5, NAN}, y[5];
  EACH_ISA(isa) {
    for (int least = 0; least < 2; least++) {
      const char *operation = least == 1 ? TDM_OP_MINIMUM : TDM_OP_MAXIMUM;
      const tdm_kernel *kernel = direct_kernel(*isa, operation, TDM_FLOAT32);
      if (!kernel) continue;
      const tdm_shape shape = tdm_shape_of(1, 5);
      const direct_operand operands[] = {
          {TDM_FLOAT32, shape, a}, {TDM_FLOAT32, shape, b}, {TDM_FLOAT32, shape, y}};
      assert_int_equal(direct_run(kernel, NULL, operands, 2, 1, NULL), TDM_OK);
      assert_true(isnan(y[0]) && isnan(y[1]) && isnan(y[4]));
      assert_true(y[2] == (least == 1 ? 2 : 3) && y[3] == (least == 1 ? -INFINITY : 5));
    }
  }
}

/* Returns the error of got in units of the last place of expected. */
static double ulps(double got, double expected, double epsilon) {
  return expected == 0 ? fabs(got) : fabs((got - expected) / expected) / epsilon;
}

typedef double (*exact_function)(double x);

static double exact_tanh(double x) {
  return tanh(x);
}

static double exact_exp(double x) {
  return exp(x);
}

static double exact_log(double x) {
  return log(x);
}

static double exact_sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

/* Returns the worst error over both signs and magnitudes from 2^-40 to 2^8. */
static double worst_error(const char *isa, const char *operation, tdm_dtype dtype,
                          exact_function exact) {
  enum { MAGNITUDES = 2000, COUNT = 2 * MAGNITUDES };
  static double wide_x[COUNT], wide_y[COUNT];
  static float x[COUNT], y[COUNT];
  const bool wide = dtype == TDM_FLOAT64;
  double worst = 0;
  for (int i = 0; i < COUNT; i++) {
    const int step = i / 2;
    const double magnitude = exp2(-40 + 48.0 * step / MAGNITUDES);
    wide_x[i] = i % 2 == 0 ? magnitude : -magnitude;
    x[i] = (float)wide_x[i];
    if (!wide) wide_x[i] = (double)x[i];
  }
  if (!run_unary(isa, operation, dtype, wide ? (void *)wide_x : (void *)x,
                 wide ? (void *)wide_y : (void *)y, COUNT)) {
    return 0;
  }
  for (int i = 0; i < COUNT; i++) {
    const double expected = exact(wide_x[i]);
    if (!(fabs(expected) >= (wide ? DBL_MIN : FLT_MIN)) || isinf(expected)) continue;
    if (!wide && fabs(expected) > (double)FLT_MAX) continue;
    const double error =
        ulps(wide ? wide_y[i] : (double)y[i], expected, wide ? DBL_EPSILON : FLT_EPSILON);
    if (error > worst) worst = error;
  }
  return worst;
}

static void transcendental_functions_are_exact_to_a_few_bits(void **state) {
  (void)state;
  EACH_ISA(isa) {
    assert_true(worst_error(*isa, "tanh", TDM_FLOAT32, exact_tanh) < 4);
    assert_true(worst_error(*isa, "tanh", TDM_FLOAT64, exact_tanh) < 4);
    assert_true(worst_error(*isa, "sigmoid", TDM_FLOAT32, exact_sigmoid) < 4);
    assert_true(worst_error(*isa, "sigmoid", TDM_FLOAT64, exact_sigmoid) < 4);
    assert_true(worst_error(*isa, TDM_OP_EXP, TDM_FLOAT32, exact_exp) < 4);
    assert_true(worst_error(*isa, TDM_OP_EXP, TDM_FLOAT64, exact_exp) < 4);
    assert_true(worst_error(*isa, TDM_OP_LOG, TDM_FLOAT32, exact_log) < 4);
    assert_true(worst_error(*isa, TDM_OP_LOG, TDM_FLOAT64, exact_log) < 4);
  }
}

/* ---- Softmax and losses -------------------------------------------------------------------------
 */

static void softmax_of_infinities(void **state) {
  (void)state;
  const float x[] = {1,
                     -INFINITY,
                     1,
                     /* row */ -INFINITY,
                     -INFINITY,
                     -INFINITY,
                     /* row */ 1000,
                     1000,
                     -1000,
                     /* row */ NAN,
                     0,
                     0};
  float y[12];
  const tdm_softmax_attributes attributes = {.dimension = 1};
  const direct_operand operands[] = {{TDM_FLOAT32, tdm_shape_of(2, 4, 3), (void *)x},
                                     {TDM_FLOAT32, tdm_shape_of(2, 4, 3), y}};
  EACH_ISA(isa) {
    const tdm_kernel *kernel = direct_kernel(*isa, TDM_OP_SOFTMAX, TDM_FLOAT32);
    if (!kernel) continue;
    assert_int_equal(direct_run(kernel, &attributes, operands, 1, 1, NULL), TDM_OK);
    assert_true(y[0] == 0.5f && y[1] == 0 && y[2] == 0.5f);
    assert_true(isnan(y[3]) && isnan(y[4]) && isnan(y[5]));
    assert_true(y[6] == 0.5f && y[7] == 0.5f && y[8] == 0);
    assert_true(isnan(y[9]) && isnan(y[10]) && isnan(y[11]));
  }
}

static void loss_without_targets_is_nan(void **state) {
  (void)state;
  float logits[4] = {1, 2, 3, 4}, log_probabilities[4], d_logits[4], d_loss = 1, loss, divisor;
  int64_t targets[2] = {-100, -100};
  const tdm_loss_attributes attributes = {.reduction = TDM_REDUCTION_MEAN, .ignore_index = -100};
  const direct_operand classes = {TDM_INT64, tdm_shape_of(1, 2), targets};
  const direct_operand forward[] = {{TDM_FLOAT32, tdm_shape_of(2, 2, 2), logits},
                                    classes,
                                    {TDM_FLOAT32, tdm_shape_scalar(), &loss},
                                    {TDM_FLOAT32, tdm_shape_of(2, 2, 2), log_probabilities},
                                    {TDM_FLOAT32, tdm_shape_scalar(), &divisor}};
  const direct_operand backward[] = {{TDM_FLOAT32, tdm_shape_scalar(), &d_loss},
                                     {TDM_FLOAT32, tdm_shape_of(2, 2, 2), log_probabilities},
                                     classes,
                                     {TDM_FLOAT32, tdm_shape_scalar(), &divisor},
                                     {TDM_FLOAT32, tdm_shape_of(2, 2, 2), d_logits}};
  EACH_ISA(isa) {
    const tdm_kernel *kernel = direct_kernel(*isa, TDM_OP_CROSS_ENTROPY, TDM_FLOAT32);
    if (!kernel) continue;
    assert_int_equal(direct_run(kernel, &attributes, forward, 2, 3, NULL), TDM_OK);
    assert_true(isnan(loss) && divisor == 0);
    kernel = direct_kernel(*isa, TDM_OP_CROSS_ENTROPY_GRADIENT, TDM_FLOAT32);
    assert_int_equal(direct_run(kernel, &attributes, backward, 4, 1, NULL), TDM_OK);
    for (int i = 0; i < 4; i++)
      assert_true(d_logits[i] == 0);
  }
}

static void clip_factor_of_nan_is_nan(void **state) {
  (void)state;
  double sum = NAN, factor = 0, rounded = 0;
  const tdm_clip_attributes attributes = {.max_norm = 1};
  const direct_operand operands[] = {{TDM_FLOAT64, tdm_shape_scalar(), &sum},
                                     {TDM_FLOAT64, tdm_shape_scalar(), &rounded},
                                     {TDM_FLOAT64, tdm_shape_scalar(), &factor}};
  const tdm_kernel *kernel = direct_kernel("baseline", TDM_OP_CLIP_FACTOR, TDM_FLOAT64);
  assert_int_equal(direct_run(kernel, &attributes, operands, 1, 2, NULL), TDM_OK);
  assert_true(isnan(factor) && isnan(rounded));
}

/* ---- Conversion ------------------------------------------------------------------------------ */

static void run_cast(const char *isa, tdm_dtype from, const void *x, tdm_dtype to, void *y,
                     int64_t count) {
  const tdm_kernel *kernel = direct_kernel(isa, TDM_OP_CAST, to);
  const direct_operand operands[] = {{from, tdm_shape_of(1, count), (void *)x},
                                     {to, tdm_shape_of(1, count), y}};
  assert_int_equal(direct_run(kernel, NULL, operands, 1, 1, NULL), TDM_OK);
}

static void floats_saturate_in_integers(void **state) {
  (void)state;
  const double x[] = {NAN, INFINITY, -INFINITY, 1e30, -1e30, 2.9, -2.9, 0x1p63, -0x1p63};
  const int64_t wide[] = {0, INT64_MAX, INT64_MIN, INT64_MAX, INT64_MIN,
                          2, -2,        INT64_MAX, INT64_MIN};
  const int32_t narrow[] = {0, INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN,
                            2, -2,        INT32_MAX, INT32_MIN};
  const uint8_t bytes[] = {0, 255, 0, 255, 0, 2, 0, 255, 0};
  const uint8_t truth[] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  int64_t got_wide[9];
  int32_t got_narrow[9];
  uint8_t got_bytes[9];
  EACH_ISA(isa) {
    if (!direct_kernel(*isa, TDM_OP_CAST, TDM_INT64)) continue;
    run_cast(*isa, TDM_FLOAT64, x, TDM_INT64, got_wide, 9);
    assert_memory_equal(got_wide, wide, sizeof wide);
    run_cast(*isa, TDM_FLOAT64, x, TDM_INT32, got_narrow, 9);
    assert_memory_equal(got_narrow, narrow, sizeof narrow);
    run_cast(*isa, TDM_FLOAT64, x, TDM_UINT8, got_bytes, 9);
    assert_memory_equal(got_bytes, bytes, sizeof bytes);
    run_cast(*isa, TDM_FLOAT64, x, TDM_BOOL, got_bytes, 9);
    assert_memory_equal(got_bytes, truth, sizeof truth);
  }
}

static void integers_pass_exactly(void **state) {
  (void)state;
  const int64_t x[] = {INT64_MAX, INT64_MIN, (1LL << 53) + 1, -1, 0, (1LL << 32) + 5};
  const int32_t narrow[] = {-1, 0, 1, -1, 0, 5};
  int64_t same[6];
  int32_t got[6];
  float rounded[6];
  EACH_ISA(isa) {
    if (!direct_kernel(*isa, TDM_OP_CAST, TDM_INT64)) continue;
    run_cast(*isa, TDM_INT64, x, TDM_INT64, same, 6);
    assert_memory_equal(same, x, sizeof x);
    run_cast(*isa, TDM_INT64, x, TDM_INT32, got, 6);
    assert_memory_equal(got, narrow, sizeof narrow);
    run_cast(*isa, TDM_INT64, x, TDM_FLOAT32, rounded, 6);
    for (int i = 0; i < 6; i++)
      assert_true(rounded[i] == (float)x[i]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(activations_keep_nan_and_limits),
      cmocka_unit_test(gelu_is_right_to_a_few_bits),
      cmocka_unit_test(functions_keep_nan_and_limits),
      cmocka_unit_test(slopes_at_kinks),
      cmocka_unit_test(extremes_of_two_keep_nan),
      cmocka_unit_test(transcendental_functions_are_exact_to_a_few_bits),
      cmocka_unit_test(softmax_of_infinities),
      cmocka_unit_test(loss_without_targets_is_nan),
      cmocka_unit_test(clip_factor_of_nan_is_nan),
      cmocka_unit_test(floats_saturate_in_integers),
      cmocka_unit_test(integers_pass_exactly),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
