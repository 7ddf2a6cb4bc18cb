/* Sizes of sums over groups of dimensions, which the kernels of all device kinds read from a
 * request. */
#ifndef TANDEM_DEVICES_KERNELS_REDUCTIONS_REDUCTION_SIZES_H
#define TANDEM_DEVICES_KERNELS_REDUCTIONS_REDUCTION_SIZES_H

#include "devices/kernels/kernel_state.h"
#include "devices/kernels/reductions/reductions.h"

/* x as (a, b, c, d, e), its sums as (a, c, e): b and d are the groups of dimensions that are
 * reduced. */
typedef struct reduce_sizes {
  int64_t sizes[5]; /* a, b, c, d, e */
  bool by_rows;     /* d may be taken as one piece of memory, as is_row has it */
  double divisor;
} reduce_sizes;

/* Fails with UNSUPPORTED if more than two groups are reduced. */
static inline tdm_status reduce_sizes_read(reduce_sizes *sizes, const tdm_kernel_request *request,
                                           const tdm_shape *x) {
  const tdm_reduce_attributes *attributes = (const tdm_reduce_attributes *)request->attributes;
  for (int i = 0; i < 5; i++)
    sizes->sizes[i] = 1;
  int group = 4; /* from the last dimension on: even groups stay */
  for (int i = x->rank - 1; i >= 0; i--) {
    const bool goes = (attributes->mask >> i & 1) != 0;
    if (goes == (group % 2 == 0)) group--;
    if (group < 0)
      return tdm_fail(TDM_UNSUPPORTED, "more than two groups of dimensions are summed over");
    sizes->sizes[group] *= x->dims[i];
  }
  const bool is_last = x->rank == 0 || (attributes->mask >> (x->rank - 1) & 1) != 0;
  sizes->by_rows = is_row(request, sizes->sizes[4], is_last);
  const int64_t all = sizes->sizes[1] * sizes->sizes[3];
  const int64_t terms = attributes->terms != 0 ? attributes->terms : all;
  sizes->divisor = attributes->mean != 0 ? (double)terms : 1;
  return TDM_OK;
}

#endif
