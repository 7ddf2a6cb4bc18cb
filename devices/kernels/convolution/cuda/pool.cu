/* Maximum and average pooling, adaptive too, and their gradients, which gather: a thread takes an
 * element of the result and looks for the windows that it lies in. Invariant: sums are taken in the
 * order of windows. */
#include "devices/kernels/convolution/images.h"
#include "devices/kernels/convolution/pool_windows.h"
#include "devices/kernels/cuda/kernel.h"

static tdm_status pool_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                               const tdm_spec *x, const tdm_spec *y) {
  pool_sizes *sizes = state_create<pool_sizes>(answer);
  if (!sizes) return TDM_OUT_OF_MEMORY;
  pool_sizes_read(sizes, request, x, y);
  return TDM_OK;
}

/* Return the first and the last window along an axis that may contain element i. */
static __device__ inline int64_t first_window(const pool_sizes &pool, int axis, int64_t i) {
  if (pool.attributes.adaptive != 0) return i * pool.out_size[axis] / pool.size[axis];
  const int64_t stride = pool.attributes.stride[axis];
  const int64_t reach = i + pool.attributes.padding[axis] -
                        (pool.attributes.kernel[axis] - 1) * pool.attributes.dilation[axis];
  return reach <= 0 ? 0 : (reach + stride - 1) / stride;
}

static __device__ inline int64_t last_window(const pool_sizes &pool, int axis, int64_t i) {
  const int64_t out = pool.out_size[axis];
  const int64_t last = pool.attributes.adaptive != 0
                           ? ((i + 1) * out - 1) / pool.size[axis]
                           : (i + pool.attributes.padding[axis]) / pool.attributes.stride[axis];
  return last < out - 1 ? last : out - 1;
}

/* ---- Maximum --------------------------------------------------------------------------------- */

/* Computes y and indices (planes, h', w') from x (planes, h, w). */
template <class stored>
static __global__ void max_pool(const stored *x, stored *y, int32_t *indices, pool_sizes pool,
                                int64_t count) {
  typedef real_of<stored> real;
  const int64_t out_y = pool.out_size[0], out_x = pool.out_size[1];
  const int64_t size_y = pool.size[0], size_x = pool.size[1];
  EACH_ELEMENT(i, count) {
    const pool_window rows = pool_window_at(&pool, 0, i / out_x % out_y);
    const pool_window columns = pool_window_at(&pool, 1, i % out_x);
    const stored *plane = x + i / (out_x * out_y) * size_y * size_x;
    real most = -INFINITY;
    int64_t place = rows.begin * size_x + columns.begin;
    for (int64_t row = rows.begin; row < rows.end; row += rows.step) {
      for (int64_t column = columns.begin; column < columns.end; column += columns.step) {
        const real value = plane[row * size_x + column];
        if (!(value > most || value != value)) continue;
        most = value;
        place = row * size_x + column;
      }
    }
    y[i] = most;
    indices[i] = (int32_t)place;
  }
}

template <class stored> static tdm_status run_max(const tdm_kernel_call *call) {
  const pool_sizes *state = state_of<pool_sizes>(call);
  const int64_t count = state->planes * state->out_size[0] * state->out_size[1];
  return kernel_launch(call, "max_pool", max_pool<stored>, blocks_for(count), BLOCK,
                       input_of<stored>(call, 0), output_of<stored>(call, 0),
                       output_of<int32_t>(call, 1), *state, count);
}

/* Computes d_x (planes, h, w) from d_y and indices (planes, h', w'). */
template <class stored>
static __global__ void max_pool_gradient(const stored *d_y, const int32_t *indices, stored *d_x,
                                         pool_sizes pool, int64_t count) {
  typedef real_of<stored> real;
  const int64_t out_y = pool.out_size[0], out_x = pool.out_size[1];
  const int64_t size_y = pool.size[0], size_x = pool.size[1];
  EACH_ELEMENT(i, count) {
    const int64_t row = i / size_x % size_y, column = i % size_x;
    const int64_t first = i / (size_x * size_y) * out_y * out_x;
    real sum = 0;
    for (int64_t j = first_window(pool, 0, row); j <= last_window(pool, 0, row); j++) {
      for (int64_t k = first_window(pool, 1, column); k <= last_window(pool, 1, column); k++) {
        const int64_t place = first + j * out_x + k;
        if (indices[place] == row * size_x + column) sum += d_y[place];
      }
    }
    d_x[i] = sum;
  }
}

