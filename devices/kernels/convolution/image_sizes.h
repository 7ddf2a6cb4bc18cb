/* Sizes of planes and convolutions, which the kernels of all device kinds read from a request. */
#ifndef TANDEM_DEVICES_KERNELS_CONVOLUTION_IMAGE_SIZES_H
#define TANDEM_DEVICES_KERNELS_CONVOLUTION_IMAGE_SIZES_H

#include "devices/kernels/convolution/images.h"
#include "devices/kernels/kernel_state.h"

/* Reads height and width of (n, channels, height, width); the height of (n, channels, width) is
 * 1. */
static inline void plane_sizes_read(int64_t sizes[2], const tdm_spec *spec) {
  const int rank = spec->shape.rank;
  sizes[0] = rank < 4 ? 1 : spec->shape.dims[rank - 2];
  sizes[1] = spec->shape.dims[rank - 1];
}

typedef struct convolution_sizes {
  int64_t images;
  int64_t groups;
  int64_t in;  /* channels of a group that are read */
  int64_t out; /* channels of a group that are written */
  int64_t size[2];
  int64_t out_size[2];
  int64_t kernel[2];
  int64_t stride[2];
  int64_t padding[2];
  int64_t dilation[2];
} convolution_sizes;

/* Reads the sizes. x, weight and y are those of the convolution. */
static inline void convolution_sizes_read(convolution_sizes *sizes,
                                          const tdm_kernel_request *request, const tdm_spec *x,
                                          const tdm_spec *weight, const tdm_spec *y) {
  const tdm_convolution_attributes *attributes =
      (const tdm_convolution_attributes *)request->attributes;
  sizes->images = x->shape.dims[0];
  sizes->groups = attributes->groups;
  sizes->in = x->shape.dims[1] / sizes->groups;
  sizes->out = weight->shape.dims[0] / sizes->groups;
  plane_sizes_read(sizes->size, x);
  plane_sizes_read(sizes->out_size, y);
  plane_sizes_read(sizes->kernel, weight);
  for (int axis = 0; axis < 2; axis++) {
    sizes->stride[axis] = attributes->stride[axis];
    sizes->padding[axis] = attributes->padding[axis];
    sizes->dilation[axis] = attributes->dilation[axis];
  }
}

#endif
