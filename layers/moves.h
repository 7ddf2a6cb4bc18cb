/* Public part of layers/: functions that move, repeat or index elements, and functions that create
 * elements from positions. Included by layers/layers.h. The conventions of functions that build a
 * graph are at the top of graph/building.h.
 *
 * Operands have any dtype unless a comment states otherwise; gradients flow if it is floating. A
 * negative dimension counts from the end. */
#ifndef TANDEM_LAYERS_MOVES_H
#define TANDEM_LAYERS_MOVES_H

#include "tandem/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Slices and orders ----------------------------------------------------------------------- */

/* End of a slice that is left out: Python's x[begin:]. */
#define TDM_TO_THE_END INT64_MAX
/* End of a slice with a negative step that is left out: Python's x[begin::-1]. */
#define TDM_TO_THE_BEGINNING INT64_MIN

/* Returns a slice of x along dimension: Python's x[..., begin:end:step, ...].
 * @code
 * tdm_value last_three = tdm_slice(graph, "tail", x, 0, -3, TDM_TO_THE_END, 1);
 * tdm_value reversed = tdm_slice(graph, "reversed", x, 0, -1, TDM_TO_THE_BEGINNING, -1);
 * @endcode
 * @param begin first index; negative: from the end. Limited to the dimension's range.
 * @param end index after the last one, likewise, or TDM_TO_THE_END or TDM_TO_THE_BEGINNING.
 * @param step not 0; may be negative.
 * @return as x, with the slice's size along dimension. If this dimension has a name, its size is
 *     unknown afterwards, unless all of it is taken. */
TDM_API tdm_value tdm_slice(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                            int64_t begin, int64_t end, int64_t step);

/* Returns x with its dimensions in another order (torch.permute).
 * @code
 * const int order[] = {0, 2, 1};
 * tdm_value y = tdm_permute(graph, "y", x, order, 3); // (a, b, c) -> (a, c, b)
 * @endcode
 * @param dimensions (count): dimension i of the result is x's dimensions[i]. Each dimension occurs
 *     once.
 * @param count x's rank. */
TDM_API tdm_value tdm_permute(tdm_graph *graph, const char *name, tdm_value x,
                              const int *dimensions, size_t count);

/* Returns x in reverse order along some dimensions (torch.flip).
 * @param dimensions (count). */
TDM_API tdm_value tdm_flip(tdm_graph *graph, const char *name, tdm_value x, const int *dimensions,
                           size_t count);

/* Returns x rotated along dimension: element i becomes element (i + shift) modulo size
 * (torch.roll). The dimension must be a size. */
TDM_API tdm_value tdm_roll(tdm_graph *graph, const char *name, tdm_value x, int64_t shift,
                           int dimension);

/* Returns the upper triangle of the last two dimensions, with zeros below it (torch.triu).
 * @param diagonal lowest diagonal that is kept: 0 is the main one, positive ones are above it. */
TDM_API tdm_value tdm_triu(tdm_graph *graph, const char *name, tdm_value x, int64_t diagonal);

/* Returns the lower triangle of the last two dimensions, with zeros above it (torch.tril).
 * @param diagonal highest diagonal that is kept: 0 is the main one, positive ones are above it. */
TDM_API tdm_value tdm_tril(tdm_graph *graph, const char *name, tdm_value x, int64_t diagonal);

/* ---- Dimensions ------------------------------------------------------------------------------ */

/* Returns x with a further dimension of size 1 (torch.unsqueeze).
 * @param dimension position of the new dimension, 0 to x's rank; -1: after the last one. */
TDM_API tdm_value tdm_unsqueeze(tdm_graph *graph, const char *name, tdm_value x, int dimension);

/* Returns x without a dimension, whose size must be 1 (torch.squeeze). */
TDM_API tdm_value tdm_squeeze(tdm_graph *graph, const char *name, tdm_value x, int dimension);

/* Returns x with dimensions first to last combined into one (torch.flatten). */
TDM_API tdm_value tdm_flatten(tdm_graph *graph, const char *name, tdm_value x, int first, int last);

/* Returns values along a new dimension (torch.stack).
 * @param values (count): of one dtype and shape.
 * @param count 1 to 16.
 * @param dimension position of the new dimension. */
TDM_API tdm_value tdm_stack(tdm_graph *graph, const char *name, const tdm_value *values,
                            size_t count, int dimension);

/* ---- Repetitions ----------------------------------------------------------------------------- */

/* Returns x with dimensions of size 1 repeated (torch.expand). Shapes are aligned at the last
 * dimension; x may lack first dimensions, which are repeated too.
 * @param shape TDM_INFER leaves a dimension as it is. A repeated dimension must be a size; to
 *     repeat to a size that is known only at run time use tdm_expand_as. A dimension of x that is
 *     not repeated must have shape's size; if it has a name, this is checked at run time. */
TDM_API tdm_value tdm_expand(tdm_graph *graph, const char *name, tdm_value x, tdm_shape shape);

/* Returns x with dimensions of size 1 repeated to the shape of like, whose elements are not read
 * (torch.Tensor.expand_as). */
