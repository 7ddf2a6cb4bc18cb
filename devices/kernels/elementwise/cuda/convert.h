/* An element of one dtype of an element of another (devices/kernels/elementwise/conversions.h).
 * Invariant: the dtypes are the same for all threads, so that their branches do not diverge. */
#ifndef TANDEM_DEVICES_KERNELS_ELEMENTWISE_CUDA_CONVERT_H
#define TANDEM_DEVICES_KERNELS_ELEMENTWISE_CUDA_CONVERT_H

#include "devices/kernels/cuda/kernel.h"
#include "devices/kernels/elementwise/conversions.h"

static __host__ __device__ inline int64_t saturate(double x, double least, double most,
                                                   int64_t top) {
  if (!(x > least)) return x <= least ? (int64_t)least : 0; /* NaN: 0 */
  return x >= most ? top : (int64_t)x;
}

#define STORE_DOUBLE(dtype, element, of_double, of_int64)                                          \
  if (to == dtype) static_cast<element *>(out)[i] = of_double;
#define STORE_INT64(dtype, element, of_double, of_int64)                                           \
  if (to == dtype) static_cast<element *>(out)[i] = of_int64;

/* Stores x in out[i], converted to dtype `to`. */
static __host__ __device__ inline void store_double(tdm_dtype to, void *out, int64_t i, double x) {
  TDM_CONVERSIONS(STORE_DOUBLE)
}

static __device__ inline void store_int64(tdm_dtype to, void *out, int64_t i, int64_t x) {
  TDM_CONVERSIONS(STORE_INT64)
}

#undef STORE_DOUBLE
#undef STORE_INT64

/* Loads an element of an integer dtype or bool. */
static __device__ inline int64_t load_int64(tdm_dtype from, const void *x, int64_t i) {
  if (from == TDM_INT64) return static_cast<const int64_t *>(x)[i];
  if (from == TDM_INT32) return static_cast<const int32_t *>(x)[i];
  return static_cast<const uint8_t *>(x)[i]; /* uint8, bool */
}

/* Converts x[i] to out[i]. */
static __device__ inline void convert_element(tdm_dtype from, const void *x, tdm_dtype to,
                                              void *out, int64_t i) {
  if (from == TDM_FLOAT32)
    store_double(to, out, i, static_cast<const float *>(x)[i]);
  else if (from == TDM_FLOAT64)
    store_double(to, out, i, static_cast<const double *>(x)[i]);
  else
    store_int64(to, out, i, load_int64(from, x, i));
}

/* Returns the bits of an element, computed on the host. */
template <class word> static inline word word_of(tdm_dtype dtype, double value) {
  union {
    double widest;
    word bits;
  } element = {};
  store_double(dtype, &element, 0, value);
  return element.bits;
}

#endif
