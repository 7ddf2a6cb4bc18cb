/* Sizes of one dimension of a tensor, which the kernels of all device kinds read from a request. */
#ifndef TANDEM_DEVICES_KERNELS_AXIS_SIZES_H
#define TANDEM_DEVICES_KERNELS_AXIS_SIZES_H

#include "devices/kernels/kernel_state.h"

/* A tensor as (outer, size, inner): around one of its dimensions. */
typedef struct axis_sizes {
  int64_t outer;
  int64_t size;
  int64_t inner;
} axis_sizes;

/* Reads (1, 1, 1) for a tensor without dimensions. */
static inline void axis_sizes_read(axis_sizes *sizes, const tdm_spec *spec, int64_t dimension) {
  const bool scalar = spec->shape.rank == 0;
  sizes->outer = dims_product(spec, 0, scalar ? 0 : dimension);
  sizes->size = scalar ? 1 : spec->shape.dims[dimension];
  sizes->inner = dims_product(spec, dimension + 1, spec->shape.rank);
}

#endif
