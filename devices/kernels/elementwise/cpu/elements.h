/* The formulas of elementwise operations, for vectors. Each operation's gradient follows it.
 * Invariants: an element of a result depends only on the same element of the operands; NaN stays
 * NaN, except that its sign is 0. */
#ifndef TANDEM_DEVICES_KERNELS_ELEMENTWISE_CPU_ELEMENTS_H
#define TANDEM_DEVICES_KERNELS_ELEMENTWISE_CPU_ELEMENTS_H

#include <math.h>

#include "devices/kernels/cpu/vector_math.h"

/* ---- What takes more than a line ---------------------------------------------------------------
 */

#define SQRT_HALF ((real)0.70710678118654752440)

/* vec_bell: e^(-x^2 / 2). vec_normal: the share of a normal distribution that lies below x, of
 * which bell is that; its relative error is small, also where it is next to nothing. */
#if TDM_REAL_BITS == 64
ALWAYS_INLINE vec vec_bell(vec x) {
  return vec_exp((real)-0.5 * x * x);
}

ALWAYS_INLINE vec vec_normal(vec x, vec bell) {
  (void)bell;
  for (int i = 0; i < LANES; i++)
    x[i] = 0.5 * erfc(x[i] * -SQRT_HALF);
  return x;
}
#else
/* x^2 in two parts, the first of which is exact: what an exponent is rounded by is the relative
 * error of the power. Less than the least normal number is 0. */
ALWAYS_INLINE vec vec_bell(vec x) {
  const vec_bits few_bits = (vec_bits){0} - 4096;
  const vec high = (vec)((vec_bits)x & few_bits);
  const vec whole = -0.5f * high * high, rest = -0.5f * (x - high) * (x + high);
  const vec shifted = whole * LOG2_E + ROUNDER;
  const vec n = shifted - ROUNDER;
  const vec series = vec_exp_series((whole - n * LN2_HIGH) + (rest - n * LN2_LOW));
  const vec_bits exponent = (vec_bits)shifted - (vec_bits)vec_set(ROUNDER);
  return (vec)((vec_bits)((1 + series) * vec_power_of_two(exponent)) & (exponent > -EXPONENT_BIAS));
}

/* Below -|x| lies bell times a function that falls like 1 / |x|: a polynomial of 1 / (1 + 0.21
 * |x|), the best of its degree up to 14.5, within 2e-8. */
ALWAYS_INLINE vec vec_normal(vec x, vec bell) {
  static const float terms[] = {0.0837151533f,  0.0850124029f,  0.0695700099f,
                                0.1234710819f,  -0.0907701572f, 0.3449830403f,
                                -0.3264900063f, 0.2818029467f,  -0.0712944620f};
  const int count = sizeof terms / sizeof *terms;
  const vec t = 1 / (1 + 0.21f * vec_absolute(x));
  vec sum = vec_set(terms[count - 1]);
#pragma GCC unroll 16
  for (int i = count - 2; i >= 0; i--)
    sum = sum * t + terms[i];
  const vec below = sum * t * bell;
  return vec_select(x < (vec){0}, below, 1 - below);
}
#endif

/* vec_each_NAME: the C library's function, element by element. */
#define VEC_EACH(name)                                                                             \
  ALWAYS_INLINE vec vec_each_##name(vec x) {                                                       \
    for (int i = 0; i < LANES; i++)                                                                \
      x[i] = TDM_REAL_BITS == 64 ? (real)name(x[i]) : (real)name##f((float)x[i]);                  \
    return x;                                                                                      \
  }
VEC_EACH(sin)
VEC_EACH(cos)
VEC_EACH(erf)
VEC_EACH(floor)
VEC_EACH(rint)

#define SQRT_TWO_OVER_PI ((real)0.79788456080286535588)
#define INVERSE_SQRT_TWO_PI ((real)0.39894228040143267794)
#define TWO_OVER_SQRT_PI ((real)1.12837916709551257390)
#define CUBIC ((real)0.044715)
#define SIXTH ((real)(1.0f / 6.0f)) /* rounded to float for every dtype, as in PyTorch */

