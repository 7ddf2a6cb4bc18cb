/* Public part of layers/: mathematics element by element, with PyTorch's formulas, defaults and
 * gradients, floating unless it says otherwise; and what is found along one dimension. All
 * functions: one thread (the graph's); an invalid value in gives an invalid value out, the first
 * error sticks to the graph. */
#ifndef TANDEM_LAYERS_POINTWISE_H
#define TANDEM_LAYERS_POINTWISE_H

#include "tandem/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Of two values ----------------------------------------------------------------------------
 */
/* Of one dtype, and broadcast to one shape as NumPy and PyTorch do: aligned at the last dimension,
 * where a dimension that is 1, or that one of them lacks, is repeated. A name stands against itself
 * or 1. Gradients are summed over what was repeated.
 *
 *   a (batch, 1, 5)          a (batch, 5)    a (batch, 5)
 *   b    (3, 5)              b (5)           b ()
 *   -> (batch, 3, 5)         -> (batch, 5)   -> (batch, 5) */

/* Also of int32 and int64, which wrap on overflow. */
TDM_API tdm_value tdm_add(tdm_graph *graph, const char *name, tdm_value a, tdm_value b);
TDM_API tdm_value tdm_sub(tdm_graph *graph, const char *name, tdm_value a, tdm_value b);
TDM_API tdm_value tdm_mul(tdm_graph *graph, const char *name, tdm_value a, tdm_value b);
/* The larger and the smaller; a NaN of either. Where both are equal each gets half the adjoint.
 * Also of int32 and int64. */
TDM_API tdm_value tdm_maximum(tdm_graph *graph, const char *name, tdm_value a, tdm_value b);
TDM_API tdm_value tdm_minimum(tdm_graph *graph, const char *name, tdm_value a, tdm_value b);
TDM_API tdm_value tdm_div(tdm_graph *graph, const char *name, tdm_value a, tdm_value b);
/* a divided by b, int32 or int64, as a whole number: torch.div with a rounding_mode. Divided by 0
 * it is 0, where PyTorch's CPU refuses; the least number divided by -1 is itself. Floating values:
 * tdm_floor of tdm_div. No gradient flows. */
typedef enum tdm_rounding {
  TDM_ROUND_DOWN,       /* rounding_mode="floor", Python's a // b: -7 by 2 is -4 */
  TDM_ROUND_TOWARD_ZERO /* rounding_mode="trunc", C's a / b: -7 by 2 is -3 */
} tdm_rounding;
TDM_API tdm_value tdm_integer_div(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                                  tdm_rounding rounding);
/* What is left of a once b is taken away whole times, with b's sign: Python's a % b. Of int32 and
 * int64 too, where what is left of a by 0 is a, so that a = b (a // b) + a % b always. */
TDM_API tdm_value tdm_remainder(tdm_graph *graph, const char *name, tdm_value a, tdm_value b);
/* a to the power of b; tdm_pow is quicker where b is one number. */
TDM_API tdm_value tdm_power(tdm_graph *graph, const char *name, tdm_value a, tdm_value b);

/* What tdm_compare asks of two numbers. */
typedef enum tdm_relation {
  TDM_LESS,
  TDM_LESS_EQUAL,
  TDM_GREATER,
  TDM_GREATER_EQUAL,
  TDM_EQUAL,
  TDM_NOT_EQUAL
} tdm_relation;

/* a relation b, both of one dtype, any but the 16-bit ones -> bool. No gradient flows. */
TDM_API tdm_value tdm_compare(tdm_graph *graph, const char *name, tdm_value a,
                              tdm_relation relation, tdm_value b);
/* x relation number -> bool, exactly as of real numbers: the number is not rounded to x's dtype. So
 * 0 < 0.5 is true of int32, every int32 is less than 1e12, and no float32 equals 0.1, which lies
 * between two of them: pass (double)0.1f for the nearest. A NaN on either side makes every relation
 * false except TDM_NOT_EQUAL. */
TDM_API tdm_value tdm_compare_scalar(tdm_graph *graph, const char *name, tdm_value x,
                                     tdm_relation relation, double number);
/* a where condition (bool) is true, else b, of any dtype; all three are broadcast. */
TDM_API tdm_value tdm_where(tdm_graph *graph, const char *name, tdm_value condition, tdm_value a,
                            tdm_value b);
/* The number where condition is true, else x; both are broadcast. INVALID_ARGUMENT if x's dtype
 * does not hold the number: 0.5 or 2^31 of int32, 1e300 of float32. */
TDM_API tdm_value tdm_masked_fill(tdm_graph *graph, const char *name, tdm_value x,
                                  tdm_value condition, double number);

/* ---- Of a value and numbers -------------------------------------------------------------------
 */

/* scale x + shift, and what it is for one of them. Also of int32 and int64, which wrap on overflow:
 * numbers are then whole, and ones that the dtype holds. */
TDM_API tdm_value tdm_affine(tdm_graph *graph, const char *name, tdm_value x, double scale,
                             double shift);
TDM_API tdm_value tdm_add_scalar(tdm_graph *graph, const char *name, tdm_value x, double number);
TDM_API tdm_value tdm_mul_scalar(tdm_graph *graph, const char *name, tdm_value x, double number);
TDM_API tdm_value tdm_neg(tdm_graph *graph, const char *name, tdm_value x);
/* x to the power of a number; powers other than -2, -1, -0.5, 0, 0.5, 1, 2 and 3 take the C
 * library's time on a CPU. */
TDM_API tdm_value tdm_pow(tdm_graph *graph, const char *name, tdm_value x, double exponent);
TDM_API tdm_value tdm_square(tdm_graph *graph, const char *name, tdm_value x);
/* x, or least where it is less, then most where it is more; infinities leave a side open. Nothing
 * flows back at the ends, as since PyTorch 2.15. */
