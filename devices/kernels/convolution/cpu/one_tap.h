/* Convolutions of one tap and stride 1, which are products of the weight with the pixels of an
 * image. Pixels are in the lanes of vectors. A tile is some channels that are written and two
 * vectors of pixels. Its sums stay in registers over all channels that are read.
 *
 *   packed weight: tile after tile of channels that are written, (in, the tile's channels)
 *   panels of a block of pixels: panel after panel, (in, a panel's pixels), zeros after the last */
#ifndef TANDEM_DEVICES_KERNELS_CONVOLUTION_CPU_ONE_TAP_H
#define TANDEM_DEVICES_KERNELS_CONVOLUTION_CPU_ONE_TAP_H

#include "devices/kernels/cpu/real.h"

typedef struct one_tap_plan {
  int64_t in;  /* channels of a group that are read */
  int64_t out; /* channels of a group that are written */
  int64_t pixels;
  int64_t block_panels; /* panels in a block of pixels, which stay in the cache */
  int64_t blocks;       /* blocks of an image */
} one_tap_plan;

/* Fills block_panels and blocks from the rest. */
void one_tap_plan_finish(one_tap_plan *plan);

/* Returns the bytes of the packed weight, and of the panels of a block; multiples of 64. */
size_t one_tap_weight_bytes(const one_tap_plan *plan);
size_t one_tap_panel_bytes(const one_tap_plan *plan);

/* Packs the weight of one group, whose element (o, i) is at o * out_step + i * in_step; one of the
 * steps is 1. */
void one_tap_weight(const one_tap_plan *plan, const real *weight, int64_t out_step, int64_t in_step,
                    real *packed);

/* Computes block `block` of y (out, pixels) = bias (out; NULL: zeros) + weight x, with x (in,
 * pixels). Adds bias, then channel after channel. panels is scratch memory. */
void one_tap_block(const one_tap_plan *plan, const real *packed, const real *bias, const real *x,
                   int64_t block, real *panels, real *y);

#endif
