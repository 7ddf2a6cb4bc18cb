/* Maximum and average pooling, adaptive too, and their gradients, which gather: a thread takes an
 * element of the result and looks for the windows that it lies in. Invariant: sums are taken in the
 * order of windows. */
#include "devices/cuda/kernels/family.h"
#include "devices/cuda/kernels/kernel.h"

struct pool_state {
  tdm_pool_attributes attributes;
  int64_t planes; /* images x channels */
  int64_t size[2];
  int64_t out_size[2];
  bool wide;
};

static tdm_status prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                          const tdm_spec *x, const tdm_spec *y) {
  pool_state *state = state_create<pool_state>(answer);
  if (state == NULL) return TDM_OUT_OF_MEMORY;
  state->attributes = *static_cast<const tdm_pool_attributes *>(request->attributes);
  state->planes = x->shape.dims[0] * x->shape.dims[1];
  for (int axis = 0; axis < 2; axis++) {
    const int from_last = 2 - axis;
    const bool flat = from_last > x->shape.rank - 2; /* of one dimension: the height is 1 */
    state->size[axis] = flat ? 1 : x->shape.dims[x->shape.rank - from_last];
    state->out_size[axis] = flat ? 1 : y->shape.dims[y->shape.rank - from_last];
  }
  state->wide = x->dtype == TDM_FLOAT64;
  return TDM_OK;
}

static const pool_state *state_of(const tdm_kernel_call *call) {
  return static_cast<const pool_state *>(call->state);
}

/* One axis as kernels take it: parameters and, in the same order, arguments. */
#define AXIS(a)                                                                                    \
  int64_t size_##a, int64_t out_##a, int64_t kernel_##a, int64_t stride_##a, int64_t padding_##a,  \
      int64_t dilation_##a
#define AXIS_OF(state, axis)                                                                       \
  (state)->size[axis], (state)->out_size[axis], (state)->attributes.kernel[axis],                  \
      (state)->attributes.stride[axis], (state)->attributes.padding[axis],                         \
      (state)->attributes.dilation[axis]
