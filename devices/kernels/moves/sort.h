/* Operations: elements in order along a dimension. Part of devices/kernels.h, which describes the
 * notation. */
#ifndef TANDEM_DEVICES_KERNELS_MOVES_SORT_H
#define TANDEM_DEVICES_KERNELS_MOVES_SORT_H

#include <stdint.h>

/* x of any dtype but the 16-bit ones (..., size, ...) -> values (..., count, ...), indices int64:
 * the first `count` elements along the dimension in ascending order, or descending, and where each
 * was. Equals keep their order; a NaN is beyond all. */
#define TDM_OP_SORT "sort"
typedef struct tdm_sort_attributes {
  int64_t dimension;
  int64_t count; /* 0: all */
  int64_t descending;
} tdm_sort_attributes;

#endif
