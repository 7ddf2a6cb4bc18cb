/* Sizes of picking by indices, which the kernels of all device kinds read from a request. */
#ifndef TANDEM_DEVICES_KERNELS_MOVES_GATHER_SIZES_H
#define TANDEM_DEVICES_KERNELS_MOVES_GATHER_SIZES_H

#include "devices/kernels/axis_sizes.h"
#include "devices/kernels/kernel_state.h"
#include "devices/kernels/moves/moves.h"

/* Sizes of picking by indices: x as (outer, size, inner), the picked elements as (outer, picked,
 * inner). */
typedef struct gather_sizes {
  int64_t outer;
  int64_t size;
  int64_t inner;
  int64_t picked;
  bool whole_rows; /* index is (picked), else like what is picked */
  bool wide;       /* indices are int64 */
} gather_sizes;

static inline void gather_sizes_read(gather_sizes *sizes, const tdm_kernel_request *request,
                                     const tdm_spec *x, const tdm_spec *index) {
  const tdm_gather_attributes *attributes = (const tdm_gather_attributes *)request->attributes;
  axis_sizes axis;
  axis_sizes_read(&axis, x, attributes->dimension);
  sizes->outer = axis.outer;
  sizes->size = axis.size;
  sizes->inner = axis.inner;
  sizes->whole_rows = attributes->whole_rows != 0;
  sizes->picked = index->shape.dims[sizes->whole_rows ? 0 : attributes->dimension];
  sizes->wide = index->dtype == TDM_INT64;
}

#endif
