/* Kernels with planted faults, one each, and their faultless twins, for grid_test.c. Not part of
 * any table. */
#include "tests/devices/cuda_emulation/grid_faults.h"

#include "devices/kernels/cuda/reduce.h"

/* Enqueues a kernel of one pointer and one number on the stream. */
static tdm_status launch(tdm_cuda_kernel_stream *stream, const char *name,
                         void (*kernel)(float *, int64_t), int64_t blocks, int threads, float *data,
                         int64_t count) {
  tdm_kernel_call call = {};
  call.stream = stream;
  return kernel_launch(&call, name, kernel, blocks, threads, data, count);
}

/* ---- Barriers -------------------------------------------------------------------------------- */

/* Turns a block's elements around through shared memory. */
template <bool before, bool after> static __global__ void reverse(float *data, int64_t count) {
  TDM_SHARED(float, kept, BLOCK);
  for (int64_t round = 0; round < 2; round++) {
    kept[threadIdx.x] = data[threadIdx.x];
    if (before) __syncthreads();
    const float mine = kept[count - 1 - threadIdx.x];
    if (after) __syncthreads();
    data[threadIdx.x] = mine + 1;
  }
}

static __global__ void divergent_barrier(float *data, int64_t count) {
  if (threadIdx.x < count / 2) {
    data[threadIdx.x] = 1;
    __syncthreads();
  } else {
    data[threadIdx.x] = 2;
    __syncthreads();
  }
}

static __global__ void barrier_after_return(float *data, int64_t count) {
  if (threadIdx.x == count - 1) return;
  __syncthreads();
  data[threadIdx.x] = 1;
}

/* ---- Warps ----------------------------------------------------------------------------------- */

static __global__ void absent_lane(float *data, int64_t count) {
  if (threadIdx.x % 2 == 0 && (int64_t)threadIdx.x < count)
    data[threadIdx.x] = __shfl_xor_sync(0x55555555u, data[threadIdx.x], 1);
}

static __global__ void divergent_warp(float *data, int64_t count) {
  if (threadIdx.x % 2 == 0) {
    data[threadIdx.x] = __shfl_xor_sync(ALL_LANES, (float)count, 2);
  } else {
    data[threadIdx.x] = __shfl_xor_sync(ALL_LANES, (float)count, 2);
  }
}

static __global__ void returned_lane(float *data, int64_t count) {
  if (threadIdx.x == 3) return;
  data[threadIdx.x] = warp_reduce<sum_of_two>((float)count);
}

/* Executes every way of exchanging; data (warps WARP) becomes what each lane is to find. */
static __global__ void exchanges(float *data, int64_t count) {
  const int lane = (int)(threadIdx.x % WARP);
  const float value = (float)threadIdx.x;
  float found = __shfl_sync(ALL_LANES, value, 5);
  found += 100 * __shfl_up_sync(ALL_LANES, value, 1);
  found += 10000 * __shfl_down_sync(ALL_LANES, value, 2);
  found += __ballot_sync(ALL_LANES, lane < 3) == 7 ? 0.5f : 0;
  __syncwarp(ALL_LANES);
  if ((int64_t)threadIdx.x < count) data[threadIdx.x] = found;
}

/* Executes the reductions of kernels, again and again in the same memory: data becomes how many
 * results each thread found wrong. */
static __global__ void reductions(float *data, int64_t count) {
  const int64_t own = threadIdx.x, all = count * (count - 1) / 2;
  int64_t wrong = 0, total;
  for (int64_t round = 0; round < 3; round++)
    wrong += block_sum(own + round) != all + count * round;
  for (int64_t round = 0; round < 3; round++) {
    const int64_t before = block_sum_before(own + round, &total);
    wrong += before != own * (own - 1) / 2 + own * round || total != all + count * round;
  }
  for (int64_t round = 0; round < 3; round++)
    wrong += block_reduce<larger_of_two>((float)(own + round)) != (float)(count - 1 + round);
  data[threadIdx.x] = (float)wrong;
}

/* Blocks add to the same elements without an atomic; right here, where they run one by one. */
static __global__ void blocks_add(float *data, int64_t count) {
  if ((int64_t)threadIdx.x < count) data[threadIdx.x] += 1;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static __global__ void shared_overrun(float *data, int64_t count) {
  TDM_SHARED(float, kept, BLOCK);
  kept[threadIdx.x + (threadIdx.x == count - 1)] = 1;
  __syncthreads();
  data[threadIdx.x] = kept[threadIdx.x];
}

static __global__ void overrun(float *data, int64_t count) {
  EACH_ELEMENT(i, count + 1) {
    data[i] = 1;
  }
}

static __global__ void unset_shared(float *data, int64_t count) {
  TDM_SHARED(float, kept, BLOCK);
  if ((int64_t)threadIdx.x < count) data[threadIdx.x] = kept[threadIdx.x];
}

tdm_status grid_fault_launch(tdm_cuda_kernel_stream *stream, grid_fault fault, float *data) {
  static const struct {
    void (*kernel)(float *, int64_t);
    const char *name;
  } kernels[] = {
      {reverse<true, true>, "reverse"},
      {reverse<false, true>, "missing_barrier_before"},
      {reverse<true, false>, "missing_barrier_after"},
      {divergent_barrier, "divergent_barrier"},
      {barrier_after_return, "barrier_after_return"},
      {absent_lane, "absent_lane"},
      {divergent_warp, "divergent_warp"},
      {returned_lane, "returned_lane"},
      {exchanges, "exchanges"},
      {reductions, "reductions"},
      {blocks_add, "blocks_add"},
      {shared_overrun, "shared_overrun"},
      {overrun, "overrun"},
      {unset_shared, "unset_shared"},
  };
  return launch(stream, kernels[fault].name, kernels[fault].kernel,
                fault == GRID_BLOCKS_ADD ? 2 : 1, BLOCK, data, BLOCK);
}
