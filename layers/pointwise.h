/* Public part of layers/: elementwise functions and reductions with PyTorch's formulas, defaults
 * and gradients. Included by layers/layers.h. The conventions of functions that build a graph are
 * at the top of graph/building.h.
 *
 * Operands are floating unless a comment states otherwise. The result of an elementwise function of
 * one value has the dtype and shape of x. */
#ifndef TANDEM_LAYERS_POINTWISE_H
#define TANDEM_LAYERS_POINTWISE_H

#include "tandem/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Functions of two values ----------------------------------------------------------------- */

/* Both operands have one dtype. They are broadcast to one shape as in NumPy and PyTorch: shapes are
 * aligned at the last dimension, and a dimension that is 1, or that one of them lacks, is repeated.
 * A named dimension is compatible with the same name and with 1. Gradients are summed over repeated
 * elements.
 * @code{.unparsed}
 * a (batch, 1, 5)          a (batch, 5)    a (batch, 5)
 * b    (3, 5)              b (5)           b ()
 * -> (batch, 3, 5)         -> (batch, 5)   -> (batch, 5)
 * @endcode
 */

/* Computes a + b. Also for int32 and int64, which wrap on overflow. */
TDM_API tdm_value tdm_add(tdm_graph *graph, const char *name, tdm_value a, tdm_value b);

/* Computes a - b. Also for int32 and int64, which wrap on overflow. */
TDM_API tdm_value tdm_sub(tdm_graph *graph, const char *name, tdm_value a, tdm_value b);

/* Computes a b. Also for int32 and int64, which wrap on overflow. */
TDM_API tdm_value tdm_mul(tdm_graph *graph, const char *name, tdm_value a, tdm_value b);

/* Computes the larger of a and b; NaN if one of them is NaN. If both are equal, each receives half
 * of the gradient. Also for int32 and int64. */
TDM_API tdm_value tdm_maximum(tdm_graph *graph, const char *name, tdm_value a, tdm_value b);

/* Computes the smaller of a and b; NaN if one of them is NaN. If both are equal, each receives half
 * of the gradient. Also for int32 and int64. */
TDM_API tdm_value tdm_minimum(tdm_graph *graph, const char *name, tdm_value a, tdm_value b);

/* Computes a / b. */
TDM_API tdm_value tdm_div(tdm_graph *graph, const char *name, tdm_value a, tdm_value b);

/* How tdm_integer_div rounds. */
typedef enum tdm_rounding {
  TDM_ROUND_DOWN,       /* rounding_mode="floor", Python's a // b: -7 by 2 is -4. */
  TDM_ROUND_TOWARD_ZERO /* rounding_mode="trunc", C's a / b: -7 by 2 is -3. */
} tdm_rounding;

/* Computes a / b, rounded to an integer (torch.div with rounding_mode). No gradient flows. For
 * floating values use tdm_floor of tdm_div.
 *
 * Division by 0 gives 0; PyTorch on a CPU fails. The least integer divided by -1 is itself.
 * @param a int32 or int64.
 * @param b of a's dtype.
 * @param rounding direction of rounding. */
TDM_API tdm_value tdm_integer_div(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                                  tdm_rounding rounding);

/* Computes the remainder of a divided by b, with the sign of b: Python's a % b (torch.remainder).
 * Also for int32 and int64, where a remainder by 0 is a. So a = b (a // b) + a % b holds for all
 * integers. */
TDM_API tdm_value tdm_remainder(tdm_graph *graph, const char *name, tdm_value a, tdm_value b);

/* Computes a to the power of b (torch.pow). tdm_pow is faster if the exponent is one number. */
TDM_API tdm_value tdm_power(tdm_graph *graph, const char *name, tdm_value a, tdm_value b);

/* Relation that tdm_compare tests. */
typedef enum tdm_relation {
  TDM_LESS,          /* a < b. */
  TDM_LESS_EQUAL,    /* a <= b. */
  TDM_GREATER,       /* a > b. */
  TDM_GREATER_EQUAL, /* a >= b. */
  TDM_EQUAL,         /* a == b. */
  TDM_NOT_EQUAL      /* a != b. */
} tdm_relation;

/* Computes whether a and b have a relation. Operands have one dtype, except float16 and bfloat16.
 * No gradient flows.
 * @return bool. */
TDM_API tdm_value tdm_compare(tdm_graph *graph, const char *name, tdm_value a,
                              tdm_relation relation, tdm_value b);

/* Computes whether x and a number have a relation, exactly as for real numbers: the number is not
 * rounded to x's dtype. So 0 < 0.5 is true for int32, every int32 is less than 1e12, and no float32
 * equals 0.1, which is between two of them; pass (double)0.1f for the nearest. If one side is NaN,
 * every relation is false except TDM_NOT_EQUAL. No gradient flows.
 * @return bool of x's shape. */
TDM_API tdm_value tdm_compare_scalar(tdm_graph *graph, const char *name, tdm_value x,
                                     tdm_relation relation, double number);

/* Selects elements: a where condition is true, b elsewhere (torch.where). All three are broadcast.
 * @param condition bool.
 * @param a any dtype.
 * @param b of a's dtype. */
