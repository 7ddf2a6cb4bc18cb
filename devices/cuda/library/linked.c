/* Implements the library linked into a program. Invariant: see library.h. */
#include "devices/cuda/library/kernels.h"
#include "devices/cuda/library/library.h"

const tdm_cuda_library *tdm_cuda_library_open(const char **out_reason) {
  static const tdm_cuda_library library = {
      .api = tdm_cuda_api_linked,
      .nccl = tdm_nccl_api_linked,
      .each_kernel = tdm_cuda_each_kernel,
  };
  *out_reason = NULL;
  return &library;
}

const tdm_cuda_library *tdm_cuda_library_for_gpus(int *out_gpus, const char **out_reason) {
  *out_gpus = 0;
  return tdm_cuda_library_open(out_reason);
}
