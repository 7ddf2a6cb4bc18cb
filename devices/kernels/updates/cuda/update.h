/* Code that the kernels of the optimizers share: an update of all elements, or of the rows that a
 * sparse gradient names. */
#ifndef TANDEM_DEVICES_KERNELS_UPDATES_CUDA_UPDATE_H
#define TANDEM_DEVICES_KERNELS_UPDATES_CUDA_UPDATE_H

#include "devices/kernels/cuda/kernel.h"
#include "devices/kernels/updates/update_sizes.h"

static inline tdm_status update_prepare(const tdm_kernel_request *request,
                                        tdm_kernel_answer *answer) {
  update_sizes *sizes = state_create<update_sizes>(answer);
  if (!sizes) return TDM_OUT_OF_MEMORY;
  update_sizes_read(sizes, request);
  return TDM_OK;
}

static inline tdm_status update_rows_prepare(const tdm_kernel_request *request,
                                             tdm_kernel_answer *answer) {
  update_sizes *sizes = state_create<update_sizes>(answer);
  if (!sizes) return TDM_OUT_OF_MEMORY;
  update_rows_sizes_read(sizes, request);
  return TDM_OK;
}

/* Returns the gradient plus decay times the parameter. Without decay nothing is added, even for an
 * infinite parameter. */
template <class real>
static __device__ inline real with_decay(real gradient, real parameter, real decay) {
  return decay == 0 ? gradient : gradient + decay * parameter;
}

#endif