TDM_API tdm_value tdm_where(tdm_graph *graph, const char *name, tdm_value condition, tdm_value a,
                            tdm_value b);

/* Returns x with a number where condition is true (torch.masked_fill). Both are broadcast.
 * @param x any dtype.
 * @param condition bool.
 * @param number INVALID_ARGUMENT if x's dtype cannot represent it: 0.5 or 2^31 as int32, 1e300 as
 *     float32. */
TDM_API tdm_value tdm_masked_fill(tdm_graph *graph, const char *name, tdm_value x,
                                  tdm_value condition, double number);

/* ---- Functions of a value and numbers -------------------------------------------------------- */

/* Computes scale x + shift. Also for int32 and int64, which wrap on overflow; scale and shift must
 * then be integers that the dtype can represent. */
TDM_API tdm_value tdm_affine(tdm_graph *graph, const char *name, tdm_value x, double scale,
                             double shift);

/* Computes x + number. Otherwise as tdm_affine. */
TDM_API tdm_value tdm_add_scalar(tdm_graph *graph, const char *name, tdm_value x, double number);

/* Computes number x. Otherwise as tdm_affine. */
TDM_API tdm_value tdm_mul_scalar(tdm_graph *graph, const char *name, tdm_value x, double number);

/* Computes -x. Otherwise as tdm_affine. */
TDM_API tdm_value tdm_neg(tdm_graph *graph, const char *name, tdm_value x);

/* Computes x to the power of a number (torch.pow). Exponents -2, -1, -0.5, 0, 0.5, 1, 2 and 3 are
 * fast; others use the C library's pow on a CPU. */
TDM_API tdm_value tdm_pow(tdm_graph *graph, const char *name, tdm_value x, double exponent);

/* Computes x^2. */
TDM_API tdm_value tdm_square(tdm_graph *graph, const char *name, tdm_value x);

/* Limits x to [least, most]: min(max(x, least), most) (torch.clamp). No gradient flows at and
 * beyond the limits, as in PyTorch since 2.15.
 * @param least lower limit; -INFINITY: none.
 * @param most upper limit; INFINITY: none. It may be less than least; the result is then most
 *     everywhere. */
TDM_API tdm_value tdm_clamp(tdm_graph *graph, const char *name, tdm_value x, double least,
                            double most);

/* Limits x to [least, most] (torch.nn.Hardtanh). As tdm_clamp, but least must be less than most. */
TDM_API tdm_value tdm_hardtanh(tdm_graph *graph, const char *name, tdm_value x, double least,
                               double most);

/* Limits x to [0, 6] (torch.nn.ReLU6). */
TDM_API tdm_value tdm_relu6(tdm_graph *graph, const char *name, tdm_value x);

/* ---- Functions of one value ------------------------------------------------------------------ */

/* Computes |x|. */
TDM_API tdm_value tdm_abs(tdm_graph *graph, const char *name, tdm_value x);

/* Computes the sine of x, in radians. */
TDM_API tdm_value tdm_sin(tdm_graph *graph, const char *name, tdm_value x);

/* Computes the cosine of x, in radians. */
TDM_API tdm_value tdm_cos(tdm_graph *graph, const char *name, tdm_value x);

/* Computes the error function of x: 2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x. */
TDM_API tdm_value tdm_erf(tdm_graph *graph, const char *name, tdm_value x);

/* Computes the largest integer that is not greater than x. No gradient flows. */
TDM_API tdm_value tdm_floor(tdm_graph *graph, const char *name, tdm_value x);

/* Computes the nearest integer; halves are rounded to the even one. No gradient flows. */
TDM_API tdm_value tdm_round(tdm_graph *graph, const char *name, tdm_value x);

/* Computes the sign of x: -1, 0 or 1. No gradient flows. */
TDM_API tdm_value tdm_sign(tdm_graph *graph, const char *name, tdm_value x);

/* Computes e^x. */
TDM_API tdm_value tdm_exp(tdm_graph *graph, const char *name, tdm_value x);

/* Computes the natural logarithm of x. */
TDM_API tdm_value tdm_log(tdm_graph *graph, const char *name, tdm_value x);

/* Computes the square root of x. */
TDM_API tdm_value tdm_sqrt(tdm_graph *graph, const char *name, tdm_value x);

/* Computes 1 / sqrt(x). */
TDM_API tdm_value tdm_rsqrt(tdm_graph *graph, const char *name, tdm_value x);

/* Computes max(0, x). */
TDM_API tdm_value tdm_relu(tdm_graph *graph, const char *name, tdm_value x);

/* Computes the hyperbolic tangent of x. */
TDM_API tdm_value tdm_tanh(tdm_graph *graph, const char *name, tdm_value x);

/* Computes 1 / (1 + e^-x). */
TDM_API tdm_value tdm_sigmoid(tdm_graph *graph, const char *name, tdm_value x);

/* Computes the Gaussian error linear unit: x / 2 (1 + erf(x / sqrt(2))) (torch.nn.GELU). */
TDM_API tdm_value tdm_gelu(tdm_graph *graph, const char *name, tdm_value x);

