/* Softmax of one contiguous row by one block, for the softmax and the cross-entropy. */
#ifndef TANDEM_DEVICES_KERNELS_NORMALIZATION_CUDA_SOFTMAX_H
#define TANDEM_DEVICES_KERNELS_NORMALIZATION_CUDA_SOFTMAX_H

#include "devices/kernels/cuda/reduce.h"

/* Computes out (size) from x (size), one row. Every element of out is written by the thread that
 * EACH_OF_BLOCK gives it. */
template <class stored, bool logarithm>
static __device__ void row_softmax(const stored *x, stored *out, int64_t size) {
  typedef real_of<stored> real;
  real most = -INFINITY, part = 0;
  EACH_OF_BLOCK(i, size) {
    most = larger_of_two::of(most, (real)x[i]);
  }
  most = block_reduce<larger_of_two>(most);
  EACH_OF_BLOCK(i, size) {
    part += exp(x[i] - most);
  }
  real sum = block_sum(part);
  if (logarithm) sum = log(sum);
  EACH_OF_BLOCK(i, size) {
    out[i] = logarithm ? (x[i] - most) - sum : exp(x[i] - most) / sum;
  }
}

#endif
