/* The tests' kernels for a GPU: every element of out becomes 31 * out + sum of the inputs +
 * attribute, immediately or after a pause. */
#include "tests/devices/support_cuda.h"

#include "devices/kernels/cuda/kernel.h"

#ifndef __CUDACC__
#include <time.h>
#endif

/* Has the layout of test_mix_attributes. */
struct mix_attributes {
  int64_t value;
  int64_t input_count;
};

static const int MOST_INPUTS = 4;

static __device__ void pause_us(int64_t microseconds) {
#ifdef __CUDACC__
  for (int64_t i = 0; i < microseconds; i++)
    __nanosleep(1000);
#else
  const struct timespec pause = {0, static_cast<long>(microseconds * 1000)};
  (void)nanosleep(&pause, NULL);
#endif
}

/* All operands have `count` elements. Absent inputs are NULL. */
static __global__ void mix_kernel(int64_t *out, const int64_t *a, const int64_t *b,
                                  const int64_t *c, const int64_t *d, int64_t count,
                                  int64_t attribute, int64_t microseconds) {
  if (microseconds > 0 && blockIdx.x == 0 && threadIdx.x == 0) pause_us(microseconds);
  EACH_ELEMENT(i, count) {
    uint64_t mixed = static_cast<uint64_t>(out[i]) * 31 + static_cast<uint64_t>(attribute);
    if (a) mixed += static_cast<uint64_t>(a[i]);
    if (b) mixed += static_cast<uint64_t>(b[i]);
    if (c) mixed += static_cast<uint64_t>(c[i]);
    if (d) mixed += static_cast<uint64_t>(d[i]);
    out[i] = static_cast<int64_t>(mixed);
  }
}

static tdm_status launch_mix(const tdm_kernel_call *call, bool pauses) {
  const mix_attributes *attributes = static_cast<const mix_attributes *>(call->attributes);
  const int64_t *inputs[MOST_INPUTS] = {NULL, NULL, NULL, NULL};
  if (attributes->input_count > MOST_INPUTS)
    return tdm_fail(TDM_UNSUPPORTED, "the tests' kernel has more than four inputs");
  for (int64_t i = 0; i < attributes->input_count; i++)
    inputs[i] = static_cast<const int64_t *>(call->inputs[i + 1]);
  const int64_t count = tdm_shape_count(&call->output_specs[0].shape);
  return kernel_launch(call, "test_mix", mix_kernel, blocks_for(count), BLOCK,
                       static_cast<int64_t *>(call->outputs[0]), inputs[0], inputs[1], inputs[2],
                       inputs[3], count, attributes->value, pauses ? attributes->value : 0);
}

tdm_status test_cuda_mix(const tdm_kernel_call *call) {
  return launch_mix(call, false);
}

tdm_status test_cuda_slow(const tdm_kernel_call *call) {
  return launch_mix(call, true);
}

static __global__ void report_kernel(tdm_cuda_report *report) {
  if (threadIdx.x != 0) return;
  report->value = 42;
  report->position = 3;
}

tdm_status test_cuda_report(const tdm_kernel_call *call) {
  tdm_cuda_report *report =
      tdm_cuda_kernel_stream_report(kernel_stream_of(call), TDM_CUDA_REPORT_ID, 10);
  return kernel_launch(call, "test_report", report_kernel, 1, WARP, report);
}
