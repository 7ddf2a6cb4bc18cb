/* Of devices/kernels.h, which includes it and says how to read it: what moves elements from place
 * to place, and makes them of places. */
#ifndef TANDEM_DEVICES_MOVE_KERNELS_H
#define TANDEM_DEVICES_MOVE_KERNELS_H

#include <stdint.h>

/* ---- By strides ------------------------------------------------------------------------------ */

/* x, [like] -> y of any dtype: dimension i of y (rank) runs along dimension sources[i] of x, from
 * begins[i] to before ends[i] by steps[i], as slices of Python and NumPy do it; or, where
 * sources[i] is -1, repeats x repeats[i] times, 0: as often as dimension i of like, which is not
 * read. Each dimension of x is a source once, or has one element. */
#define TDM_OP_STRIDED "strided"
typedef struct tdm_strided_attributes {
  int64_t rank; /* of y */
  int64_t sources[8];
  int64_t begins[8];
  int64_t ends[8];
  int64_t steps[8];
  int64_t repeats[8];
} tdm_strided_attributes;

/* x of any dtype -> y of x's rank: the elements of x lie |steps[i]| apart, in reverse where it is
 * negative, with before[i] places before all of them and after[i] behind; elsewhere is value. */
#define TDM_OP_PAD "pad"
typedef struct tdm_pad_attributes {
  int64_t rank;
  int64_t before[8];
  int64_t after[8];
  int64_t steps[8];
  double value;
} tdm_pad_attributes;

/* [like of any dtype] -> y (n) of any number: start + i step. n is count, or, where like is there,
 * which is not read, its dimension `dimension`. */
#define TDM_OP_ARANGE "arange"
typedef struct tdm_arange_attributes {
  double start;
  double step;
  int64_t dtype; /* tdm_dtype */
  int64_t count;
  int64_t dimension;
} tdm_arange_attributes;

#endif
