/* The library's own CUDA kernels. Invariant: each enqueues on the lane that its call names and
 * returns; its results do not depend on how the GPU schedules blocks. */
#ifndef TANDEM_DEVICES_CUDA_KERNELS_H
#define TANDEM_DEVICES_CUDA_KERNELS_H

#include "devices/devices.h"

/* Static storage, *out_count entries, any thread; never NULL. */
const tdm_kernel *tdm_cuda_kernels(size_t *out_count);

#endif
