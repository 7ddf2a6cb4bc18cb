/* A GPU for threads other than its feeders. Invariant: it is opened when it is first entered, and
 * no other one is opened, whichever device the thread had selected before. */
#ifndef TANDEM_DEVICES_CUDA_GPU_H
#define TANDEM_DEVICES_CUDA_GPU_H

#include <stdatomic.h>

#include "core/status.h"
#include "devices/cuda/library/api.h"

typedef struct tdm_cuda_gpu {
  const tdm_cuda_api *api;
  int ordinal;                       /* number among the visible GPUs */
  _Atomic(tdm_cuda_context) context; /* NULL: not entered yet; kept until the process ends */
} tdm_cuda_gpu;

/* Makes the GPU the calling thread's until leave, which restores the thread's previous device. */
tdm_status tdm_cuda_gpu_enter(tdm_cuda_gpu *gpu) TDM_WARN_UNUSED;
void tdm_cuda_gpu_leave(const tdm_cuda_gpu *gpu);

#endif
