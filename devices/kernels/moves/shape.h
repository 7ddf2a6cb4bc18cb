/* Operations: shapes, parts of tensors, and layouts. Part of devices/kernels.h, which describes the
 * notation. */
#ifndef TANDEM_DEVICES_KERNELS_MOVES_SHAPE_H
#define TANDEM_DEVICES_KERNELS_MOVES_SHAPE_H

#include <stdint.h>

/* x -> the same elements under another shape; a view, no kernel. Dimensions as for tdm_reshape. */
#define TDM_OP_RESHAPE "reshape"
typedef struct tdm_reshape_attributes {
  int64_t rank;
  int64_t dims[8];
} tdm_reshape_attributes;
/* x (..., d, ...) of any dtype -> x without `dimension`, at index. */
#define TDM_OP_SELECT "select"
/* d_out -> d_x: d_out at index, zero elsewhere; `size` is that dimension's extent in x. */
#define TDM_OP_SELECT_GRADIENT "select_gradient"
typedef struct tdm_select_attributes {
  int64_t dimension; /* dimension, not negative */
  int64_t index;     /* may be negative: from the end */
  int64_t size;      /* size of the dimension in x; only set for the gradient */
} tdm_select_attributes;
/* x (a, b, ...) -> (b, a, ...): the first two dimensions exchanged; any dtype. */
#define TDM_OP_SWAP_FIRST_DIMENSIONS "swap_first_dimensions"

/* x -> x with the dimensions first < second exchanged; any dtype. */
#define TDM_OP_TRANSPOSE "transpose"
typedef struct tdm_transpose_attributes {
  int64_t first; /* first row, not negative */
  int64_t second;
} tdm_transpose_attributes;

/* x (..., n, ...) -> `count` parts, part i with sizes[i] of dimension, or, if `even`, ceil(n /
 * count) of it, the last one fewer; any dtype. */
#define TDM_OP_SPLIT "split"
/* `count` parts -> x, one after the other along dimension. */
#define TDM_OP_CONCAT "concat"
#define TDM_MAX_PARTS 64
typedef struct tdm_parts_attributes {
  int64_t dimension; /* dimension, not negative */
  int64_t count;     /* number of parts, at most TDM_MAX_PARTS */
  int64_t sizes[TDM_MAX_PARTS];
  int64_t even;
} tdm_parts_attributes;

/* x in one format -> the same elements in another. The formats are in the specs. */
#define TDM_OP_REORDER "reorder"

#endif