ALWAYS_INLINE vec vec_gelu(vec x, bool by_tanh) {
  if (!by_tanh) return x * vec_normal(x, vec_bell(x));
  return (real)0.5 * x * (1 + vec_tanh(SQRT_TWO_OVER_PI * (x + CUBIC * x * x * x)));
}

ALWAYS_INLINE vec vec_gelu_slope(vec x, bool by_tanh) {
  if (!by_tanh) {
    const vec bell = vec_bell(x);
    return vec_normal(x, bell) + x * (INVERSE_SQRT_TWO_PI * bell);
  }
  const vec t = vec_tanh(SQRT_TWO_OVER_PI * (x + CUBIC * x * x * x));
  const vec inner = SQRT_TWO_OVER_PI * (1 + 3 * CUBIC * x * x);
  return (real)0.5 * (1 + t) + (real)0.5 * x * (1 - t * t) * inner;
}

ALWAYS_INLINE vec vec_silu_slope(vec x) {
  const vec s = vec_sigmoid(x);
  return s * (1 + x * (1 - s));
}

/* Computes the exponents for which PyTorch has a special case without logarithms, and others with
 * the C library. */
ALWAYS_INLINE vec vec_pow(vec x, real exponent) {
  if (exponent == 0) return vec_set(1);
  if (exponent == 1) return x;
  if (exponent == 2) return x * x;
  if (exponent == 3) return x * x * x;
  if (exponent == (real)0.5) return vec_sqrt(x);
  if (exponent == (real)-0.5) return 1 / vec_sqrt(x);
  if (exponent == -1) return 1 / x;
  if (exponent == -2) return 1 / (x * x);
  for (int i = 0; i < LANES; i++)
    x[i] = TDM_REAL_BITS == 64 ? (real)pow(x[i], exponent) : powf((float)x[i], (float)exponent);
  return x;
}

/* The gradient of the power 0 is 0, whatever x and d are. */
ALWAYS_INLINE vec vec_pow_gradient(vec d, vec x, real exponent) {
  return exponent == 0 ? (vec){0} : d * (exponent * vec_pow(x, exponent - 1));
}

ALWAYS_INLINE vec vec_clamp(vec x, vec least, vec most) {
  x = vec_select(x < least, least, x);
  return vec_select(x > most, most, x);
}

/* d where x lies between the ends, 0 at them, beyond, and of NaN; an infinite end is none. */
ALWAYS_INLINE vec vec_between(vec d, vec x, vec least, vec most) {
  const vec infinity = vec_set((real)INFINITY);
  const vec_bits above = (x > least) | ((least == -infinity) & (x == least));
  const vec_bits below = (x < most) | ((most == infinity) & (x == most));
  return vec_select(above & below, d, (vec){0});
}

/* log(1 + e^(beta x)) / beta, and x where beta x is above threshold. */
ALWAYS_INLINE vec vec_softplus(vec x, real beta, real threshold) {
  const vec scaled = x * beta;
  const vec rest = vec_log1p_of_fraction(vec_exp(-vec_absolute(scaled)));
  const vec curved = (vec_select(scaled > (vec){0}, scaled, (vec){0}) + rest) / beta;
  return vec_select(scaled > vec_set(threshold), x, vec_select(x == x, curved, x));
}

ALWAYS_INLINE vec vec_mish_slope(vec x) {
  const vec t = vec_tanh(vec_softplus(x, 1, (real)INFINITY));
  return t + x * vec_sigmoid(x) * (1 - t * t);
}

/* The remainder of x / y that has the sign of y. */
ALWAYS_INLINE vec vec_remainder(vec x, vec y) {
  for (int i = 0; i < LANES; i++) {
    const real rest =
        TDM_REAL_BITS == 64 ? (real)fmod(x[i], y[i]) : (real)fmodf((float)x[i], (float)y[i]);
    x[i] = rest != 0 && (rest < 0) != (y[i] < 0) ? rest + y[i] : rest;
  }
  return x;
}

ALWAYS_INLINE vec vec_power(vec x, vec y) {
  for (int i = 0; i < LANES; i++)
    x[i] = TDM_REAL_BITS == 64 ? (real)pow(x[i], y[i]) : (real)powf((float)x[i], (float)y[i]);
  return x;
}