#define WINDOW(a, i, adaptive)                                                                     \
  window_at(i, adaptive, size_##a, out_##a, kernel_##a, stride_##a, padding_##a, dilation_##a)

struct window {
  int64_t begin;
  int64_t end;
  int64_t step;
  int64_t counted; /* elements for the divisor where padding counts */
};

static __device__ inline window window_at(int64_t i, bool adaptive, int64_t size, int64_t out,
                                          int64_t kernel, int64_t stride, int64_t padding,
                                          int64_t dilation) {
  window found;
  if (adaptive) {
    found.begin = i * size / out;
    found.end = ((i + 1) * size + out - 1) / out;
    found.step = 1;
    found.counted = found.end - found.begin;
    return found;
  }
  found.begin = i * stride - padding;
  found.end = found.begin + (kernel - 1) * dilation + 1;
  found.step = dilation;
  found.counted = (found.end < size + padding ? found.end : size + padding) - found.begin;
  if (found.begin < 0) found.begin += (-found.begin + dilation - 1) / dilation * dilation;
  if (found.end > size) found.end = size;
  return found;
}

/* The windows that may hold element i, from first to last. */
#define FIRST(a, i, adaptive)                                                                      \
  first_window(i, adaptive, size_##a, out_##a, kernel_##a, stride_##a, padding_##a, dilation_##a)
#define LAST(a, i, adaptive) last_window(i, adaptive, size_##a, out_##a, stride_##a, padding_##a)

static __device__ inline int64_t first_window(int64_t i, bool adaptive, int64_t size, int64_t out,
                                              int64_t kernel, int64_t stride, int64_t padding,
                                              int64_t dilation) {
  if (adaptive) return i * out / size;
  const int64_t reach = i + padding - (kernel - 1) * dilation;
  return reach <= 0 ? 0 : (reach + stride - 1) / stride;
}

static __device__ inline int64_t last_window(int64_t i, bool adaptive, int64_t size, int64_t out,
                                             int64_t stride, int64_t padding) {
  const int64_t last = adaptive ? ((i + 1) * out - 1) / size : (i + padding) / stride;
  return last < out - 1 ? last : out - 1;
}

static __device__ inline int64_t divisor_of(window rows, window columns, bool count_padding,
                                            int64_t divisor) {
  if (divisor != 0) return divisor;
  if (count_padding) return rows.counted * columns.counted;
  return (rows.end - rows.begin) * (columns.end - columns.begin);
}

/* ---- Maximum --------------------------------------------------------------------------------- */

/* x: (planes, h, w), y, indices: (planes, h', w'). */
template <class real>
static __global__ void max_pool(const real *x, real *y, int32_t *indices, bool adaptive, AXIS(y),
                                AXIS(x), int64_t count) {
  EACH_ELEMENT(i, count) {
    const window rows = WINDOW(y, i / out_x % out_y, adaptive);
    const window columns = WINDOW(x, i % out_x, adaptive);
    const real *plane = x + i / (out_x * out_y) * size_y * size_x;
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

template <class real> static tdm_status run_max(const tdm_kernel_call *call) {
  const pool_state *state = state_of(call);
  const int64_t count = state->planes * state->out_size[0] * state->out_size[1];
  return kernel_launch(call, "max_pool", max_pool<real>, blocks_for(count), BLOCK,
                       input_of<real>(call, 0), output_of<real>(call, 0),
                       output_of<int32_t>(call, 1), state->attributes.adaptive != 0,
                       AXIS_OF(state, 0), AXIS_OF(state, 1), count);
}

tdm_status tdm_cuda_max_pool_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return prepare(request, answer, &request->inputs[0], &request->outputs[0]);
}

tdm_status tdm_cuda_max_pool_execute(const tdm_kernel_call *call) {
  return state_of(call)->wide ? run_max<double>(call) : run_max<float>(call);
}

/* d_y, indices: (planes, h', w'), d_x: (planes, h, w). */
template <class real>
static __global__ void max_pool_gradient(const real *d_y, const int32_t *indices, real *d_x,
                                         bool adaptive, AXIS(y), AXIS(x), int64_t count) {
  EACH_ELEMENT(i, count) {
    const int64_t row = i / size_x % size_y, column = i % size_x;
    const int64_t first = i / (size_x * size_y) * out_y * out_x;
    real sum = 0;
    for (int64_t j = FIRST(y, row, adaptive); j <= LAST(y, row, adaptive); j++) {
      for (int64_t k = FIRST(x, column, adaptive); k <= LAST(x, column, adaptive); k++) {
        const int64_t place = first + j * out_x + k;
        if (indices[place] == row * size_x + column) sum += d_y[place];
      }
    }
    d_x[i] = sum;
  }
}

template <class real> static tdm_status run_max_gradient(const tdm_kernel_call *call) {
  const pool_state *state = state_of(call);
  const int64_t count = state->planes * state->size[0] * state->size[1];
  return kernel_launch(call, "max_pool_gradient", max_pool_gradient<real>, blocks_for(count), BLOCK,
                       input_of<real>(call, 0), input_of<int32_t>(call, 1),
                       output_of<real>(call, 0), state->attributes.adaptive != 0, AXIS_OF(state, 0),
                       AXIS_OF(state, 1), count);
}

tdm_status tdm_cuda_max_pool_gradient_prepare(const tdm_kernel_request *request,
                                              tdm_kernel_answer *answer) {
  return prepare(request, answer, &request->outputs[0], &request->inputs[0]);
}

tdm_status tdm_cuda_max_pool_gradient_execute(const tdm_kernel_call *call) {
  return state_of(call)->wide ? run_max_gradient<double>(call) : run_max_gradient<float>(call);
}

/* ---- Average --------------------------------------------------------------------------------- */

/* x: (planes, h, w), y: (planes, h', w'). */
template <class real>
static __global__ void average_pool(const real *x, real *y, bool adaptive, bool count_padding,
                                    int64_t divisor, AXIS(y), AXIS(x), int64_t count) {
  EACH_ELEMENT(i, count) {
    const window rows = WINDOW(y, i / out_x % out_y, adaptive);
    const window columns = WINDOW(x, i % out_x, adaptive);
    const real *plane = x + i / (out_x * out_y) * size_y * size_x;
    real sum = 0;
    for (int64_t row = rows.begin; row < rows.end; row++)
      for (int64_t column = columns.begin; column < columns.end; column++)
        sum += plane[row * size_x + column];
    y[i] = sum / (real)divisor_of(rows, columns, count_padding, divisor);
  }
}

template <class real> static tdm_status run_average(const tdm_kernel_call *call) {
  const pool_state *state = state_of(call);
  const int64_t count = state->planes * state->out_size[0] * state->out_size[1];
  return kernel_launch(call, "average_pool", average_pool<real>, blocks_for(count), BLOCK,
                       input_of<real>(call, 0), output_of<real>(call, 0),
                       state->attributes.adaptive != 0, state->attributes.count_padding != 0,
                       state->attributes.divisor, AXIS_OF(state, 0), AXIS_OF(state, 1), count);
}

tdm_status tdm_cuda_average_pool_prepare(const tdm_kernel_request *request,
                                         tdm_kernel_answer *answer) {
  return prepare(request, answer, &request->inputs[0], &request->outputs[0]);
}

tdm_status tdm_cuda_average_pool_execute(const tdm_kernel_call *call) {
  return state_of(call)->wide ? run_average<double>(call) : run_average<float>(call);
}

/* d_y: (planes, h', w'), d_x: (planes, h, w). */
template <class real>
static __global__ void average_pool_gradient(const real *d_y, real *d_x, bool adaptive,
                                             bool count_padding, int64_t divisor, AXIS(y), AXIS(x),
                                             int64_t count) {
  EACH_ELEMENT(i, count) {
    const int64_t row = i / size_x % size_y, column = i % size_x;
    const real *plane = d_y + i / (size_x * size_y) * out_y * out_x;
    real sum = 0;
    for (int64_t j = FIRST(y, row, adaptive); j <= LAST(y, row, adaptive); j++) {
      const window rows = WINDOW(y, j, adaptive);
      for (int64_t k = FIRST(x, column, adaptive); k <= LAST(x, column, adaptive); k++) {
        const window columns = WINDOW(x, k, adaptive);
        sum += plane[j * out_x + k] / (real)divisor_of(rows, columns, count_padding, divisor);
      }
    }
    d_x[i] = sum;
  }
}

template <class real> static tdm_status run_average_gradient(const tdm_kernel_call *call) {
  const pool_state *state = state_of(call);
  const int64_t count = state->planes * state->size[0] * state->size[1];
  return kernel_launch(call, "average_pool_gradient", average_pool_gradient<real>,
                       blocks_for(count), BLOCK, input_of<real>(call, 0), output_of<real>(call, 0),
                       state->attributes.adaptive != 0, state->attributes.count_padding != 0,
                       state->attributes.divisor, AXIS_OF(state, 0), AXIS_OF(state, 1), count);
}

tdm_status tdm_cuda_average_pool_gradient_prepare(const tdm_kernel_request *request,
                                                  tdm_kernel_answer *answer) {
  return prepare(request, answer, &request->outputs[0], &request->inputs[0]);
}

tdm_status tdm_cuda_average_pool_gradient_execute(const tdm_kernel_call *call) {
  return state_of(call)->wide ? run_average_gradient<double>(call)
                              : run_average_gradient<float>(call);
}
