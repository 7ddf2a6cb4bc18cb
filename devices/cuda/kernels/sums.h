/* Sums over whole tensors in one fixed order: a block a chunk of fixed size, then one block over
 * the chunks, in float64. */
#ifndef TANDEM_DEVICES_CUDA_KERNELS_SUMS_H
#define TANDEM_DEVICES_CUDA_KERNELS_SUMS_H

#include "devices/cuda/kernels/reduce.h"

static const int64_t SUM_CHUNK = 8192;

template <class real> static inline size_t sum_workspace_bytes(int64_t count) {
  return (size_t)ceil_div(count, SUM_CHUNK) * sizeof(real);
}

/* sums: (blocks), of squares of x - y; x, y: (count), y may be NULL. */
template <class real>
static __global__ void squares_of_chunks(const real *x, const real *y, int64_t count, real *sums) {
  const int64_t begin = (int64_t)blockIdx.x * SUM_CHUNK;
  const int64_t left = count - begin < SUM_CHUNK ? count - begin : SUM_CHUNK;
  real part = 0;
  EACH_OF_BLOCK(i, left) {
    const real d = y ? x[begin + i] - y[begin + i] : x[begin + i];
    part += d * d;
  }
  const real sum = block_sum(part);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/* One block. sums: (count), out: (): their sum / divisor. */
template <class real>
static __global__ void sum_of_chunks(const real *sums, int64_t count, double divisor, real *out) {
  double part = 0;
  EACH_OF_BLOCK(i, count) {
    part += sums[i];
  }
  const double sum = block_sum(part);
  if (threadIdx.x == 0) *out = (real)(sum / divisor);
}

/* Enqueues out = sum of squares of x - y, / divisor; workspace as sum_workspace_bytes says. */
template <class real>
static tdm_status sum_of_squares(const tdm_kernel_call *call, const real *x, const real *y,
                                 int64_t count, double divisor, real *out) {
  const int64_t chunks = ceil_div(count, SUM_CHUNK);
  real *sums = static_cast<real *>(call->workspace);
  TDM_TRY(kernel_launch(call, "squares_of_chunks", squares_of_chunks<real>, chunks, BLOCK, x, y,
                        count, sums));
  return kernel_launch(call, "sum_of_chunks", sum_of_chunks<real>, 1, BLOCK, sums, chunks, divisor,
                       out);
}

#endif