TDM_API tdm_value tdm_expand_as(tdm_graph *graph, const char *name, tdm_value x, tdm_value like);

/* Returns copies of x one after the other along each dimension (torch.Tensor.repeat).
 * @param times (count): number of copies along each dimension, 0 or more.
 * @param count x's rank or more; if it is more, x has dimensions of size 1 before its first. */
TDM_API tdm_value tdm_repeat(tdm_graph *graph, const char *name, tdm_value x, const int64_t *times,
                             size_t count);

/* Elements that tdm_pad adds around x. The examples pad abcd by 2. */
typedef enum tdm_pad_mode {
  TDM_PAD_CONSTANT,  /* A number: 00|abcd|00. */
  TDM_PAD_REFLECT,   /* A reflection that does not repeat the border: cb|abcd|cb. */
  TDM_PAD_REPLICATE, /* The border's element: aa|abcd|dd. */
  TDM_PAD_CIRCULAR   /* The elements of the other end: cd|abcd|ab. */
} tdm_pad_mode;

/* Adds elements around x (torch.nn.functional.pad).
 * @code
 * const int64_t amounts[] = {1, 1, 2, 0}; // last dimension: 1 and 1; the one before it: 2 and 0
 * tdm_value padded = tdm_pad(graph, "pad", x, amounts, 4, TDM_PAD_CONSTANT, 0.0);
 * @endcode
 * @param amounts (count): pairs (before, after) of numbers of elements, for the last dimension
 *     first. A negative number removes elements, except with TDM_PAD_REFLECT.
 * @param count even, at most twice x's rank.
 * @param mode which elements are added. Except with TDM_PAD_CONSTANT, padded dimensions must be
 *     sizes, and cannot be padded by more than the elements that they have.
 * @param value number for TDM_PAD_CONSTANT. */
TDM_API tdm_value tdm_pad(tdm_graph *graph, const char *name, tdm_value x, const int64_t *amounts,
                          size_t count, tdm_pad_mode mode, double value);

/* ---- Indexing -------------------------------------------------------------------------------- */

/* Indices are int32 or int64. An index out of range fails the run, and the message names it and its
 * position. */

/* Selects elements of x along dimension by index: y[i][j] = x[index[i][j]][j] for dimension 0 of
 * two (torch.gather).
 * @param index of x's rank. Other dimensions have x's sizes, or smaller ones if both are sizes.
 * @return of index's shape. */
TDM_API tdm_value tdm_gather(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                             tdm_value index);

/* Selects x's entries along dimension: y[i] = x[index[i]] for dimension 0 (torch.index_select).
 * @param index (n).
 * @return as x, with size n along dimension. */
TDM_API tdm_value tdm_index_select(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                                   tdm_value index);

/* Adds source to x at positions given by index, in the order of i: y[index[i][j]][j] +=
 * source[i][j] for dimension 0 of two (torch.scatter_add).
 * @param x floating, int32 or int64.
 * @param index of x's rank, with x's sizes in other dimensions.
 * @param source of index's shape, or larger.
 * @return of x's shape. */
TDM_API tdm_value tdm_scatter_add(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                                  tdm_value index, tdm_value source);

/* Converts ids to vectors: 1 at the id's position, 0 elsewhere (torch.nn.functional.one_hot).
 * @param ids (...) int32 or int64, 0 to classes - 1.
 * @param classes 1 or more.
 * @return (..., classes) int64. */
TDM_API tdm_value tdm_one_hot(tdm_graph *graph, const char *name, tdm_value ids, int64_t classes);

/* ---- Sequences ------------------------------------------------------------------------------- */

/* Creates start, start + step, ... as long as it is before end (torch.arange).
 * @param dtype float32, float64, int32 or int64.
 * @param step must lead from start to end; not 0. With an integer dtype, start and step are
 *     integers.
 * @return (n). */
TDM_API tdm_value tdm_arange(tdm_graph *graph, const char *name, tdm_dtype dtype, double start,
                             double end, double step);

/* Creates 0, 1, ...: the indices along dimension of x. So a dimension with a name can be counted.
 * @return (size of dimension) int64. */
TDM_API tdm_value tdm_arange_like(tdm_graph *graph, const char *name, tdm_value x, int dimension);

/* ---- Constants of a given shape -------------------------------------------------------------- */

/* Creates a value of x's dtype and shape, named dimensions included, whose elements are all equal.
 * The elements of x are not read, and no gradient flows. tdm_constant creates a tensor with given
 * elements.
 * @param value INVALID_ARGUMENT if the dtype cannot represent it. */
TDM_API tdm_value tdm_full_like(tdm_graph *graph, const char *name, tdm_value x, double value);

/* Creates zeros of x's dtype and shape. Otherwise as tdm_full_like. */
TDM_API tdm_value tdm_zeros_like(tdm_graph *graph, const char *name, tdm_value x);

/* Creates ones of x's dtype and shape. Otherwise as tdm_full_like. */
TDM_API tdm_value tdm_ones_like(tdm_graph *graph, const char *name, tdm_value x);

#ifdef __cplusplus
}
#endif
#endif
