/* Sums over whole tensors in one fixed order: a block a piece of fixed size, then one block over
 * the pieces, in float64. */
#ifndef TANDEM_DEVICES_CUDA_KERNELS_SUMS_H
#define TANDEM_DEVICES_CUDA_KERNELS_SUMS_H

#include "devices/cuda/kernels/reduce.h"

static const int64_t SUM_PIECE = 8192;

template <class stored> static inline size_t sum_workspace_bytes(int64_t count) {
  return (size_t)ceil_div(count, SUM_PIECE) * sizeof(real_of<stored>);
}

/* sums: (blocks), of squares of x: (count). */
template <class stored>
static __global__ void squares_of_pieces(const stored *x, int64_t count, real_of<stored> *sums) {
  typedef real_of<stored> real;
  const int64_t begin = (int64_t)blockIdx.x * SUM_PIECE;
  const int64_t left = count - begin < SUM_PIECE ? count - begin : SUM_PIECE;
  real part = 0;
  EACH_OF_BLOCK(i, left) {
    const real d = x[begin + i];
    part += d * d;
  }
  const real sum = block_sum(part);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/* One block. sums: (count), out: (): their sum / divisor. */
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

/* Enqueues out = sum of squares of x; workspace as sum_workspace_bytes says. */
template <class stored>
static tdm_status sum_of_squares(const tdm_kernel_call *call, const stored *x, int64_t count,
                                 stored *out) {
  const int64_t pieces = ceil_div(count, SUM_PIECE);
  real_of<stored> *sums = static_cast<real_of<stored> *>(call->workspace);
  TDM_TRY(kernel_launch(call, "squares_of_pieces", squares_of_pieces<stored>, pieces, BLOCK, x,
                        count, sums));
  return kernel_launch(call, "sum_of_pieces", sum_of_pieces<stored>, 1, BLOCK, sums, pieces, 1.0,
                       out);
}

#endif
