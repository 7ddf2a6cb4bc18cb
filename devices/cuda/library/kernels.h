/* The library's own CUDA kernels. Invariant: each enqueues on the stream that its call names and
 * returns; its results do not depend on how the GPU schedules blocks. */
#ifndef TANDEM_DEVICES_CUDA_LIBRARY_KERNELS_H
#define TANDEM_DEVICES_CUDA_LIBRARY_KERNELS_H

#include "devices/kernel_list.h"

/* Visits all of them, as far as the visitor does not fail. Static storage, any thread. */
tdm_status tdm_cuda_each_kernel(tdm_kernel_visitor visit, void *user) TDM_WARN_UNUSED;

#endif
