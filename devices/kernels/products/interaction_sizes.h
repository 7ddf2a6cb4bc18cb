/* Sizes of products of vectors, which the kernels of all device kinds read from a request. */
#ifndef TANDEM_DEVICES_KERNELS_PRODUCTS_INTERACTION_SIZES_H
#define TANDEM_DEVICES_KERNELS_PRODUCTS_INTERACTION_SIZES_H

#include "devices/kernels/kernel_state.h"
#include "devices/kernels/products/products.h"

typedef struct interaction_sizes {
  int64_t batch;
  int64_t vectors;
  int64_t dim;
  int64_t pairs;
  int64_t self; /* 1: a vector's product with itself too */
} interaction_sizes;

static inline void interaction_sizes_read(interaction_sizes *sizes,
                                          const tdm_kernel_request *request, const tdm_spec *x) {
  sizes->batch = x->shape.dims[0];
  sizes->vectors = x->shape.dims[1];
  sizes->dim = x->shape.dims[2];
  sizes->self = ((const tdm_dot_interaction_attributes *)request->attributes)->self;
  sizes->pairs = sizes->vectors * (sizes->vectors - 1) / 2 + sizes->self * sizes->vectors;
}

#endif