/* Computes an approximation of tdm_gelu: x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
 * (PyTorch's approximate="tanh"). */
TDM_API tdm_value tdm_gelu_tanh(tdm_graph *graph, const char *name, tdm_value x);

/* Computes x sigmoid(x) (torch.nn.SiLU). */
TDM_API tdm_value tdm_silu(tdm_graph *graph, const char *name, tdm_value x);

/* Computes min(max(x + 3, 0), 6) / 6 (torch.nn.Hardsigmoid). */
TDM_API tdm_value tdm_hardsigmoid(tdm_graph *graph, const char *name, tdm_value x);

/* Computes x min(max(x + 3, 0), 6) / 6 (torch.nn.Hardswish). */
TDM_API tdm_value tdm_hardswish(tdm_graph *graph, const char *name, tdm_value x);

/* Computes x tanh(log(1 + e^x)) (torch.nn.Mish). */
TDM_API tdm_value tdm_mish(tdm_graph *graph, const char *name, tdm_value x);

/* Computes x if x >= 0, and slope x otherwise (torch.nn.LeakyReLU).
 * @param slope PyTorch's default is 0.01. */
TDM_API tdm_value tdm_leaky_relu(tdm_graph *graph, const char *name, tdm_value x, double slope);

/* Computes x if x >= 0, and alpha (e^x - 1) otherwise (torch.nn.ELU).
 * @param alpha PyTorch's default is 1. */
TDM_API tdm_value tdm_elu(tdm_graph *graph, const char *name, tdm_value x, double alpha);

/* Computes log(1 + e^(beta x)) / beta, and x if beta x is above threshold (torch.nn.Softplus).
 * @param beta positive; PyTorch's default is 1.
 * @param threshold PyTorch's default is 20. */
TDM_API tdm_value tdm_softplus(tdm_graph *graph, const char *name, tdm_value x, double beta,
                               double threshold);

/* Computes x if x >= 0, and slope x otherwise, with trained slopes (torch.nn.PReLU). Declares
 * `name.weight` (slopes), 0.25 each.
 * @param slopes 1: one slope for all elements. Otherwise the size of dimension 1: one slope per
 *     channel. */
TDM_API tdm_value tdm_prelu(tdm_graph *graph, const char *name, tdm_value x, int64_t slopes);

/* Computes the first half of x along dimension times the sigmoid of the second half (torch.nn.GLU).
 * @param dimension its size must be even and known.
 * @return half as large along dimension. */
TDM_API tdm_value tdm_glu(tdm_graph *graph, const char *name, tdm_value x, int dimension);

/* ---- Reductions ------------------------------------------------------------------------------ */

/* Computes the largest element along dimension: the first one of equals, or NaN if there is one.
 * The gradient flows to this element only.
 * @param out_indices receives the element's index along dimension, int64; NULL: not needed. */
TDM_API tdm_value tdm_max(tdm_graph *graph, const char *name, tdm_value x, int dimension, bool keep,
                          tdm_value *out_indices);

/* Computes the smallest element along dimension. Otherwise as tdm_max. */
TDM_API tdm_value tdm_min(tdm_graph *graph, const char *name, tdm_value x, int dimension, bool keep,
                          tdm_value *out_indices);

/* Computes the index of the largest element along dimension, int64: that of tdm_max. No gradient
 * flows. */
TDM_API tdm_value tdm_argmax(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                             bool keep);

/* Computes the index of the smallest element along dimension, int64: that of tdm_min. No gradient
 * flows. */
TDM_API tdm_value tdm_argmin(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                             bool keep);

/* Computes the share of rows whose class has the largest score. With micro-batches and in a
 * parallel region it is that of the whole batch. No gradient flows.
 * @param scores (n, classes).
 * @param classes (n) int32 or int64.
 * @return () float32, 0 to 1. */
TDM_API tdm_value tdm_accuracy(tdm_graph *graph, const char *name, tdm_value scores,
                               tdm_value classes);

/* Computes products of x along dimensions; 1 for no elements (torch.prod).
 * @param dimensions (count); negative: from the end.
 * @param count 0: all dimensions.
 * @param keep true: the dimensions remain with size 1. false: they are removed. */
TDM_API tdm_value tdm_prod(tdm_graph *graph, const char *name, tdm_value x, const int *dimensions,
                           size_t count, bool keep);

/* Computes log(sum(e^x)) along dimensions; minus infinity for no elements (torch.logsumexp).
 * @param dimensions (count); negative: from the end.
 * @param count 0: all dimensions.
 * @param keep true: the dimensions remain with size 1. false: they are removed. */
TDM_API tdm_value tdm_logsumexp(tdm_graph *graph, const char *name, tdm_value x,
                                const int *dimensions, size_t count, bool keep);

/* Computes cumulative sums along dimension: each element is the sum of those up to it, itself
 * included. */
TDM_API tdm_value tdm_cumsum(tdm_graph *graph, const char *name, tdm_value x, int dimension);

#ifdef __cplusplus
}
#endif
#endif
