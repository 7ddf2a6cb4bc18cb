/* Sums and maxima over the threads of a block. Invariant: values are combined by a fixed tree, so
 * that results depend only on the values and the number of threads. Every thread of the block must
 * call; all get the result. The count of threads is a multiple of a warp's. */
#ifndef TANDEM_DEVICES_KERNELS_CUDA_REDUCE_H
#define TANDEM_DEVICES_KERNELS_CUDA_REDUCE_H

#include "devices/kernels/cuda/kernel.h"

struct sum_of_two {
  template <class number> static __device__ number of(number a, number b) {
    return a + b;
  }
};

/* Returns the larger value; of a NaN and a number it is the number, as in fmax. */
struct larger_of_two {
  template <class real> static __device__ real of(real a, real b) {
    return a > b || b != b ? a : b;
  }
};

struct smaller_of_two {
  template <class number> static __device__ number of(number a, number b) {
    return a < b ? a : b;
  }
};

/* A sum of many numbers by one thread, in levels: SUM_STEP terms are summed before their sum is
 * added to the level above, so that rounding errors grow with the logarithm of the count. */
#define SUM_STEP 32
template <class real> struct levelled_sum {
  real levels[3];

  /* number: how many were added before. */
  __device__ void add(int64_t number, real value) {
    levels[0] += value;
    if ((number + 1) % SUM_STEP != 0) return;
    levels[1] += levels[0];
    levels[0] = 0;
    if ((number + 1) % (SUM_STEP * SUM_STEP) != 0) return;
    levels[2] += levels[1];
    levels[1] = 0;
  }

  __device__ real total() const {
    return levels[2] + (levels[1] + levels[0]);
  }
};

/* Returns the result to all lanes: partners exchange values, and both of a pair add the same
 * two. */
template <class combine, class number> static __device__ number warp_reduce(number value) {
  for (int lanes = WARP / 2; lanes > 0; lanes /= 2)
    value = combine::of(value, __shfl_xor_sync(ALL_LANES, value, lanes));
  return value;
}

template <class combine, class number> static __device__ number block_reduce(number value) {
  TDM_SHARED(number, of_warps, WARP);
  value = warp_reduce<combine>(value);
  const int warps = (int)(blockDim.x / WARP);
  if (warps == 1) return value;
  if (threadIdx.x % WARP == 0) of_warps[threadIdx.x / WARP] = value;
  __syncthreads();
  number result = of_warps[0];
  for (int i = 1; i < warps; i++)
    result = combine::of(result, of_warps[i]);
  __syncthreads(); /* of_warps may be written again */
  return result;
}

template <class number> static __device__ number block_sum(number value) {
  return block_reduce<sum_of_two>(value);
}

/* Returns the sum of the values of the threads before this one in the block. *out_total: the sum
 * over the whole block. */
static __device__ inline int64_t block_sum_before(int64_t value, int64_t *out_total) {
  TDM_SHARED(int64_t, of_warps, WARP);
  const int lane = (int)(threadIdx.x % WARP), warp = (int)(threadIdx.x / WARP);
  const int warps = (int)(blockDim.x / WARP);
  int64_t through = value; /* sum of the values up to and including this lane's */
  for (int delta = 1; delta < WARP; delta *= 2) {
    const int64_t below = __shfl_up_sync(ALL_LANES, through, delta);
    if (lane >= delta) through += below;
  }
  if (lane == WARP - 1) of_warps[warp] = through;
  __syncthreads();
  int64_t before = through - value, total = 0;
  for (int i = 0; i < warps; i++) {
    if (i < warp) before += of_warps[i];
    total += of_warps[i];
  }
  __syncthreads(); /* of_warps may be written again */
  *out_total = total;
  return before;
}

#endif
