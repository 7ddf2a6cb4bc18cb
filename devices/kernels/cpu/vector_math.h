/* exp, log, tanh, sigmoid and square roots of vectors. exp(x) = 2^n e^r with |r| <= ln(2)/2 (Cody
 * and Waite's reduction: "Software Manual for the Elementary Functions", 1980), e^r by its Taylor
 * series, which is exact to rounding at that size. NaN stays NaN, infinities have their limits. */
#ifndef TANDEM_DEVICES_KERNELS_CPU_VECTOR_MATH_H
#define TANDEM_DEVICES_KERNELS_CPU_VECTOR_MATH_H

#include <float.h>
#include <math.h>

#include "devices/kernels/cpu/vector.h"

#if TDM_REAL_BITS == 64
#define EXP_SERIES_TERMS 13
#define EXP_LEAST (-750.0)           /* for smaller x, exp is 0 */
#define EXP_MOST 720.0               /* for larger x, exp is infinite */
#define TANH_MOST 22.0               /* for larger x, tanh is 1 */
#define LN2_HIGH 6.93145751953125e-1 /* few bits, so that n times it is exact */
#define LN2_LOW 1.42860682030941723212e-6
#define ROUNDER 6755399441055744.0 /* 1.5 x 2^52: adding it rounds to an integer */
#define MANTISSA_BITS 52
#define EXPONENT_BIAS 1023
#else
#define EXP_SERIES_TERMS 7
#define EXP_LEAST (-110.0f)
#define EXP_MOST 90.0f
#define TANH_MOST 10.0f
#define LN2_HIGH 0.693359375f
#define LN2_LOW (-2.12194440e-4f)
#define ROUNDER 12582912.0f /* 1.5 x 2^23 */
#define MANTISSA_BITS 23
#define EXPONENT_BIAS 127
#endif
#define LOG2_E ((real)1.44269504088896340736)

/* 2^n for n whose exponent is in range. */
ALWAYS_INLINE vec vec_power_of_two(vec_bits n) {
  return (vec)((n + EXPONENT_BIAS) << MANTISSA_BITS);
}

/* e^r - 1; |r| is at most about ln(2)/2. */
ALWAYS_INLINE vec vec_exp_series(vec r) {
  static const real inverse_factorials[] = {(real)1.0,
                                            (real)(1.0 / 2),
                                            (real)(1.0 / 6),
                                            (real)(1.0 / 24),
                                            (real)(1.0 / 120),
                                            (real)(1.0 / 720),
                                            (real)(1.0 / 5040),
                                            (real)(1.0 / 40320),
                                            (real)(1.0 / 362880),
                                            (real)(1.0 / 3628800),
                                            (real)(1.0 / 39916800),
                                            (real)(1.0 / 479001600),
                                            (real)(1.0 / 6227020800.0)};
  vec tail = vec_set(inverse_factorials[EXP_SERIES_TERMS - 1]);
#pragma GCC unroll 16
  for (int i = EXP_SERIES_TERMS - 2; i >= 1; i--)
    tail = tail * r + inverse_factorials[i];
  return r + r * r * tail;
}

/* e^x = 2^n (1 + rest); x is moderate or NaN. */
ALWAYS_INLINE vec vec_exp_parts(vec x, vec_bits *out_n) {
  const vec shifted = x * LOG2_E + ROUNDER;
  const vec n = shifted - ROUNDER;
  *out_n = (vec_bits)shifted - (vec_bits)vec_set(ROUNDER);
  return vec_exp_series((x - n * LN2_HIGH) - n * LN2_LOW);
}

ALWAYS_INLINE vec vec_exp(vec x) {
  x = vec_select(x < vec_set(EXP_LEAST), vec_set(EXP_LEAST), x);
  x = vec_select(x > vec_set(EXP_MOST), vec_set(EXP_MOST), x);
  vec_bits n;
  const vec rest = vec_exp_parts(x, &n);
  /* In two factors, so that results near the ends of the range come out. */
  const vec_bits half = n >> 1;
  return (1 + rest) * vec_power_of_two(half) * vec_power_of_two(n - half);
}

/* e^x - 1 for x at most 0, without cancellation near 0; NaN stays NaN. */
ALWAYS_INLINE vec vec_expm1_below(vec x) {
  x = vec_select(x < vec_set(-50), vec_set(-50), x); /* -1 by far */
  vec_bits n;
  const vec rest = vec_exp_parts(x, &n);
  const vec power = vec_power_of_two(n);
  return power * rest + (power - 1);
}

