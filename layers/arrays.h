/* Public part of layers/: elements in order, sums of products by an equation, diagonals and other
 * parts of arrays, norms and running products. Included by layers/layers.h, whose rules hold here
 * too. A dimension that is negative counts from the end. All are differentiable. */
#ifndef TANDEM_LAYERS_ARRAYS_H
#define TANDEM_LAYERS_ARRAYS_H

#include "tandem/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Order ----------------------------------------------------------------------------------- */
/* x is of any dtype but the 16-bit ones; that of tdm_median is floating. Equals keep their order,
 * as PyTorch's with stable=True; a NaN is beyond all numbers. The adjoint of an element goes to
 * where it was. */

/* x in ascending order along dimension, or descending. out_indices, unless NULL: where each element
 * was, int64. */
TDM_API tdm_value tdm_sort(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                           bool descending, tdm_value *out_indices);
/* The indices of tdm_sort. */
TDM_API tdm_value tdm_argsort(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                              bool descending);
/* The k largest along dimension, the largest first, or the k smallest, the smallest first; k is 1
 * to as many as there are. */
TDM_API tdm_value tdm_topk(tdm_graph *graph, const char *name, tdm_value x, int64_t k,
                           int dimension, bool largest, tdm_value *out_indices);
/* The middle one along dimension, which is a size, and the lower of two; NaN where there is one.
 * The dimension stays as 1 if keep, else goes. */
TDM_API tdm_value tdm_median(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                             bool keep);

/* ---- Products -------------------------------------------------------------------------------- */

/* PyTorch's einsum of 1 to 16 operands: "bij,bjk->bik". A letter a dimension; what stands in
 * several operands is multiplied, what is not behind the arrow is summed over. Without an arrow,
 * the letters that stand once, in the order of the alphabet. "..." stands for dimensions that are
 * broadcast, and come first where there is no arrow. A letter twice in an operand is its diagonal,
 * whose dimensions are sizes. Operands are taken from left to right, two at a time, as batched
 * products of matrices: put what is small first. */
TDM_API tdm_value tdm_einsum(tdm_graph *graph, const char *name, const char *equation,
                             const tdm_value *operands, size_t count);
/* a (n), b (m) -> (n, m): the products of all pairs. */
TDM_API tdm_value tdm_outer(tdm_graph *graph, const char *name, tdm_value a, tdm_value b);

/* ---- Parts ----------------------------------------------------------------------------------- */

/* The `count` parts of one place each along dimension, which has that size, without it. */
TDM_API void tdm_unbind(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                        size_t count, tdm_value *out_parts);
/* The diagonal of two dimensions, which are sizes, as the last dimension; offset: 0 the main one,
 * positive above it, and beyond them one without elements. */
TDM_API tdm_value tdm_diagonal(tdm_graph *graph, const char *name, tdm_value x, int64_t offset,
                               int first, int second);
/* The sum of the main diagonal of x (n, m). */
TDM_API tdm_value tdm_diagonal_sum(tdm_graph *graph, const char *name, tdm_value x);
/* 1 to 8 values of one dimension, each repeated along the dimensions of all others: out_values[i]
 * (n0, n1, ...) varies along dimension i (PyTorch's indexing="ij"). */
TDM_API void tdm_meshgrid(tdm_graph *graph, const char *name, const tdm_value *values, size_t count,
                          tdm_value *out_values);

/* ---- Along dimensions ------------------------------------------------------------------------ */

/* The root of tdm_variance, also where the variance leaves the range of the dtype; of elements that
 * are all equal it is 0, and nothing flows back. */
TDM_API tdm_value tdm_std(tdm_graph *graph, const char *name, tdm_value x, const int *dimensions,
                          size_t count, double correction, bool keep);
/* sum(|x|^p)^(1/p) over `count` dimensions (0: all of them), p > 0; the largest |x| for INFINITY,
 * the smallest for -INFINITY, of equals the first. The gradient of a norm that is 0 is 0. Of p = 2
 * no square leaves the range of the dtype; of other p, |x|^p and their sum must be in it. */
TDM_API tdm_value tdm_norm(tdm_graph *graph, const char *name, tdm_value x, double p,
                           const int *dimensions, size_t count, bool keep);
/* x / max(norm, epsilon), with tdm_norm along dimension: torch.nn.functional.normalize, whose
 * defaults are p = 2, dimension 1 and epsilon 1e-12. epsilon is taken literally: with 0 a row of
 * zeros becomes NaN. INVALID_ARGUMENT for an epsilon below 0 or that is not finite. */
TDM_API tdm_value tdm_normalize(tdm_graph *graph, const char *name, tdm_value x, double p,
                                int dimension, double epsilon);
/* The products of all elements up to each, itself included, along dimension. */
TDM_API tdm_value tdm_cumprod(tdm_graph *graph, const char *name, tdm_value x, int dimension);
/* The logarithms of the sums of e^x up to each, likewise. */
TDM_API tdm_value tdm_logcumsumexp(tdm_graph *graph, const char *name, tdm_value x, int dimension);

#ifdef __cplusplus
}
#endif
#endif
