/* Sizes of paths through labels, which the kernels of all device kinds read from a request. */
#ifndef TANDEM_DEVICES_KERNELS_LOSSES_CTC_SIZES_H
#define TANDEM_DEVICES_KERNELS_LOSSES_CTC_SIZES_H

#include "devices/kernels/kernel_state.h"

/* Operand 0 is (steps, batch, places). */
typedef struct ctc_sizes {
  int64_t steps;
  int64_t batch;
  int64_t places;
} ctc_sizes;

static inline void ctc_sizes_read(ctc_sizes *sizes, const tdm_kernel_request *request) {
  const int64_t *dims = request->inputs[0].shape.dims;
  sizes->steps = dims[0];
  sizes->batch = dims[1];
  sizes->places = dims[2];
}

#endif