template <class stored> static tdm_status run_max_gradient(const tdm_kernel_call *call) {
  const pool_sizes *state = state_of<pool_sizes>(call);
  const int64_t count = state->planes * state->size[0] * state->size[1];
  return kernel_launch(call, "max_pool_gradient", max_pool_gradient<stored>, blocks_for(count),
                       BLOCK, input_of<stored>(call, 0), input_of<int32_t>(call, 1),
                       output_of<stored>(call, 0), *state, count);
}

/* ---- Average --------------------------------------------------------------------------------- */

/* Computes y (planes, h', w') from x (planes, h, w). */
template <class stored>
static __global__ void average_pool(const stored *x, stored *y, pool_sizes pool, int64_t count) {
  typedef real_of<stored> real;
  const int64_t out_y = pool.out_size[0], out_x = pool.out_size[1];
  const int64_t size_y = pool.size[0], size_x = pool.size[1];
  EACH_ELEMENT(i, count) {
    const pool_window rows = pool_window_at(&pool, 0, i / out_x % out_y);
    const pool_window columns = pool_window_at(&pool, 1, i % out_x);
    const stored *plane = x + i / (out_x * out_y) * size_y * size_x;
    real sum = 0;
    for (int64_t row = rows.begin; row < rows.end; row++)
      for (int64_t column = columns.begin; column < columns.end; column++)
        sum += plane[row * size_x + column];
    y[i] = sum / (real)pool_divisor(&pool, rows, columns);
  }
}

template <class stored> static tdm_status run_average(const tdm_kernel_call *call) {
  const pool_sizes *state = state_of<pool_sizes>(call);
  const int64_t count = state->planes * state->out_size[0] * state->out_size[1];
  return kernel_launch(call, "average_pool", average_pool<stored>, blocks_for(count), BLOCK,
                       input_of<stored>(call, 0), output_of<stored>(call, 0), *state, count);
}

/* Computes d_x (planes, h, w) from d_y (planes, h', w'). */
template <class stored>
static __global__ void average_pool_gradient(const stored *d_y, stored *d_x, pool_sizes pool,
                                             int64_t count) {
  typedef real_of<stored> real;
  const int64_t out_y = pool.out_size[0], out_x = pool.out_size[1];
  const int64_t size_y = pool.size[0], size_x = pool.size[1];
  EACH_ELEMENT(i, count) {
    const int64_t row = i / size_x % size_y, column = i % size_x;
    const stored *plane = d_y + i / (size_x * size_y) * out_y * out_x;
    real sum = 0;
    for (int64_t j = first_window(pool, 0, row); j <= last_window(pool, 0, row); j++) {
      const pool_window rows = pool_window_at(&pool, 0, j);
      for (int64_t k = first_window(pool, 1, column); k <= last_window(pool, 1, column); k++) {
        const pool_window columns = pool_window_at(&pool, 1, k);
        sum += plane[j * out_x + k] / (real)pool_divisor(&pool, rows, columns);
      }
    }
    d_x[i] = sum;
  }
}

template <class stored> static tdm_status run_average_gradient(const tdm_kernel_call *call) {
  const pool_sizes *state = state_of<pool_sizes>(call);
  const int64_t count = state->planes * state->size[0] * state->size[1];
  return kernel_launch(call, "average_pool_gradient", average_pool_gradient<stored>,
                       blocks_for(count), BLOCK, input_of<stored>(call, 0),
                       output_of<stored>(call, 0), *state, count);
}

static tdm_status prepare_forward(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return pool_prepare(request, answer, &request->inputs[0], &request->outputs[0]);
}

static tdm_status prepare_back(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return pool_prepare(request, answer, &request->outputs[0], &request->inputs[0]);
}

KERNELS(pool, KERNEL(TDM_OP_MAX_POOL, prepare_forward, run_max<stored>),
        KERNEL(TDM_OP_MAX_POOL_GRADIENT, prepare_back, run_max_gradient<stored>),
        KERNEL(TDM_OP_AVERAGE_POOL, prepare_forward, run_average<stored>),
        KERNEL(TDM_OP_AVERAGE_POOL_GRADIENT, prepare_back, run_average_gradient<stored>))
