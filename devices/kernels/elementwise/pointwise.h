/* Operations that work element by element. Part of devices/kernels.h, which describes the notation.
 */
#ifndef TANDEM_DEVICES_KERNELS_ELEMENTWISE_POINTWISE_H
#define TANDEM_DEVICES_KERNELS_ELEMENTWISE_POINTWISE_H

#include <stdint.h>

/* ---- Elementwise: all operands of one shape -------------------------------------------------- */

/* Functions of one value, floating: x -> y by their own names, which are those of their formulas
 * (elements.h of each kind), and NAME_gradient: d_y, x -> d_x, or d_y, y -> d_x. Those without
 * numbers are in devices/kernels/elementwise/functions.h; of the rest only these are named outside
 * of their line. */
#define TDM_OP_AFFINE                                                                              \
  "affine"                   /* x -> first x + second; no gradient of its own, as the next five    \
                              */
#define TDM_OP_FLOOR "floor" /* x -> the largest integer that is not above */
#define TDM_OP_ROUND "round" /* x -> the nearest integer, halves to the even one */
#define TDM_OP_SIGN "sign"   /* x -> -1, 0 or 1; 0 of a NaN */
#define TDM_OP_EXP "exp"     /* x -> e^x */
#define TDM_OP_LOG "log"     /* x -> the natural logarithm */
/* gelu: x -> x Phi(x), or its approximation by tanh (Hendrycks, Gimpel, "Gaussian error linear
 * units", 2016). */
typedef struct tdm_gelu_attributes {
  int64_t by_tanh; /* 0 or 1 */
} tdm_gelu_attributes;
/* leaky_relu: x -> x, or slope x where x < 0. */
typedef struct tdm_leaky_relu_attributes {
  double slope;
} tdm_leaky_relu_attributes;
/* pow: x -> x^first; clamp: x -> first if less, then second if more; softplus: x -> log(1 +
 * e^(first x)) / first; elu: x -> x, or first (e^x - 1) below 0. Zeros of those that have no use
 * for them. */
typedef struct tdm_function_attributes {
  double first;
  double second; /* softplus: returns x itself where first x is larger */
} tdm_function_attributes;
/* 1 to 16 inputs -> their sum, added in operand order. */
#define TDM_OP_ACCUMULATE "accumulate"
/* x F, s F () -> x * s. */
#define TDM_OP_SCALE "scale"
/* x F, s F () -> x / s. */
#define TDM_OP_DIVIDE "divide"
/* like F (...) -> F (...), every element value; like is not read. */
#define TDM_OP_FILL "fill"
typedef struct tdm_fill_attributes {
  double value;
} tdm_fill_attributes;
/* x of any dtype but the 16-bit ones -> the same as the output's dtype; float to integer
 * truncates toward zero and saturates, NaN to 0; to bool is != 0. */
#define TDM_OP_CAST "cast"

/* ---- Of several operands, broadcast to one shape by NumPy's rule ------------------------------
 */

/* Those of the first group also of int32 and int64. */
#define TDM_OP_ADD "add"         /* a, b -> a + b */
#define TDM_OP_SUB "sub"         /* a, b -> a - b */
#define TDM_OP_MUL "mul"         /* a, b -> a b */
#define TDM_OP_MAXIMUM "maximum" /* a, b -> the larger, a NaN of either */
#define TDM_OP_MINIMUM "minimum"

#define TDM_OP_DIV "div" /* a, b -> a / b */
#define TDM_OP_REMAINDER                                                                           \
  "remainder" /* a, b -> what of a is left, with the sign of b: Python's %                         \
               */
/* a, b -> a / b of integers, rounded down, or toward 0; by 0 it is 0, and remainder by 0 is a. */
#define TDM_OP_DIV_FLOOR "div_floor"
#define TDM_OP_DIV_TRUNC "div_trunc"
#define TDM_OP_POWER "power" /* a, b -> a^b */
/* a, b -> b a^(b - 1), and 0 where b is 0; a^b log a, and 0 where a is 0 and b not negative. */
#define TDM_OP_POWER_BASE_SLOPE "power_base_slope"
#define TDM_OP_POWER_EXPONENT_SLOPE "power_exponent_slope"
/* a, b -> the share of an adjoint of maximum(a, b) that a receives: 0 where a < b, 1/2 where they
 * are equal, 1 elsewhere. */
#define TDM_OP_MAXIMUM_SHARE "maximum_share"
/* a, [b], both F or both int32, int64, uint8 or bool -> bool; `value`, which a's dtype holds
 * exactly, or 2^63 for the largest int64, replaces an absent b. */
#define TDM_OP_COMPARE "compare"
typedef enum tdm_comparison {
  TDM_COMPARISON_LESS = 0,
  TDM_COMPARISON_LESS_EQUAL = 1,
  TDM_COMPARISON_GREATER = 2,
  TDM_COMPARISON_GREATER_EQUAL = 3,
  TDM_COMPARISON_EQUAL = 4,
  TDM_COMPARISON_NOT_EQUAL = 5,
} tdm_comparison;
typedef struct tdm_compare_attributes {
  int64_t comparison; /* tdm_comparison */
  double value;
} tdm_compare_attributes;
/* condition bool, [a], [b] -> a or b, of any dtype: a where the condition is true, else b; `value`,
 * 0 of the 16-bit ones, replaces an absent one. */
#define TDM_OP_WHERE "where"
typedef struct tdm_where_attributes {
  double value;
} tdm_where_attributes;

#endif
