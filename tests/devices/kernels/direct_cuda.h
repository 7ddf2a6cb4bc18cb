/* Runs one CUDA kernel on the emulated grid, without a queue, a stream or a driver. Memory is the
 * host's, and each tensor has a guard page after it. Also implements direct.h, so that the tests of
 * the cpu's kernels apply to these: instruction sets are orders of threads here. */
#ifndef TANDEM_TESTS_DEVICES_KERNELS_DIRECT_CUDA_H
#define TANDEM_TESTS_DEVICES_KERNELS_DIRECT_CUDA_H

#include "tests/devices/kernels/direct.h"

typedef struct direct_cuda_options {
  const tdm_run_scalars *scalars;
  bool deterministic;
} direct_cuda_options;

/* Like direct_run. An output whose data is an input's shares its memory. Fails the test if a kernel
 * writes outside its outputs and workspace, or to an input. */
tdm_status direct_cuda_run(const tdm_kernel *kernel, const void *attributes,
                           const direct_operand *operands, size_t input_count, size_t output_count,
                           const direct_cuda_options *options);

#endif
