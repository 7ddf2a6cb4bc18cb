/* Tensors filled with computed numbers. Invariant: the host computes them for all kinds, so that
 * they are the same everywhere. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/dtype_numbers.h"
#include "devices/context/context.h"
#include "devices/tensors/tensor.h"

/* Converts with saturation, and NaN to 0; a C conversion out of range is undefined. */
static int64_t saturate(double value, int64_t least, int64_t most) {
  if (isnan(value)) return 0;
  if (value <= (double)least) return least;
  if (value >= (double)most) return most;
  return (int64_t)value;
}

void tdm_tensor_put(tdm_dtype dtype, void *data, int64_t index, double value) {
  switch (dtype) {
  case TDM_FLOAT32:
    ((float *)data)[index] = (float)value;
    break;
  case TDM_FLOAT64:
    ((double *)data)[index] = value;
    break;
  case TDM_INT32:
    ((int32_t *)data)[index] = (int32_t)saturate(value, INT32_MIN, INT32_MAX);
    break;
  case TDM_INT64:
    ((int64_t *)data)[index] = saturate(value, INT64_MIN, INT64_MAX);
    break;
  case TDM_UINT8:
    ((uint8_t *)data)[index] = (uint8_t)saturate(value, 0, UINT8_MAX);
    break;
  case TDM_BOOL:
    ((uint8_t *)data)[index] = value != 0.0;
    break;
  case TDM_DTYPE_NONE:
  case TDM_FLOAT16:
  case TDM_BFLOAT16:
  case TDM_DTYPE_COUNT:
    break; /* these dtypes are not filled here */
  }
}

/* Returns a tensor to fill on the host: the result itself, or one on cpu:0 that finish_fill
 * moves. */
static tdm_tensor *begin_fill(tdm_context *context, const char *device, tdm_dtype dtype,
                              tdm_shape shape) {
  if (dtype == TDM_FLOAT16 || dtype == TDM_BFLOAT16) {
    (void)tdm_fail(TDM_UNSUPPORTED, "tensors of %s cannot be filled yet", tdm_dtype_name(dtype));
    return NULL;
  }
  if (!context) {
    (void)tdm_fail_null("the context");
    return NULL;
  }
  const tdm_device *found = tdm_context_find_device(context, device);
  if (!found) return NULL;
  if (found->host_addressable) return tdm_tensor_create(context, device, dtype, shape);
  tdm_tensor *filled = tdm_tensor_create(context, "cpu:0", dtype, shape);
  if (!filled) (void)tdm_fail_within(TDM_OUT_OF_MEMORY, "a tensor of %s", device);
  return filled;
}

/* Takes over the reference to filled. */
static tdm_tensor *finish_fill(tdm_tensor *filled, const char *device) {
  tdm_tensor *tensor = tdm_tensor_to(filled, device, TDM_DTYPE_NONE);
  tdm_tensor_release(filled);
  return tensor;
}

tdm_tensor *tdm_tensor_zeros(tdm_context *context, const char *device, tdm_dtype dtype,
                             tdm_shape shape) {
  tdm_tensor *tensor = begin_fill(context, device, dtype, shape);
  if (!tensor) return NULL;
  if (tensor->bytes > 0) memset(tdm_tensor_data(tensor), 0, tensor->bytes);
  return finish_fill(tensor, device);
}

tdm_tensor *tdm_tensor_full(tdm_context *context, const char *device, tdm_dtype dtype,
                            tdm_shape shape, double value) {
  if (tdm_dtype_check(dtype, "tdm_tensor_full: value", value) != TDM_OK) return NULL;
  tdm_tensor *tensor = begin_fill(context, device, dtype, shape);
  if (!tensor) return NULL;
  const int64_t count = tdm_shape_count(&shape);
  for (int64_t i = 0; i < count; i++)
    tdm_tensor_put(dtype, tdm_tensor_data(tensor), i, value);
  return finish_fill(tensor, device);
}

/* Returns true if elements of dtype can be drawn from [low, high): its width is finite, and dtype
 * holds both ends. For an integer dtype, whose elements are rounded down, it has to hold the
 * smallest and the largest number that can be drawn. */
static bool is_range(tdm_dtype dtype, double low, double high) {
  if (!(low <= high && isfinite(low) && high - low <= DBL_MAX)) return false;
  if (tdm_dtype_is_floating(dtype))
    return tdm_dtype_holds(dtype, low) && tdm_dtype_holds(dtype, high);
  const double last = low < high ? ceil(high) - 1 : floor(low);
  return tdm_dtype_holds(dtype, floor(low)) && tdm_dtype_holds(dtype, last);
}

