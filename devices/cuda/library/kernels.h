/* The library's own CUDA kernels. Invariant: each enqueues on its call's stream and returns.
 * Results do not depend on how the GPU schedules blocks. */
#ifndef TANDEM_DEVICES_CUDA_LIBRARY_KERNELS_H
#define TANDEM_DEVICES_CUDA_LIBRARY_KERNELS_H

#include "devices/kernels/kernel_list.h"

/* Visits all kernels until the visitor fails. They have static storage. Any thread. */
tdm_status tdm_cuda_each_kernel(tdm_kernel_visitor visit, void *user) TDM_WARN_UNUSED;

#endif