#if TDM_REAL_BITS == 64
#define LOG_SERIES_TERMS 12
#else
#define LOG_SERIES_TERMS 5
#endif

/* log x of normal positive x, infinity or NaN: x = 2^n m with m within 1/sqrt(2) and sqrt(2), and
 * log m = 2 (s + s^3/3 + s^5/5 + ...) with s = (m - 1) / (m + 1), |s| < 0.172. */
ALWAYS_INLINE vec vec_log(vec x) {
  const vec_bits root = (vec_bits)vec_set((real)0.70710678118654752440);
  const vec_bits n = ((vec_bits)x - root) >> MANTISSA_BITS;
  const vec m = (vec)((vec_bits)x - (n << MANTISSA_BITS));
  const vec s = (m - 1) / (m + 1), square = s * s;
  vec tail = vec_set((real)(1.0 / (2 * LOG_SERIES_TERMS - 1)));
#pragma GCC unroll 16
  for (int i = LOG_SERIES_TERMS - 2; i >= 1; i--)
    tail = tail * square + (real)(1.0 / (2 * i + 1));
  const vec whole = __builtin_convertvector(n, vec);
  const vec small = 2 * (s + s * square * tail) + whole * LN2_LOW;
  const vec finite = whole * LN2_HIGH + small;
  return vec_select(x < vec_set((real)INFINITY), finite, x);
}

ALWAYS_INLINE vec vec_absolute(vec x) {
  return (vec)((vec_bits)x & ~(vec_bits)vec_set((real)-0.0));
}

/* log x of any x: -infinity of 0, NaN of what is negative; subnormal numbers are scaled first. */
ALWAYS_INLINE vec vec_log_of_any(vec x) {
  const real least = (real)(TDM_REAL_BITS == 64 ? DBL_MIN : FLT_MIN);
  const vec_bits small = x < vec_set(least);
  const vec up = vec_set((real)18014398509481984.0); /* 2^54 */
  const vec of_up = vec_set((real)37.42994775023704670);
  const vec finite =
      vec_log(vec_select(small, vec_absolute(x) * up, x)) - vec_select(small, of_up, (vec){0});
  const vec none = vec_set((real)NAN), below = vec_set((real)-INFINITY);
  const vec of_small = vec_select(x > (vec){0}, finite, vec_select(x == (vec){0}, below, none));
  return vec_select(small, of_small, finite);
}

/* log(1 + u) for 0 <= u <= 1: 2 artanh(s) with s = u / (2 + u) <= 1/3, by its series. */
ALWAYS_INLINE vec vec_log1p_of_fraction(vec u) {
  const vec s = u / (u + 2);
  const vec square = s * s;
  const int terms = TDM_REAL_BITS == 64 ? 18 : 9;
  vec sum = vec_set((real)1 / (real)(2 * terms - 1));
#pragma GCC unroll 20
  for (int i = terms - 2; i >= 0; i--)
    sum = sum * square + (real)1 / (real)(2 * i + 1);
  return 2 * s * sum;
}

/* (e^(2x) - 1) / (e^(2x) + 1) for |x|, without cancellation near 0. */
ALWAYS_INLINE vec vec_tanh(vec x) {
  const vec_bits sign = (vec_bits)x & (vec_bits)vec_set((real)-0.0);
  vec magnitude = (vec)((vec_bits)x ^ sign);
  magnitude = vec_select(magnitude > vec_set(TANH_MOST), vec_set(TANH_MOST), magnitude);
  vec_bits n;
  const vec rest = vec_exp_parts(magnitude + magnitude, &n);
  const vec power = vec_power_of_two(n);
  const vec less_one = power * rest + (power - 1); /* e^(2x) - 1 */
  return (vec)((vec_bits)(less_one / (less_one + 2)) | sign);
}

ALWAYS_INLINE vec vec_sigmoid(vec x) {
  return 1 / (1 + vec_exp(-x));
}

ALWAYS_INLINE vec vec_sqrt(vec x) {
  for (int i = 0; i < LANES; i++)
    x[i] = TDM_REAL_BITS == 64 ? (real)sqrt(x[i]) : sqrtf((float)x[i]);
  return x;
}

#endif
