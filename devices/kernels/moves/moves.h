/* Operations that move elements from place to place, or compute them from their places. Part of
 * devices/kernels.h, which describes the notation. */
#ifndef TANDEM_DEVICES_KERNELS_MOVES_MOVES_H
#define TANDEM_DEVICES_KERNELS_MOVES_MOVES_H

#include <stdint.h>

/* ---- By strides ------------------------------------------------------------------------------ */

/* x, [like] -> y of any dtype. Dimension i of y (rank) is dimension sources[i] of x, from begins[i]
 * to before ends[i] by steps[i], as slices of Python and NumPy. If sources[i] is -1, dimension i
 * repeats x repeats[i] times; 0: as often as the size of dimension i of like, whose elements are
 * not read. Each dimension of x is a source once, or has one element. A source with repeats[i]
 * above 0 must have that size, with TDM_STRIDED_AS_LIKE like's. */
#define TDM_OP_STRIDED "strided"
#define TDM_STRIDED_AS_LIKE (-1)
#define TDM_STRIDED_NONE (-2) /* repeats: to a size of 0 */
typedef struct tdm_strided_attributes {
  int64_t rank; /* rank of y */
  int64_t sources[8];
  int64_t begins[8];
  int64_t ends[8];
  int64_t steps[8];
  int64_t repeats[8];
} tdm_strided_attributes;

/* x of any dtype -> y of x's rank: the elements of x lie |steps[i]| apart, in reverse if steps[i]
 * is negative, with before[i] places before all of them and after[i] places after them. All other
 * elements are `value`. */
#define TDM_OP_PAD "pad"
#define TDM_PAD_UNKNOWN INT64_MIN
typedef struct tdm_pad_attributes {
  int64_t rank;
  int64_t before[8]; /* TDM_PAD_UNKNOWN: the padded size is not known yet; no kernel receives it */
  int64_t after[8];
  int64_t steps[8];
  double value;
} tdm_pad_attributes;

/* [like of any dtype] -> y (n) of any number: start + i step. If y is an integer, start and step
 * are whole, and y is computed in int64; y's dtype holds every element. n is count, or, if like is
 * present, its size along dimension `dimension`. The elements of like are not read. */
#define TDM_OP_ARANGE "arange"
typedef struct tdm_arange_attributes {
  double start;
  double step;
  int64_t dtype; /* tdm_dtype */
  int64_t count;
  int64_t dimension;
} tdm_arange_attributes;

/* ---- By indices ------------------------------------------------------------------------------ */

/* x of any dtype (..., size, ...), index int32 or int64 like y -> y (..., picked, ...): along
 * `dimension` the element of x that index names; or, for whole_rows, index (picked), which names
 * all that lies at a place of the dimension. */
#define TDM_OP_GATHER "gather"
/* index as above, source F, int32 or int64 (..., picked, ...), [x (..., size, ...)] -> like x: x,
 * or zeros of that shape, plus, at each element that index names, the sum of source's elements for
 * it. */
#define TDM_OP_SCATTER_ADD "scatter_add"
typedef struct tdm_gather_attributes {
  int64_t dimension; /* dimension, not negative */
  int64_t whole_rows;
  int64_t rank; /* rank of y; only set for scatter_add without x */
  int64_t dims[8];
} tdm_gather_attributes;

/* ids int32 or int64 (...) -> int64 (..., classes): 1 at the id's place, else 0. */
#define TDM_OP_ONE_HOT "one_hot"
typedef struct tdm_one_hot_attributes {
  int64_t classes;
} tdm_one_hot_attributes;

/* x int32 or int64 (...), [like of any dtype] -> y like x: x. Each element of x must be in [least,
 * most] or equal to the ignored value. like: its size along `dimension` is added to most; its
 * elements are not read. The error message of a failed run names layer and argument. */
#define TDM_OP_CHECK "check_argument"
typedef struct tdm_check_attributes {
  char layer[32];
  char argument[32];
  int64_t least;
  int64_t most;
  int64_t dimension;
  int64_t has_ignored;
  int64_t ignored;
} tdm_check_attributes;

#endif
