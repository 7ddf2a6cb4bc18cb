/* The formulas of elementwise operations, for one element. Each operation's gradient follows it.
 * The kernels of single operations and those of fused nodes use the same formulas, and so produce
 * the same bits. Invariant: NaN stays NaN, except that its sign is 0. */
#ifndef TANDEM_DEVICES_KERNELS_ELEMENTWISE_CUDA_ELEMENTS_H
#define TANDEM_DEVICES_KERNELS_ELEMENTWISE_CUDA_ELEMENTS_H

#include "core/philox.h"
#include "devices/kernels/cuda/kernel.h"
#include "devices/kernels/elementwise/dropout.h"
#include "devices/kernels/elementwise/element_settings.h"
#include "devices/kernels/elementwise/pointwise.h"

/* ---- What takes more than a line --------------------------------------------------------------
 */

template <class real> static __device__ inline real sigmoid_of(real x) {
  return 1 / (1 + exp(-x));
}

template <class real> static __device__ inline real silu_slope(real x) {
  const real s = sigmoid_of(x);
  return s * (1 + x * (1 - s));
}

template <class real> static __device__ inline real gelu_inner(real x) {
  return (real)0.79788456080286535588 * (x + (real)0.044715 * x * x * x);
}

/* Returns the share of a normal distribution below x. Uses erfc, because 1 + erf loses its digits
 * for a small share. The rounding error of t is corrected to first order: erfc falls by 2 t of
 * itself. */
template <class real> static __device__ inline real normal_of(real x) {
  const real half_root = (real)0.70710678118654752440;
  const real rest = (real)(0.70710678118654752440 - (double)half_root);
  const real t = -half_root * x;
  const real share = (real)0.5 * erfc(t);
  if (!(t > 1) || share == 0) return share;
  const real lost = fma(-half_root, x, -t) - rest * x;
  return share - share * 2 * t * lost;
}

template <class real> static __device__ inline real gelu_of(real x, bool by_tanh) {
  if (by_tanh) return (real)0.5 * x * (1 + tanh(gelu_inner(x)));
  return x * normal_of(x);
}

template <class real> static __device__ inline real gelu_slope(real x, bool by_tanh) {
  if (by_tanh) {
    const real t = tanh(gelu_inner(x));
    const real inner_slope = (real)0.79788456080286535588 * (1 + 3 * (real)0.044715 * x * x);
    return (real)0.5 * (1 + t) + (real)0.5 * x * (1 - t * t) * inner_slope;
  }
  const real density = (real)0.39894228040143267794 * exp((real)-0.5 * x * x);
  return normal_of(x) + x * density;
}

/* Computes the exponents for which PyTorch has a special case without pow. */
template <class real> static __device__ inline real power_of(real x, real exponent) {
  if (exponent == 0) return 1;
  if (exponent == 1) return x;
  if (exponent == 2) return x * x;
  if (exponent == 3) return x * x * x;
  if (exponent == (real)0.5) return sqrt(x);
  if (exponent == (real)-0.5) return 1 / sqrt(x);
  if (exponent == -1) return 1 / x;
  if (exponent == -2) return 1 / (x * x);
  return pow(x, exponent);
}

template <class real> static __device__ inline real clamped(real x, real least, real most) {
  const real raised = x < least ? least : x;
  return raised > most ? most : raised;
}

/* Returns d if x lies between the ends; 0 at and beyond them, and for NaN. An infinite end is no
 * limit. */
template <class real> static __device__ inline real between(real d, real x, real least, real most) {
  const bool above = x > least || (least == -(real)INFINITY && x == least);
  const bool below = x < most || (most == (real)INFINITY && x == most);
  return above && below ? d : 0;
}

/* Returns log(1 + e^(beta x)) / beta, or x where beta x is above threshold. */
template <class real> static __device__ inline real softplus_of(real x, real beta, real threshold) {
  const real scaled = x * beta;
  if (scaled > threshold) return x;
  return (log1p(exp(-fabs(scaled))) + (scaled < 0 ? 0 : scaled)) / beta;
}

template <class real> static __device__ inline real mish_slope(real x) {
  const real t = tanh(softplus_of(x, (real)1, (real)INFINITY));
  return t + x * sigmoid_of(x) * (1 - t * t);
}