/* The gradients of the base of the power 0, and of the exponent of a power of 0, are 0. */
ALWAYS_INLINE vec vec_power_base_slope(vec x, vec y) {
  return vec_select(y == (vec){0}, (vec){0}, y * vec_power(x, y - 1));
}

ALWAYS_INLINE vec vec_power_exponent_slope(vec x, vec y) {
  return vec_select((x == (vec){0}) & (y >= (vec){0}), (vec){0},
                    vec_power(x, y) * vec_log_of_any(x));
}

/* Time for one vector in ns: LIBRARY_NS for functions of the C library, BINARY_NS for operands from
 * memory. */
#define LIBRARY_NS(each) (LANES * (each))
#define BINARY_NS (3 * TDM_VECTOR_BYTES / 20.0)
#define GELU_NS (TDM_REAL_BITS == 64 ? 60.0 : 8.0)
#define GELU_GRADIENT_NS (TDM_REAL_BITS == 64 ? 60.0 : 12.0)

/* ---- The operations ----------------------------------------------------------------------------
 */

/* UNARY(name, settings, ns, formula of x); GRADIENT(name, settings, ns, what is read beside d
 * (of y): x or y, formula of both); BINARY(name, formula of x and y, which are broadcast). The
 * kernel of a line has its name. settings reads `first`, `second` and `flag`
 * (devices/kernels/elementwise/element_settings.h); ns: what a vector takes, about. */