TDM_API tdm_value tdm_clamp(tdm_graph *graph, const char *name, tdm_value x, double least,
                            double most);
/* The same of ends that ascend: PyTorch's Hardtanh, and with 0 and 6 ReLU6. */
TDM_API tdm_value tdm_hardtanh(tdm_graph *graph, const char *name, tdm_value x, double least,
                               double most);
TDM_API tdm_value tdm_relu6(tdm_graph *graph, const char *name, tdm_value x);

/* ---- Of one value -----------------------------------------------------------------------------
 */

/* The absolute value, sine, cosine, and the error function, of each element of x. */
TDM_API tdm_value tdm_abs(tdm_graph *graph, const char *name, tdm_value x);
TDM_API tdm_value tdm_sin(tdm_graph *graph, const char *name, tdm_value x);
TDM_API tdm_value tdm_cos(tdm_graph *graph, const char *name, tdm_value x);
TDM_API tdm_value tdm_erf(tdm_graph *graph, const char *name, tdm_value x);
/* Integers below, nearest (halves: the even one), and -1, 0 or 1: nothing flows back. */
TDM_API tdm_value tdm_floor(tdm_graph *graph, const char *name, tdm_value x);
TDM_API tdm_value tdm_round(tdm_graph *graph, const char *name, tdm_value x);
TDM_API tdm_value tdm_sign(tdm_graph *graph, const char *name, tdm_value x);
TDM_API tdm_value tdm_exp(tdm_graph *graph, const char *name, tdm_value x);
TDM_API tdm_value tdm_log(tdm_graph *graph, const char *name, tdm_value x); /* natural */
TDM_API tdm_value tdm_sqrt(tdm_graph *graph, const char *name, tdm_value x);
TDM_API tdm_value tdm_rsqrt(tdm_graph *graph, const char *name, tdm_value x); /* 1 / sqrt(x) */
TDM_API tdm_value tdm_relu(tdm_graph *graph, const char *name, tdm_value x);
TDM_API tdm_value tdm_tanh(tdm_graph *graph, const char *name, tdm_value x);
TDM_API tdm_value tdm_sigmoid(tdm_graph *graph, const char *name, tdm_value x);
TDM_API tdm_value tdm_gelu(tdm_graph *graph, const char *name, tdm_value x);
/* GELU by its approximation with tanh, PyTorch's approximate="tanh". */
TDM_API tdm_value tdm_gelu_tanh(tdm_graph *graph, const char *name, tdm_value x);
TDM_API tdm_value tdm_silu(tdm_graph *graph, const char *name, tdm_value x);
TDM_API tdm_value tdm_hardsigmoid(tdm_graph *graph, const char *name, tdm_value x);
TDM_API tdm_value tdm_hardswish(tdm_graph *graph, const char *name, tdm_value x);
/* x tanh(log(1 + e^x)) */
TDM_API tdm_value tdm_mish(tdm_graph *graph, const char *name, tdm_value x);
/* x, or slope x where x < 0; PyTorch's default slope is 0.01. */
TDM_API tdm_value tdm_leaky_relu(tdm_graph *graph, const char *name, tdm_value x, double slope);
/* x, or alpha (e^x - 1) where x < 0; PyTorch's default alpha is 1. */
TDM_API tdm_value tdm_elu(tdm_graph *graph, const char *name, tdm_value x, double alpha);
/* log(1 + e^(beta x)) / beta, and x where beta x is above threshold; PyTorch's defaults are 1 and
 * 20. */
TDM_API tdm_value tdm_softplus(tdm_graph *graph, const char *name, tdm_value x, double beta,
                               double threshold);

/* x, or slope x where x < 0, the slope being a parameter name.weight (slopes), 0.25 at first: one
 * of all channels, or one for each of dimension 1. */
TDM_API tdm_value tdm_prelu(tdm_graph *graph, const char *name, tdm_value x, int64_t slopes);
/* The first half of x along dimension, which is a size, times the sigmoid of the second. */
TDM_API tdm_value tdm_glu(tdm_graph *graph, const char *name, tdm_value x, int dimension);

/* ---- Along a dimension ------------------------------------------------------------------------
 */
/* A dimension that is negative counts from the end; with `keep` it stays as 1, else it goes. */

/* The largest or least element, of equals the first, a NaN before all; the adjoint is that
 * element's alone. out_indices, unless NULL: where it is, int64. */
TDM_API tdm_value tdm_max(tdm_graph *graph, const char *name, tdm_value x, int dimension, bool keep,
                          tdm_value *out_indices);
TDM_API tdm_value tdm_min(tdm_graph *graph, const char *name, tdm_value x, int dimension, bool keep,
                          tdm_value *out_indices);
/* Where it is, int64. */
TDM_API tdm_value tdm_argmax(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                             bool keep);
TDM_API tdm_value tdm_argmin(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                             bool keep);
/* The share of rows whose class is that of the largest score, float32: scores (n, classes), classes
 * int (n). In micro-batches, and in a parallel region, that of the whole batch. No gradient. */
TDM_API tdm_value tdm_accuracy(tdm_graph *graph, const char *name, tdm_value scores,
                               tdm_value classes);
/* The product, and the logarithm of the sum of exponentials; of no elements 1, and minus infinity.
 */
TDM_API tdm_value tdm_prod(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                           bool keep);
TDM_API tdm_value tdm_logsumexp(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                                bool keep);
/* The sums of all elements up to each, itself included. */
TDM_API tdm_value tdm_cumsum(tdm_graph *graph, const char *name, tdm_value x, int dimension);

#ifdef __cplusplus
}
#endif
#endif