static double uniform_element(const tdm_random *random, tdm_dtype dtype, int64_t index, double low,
                              double high) {
  const uint64_t element = (uint64_t)index;
  if (dtype == TDM_FLOAT32) {
    const double value = low + (high - low) * (double)tdm_random_uniform_float32(random, element);
    /* Rounding to float32 may yield high, which is excluded. */
    if ((double)(float)value < high || !(low < high)) return value;
    return (double)nextafterf((float)high, (float)low);
  }
  const double drawn = low + (high - low) * tdm_random_uniform_float64(random, element);
  const double value = drawn < high || !(low < high) ? drawn : nextafter(high, low);
  return tdm_dtype_is_floating(dtype) ? value : floor(value);
}

tdm_tensor *tdm_tensor_uniform(tdm_context *context, const char *device, tdm_dtype dtype,
                               tdm_shape shape, uint64_t seed, double low, double high) {
  if (!is_range(dtype, low, high)) {
    (void)tdm_fail(TDM_INVALID_ARGUMENT, "no %s can be drawn from [%g, %g)", tdm_dtype_name(dtype),
                   low, high);
    return NULL;
  }
  tdm_tensor *tensor = begin_fill(context, device, dtype, shape);
  if (!tensor) return NULL;
  const tdm_random random = {.seed = seed};
  const int64_t count = tdm_shape_count(&shape);
  for (int64_t i = 0; i < count; i++) {
    tdm_tensor_put(dtype, tdm_tensor_data(tensor), i,
                   uniform_element(&random, dtype, i, low, high));
  }
  return finish_fill(tensor, device);
}

tdm_tensor *tdm_tensor_ones(tdm_context *context, const char *device, tdm_dtype dtype,
                            tdm_shape shape) {
  return tdm_tensor_full(context, device, dtype, shape, 1.0);
}

tdm_tensor *tdm_tensor_arange(tdm_context *context, const char *device, tdm_dtype dtype,
                              double start, double end, double step) {
  const double length = ceil((end - start) / step);
  if (!(length >= 0) || length > (double)INT32_MAX || !isfinite(start)) {
    (void)tdm_fail(TDM_INVALID_ARGUMENT,
                   "arange from %g to %g by %g: the step must lead from the first to the last, in "
                   "at most 2^31 - 1 elements",
                   start, end, step);
    return NULL;
  }
  const int64_t count = (int64_t)length;
  if (tdm_dtype_check_range(dtype, start, step, count) != TDM_OK) {
    (void)tdm_fail_within(TDM_INVALID_ARGUMENT, "tdm_tensor_arange from %g to %g by %g", start, end,
                          step);
    return NULL;
  }
  tdm_tensor *tensor = begin_fill(context, device, dtype, tdm_shape_of(1, count));
  if (dtype == TDM_INT64) { /* may exceed 2^53 */
    for (int64_t i = 0; tensor && i < count; i++)
      ((int64_t *)tdm_tensor_data(tensor))[i] = (int64_t)start + i * (int64_t)step;
  } else {
    for (int64_t i = 0; tensor && i < count; i++)
      tdm_tensor_put(dtype, tdm_tensor_data(tensor), i, start + (double)i * step);
  }
  return tensor ? finish_fill(tensor, device) : NULL;
}

static bool is_floating(tdm_dtype dtype, const char *what) {
  if (tdm_dtype_is_floating(dtype)) return true;
  (void)tdm_fail(TDM_INVALID_ARGUMENT, "%s fills tensors of floating dtypes, not %s", what,
                 tdm_dtype_name(dtype));
  return false;
}

tdm_tensor *tdm_tensor_rand(tdm_context *context, const char *device, tdm_dtype dtype,
                            tdm_shape shape, uint64_t seed) {
  if (!is_floating(dtype, "rand")) return NULL;
  return tdm_tensor_uniform(context, device, dtype, shape, seed, 0.0, 1.0);
}

tdm_tensor *tdm_tensor_randn(tdm_context *context, const char *device, tdm_dtype dtype,
                             tdm_shape shape, uint64_t seed) {
  if (!is_floating(dtype, "randn")) return NULL;
  tdm_tensor *tensor = begin_fill(context, device, dtype, shape);
  if (!tensor) return NULL;
  const tdm_random random = {.seed = seed};
  const int64_t count = tdm_shape_count(&shape);
  for (int64_t i = 0; i < count; i++)
    tdm_tensor_put(dtype, tdm_tensor_data(tensor), i, tdm_random_normal(&random, (uint64_t)i));
  return finish_fill(tensor, device);
}

tdm_tensor *tdm_tensor_eye(tdm_context *context, const char *device, tdm_dtype dtype, int64_t rows,
                           int64_t columns) {
  tdm_tensor *tensor = begin_fill(context, device, dtype, tdm_shape_of(2, rows, columns));
  if (!tensor) return NULL;
  if (tensor->bytes > 0) memset(tdm_tensor_data(tensor), 0, tensor->bytes);
  for (int64_t i = 0; i < rows && i < columns; i++)
    tdm_tensor_put(dtype, tdm_tensor_data(tensor), i * columns + i, 1.0);
  return finish_fill(tensor, device);
}
