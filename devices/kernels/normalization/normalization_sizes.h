/* Sizes of normalization, which the kernels of all device kinds read from a request. */
#ifndef TANDEM_DEVICES_KERNELS_NORMALIZATION_NORMALIZATION_SIZES_H
#define TANDEM_DEVICES_KERNELS_NORMALIZATION_NORMALIZATION_SIZES_H

#include "devices/kernels/kernel_state.h"
#include "devices/kernels/normalization/normalization.h"

/* x as (n, channels, inner). */
typedef struct batch_norm_sizes {
  int64_t n;
  int64_t channels;
  int64_t inner;
  double epsilon;
  double momentum;
  int64_t instances; /* 0 or 1 */
} batch_norm_sizes;

static inline void batch_norm_sizes_read(batch_norm_sizes *sizes, const tdm_kernel_request *request,
                                         const tdm_spec *x) {
  const tdm_batch_norm_attributes *attributes =
      (const tdm_batch_norm_attributes *)request->attributes;
  sizes->n = x->shape.dims[0];
  sizes->channels = x->shape.rank > 1 ? x->shape.dims[1] : x->shape.dims[0];
  sizes->inner = dims_product(x, 2, x->shape.rank);
  sizes->epsilon = attributes->epsilon;
  sizes->momentum = attributes->momentum;
  sizes->instances = attributes->instances;
}

/* Reads the same sizes for an x that is normalized by its own statistics. If instances are
 * normalized, every channel of an image is a channel of a single image. */
static inline void batch_norm_sizes_read_own(batch_norm_sizes *sizes,
                                             const tdm_kernel_request *request, const tdm_spec *x) {
  batch_norm_sizes_read(sizes, request, x);
  if (sizes->instances == 0) return;
  sizes->channels *= sizes->n;
  sizes->n = 1;
}

/* x as (rows, count). */
typedef struct layer_norm_sizes {
  int64_t rows;
  int64_t count;
  double epsilon;
  bool centered; /* means are subtracted; otherwise every mean is 0 */
} layer_norm_sizes;

static inline void layer_norm_sizes_read(layer_norm_sizes *sizes, const tdm_kernel_request *request,
                                         const tdm_spec *x) {
  const tdm_layer_norm_attributes *attributes =
      (const tdm_layer_norm_attributes *)request->attributes;
  const int64_t first = x->shape.rank - attributes->rank;
  sizes->rows = dims_product(x, 0, first);
  sizes->count = dims_product(x, first, x->shape.rank);
  sizes->epsilon = attributes->epsilon;
  sizes->centered = attributes->uncentered == 0;
}

#endif
