/* Public part of layers/: what moves elements, repeats them, or makes them of their places. Of any
 * dtype unless it says otherwise, and differentiable where that is floating. Included by
 * layers/layers.h, whose rules hold here too. A dimension that is negative counts from the end. */
#ifndef TANDEM_LAYERS_MOVES_H
#define TANDEM_LAYERS_MOVES_H

#include "tandem/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Parts and orders ------------------------------------------------------------------------ */

/* An end that is left open, as in Python's x[begin:] and, with a negative step, x[begin::-1]. */
#define TDM_TO_THE_END INT64_MAX
#define TDM_TO_THE_BEGINNING INT64_MIN

/* x[..., begin:end:step, ...] along dimension, as Python's slices: begin and end count from the end
 * where negative, and stop where there are elements; step may be negative, not 0. A dimension that
 * has a name is unknown afterwards, unless it is taken whole. */
TDM_API tdm_value tdm_slice(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                            int64_t begin, int64_t end, int64_t step);
/* x with its dimensions in another order: dimension i is x's dimensions[i]; each of them once. */
TDM_API tdm_value tdm_permute(tdm_graph *graph, const char *name, tdm_value x,
                              const int *dimensions, size_t count);
/* x in reverse along these dimensions. */
TDM_API tdm_value tdm_flip(tdm_graph *graph, const char *name, tdm_value x, const int *dimensions,
                           size_t count);
/* x shifted along dimension, which is a size: element i goes to i + shift, what leaves at one end
 * comes in at the other. */
TDM_API tdm_value tdm_roll(tdm_graph *graph, const char *name, tdm_value x, int64_t shift,
                           int dimension);
/* The upper and the lower triangle of the last two dimensions, zeros elsewhere. diagonal:
 * 0 the main one, positive above it, as PyTorch's. */
TDM_API tdm_value tdm_triu(tdm_graph *graph, const char *name, tdm_value x, int64_t diagonal);
TDM_API tdm_value tdm_tril(tdm_graph *graph, const char *name, tdm_value x, int64_t diagonal);

/* ---- Dimensions ------------------------------------------------------------------------------ */

/* x with a dimension of 1 more, before dimension (0 to rank; negative: from the end, -1 behind the
 * last). */
TDM_API tdm_value tdm_unsqueeze(tdm_graph *graph, const char *name, tdm_value x, int dimension);
/* x without dimension, which is 1. */
TDM_API tdm_value tdm_squeeze(tdm_graph *graph, const char *name, tdm_value x, int dimension);
/* x with dimensions first to last as one. */
TDM_API tdm_value tdm_flatten(tdm_graph *graph, const char *name, tdm_value x, int first, int last);
/* 1 to 16 values of one dtype and shape along a new dimension. */
TDM_API tdm_value tdm_stack(tdm_graph *graph, const char *name, const tdm_value *values,
                            size_t count, int dimension);

/* ---- Repetitions ----------------------------------------------------------------------------- */

/* x with each dimension of 1 repeated to the shape's; TDM_INFER leaves a dimension as it is. Shapes
 * are aligned at the last dimension, and x may lack the first ones. A dimension that is repeated
 * must be a size: tdm_expand_as repeats it as often as another value has it. One that is not has
 * the shape's size, where it has a name when it runs. */
TDM_API tdm_value tdm_expand(tdm_graph *graph, const char *name, tdm_value x, tdm_shape shape);
/* The same to the shape of like, whose elements are not read. */
TDM_API tdm_value tdm_expand_as(tdm_graph *graph, const char *name, tdm_value x, tdm_value like);
/* x times[i] times, 0 or more, along dimension i, all of it one after the other; times has one
 * number a dimension of x, or more: then x has dimensions of 1 before its first. */
TDM_API tdm_value tdm_repeat(tdm_graph *graph, const char *name, tdm_value x, const int64_t *times,
                             size_t count);

/* What stands around a value that is padded. */
typedef enum tdm_pad_mode {
  TDM_PAD_CONSTANT,  /* a number: 00|abcd|00 */
  TDM_PAD_REFLECT,   /* without the border's own element: cb|abcd|cb */
  TDM_PAD_REPLICATE, /* the border's element: aa|abcd|dd */
  TDM_PAD_CIRCULAR   /* cd|abcd|ab */
} tdm_pad_mode;

/* PyTorch's pad: amounts are pairs of elements before and behind, the last dimension's first; a
 * negative amount takes elements away (not of reflections). value: of TDM_PAD_CONSTANT. What is
 * padded otherwise than by a constant is a size, and its pads reach no further than its elements
 * do. */
TDM_API tdm_value tdm_pad(tdm_graph *graph, const char *name, tdm_value x, const int64_t *amounts,
                          size_t count, tdm_pad_mode mode, double value);

/* ---- By indices ------------------------------------------------------------------------------ */
/* Indices are int32 or int64, and in range: a run with another fails, naming it and its place. x is
 * of any dtype. */

/* Along dimension the elements of x that index names: y[i][j] = x[index[i][j]][j] for dimension 0
 * of two. index has x's rank, and as many of the other dimensions, or, where both are sizes, fewer.
 */
TDM_API tdm_value tdm_gather(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                             tdm_value index);
/* The places of x along dimension that index (n) names. */
TDM_API tdm_value tdm_index_select(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                                   tdm_value index);
/* x, floating, int32 or int64, with source added where index names: y[index[i][j]][j] +=
 * source[i][j] for dimension 0 of two, in the order of i. index has as many of x's other
 * dimensions; source is like index, or has more. */
TDM_API tdm_value tdm_scatter_add(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                                  tdm_value index, tdm_value source);
/* ids (...) -> int64 (..., classes): 1 at the id's place, else 0. */
TDM_API tdm_value tdm_one_hot(tdm_graph *graph, const char *name, tdm_value ids, int64_t classes);

/* ---- Made of places -------------------------------------------------------------------------- */

/* start, start + step, ... to before end: float32, float64, int32 or int64. */
TDM_API tdm_value tdm_arange(tdm_graph *graph, const char *name, tdm_dtype dtype, double start,
                             double end, double step);
/* 0, 1, ...: the places along dimension of x, as int64; so a dimension that has a name can be
 * counted. */
TDM_API tdm_value tdm_arange_like(tdm_graph *graph, const char *name, tdm_value x, int dimension);

/* ---- Filled ---------------------------------------------------------------------------------- */

/* A value of x's dtype and shape, named dimensions included, whose elements are all `value`, 0
 * or 1. Elements of x are not read, and no gradient flows. INVALID_ARGUMENT if the dtype does not
 * hold value. A tensor of given elements is tdm_constant. */
TDM_API tdm_value tdm_full_like(tdm_graph *graph, const char *name, tdm_value x, double value);
TDM_API tdm_value tdm_zeros_like(tdm_graph *graph, const char *name, tdm_value x);
TDM_API tdm_value tdm_ones_like(tdm_graph *graph, const char *name, tdm_value x);

#ifdef __cplusplus
}
#endif
#endif
