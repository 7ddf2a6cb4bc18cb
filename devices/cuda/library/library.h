/* The kind's interface to CUDA: its calls, and the library's own kernels. They are either linked
 * into a program (linked.c: with NVIDIA's runtime, or with the tests' emulation) or in a shared
 * object that is opened if there is a GPU (opened.c). Invariant: a program with the shared object
 * neither contains code of NVIDIA's nor needs any to start. */
#ifndef TANDEM_DEVICES_CUDA_LIBRARY_LIBRARY_H
#define TANDEM_DEVICES_CUDA_LIBRARY_LIBRARY_H

#include "devices/cuda/library/api.h"
#include "devices/cuda/library/nccl.h"
#include "devices/kernels/kernel_list.h"

typedef struct tdm_cuda_library {
  const tdm_cuda_api *(*api)(void);
  const tdm_nccl_api *(*nccl)(void);
  tdm_status (*each_kernel)(tdm_kernel_visitor visit, void *user);
} tdm_cuda_library;

/* Returns the library, which is static. If it is missing, returns NULL and sets *out_reason, valid
 * on the calling thread until its next call. Any thread. */
const tdm_cuda_library *tdm_cuda_library_open(const char **out_reason);
/* Like tdm_cuda_library_open, but opens nothing if the driver finds no GPU. *out_gpus is the number
 * of GPUs if only the library is missing; otherwise 0. */
const tdm_cuda_library *tdm_cuda_library_for_gpus(int *out_gpus, const char **out_reason);

#endif
