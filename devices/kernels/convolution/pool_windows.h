/* Windows of pooling along one axis, for the kernels of every kind. Invariant: a window is inside
 * x. Adaptive windows divide it as evenly as possible, from floor(i n / m) to ceil((i + 1) n /
 * m). */
#ifndef TANDEM_DEVICES_KERNELS_CONVOLUTION_POOL_WINDOWS_H
#define TANDEM_DEVICES_KERNELS_CONVOLUTION_POOL_WINDOWS_H

#include "devices/kernels/convolution/image_sizes.h"
#include "devices/kernels/convolution/images.h"

#ifdef __CUDACC__
#define TDM_POOL_FUNCTION static __host__ __device__ inline
#else
#define TDM_POOL_FUNCTION static inline
#endif

/* x as planes (height, width). */
typedef struct pool_sizes {
  tdm_pool_attributes attributes;
  int64_t planes; /* images x channels */
  int64_t size[2];
  int64_t out_size[2];
} pool_sizes;

static inline void pool_sizes_read(pool_sizes *sizes, const tdm_kernel_request *request,
                                   const tdm_spec *x, const tdm_spec *y) {
  sizes->attributes = *(const tdm_pool_attributes *)request->attributes;
  sizes->planes = x->shape.dims[0] * x->shape.dims[1];
  plane_sizes_read(sizes->size, x);
  plane_sizes_read(sizes->out_size, y);
}

typedef struct pool_window {
  int64_t begin;
  int64_t end;
  int64_t step;
  int64_t counted; /* elements of the divisor if padding counts */
} pool_window;

/* Returns window i along an axis: 0 for rows, 1 for columns. */
TDM_POOL_FUNCTION pool_window pool_window_at(const pool_sizes *pool, int axis, int64_t i) {
  const tdm_pool_attributes *of = &pool->attributes;
  const int64_t size = pool->size[axis], out = pool->out_size[axis];
  pool_window window;
  if (of->adaptive != 0) {
    window.begin = i * size / out;
    window.end = ((i + 1) * size + out - 1) / out;
    window.step = 1;
    window.counted = window.end - window.begin;
    return window;
  }
  const int64_t step = of->dilation[axis], padding = of->padding[axis];
  window.begin = i * of->stride[axis] - padding;
  window.end = window.begin + (of->kernel[axis] - 1) * step + 1;
  window.step = step;
  window.counted = (window.end < size + padding ? window.end : size + padding) - window.begin;
  if (window.begin < 0) window.begin += (-window.begin + step - 1) / step * step;
  if (window.end > size) window.end = size;
  return window;
}

/* Returns the divisor of the sum over two windows. */
TDM_POOL_FUNCTION int64_t pool_divisor(const pool_sizes *pool, pool_window rows,
                                       pool_window columns) {
  const tdm_pool_attributes *of = &pool->attributes;
  if (of->divisor != 0) return of->divisor;
  if (of->count_padding != 0) return rows.counted * columns.counted;
  return (rows.end - rows.begin) * (columns.end - columns.begin);
}

#endif