/* Returns the remainder of x / y that has the sign of y. */
template <class real> static __device__ inline real remainder_of(real x, real y) {
  const real rest = fmod(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

/* ---- The operations ---------------------------------------------------------------------------
 */

/* UNARY(name, settings, formula of x); GRADIENT(name, settings, what is read beside d (of y): x
 * or y, formula of both); BINARY(name, formula of x and y, which are broadcast). The kernel of a
 * line has its name. settings reads `first`, `second` and `flag`
 * (devices/kernels/elementwise/element_settings.h). */
/* clang-format off */
#define TDM_CUDA_ELEMENTS(UNARY, GRADIENT, BINARY)                                                 \
  UNARY(relu, tdm_no_settings, x < 0 ? 0 : x)                                                      \
  GRADIENT(relu_gradient, tdm_no_settings, y, y <= 0 ? 0 : d)                                      \
  UNARY(tanh, tdm_no_settings, tanh(x))                                                            \
  GRADIENT(tanh_gradient, tdm_no_settings, y, d * (1 - y * y))                                     \
  UNARY(sigmoid, tdm_no_settings, sigmoid_of(x))                                                   \
  GRADIENT(sigmoid_gradient, tdm_no_settings, y, d * ((1 - y) * y))                                \
  UNARY(silu, tdm_no_settings, x / (1 + exp(-x)))                                                  \
  GRADIENT(silu_gradient, tdm_no_settings, x, d * silu_slope(x))                                   \
  UNARY(hardswish, tdm_no_settings, x * clamped(x + 3, (real)0, (real)6) / 6)                      \
  GRADIENT(hardswish_gradient, tdm_no_settings, x,                                                 \
           x <= -3  ? 0                                                                            \
           : x >= 3 ? d                                                                            \
                    : d * (x / 3 + (real)0.5))                                                     \
  UNARY(hardsigmoid, tdm_no_settings, clamped(x + 3, (real)0, (real)6) / 6)                        \
  GRADIENT(hardsigmoid_gradient, tdm_no_settings, x,                                               \
           between(d * (real)(1.0f / 6.0f), x, (real)-3, (real)3))                                 \
  UNARY(mish, tdm_no_settings, x * tanh(softplus_of(x, (real)1, (real)INFINITY)))                  \
  GRADIENT(mish_gradient, tdm_no_settings, x, d * mish_slope(x))                                   \
  UNARY(gelu, tdm_gelu_settings, gelu_of(x, flag))                                                 \
  GRADIENT(gelu_gradient, tdm_gelu_settings, x, d * gelu_slope(x, flag))                           \
  UNARY(leaky_relu, tdm_leaky_relu_settings, x < 0 ? x * first : x)                                \
  GRADIENT(leaky_relu_gradient, tdm_leaky_relu_settings, x, d * (x > 0 ? 1 : first))               \
  UNARY(elu, tdm_function_settings, x > 0 ? x : first * expm1(x))                                  \
  GRADIENT(elu_gradient, tdm_function_settings, x, x > 0 ? d : d * first * exp(x))                 \
  UNARY(softplus, tdm_function_settings, softplus_of(x, first, second))                            \
  GRADIENT(softplus_gradient, tdm_function_settings, x,                                            \
           x * first > second ? d : d * sigmoid_of(x * first))                                     \
  UNARY(clamp, tdm_function_settings, clamped(x, first, second))                                   \
  GRADIENT(clamp_gradient, tdm_function_settings, x, between(d, x, first, second))                 \
  UNARY(abs, tdm_no_settings, fabs(x))                                                             \
  GRADIENT(abs_gradient, tdm_no_settings, x, x > 0 ? d : x < 0 ? -d : d * 0)                       \
  UNARY(affine, tdm_function_settings, x * first + second)                                         \
  UNARY(exp, tdm_no_settings, exp(x))                                                              \
  UNARY(log, tdm_no_settings, log(x))                                                              \
  UNARY(sqrt, tdm_no_settings, sqrt(x))                                                            \
  GRADIENT(sqrt_gradient, tdm_no_settings, y, d / (2 * y))                                         \
  UNARY(rsqrt, tdm_no_settings, 1 / sqrt(x))                                                       \
  GRADIENT(rsqrt_gradient, tdm_no_settings, y, (real)-0.5 * d * (y * y * y))                       \
  UNARY(sin, tdm_no_settings, sin(x))                                                              \
  GRADIENT(sin_gradient, tdm_no_settings, x, d * cos(x))                                           \
  UNARY(cos, tdm_no_settings, cos(x))                                                              \
  GRADIENT(cos_gradient, tdm_no_settings, x, -d * sin(x))                                          \
  UNARY(erf, tdm_no_settings, erf(x))                                                              \
  GRADIENT(erf_gradient, tdm_no_settings, x, d * (real)1.12837916709551257390 * exp(-x * x))       \
  UNARY(floor, tdm_no_settings, floor(x))                                                          \
  UNARY(round, tdm_no_settings, rint(x))                                                           \
  UNARY(sign, tdm_no_settings, x > 0 ? 1 : x < 0 ? -1 : 0)                                         \
  UNARY(pow, tdm_function_settings, power_of(x, first))                                            \
  GRADIENT(pow_gradient, tdm_function_settings, x,                                                 \
           first == 0 ? 0 : d * (first * power_of(x, first - 1)))                                  \
  BINARY(add, x + y)                                                                               \
  BINARY(sub, x - y)                                                                               \
  BINARY(mul, x * y)                                                                               \
  BINARY(div, x / y)                                                                               \
  /* A NaN of either operand is the result. */                                                     \
  BINARY(maximum, x > y || x != x ? x : y)                                                         \
  BINARY(minimum, x < y || x != x ? x : y)                                                         \
  BINARY(maximum_share, x < y ? (real)0 : x == y ? (real)0.5 : (real)1)                            \
  BINARY(remainder, remainder_of(x, y))                                                            \
  BINARY(power, pow(x, y))                                                                         \
  BINARY(power_base_slope, y == 0 ? (real)0 : y * pow(x, y - 1))                                   \
  BINARY(power_exponent_slope, x == 0 && y >= 0 ? (real)0 : pow(x, y) * log(x))
/* clang-format on */

/* Numbers of elements (tdm_kernel.element). The last ones do not read two numbers. */
enum element_number {
  ELEMENT_NONE,
#define UNARY(name, ...) ELEMENT_##name,
#define GRADIENT(name, ...) ELEMENT_##name,
#define BINARY(name, ...) ELEMENT_##name,
  TDM_CUDA_ELEMENTS(UNARY, GRADIENT, BINARY)
#undef UNARY
#undef GRADIENT
#undef BINARY
      ELEMENT_ACCUMULATE, /* the sum of all operands, from left to right */
  ELEMENT_CAST,           /* the operand; 0 or 1 where the result is bool */
  ELEMENT_COMPARE,        /* 1 where the comparison of the first two holds, else 0 */
  ELEMENT_DROPOUT,
  ELEMENT_WHERE,     /* the second operand where the first is not 0, else the third */
  ELEMENT_div_floor, /* integers only; likewise the next one */
  ELEMENT_div_trunc,
};

/* Parameters of a formula other than its operands. */
template <class real> struct formula_settings {
  real first;
  real second;
  bool flag;
};

template <class real>
static __host__ __device__ inline formula_settings<real>
settings_in(const tdm_element_settings &settings) {
  const formula_settings<real> told = {(real)settings.first, (real)settings.second, settings.flag};
  return told;
}

/* of(operands, settings); those of one operand pass over b. */
template <int number> struct element;

#define ELEMENT(title, count, repeats, settings, first_operand, second_operand, formula)           \
  template <> struct element<ELEMENT_##title> {                                                    \
    static const int operands = count;                                                             \
    static const bool broadcasts = repeats;                                                        \
    static const char *name() {                                                                    \
      return #title;                                                                               \
    }                                                                                              \
    static tdm_element_settings settings_of(const void *attributes) {                              \
      return settings(attributes);                                                                 \
    }                                                                                              \
    template <class real>                                                                          \
    static __device__ real of(real first_operand, real second_operand,                             \
                              formula_settings<real> told) {                                       \
      const real first = told.first, second = told.second;                                         \
      const bool flag = told.flag;                                                                 \
      (void)second_operand, (void)first, (void)second, (void)flag;                                 \
      return formula;                                                                              \
    }                                                                                              \
  };
#define UNARY(name, settings, formula) ELEMENT(name, 1, false, settings, x, unread, formula)
#define GRADIENT(name, settings, read, formula) ELEMENT(name, 2, false, settings, d, read, formula)
#define BINARY(name, formula) ELEMENT(name, 2, true, tdm_no_settings, x, y, formula)
TDM_CUDA_ELEMENTS(UNARY, GRADIENT, BINARY)
#undef UNARY
#undef GRADIENT
#undef BINARY
#undef ELEMENT

/* ---- Integers -------------------------------------------------------------------------------- */

/* Does DO(name) of the operations of two numbers that integers have too. */
#define TDM_CUDA_INTEGERS(DO)                                                                      \
  DO(add)                                                                                          \
  DO(sub)                                                                                          \
  DO(mul)                                                                                          \
  DO(maximum)                                                                                      \
  DO(minimum)                                                                                      \
  DO(remainder)                                                                                    \
  DO(div_floor)                                                                                    \
  DO(div_trunc)

/* Returns x / y, rounded down or toward 0; 0 if y is 0. The least number divided by -1 wraps to
 * itself. */
static __device__ inline int64_t quotient_of(int64_t x, int64_t y, bool rounds_down) {
  if (y == 0) return 0;
  if (y == -1) return (int64_t)(0 - (uint64_t)x);
  const int64_t toward_zero = x / y;
  return toward_zero - (rounds_down && x % y != 0 && (x < 0) != (y < 0));
}

/* Returns x - y times their quotient rounded down, with y's sign; x if y is 0. */
static __device__ inline int64_t integer_remainder_of(int64_t x, int64_t y) {
  if (y == 0 || y == -1) return y == 0 ? x : 0;
  const int64_t left = x % y;
  return left != 0 && (left < 0) != (y < 0) ? left + y : left;
}

/* Computes the formula of integers; overflow wraps. */
template <class number>
static __device__ inline number integer_of(int element, number x, number y) {
  switch (element) {
  case ELEMENT_sub:
    return (number)((uint64_t)x - (uint64_t)y);
  case ELEMENT_mul:
    return (number)((uint64_t)x * (uint64_t)y);
  case ELEMENT_maximum:
    return x > y ? x : y;
  case ELEMENT_minimum:
    return x < y ? x : y;
  case ELEMENT_remainder:
    return (number)integer_remainder_of(x, y);
  case ELEMENT_div_floor:
    return (number)quotient_of(x, y, true);
  case ELEMENT_div_trunc:
    return (number)quotient_of(x, y, false);
  default:
    return (number)((uint64_t)x + (uint64_t)y);
  }
}

/* ---- Comparisons ----------------------------------------------------------------------------- */

template <class number> static __device__ bool holds(int comparison, number a, number b) {
  switch (comparison) {
  case TDM_COMPARISON_LESS:
    return a < b;
  case TDM_COMPARISON_LESS_EQUAL:
    return a <= b;
  case TDM_COMPARISON_GREATER:
    return a > b;
  case TDM_COMPARISON_GREATER_EQUAL:
    return a >= b;
  case TDM_COMPARISON_EQUAL:
    return a == b;
  default:
    return a != b;
  }
}

/* Returns the settings. first: the comparison; second: the value that replaces an absent
 * operand. */
static inline tdm_element_settings compare_settings(const void *attributes) {
  const tdm_compare_attributes *read = static_cast<const tdm_compare_attributes *>(attributes);
  const tdm_element_settings settings = {(double)read->comparison, read->value, false};
  return settings;
}

/* Returns the settings. second: the value that replaces an absent operand. */
static inline tdm_element_settings where_settings(const void *attributes) {
  const double value = static_cast<const tdm_where_attributes *>(attributes)->value;
  const tdm_element_settings settings = {0, value, false};
  return settings;
}

/* ---- Dropout --------------------------------------------------------------------------------- */

/* Determines the elements that are dropped, by their places in the whole value. */
struct dropout_pattern {
  int64_t stretch;       /* contiguous elements that are also contiguous in the whole value */
  int64_t whole_stretch; /* elements between the beginnings of two stretches in the whole value */
  int64_t first;         /* index of the first stretch in the whole value */
  uint64_t stream;
  uint32_t threshold;
};

static inline dropout_pattern pattern_of(const tdm_dropout_attributes *attributes,
                                         const tdm_spec *spec) {
  dropout_pattern pattern = {};
  const tdm_chunk *chunk = &attributes->chunk;
  pattern.stretch = pattern.whole_stretch = count_of(spec);
  if (chunk->whole != 0) {
    const int64_t inner = dims_product(spec, chunk->dimension + 1, spec->shape.rank);
    pattern.stretch = spec->shape.dims[chunk->dimension] * inner;
    pattern.whole_stretch = chunk->whole * inner;
    pattern.first = chunk->offset * inner;
  }
  pattern.stream = attributes->stream;
  pattern.threshold = (uint32_t)(attributes->p * 16777216.0);
  return pattern;
}

/* Returns the settings. first: the scale of the elements that are not dropped. */
static inline tdm_element_settings dropout_settings(const void *attributes) {
  const double p = static_cast<const tdm_dropout_attributes *>(attributes)->p;
  const tdm_element_settings settings = {p < 1 ? 1 / (1 - p) : 0, 0, false};
  return settings;
}

/* Returns x, which is element i of a chunk, after dropout. */
template <class real>
static __device__ inline real dropped_or_scaled(real x, int64_t i, const dropout_pattern &pattern,
                                                uint64_t seed, uint32_t step, real scale) {
  const int64_t stretch = pattern.stretch;
  const uint64_t place =
      (uint64_t)(i / stretch * pattern.whole_stretch + pattern.first + i % stretch);
  uint32_t words[4];
  tdm_philox_block(seed, pattern.stream, step, place / 4, words);
  return x * (words[place % 4] >> 8 < pattern.threshold ? 0 : scale);
}

#endif
