/* Sizes of recurrent layers, which the kernels of all device kinds read from a request. */
#ifndef TANDEM_DEVICES_KERNELS_RECURRENT_RECURRENT_SIZES_H
#define TANDEM_DEVICES_KERNELS_RECURRENT_RECURRENT_SIZES_H

#include "devices/kernels/kernel_state.h"
#include "devices/kernels/recurrent/recurrent.h"

typedef struct recurrent_sizes {
  int64_t length;
  int64_t batch;
  int64_t in;
  int64_t hidden;
  int64_t columns; /* columns of the weights' products: G hidden */
  int32_t cell;    /* tdm_cell */
  bool reverse;
  bool wide_lengths; /* int64 */
} recurrent_sizes;

/* Reads the sizes. x (length, batch, in), y (length, batch, hidden). */
static inline void recurrent_sizes_read(recurrent_sizes *sizes, const tdm_kernel_request *request,
                                        const tdm_spec *x, const tdm_spec *y,
                                        const tdm_spec *lengths) {
  const tdm_recurrent_attributes *attributes =
      (const tdm_recurrent_attributes *)request->attributes;
  sizes->length = x->shape.dims[0];
  sizes->batch = x->shape.dims[1];
  sizes->in = x->shape.dims[2];
  sizes->hidden = y->shape.dims[2];
  sizes->cell = attributes->cell;
  sizes->columns = tdm_cell_gates(sizes->cell) * sizes->hidden;
  sizes->reverse = attributes->reverse != 0;
  sizes->wide_lengths = lengths->dtype == TDM_INT64;
}

/* Returns the time of the step that is computed after `done` others. */
static inline int64_t recurrent_time(const recurrent_sizes *sizes, int64_t done) {
  return sizes->reverse ? sizes->length - 1 - done : done;
}

#endif
