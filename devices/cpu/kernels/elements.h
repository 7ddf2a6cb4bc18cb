/* The formulas of elementwise operations, of vectors: each operation's gradient stands below it.
 * Invariant: an element of a result depends on the same element of the operands alone; NaN stays
 * NaN. */
#ifndef TANDEM_DEVICES_CPU_KERNELS_ELEMENTS_H
#define TANDEM_DEVICES_CPU_KERNELS_ELEMENTS_H

#include <math.h>

#include "devices/cpu/kernels/vector_math.h"

/* ---- What takes more than a line ---------------------------------------------------------------
 */

#if TDM_REAL_BITS == 64
ALWAYS_INLINE vec vec_erf(vec x) {
  for (int i = 0; i < LANES; i++)
    x[i] = erf(x[i]);
  return x;
}
#else
/* Abramowitz and Stegun, "Handbook of mathematical functions", 7.1.26: within 1.5e-7. */
ALWAYS_INLINE vec vec_erf(vec x) {
  const vec_bits sign = (vec_bits)x & (vec_bits)vec_set((real)-0.0);
  const vec magnitude = (vec)((vec_bits)x ^ sign);
  const vec t = 1 / (1 + 0.3275911f * magnitude);
  const vec series =
      t * (0.254829592f +
           t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
  return (vec)((vec_bits)(1 - series * vec_exp(-magnitude * magnitude)) | sign);
}
#endif

#define SQRT_HALF ((real)0.70710678118654752440)
#define SQRT_TWO_OVER_PI ((real)0.79788456080286535588)
#define INVERSE_SQRT_TWO_PI ((real)0.39894228040143267794)
#define CUBIC ((real)0.044715)

ALWAYS_INLINE vec vec_gelu(vec x, bool by_tanh) {
  if (!by_tanh) return (real)0.5 * x * (1 + vec_erf(x * SQRT_HALF));
  return (real)0.5 * x * (1 + vec_tanh(SQRT_TWO_OVER_PI * (x + CUBIC * x * x * x)));
}

ALWAYS_INLINE vec vec_gelu_slope(vec x, bool by_tanh) {
  if (!by_tanh) {
    const vec density = INVERSE_SQRT_TWO_PI * vec_exp((real)-0.5 * x * x);
    return (real)0.5 * (1 + vec_erf(x * SQRT_HALF)) + x * density;
  }
  const vec t = vec_tanh(SQRT_TWO_OVER_PI * (x + CUBIC * x * x * x));
  const vec inner = SQRT_TWO_OVER_PI * (1 + 3 * CUBIC * x * x);
  return (real)0.5 * (1 + t) + (real)0.5 * x * (1 - t * t) * inner;
}

ALWAYS_INLINE vec vec_silu_slope(vec x) {
  const vec s = vec_sigmoid(x);
  return s * (1 + x * (1 - s));
}

/* The exponents that PyTorch knows go without logarithms; others through the C library. */
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

/* Nothing flows back through the power 0, whatever x is. */
ALWAYS_INLINE vec vec_pow_slope(vec x, real exponent) {
  return exponent == 0 ? (vec){0} : exponent * vec_pow(x, exponent - 1);
}

ALWAYS_INLINE vec vec_clamp(vec x, vec least, vec most) {
  x = vec_select(x < least, least, x);
  return vec_select(x > most, most, x);
}

/* All bits set where x lies between, with the ends unless `open`. */
ALWAYS_INLINE vec_bits vec_between(vec x, vec least, vec most, bool open) {
  return open ? (x > least) & (x < most) : (x >= least) & (x <= most);
}

/* log(1 + e^(beta x)) / beta, and x where beta x is above threshold. */
ALWAYS_INLINE vec vec_softplus(vec x, real beta, real threshold) {
  const vec scaled = x * beta;
  const vec rest = vec_log1p_of_fraction(vec_exp(-vec_absolute(scaled)));
  const vec curved = (vec_select(scaled > (vec){0}, scaled, (vec){0}) + rest) / beta;
  return vec_select(scaled > vec_set(threshold), x, vec_select(x == x, curved, x));
}

/* What a vector takes, in ns: of the C library's functions, and of operands from memory. */
#define LIBRARY_NS(each) (LANES * (each))
#define BINARY_NS (3 * TDM_VECTOR_BYTES / 20.0)
#define GELU_NS (TDM_REAL_BITS == 64 ? 60.0 : 8.0)
#define GELU_GRADIENT_NS (TDM_REAL_BITS == 64 ? 60.0 : 12.0)

/* ---- The operations ----------------------------------------------------------------------------
 */

/* UNARY(operation, name, settings, ns, formula of x); GRADIENT(operation, name, settings, ns, what
 * is read beside d (of y): x or y, formula of both); BINARY(operation, name, formula of x and y,
 * which are broadcast). settings reads `first`, `second` and `flag` (devices/element_settings.h);
 * ns: what a vector takes, about. */
#define TDM_CPU_ELEMENTS(UNARY, GRADIENT, BINARY)                                                  \
  UNARY(TDM_OP_RELU, relu, tdm_no_settings, 3.0, vec_select(x < (vec){0}, (vec){0}, x))            \
  GRADIENT(TDM_OP_RELU_GRADIENT, relu_gradient, tdm_no_settings, 4.0, y,                           \
           vec_select(y > (vec){0}, d, (vec){0}))                                                  \
  UNARY(TDM_OP_TANH, tanh, tdm_no_settings, 6.0, vec_tanh(x))                                      \
  GRADIENT(TDM_OP_TANH_GRADIENT, tanh_gradient, tdm_no_settings, 4.0, y, d *(1 - y * y))           \
  UNARY(TDM_OP_SIGMOID, sigmoid, tdm_no_settings, 6.0, vec_sigmoid(x))                             \
  GRADIENT(TDM_OP_SIGMOID_GRADIENT, sigmoid_gradient, tdm_no_settings, 4.0, y, d *((1 - y) * y))   \
  UNARY(TDM_OP_SILU, silu, tdm_no_settings, 6.0, x *vec_sigmoid(x))                                \
  GRADIENT(TDM_OP_SILU_GRADIENT, silu_gradient, tdm_no_settings, 6.0, x, d *vec_silu_slope(x))     \
  UNARY(TDM_OP_GELU, gelu, tdm_gelu_settings, GELU_NS,                                             \
        flag ? vec_gelu(x, true) : vec_gelu(x, false))                                             \
  GRADIENT(TDM_OP_GELU_GRADIENT, gelu_gradient, tdm_gelu_settings, GELU_GRADIENT_NS, x,            \
           d *(flag ? vec_gelu_slope(x, true) : vec_gelu_slope(x, false)))                         \
  UNARY(TDM_OP_LEAKY_RELU, leaky_relu, tdm_leaky_relu_settings, 3.0,                               \
        vec_select(x < (vec){0}, x * first, x))                                                    \
  GRADIENT(TDM_OP_LEAKY_RELU_GRADIENT, leaky_relu_gradient, tdm_leaky_relu_settings, 4.0, x,       \
           vec_select(x > (vec){0}, d, d * first))                                                 \
  UNARY(TDM_OP_ELU, elu, tdm_function_settings, 6.0,                                               \
        vec_select(x > (vec){0}, x, first * vec_expm1_below(x)))                                   \
  GRADIENT(TDM_OP_ELU_GRADIENT, elu_gradient, tdm_function_settings, 6.0, x,                       \
           vec_select(x > (vec){0}, d, d * first * vec_exp(x)))                                    \
  UNARY(TDM_OP_SOFTPLUS, softplus, tdm_function_settings, 14.0, vec_softplus(x, first, second))    \
  GRADIENT(TDM_OP_SOFTPLUS_GRADIENT, softplus_gradient, tdm_function_settings, 8.0, x,             \
           vec_select(x *first > vec_set(second), d, d * vec_sigmoid(x * first)))                  \
  UNARY(TDM_OP_CLAMP, clamp, tdm_function_settings, 3.0,                                           \
        vec_clamp(x, vec_set(first), vec_set(second)))                                             \
  GRADIENT(TDM_OP_CLAMP_GRADIENT, clamp_gradient, tdm_function_settings, 4.0, x,                   \
           vec_select(vec_between(x, vec_set(first), vec_set(second), flag), d, (vec){0}))         \
  UNARY(TDM_OP_ABS, absolute, tdm_no_settings, 3.0, vec_absolute(x))                               \
  GRADIENT(TDM_OP_ABS_GRADIENT, absolute_gradient, tdm_no_settings, 4.0, x,                        \
           vec_select(x > (vec){0}, d, vec_select(x < (vec){0}, -d, (vec){0})))                    \
  UNARY(TDM_OP_AFFINE, affine, tdm_function_settings, 3.0, x *first + second)                      \
  UNARY(TDM_OP_EXP, exp, tdm_no_settings, 6.0, vec_exp(x))                                         \
  UNARY(TDM_OP_LOG, log, tdm_no_settings, 8.0, vec_log_of_any(x))                                  \
  UNARY(TDM_OP_SQRT, sqrt, tdm_no_settings, 6.0, vec_sqrt(x))                                      \
  GRADIENT(TDM_OP_SQRT_GRADIENT, sqrt_gradient, tdm_no_settings, 6.0, y, d / (2 * y))              \
  UNARY(TDM_OP_RSQRT, rsqrt, tdm_no_settings, 10.0, 1 / vec_sqrt(x))                               \
  GRADIENT(TDM_OP_RSQRT_GRADIENT, rsqrt_gradient, tdm_no_settings, 4.0, y,                         \
           (real)-0.5 * d * (y * y * y))                                                           \
  UNARY(TDM_OP_POW, pow, tdm_function_settings, LIBRARY_NS(15.0), vec_pow(x, first))               \
  GRADIENT(TDM_OP_POW_GRADIENT, pow_gradient, tdm_function_settings, LIBRARY_NS(15.0), x,          \
           d *vec_pow_slope(x, first))                                                             \
  BINARY(TDM_OP_ADD, add, x + y)                                                                   \
  BINARY(TDM_OP_SUB, sub, x - y)                                                                   \
  BINARY(TDM_OP_MUL, mul, x *y)                                                                    \
  BINARY(TDM_OP_DIV, div, x / y)                                                                   \
  /* A NaN of either operand is the result. */                                                     \
  BINARY(TDM_OP_MAXIMUM, maximum, vec_select((x > y) | (x != x), x, y))                            \
  BINARY(TDM_OP_MINIMUM, minimum, vec_select((x < y) | (x != x), x, y))                            \
  BINARY(TDM_OP_MAXIMUM_SHARE, maximum_share,                                                      \
         vec_select(x < y, (vec){0}, vec_select(x == y, vec_set((real)0.5), vec_set(1))))

#endif
