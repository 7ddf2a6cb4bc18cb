/* Public part of layers/: sorting, einsum, parts of arrays, norms and cumulative products. Included
 * by layers/layers.h. The conventions of functions that build a graph are at the top of
 * graph/building.h.
 *
 * A negative dimension counts from the end. */
#ifndef TANDEM_LAYERS_ARRAYS_H
#define TANDEM_LAYERS_ARRAYS_H

#include "tandem/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Sorting --------------------------------------------------------------------------------- */

/* x has any dtype but float16 and bfloat16. Equal elements keep their order, as with PyTorch's
 * stable=True; NaN is greater than all numbers. The gradient of a result flows to the element that
 * it was. */

/* Sorts x along dimension (torch.sort).
 * @param descending true: in descending order.
 * @param out_indices receives the index along dimension that each element had in x, int64; NULL:
 *     not needed. */
TDM_API tdm_value tdm_sort(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                           bool descending, tdm_value *out_indices);

/* Returns the indices of tdm_sort, int64. */
TDM_API tdm_value tdm_argsort(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                              bool descending);

/* Returns the k largest elements along dimension in descending order, or the k smallest in
 * ascending order (torch.topk).
 * @param k 1 to the size of dimension.
 * @param largest true: the largest. false: the smallest.
 * @param out_indices as in tdm_sort; NULL: not needed. */
TDM_API tdm_value tdm_topk(tdm_graph *graph, const char *name, tdm_value x, int64_t k,
                           int dimension, bool largest, tdm_value *out_indices);

/* Computes the median along dimension, the lower one of two; NaN if there is a NaN (torch.median).
 * @param x floating; dimension must be a size.
 * @param keep true: dimension remains with size 1. false: it is removed. */
TDM_API tdm_value tdm_median(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                             bool keep);

/* ---- Products -------------------------------------------------------------------------------- */

/* Computes sums of products by Einstein's notation (torch.einsum): "bij,bjk->bik" is a batched
 * matrix product.
 * - Each letter is a dimension of an operand. Elements of operands with the same letter are
 *   multiplied; letters that are missing after the arrow are summed over.
 * - Without an arrow, the result has the letters that occur once, in alphabetical order.
 * - "..." stands for dimensions that are broadcast. Without an arrow they come first in the result.
 * - A letter that occurs twice in an operand selects the diagonal; its dimensions must be sizes.
 * @code
 * const tdm_value operands[] = {a, b};
 * tdm_value y = tdm_einsum(graph, "product", "bij,bjk->bik", operands, 2);
 * @endcode
 *
 * Operands are combined from left to right, two at a time, by batched matrix products. So put small
 * operands first.
 * @param operands (count): of one floating dtype.
 * @param count 1 to 16. */
TDM_API tdm_value tdm_einsum(tdm_graph *graph, const char *name, const char *equation,
                             const tdm_value *operands, size_t count);

/* Computes the products of all pairs of elements: y[i][j] = a[i] b[j] (torch.outer).
 * @param a (n).
 * @param b (m).
 * @return (n, m). */
TDM_API tdm_value tdm_outer(tdm_graph *graph, const char *name, tdm_value a, tdm_value b);

/* ---- Parts of arrays ------------------------------------------------------------------------- */

/* Returns the entries of x along dimension as values without this dimension (torch.unbind).
 * @param count size of dimension.
 * @param out_parts (count): receives the entries. */
TDM_API void tdm_unbind(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                        size_t count, tdm_value *out_parts);

/* Returns the diagonal of two dimensions as the last dimension of the result (torch.diagonal). Both
 * dimensions must be sizes.
 * @param offset 0: the main diagonal; positive: above it; negative: below it. A diagonal outside of
 *     the matrix has no elements.
 * @param first dimension of the rows.
 * @param second dimension of the columns. */
TDM_API tdm_value tdm_diagonal(tdm_graph *graph, const char *name, tdm_value x, int64_t offset,
                               int first, int second);

/* Computes the sum of the main diagonal of x (n, m) (torch.trace). */
TDM_API tdm_value tdm_diagonal_sum(tdm_graph *graph, const char *name, tdm_value x);

/* Repeats each of several vectors along the dimensions of the others (torch.meshgrid with
 * indexing="ij").
 * @param values (count): value i has the shape (n_i).
 * @param count 1 to 8.
 * @param out_values (count): receives values of shape (n_0, n_1, ...); value i varies along
 *     dimension i. */
TDM_API void tdm_meshgrid(tdm_graph *graph, const char *name, const tdm_value *values, size_t count,
                          tdm_value *out_values);

/* ---- Reductions and cumulative functions ----------------------------------------------------- */

/* Computes the standard deviation along dimensions: the root of tdm_variance, also if the variance
 * exceeds the range of the dtype (torch.std). It is 0 for equal elements, and no gradient flows
 * then.
 * @param dimensions (count); negative: from the end.
 * @param count 0: all dimensions.
 * @param correction less than the number of elements; PyTorch's default is 1.
 * @param keep true: the dimensions remain with size 1. false: they are removed. */
TDM_API tdm_value tdm_std(tdm_graph *graph, const char *name, tdm_value x, const int *dimensions,
                          size_t count, double correction, bool keep);

/* Computes the p-norm along dimensions: sum(|x|^p)^(1/p) (torch.linalg.vector_norm). The gradient
 * of a norm that is 0 is 0. Squares may exceed the range of the dtype for p = 2; for other p, |x|^p
 * and its sum must not.
 * @param p positive; INFINITY: the largest |x|; -INFINITY: the smallest |x|. The gradient of these
 *     two flows to the first one of equals.
 * @param dimensions (count); negative: from the end.
 * @param count 0: all dimensions.
 * @param keep true: the dimensions remain with size 1. false: they are removed. */
TDM_API tdm_value tdm_norm(tdm_graph *graph, const char *name, tdm_value x, double p,
                           const int *dimensions, size_t count, bool keep);

/* Computes x / max(norm, epsilon), where norm is the p-norm along dimension
 * (torch.nn.functional.normalize).
 * @param p as in tdm_norm; PyTorch's default is 2.
 * @param dimension PyTorch's default is 1.
 * @param epsilon finite, 0 or more; PyTorch's default is 1e-12. With 0, a row of zeros becomes NaN.
 */
TDM_API tdm_value tdm_normalize(tdm_graph *graph, const char *name, tdm_value x, double p,
                                int dimension, double epsilon);

/* Computes cumulative products along dimension: each element is the product of those up to it,
 * itself included (torch.cumprod). Also for int32 and int64, for which dimension must be a size. */
TDM_API tdm_value tdm_cumprod(tdm_graph *graph, const char *name, tdm_value x, int dimension);

/* Computes the logarithms of cumulative sums of e^x along dimension (torch.logcumsumexp). */
TDM_API tdm_value tdm_logcumsumexp(tdm_graph *graph, const char *name, tdm_value x, int dimension);

#ifdef __cplusplus
}
#endif
#endif
