/* Softmax and log-softmax along any dimension, and their gradients. A tensor is seen as (outer,
 * size, inner). A block computes a row if by_rows, else a thread computes a column. Invariant:
 * every row is reduced in one order, which depends only on its size. */
#include "devices/kernels/axis_sizes.h"
#include "devices/kernels/normalization/cuda/softmax.h"
#include "devices/kernels/normalization/softmax.h"

struct softmax_state {
  axis_sizes sizes;
  bool by_rows; /* true: a block computes a row; false: a thread computes a column */
};

static tdm_status softmax_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  softmax_state *state = state_create<softmax_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  const tdm_spec *spec = &request->outputs[0];
  const int64_t dimension = attributes_of<tdm_softmax_attributes>(request)->dimension;
  axis_sizes_read(&state->sizes, spec, dimension);
  state->by_rows = is_row(request, state->sizes.inner, dimension + 1 >= spec->shape.rank);
  return TDM_OK;
}

/* ---- Rows, one a block: x, out (outer, size) ------------------------------------------------- */

template <class stored, bool logarithm>
static __global__ void rows_forward(const stored *x, stored *out, int64_t size, int64_t rows) {
  EACH_OF_GRID(row, rows) {
    row_softmax<stored, logarithm>(x + row * size, out + row * size, size);
  }
}

template <class stored, bool logarithm>
static __global__ void rows_backward(const stored *d_y, const stored *y, stored *d_x, int64_t size,
                                     int64_t rows) {
  typedef real_of<stored> real;
  EACH_OF_GRID(row, rows) {
    const int64_t first = row * size;
    real part = 0;
    EACH_OF_BLOCK(i, size) {
      part += logarithm ? (real)d_y[first + i] : d_y[first + i] * y[first + i];
    }
    const real sum = block_sum(part);
    EACH_OF_BLOCK(i, size) {
      const real d = d_y[first + i], value = y[first + i];
      d_x[first + i] = logarithm ? d - exp(value) * sum : value * (d - sum);
    }
  }
}

/* ---- Columns, one a thread: (outer, size, inner) --------------------------------------------- */

template <class stored, bool logarithm>
static __global__ void columns_forward(const stored *x, stored *out, int64_t size, int64_t inner,
                                       int64_t columns) {
  typedef real_of<stored> real;
  EACH_ELEMENT(column, columns) {
    const int64_t first = column / inner * size * inner + column % inner;
    real most = -INFINITY;
    levelled_sum<real> sums = {};
    for (int64_t i = 0; i < size; i++)
      most = larger_of_two::of(most, (real)x[first + i * inner]);
    for (int64_t i = 0; i < size; i++)
      sums.add(i, exp(x[first + i * inner] - most));
    const real sum = logarithm ? log(sums.total()) : sums.total();
    for (int64_t i = 0; i < size; i++) {
      const real shifted = x[first + i * inner] - most;
      out[first + i * inner] = logarithm ? shifted - sum : exp(shifted) / sum;
    }
  }
}

template <class stored, bool logarithm>
static __global__ void columns_backward(const stored *d_y, const stored *y, stored *d_x,
                                        int64_t size, int64_t inner, int64_t columns) {
  typedef real_of<stored> real;
  EACH_ELEMENT(column, columns) {
    const int64_t first = column / inner * size * inner + column % inner;
    levelled_sum<real> sums = {};
    for (int64_t i = 0; i < size; i++) {
      const real d = d_y[first + i * inner];
      sums.add(i, logarithm ? d : d * y[first + i * inner]);
    }
    const real sum = sums.total();
    for (int64_t i = 0; i < size; i++) {
      const real d = d_y[first + i * inner], value = y[first + i * inner];
      d_x[first + i * inner] = logarithm ? d - exp(value) * sum : value * (d - sum);
    }
  }
}

/* ---- Launches -------------------------------------------------------------------------------- */

template <class stored, bool logarithm> static tdm_status softmax_run(const tdm_kernel_call *call) {
  const softmax_state *of = state_of<softmax_state>(call);
  const axis_sizes *state = &of->sizes;
  const stored *x = input_of<stored>(call, 0);
  stored *out = output_of<stored>(call, 0);
  if (state->size == 0) return TDM_OK;
  if (of->by_rows) {
    return kernel_launch(call, "softmax", rows_forward<stored, logarithm>, blocks_of(state->outer),
                         threads_for_row(state->size), x, out, state->size, state->outer);
  }
  const int64_t columns = state->outer * state->inner;
  return kernel_launch(call, "softmax", columns_forward<stored, logarithm>, blocks_for(columns),
                       BLOCK, x, out, state->size, state->inner, columns);
}

template <class stored, bool logarithm>
static tdm_status run_gradient(const tdm_kernel_call *call) {
  const softmax_state *of = state_of<softmax_state>(call);
  const axis_sizes *state = &of->sizes;
  const stored *d_y = input_of<stored>(call, 0), *y = input_of<stored>(call, 1);
  stored *d_x = output_of<stored>(call, 0);
  if (state->size == 0) return TDM_OK;
  if (of->by_rows) {
    return kernel_launch(call, "softmax_gradient", rows_backward<stored, logarithm>,
                         blocks_of(state->outer), threads_for_row(state->size), d_y, y, d_x,
                         state->size, state->outer);
  }
  const int64_t columns = state->outer * state->inner;
  return kernel_launch(call, "softmax_gradient", columns_backward<stored, logarithm>,
                       blocks_for(columns), BLOCK, d_y, y, d_x, state->size, state->inner, columns);
}

KERNELS(softmax, KERNEL(TDM_OP_SOFTMAX, softmax_prepare, (softmax_run<stored, false>)),
        KERNEL(TDM_OP_LOG_SOFTMAX, softmax_prepare, (softmax_run<stored, true>)),
        KERNEL(TDM_OP_SOFTMAX_GRADIENT, softmax_prepare, (run_gradient<stored, false>)),
        KERNEL(TDM_OP_LOG_SOFTMAX_GRADIENT, softmax_prepare, (run_gradient<stored, true>)))
