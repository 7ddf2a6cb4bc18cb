/* The share of a step's value in a moving average, for hosts and GPUs. */
#ifndef TANDEM_DEVICES_KERNELS_UPDATES_AVERAGE_SHARE_H
#define TANDEM_DEVICES_KERNELS_UPDATES_AVERAGE_SHARE_H

#include "devices/kernels/updates/optimizers.h"

#if defined(__CUDACC__)
#define TDM_AVERAGE_FUNCTION static __host__ __device__ inline
#else
#define TDM_AVERAGE_FUNCTION static inline
#endif

/* so_far: values in it; all of it is new where there are none. A negative decay: the mean. */
TDM_AVERAGE_FUNCTION double tdm_average_share(double decay, double so_far) {
  if (!(so_far > 0.0)) return 1.0;
  return decay < 0.0 ? 1.0 / (so_far + 1.0) : 1.0 - decay;
}

#endif
