/* What the kind needs of CUDA: its calls, and the library's own kernels. They are linked into a
 * program (linked.c: with NVIDIA's runtime, or with the tests' emulation), or lie in a
 * library of their own, which is opened where there is a GPU (opened.c). Invariant: a
 * program with the second neither holds code of NVIDIA's nor needs any to start. */
#ifndef TANDEM_DEVICES_CUDA_LIBRARY_LIBRARY_H
#define TANDEM_DEVICES_CUDA_LIBRARY_LIBRARY_H

#include "devices/cuda/library/api.h"
#include "devices/cuda/library/nccl.h"
#include "devices/kernel_list.h"

typedef struct tdm_cuda_library {
  const tdm_cuda_api *(*api)(void);
  const tdm_nccl_api *(*nccl)(void);
  tdm_status (*each_kernel)(tdm_kernel_visitor visit, void *user);
} tdm_cuda_library;

/* The library, static; NULL: it is not here, and *out_reason says why, in words of the calling
 * thread's until it asks again. Any thread. */
const tdm_cuda_library *tdm_cuda_library_open(const char **out_reason);
/* The same where the driver shows a GPU, so that nothing is opened where there is none. *out_gpus:
 * how many there are, where only the library is missing; else 0. */
const tdm_cuda_library *tdm_cuda_library_for_gpus(int *out_gpus, const char **out_reason);

#endif