/* clang-format off */
#define TDM_CPU_ELEMENTS(UNARY, GRADIENT, BINARY)                                                  \
  UNARY(relu, tdm_no_settings, 3.0, vec_select(x < (vec){0}, (vec){0}, x))                         \
  GRADIENT(relu_gradient, tdm_no_settings, 4.0, y, vec_select(y <= (vec){0}, (vec){0}, d))         \
  UNARY(tanh, tdm_no_settings, 6.0, vec_tanh(x))                                                   \
  GRADIENT(tanh_gradient, tdm_no_settings, 4.0, y, d * (1 - y * y))                                \
  UNARY(sigmoid, tdm_no_settings, 6.0, vec_sigmoid(x))                                             \
  GRADIENT(sigmoid_gradient, tdm_no_settings, 4.0, y, d * ((1 - y) * y))                           \
  UNARY(silu, tdm_no_settings, 6.0, x * vec_sigmoid(x))                                            \
  GRADIENT(silu_gradient, tdm_no_settings, 6.0, x, d * vec_silu_slope(x))                          \
  UNARY(hardswish, tdm_no_settings, 4.0, x * vec_clamp(x + 3, (vec){0}, vec_set(6)) / 6)           \
  GRADIENT(hardswish_gradient, tdm_no_settings, 6.0, x,                                            \
           vec_select(x <= vec_set(-3), (vec){0},                                                  \
                      vec_select(x >= vec_set(3), d, d * (x / 3 + (real)0.5))))                    \
  UNARY(hardsigmoid, tdm_no_settings, 4.0, vec_clamp(x + 3, (vec){0}, vec_set(6)) / 6)             \
  GRADIENT(hardsigmoid_gradient, tdm_no_settings, 4.0, x,                                          \
           vec_between(d * SIXTH, x, vec_set(-3), vec_set(3)))                                     \
  UNARY(mish, tdm_no_settings, 20.0, x * vec_tanh(vec_softplus(x, 1, (real)INFINITY)))             \
  GRADIENT(mish_gradient, tdm_no_settings, 26.0, x, d * vec_mish_slope(x))                         \
  UNARY(gelu, tdm_gelu_settings, GELU_NS, flag ? vec_gelu(x, true) : vec_gelu(x, false))           \
  GRADIENT(gelu_gradient, tdm_gelu_settings, GELU_GRADIENT_NS, x,                                  \
           d * (flag ? vec_gelu_slope(x, true) : vec_gelu_slope(x, false)))                        \
  UNARY(leaky_relu, tdm_leaky_relu_settings, 3.0, vec_select(x < (vec){0}, x * first, x))          \
  GRADIENT(leaky_relu_gradient, tdm_leaky_relu_settings, 4.0, x,                                   \
           vec_select(x > (vec){0}, d, d * first))                                                 \
  UNARY(elu, tdm_function_settings, 6.0, vec_select(x > (vec){0}, x, first * vec_expm1_below(x)))  \
  GRADIENT(elu_gradient, tdm_function_settings, 6.0, x,                                            \
           vec_select(x > (vec){0}, d, d * first * vec_exp(x)))                                    \
  UNARY(softplus, tdm_function_settings, 14.0, vec_softplus(x, first, second))                     \
  GRADIENT(softplus_gradient, tdm_function_settings, 8.0, x,                                       \
           vec_select(x * first > vec_set(second), d, d * vec_sigmoid(x * first)))                 \
  UNARY(clamp, tdm_function_settings, 3.0, vec_clamp(x, vec_set(first), vec_set(second)))          \
  GRADIENT(clamp_gradient, tdm_function_settings, 4.0, x,                                          \
           vec_between(d, x, vec_set(first), vec_set(second)))                                     \
  UNARY(abs, tdm_no_settings, 3.0, vec_absolute(x))                                                \
  GRADIENT(abs_gradient, tdm_no_settings, 4.0, x,                                                  \
           vec_select(x > (vec){0}, d, vec_select(x < (vec){0}, -d, d * 0)))                       \
  UNARY(affine, tdm_function_settings, 3.0, x * first + second)                                    \
  UNARY(exp, tdm_no_settings, 6.0, vec_exp(x))                                                     \
  UNARY(log, tdm_no_settings, 8.0, vec_log_of_any(x))                                              \
  UNARY(sqrt, tdm_no_settings, 6.0, vec_sqrt(x))                                                   \
  GRADIENT(sqrt_gradient, tdm_no_settings, 6.0, y, d / (2 * y))                                    \
  UNARY(rsqrt, tdm_no_settings, 10.0, 1 / vec_sqrt(x))                                             \
  GRADIENT(rsqrt_gradient, tdm_no_settings, 4.0, y, (real)-0.5 * d * (y * y * y))                  \
  UNARY(sin, tdm_no_settings, LIBRARY_NS(10.0), vec_each_sin(x))                                   \
  GRADIENT(sin_gradient, tdm_no_settings, LIBRARY_NS(10.0), x, d * vec_each_cos(x))                \
  UNARY(cos, tdm_no_settings, LIBRARY_NS(10.0), vec_each_cos(x))                                   \
  GRADIENT(cos_gradient, tdm_no_settings, LIBRARY_NS(10.0), x, -d * vec_each_sin(x))               \
  UNARY(erf, tdm_no_settings, LIBRARY_NS(10.0), vec_each_erf(x))                                   \
  GRADIENT(erf_gradient, tdm_no_settings, 8.0, x, d * TWO_OVER_SQRT_PI * vec_exp(-x * x))          \
  UNARY(floor, tdm_no_settings, 4.0, vec_each_floor(x))                                            \
  UNARY(round, tdm_no_settings, 4.0, vec_each_rint(x))                                             \
  UNARY(sign, tdm_no_settings, 3.0,                                                                \
        vec_select(x > (vec){0}, vec_set(1), vec_select(x < (vec){0}, vec_set(-1), (vec){0})))     \
  UNARY(pow, tdm_function_settings, LIBRARY_NS(15.0), vec_pow(x, first))                           \
  GRADIENT(pow_gradient, tdm_function_settings, LIBRARY_NS(15.0), x,                               \
           vec_pow_gradient(d, x, first))                                                          \
  BINARY(add, x + y)                                                                               \
  BINARY(sub, x - y)                                                                               \
  BINARY(mul, x * y)                                                                               \
  BINARY(div, x / y)                                                                               \
  /* A NaN of either operand is the result. */                                                     \
  BINARY(maximum, vec_select((x > y) | (x != x), x, y))                                            \
  BINARY(minimum, vec_select((x < y) | (x != x), x, y))                                            \
  BINARY(maximum_share,                                                                            \
         vec_select(x < y, (vec){0}, vec_select(x == y, vec_set((real)0.5), vec_set(1))))          \
  BINARY(remainder, vec_remainder(x, y))                                                           \
  BINARY(power, vec_power(x, y))                                                                   \
  BINARY(power_base_slope, vec_power_base_slope(x, y))                                             \
  BINARY(power_exponent_slope, vec_power_exponent_slope(x, y))
/* clang-format on */

#endif
