/* Sums over whole tensors in one fixed order: a block a piece of fixed size, then one block over
 * the pieces, in float64. */
#ifndef TANDEM_DEVICES_KERNELS_CUDA_SUMS_H
#define TANDEM_DEVICES_KERNELS_CUDA_SUMS_H

#include "devices/kernels/cuda/reduce.h"

static const int64_t SUM_PIECE = 8192;

template <class stored> static inline size_t sum_workspace_bytes(int64_t count) {
  return (size_t)ceil_div(count, SUM_PIECE) * sizeof(real_of<stored>);
}

/* Computes out () = the sum of sums (count) / divisor, in one block. */
template <class stored>
static __global__ void sum_of_pieces(const real_of<stored> *sums, int64_t count, double divisor,
                                     stored *out) {
  typedef real_of<stored> real;
  double part = 0;
  EACH_OF_BLOCK(i, count) {
    part += sums[i];
  }
  const double sum = block_sum(part);
  if (threadIdx.x == 0) *out = (real)(sum / divisor);
}

#endif
