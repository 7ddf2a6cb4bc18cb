/* Running sums, products and logarithms of sums of exponentials along a dimension, and their
 * gradients. Invariant: a thread takes a column and accumulates in float64, one element after the
 * other. */
#include "devices/kernels/axis_sizes.h"
#include "devices/kernels/cuda/kernel.h"
#include "devices/kernels/reductions/reductions.h"

struct running_state : axis_sizes {
  bool reverse;
};

/* Every operand is like the result: (outer, size, inner). */
static tdm_status running_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  const tdm_dimension_attributes *attributes = attributes_of<tdm_dimension_attributes>(request);
  running_state *state = state_create<running_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  axis_sizes_read(state, &request->outputs[0], attributes->dimension);
  state->reverse = attributes->reverse != 0;
  return TDM_OK;
}

/* The first element of a column. */
static __device__ inline int64_t column_begin(int64_t column, const running_state &state) {
  return column / state.inner * state.size * state.inner + column % state.inner;
}

template <class stored>
static __global__ void running_sums(const stored *x, stored *y, running_state state,
                                    int64_t columns) {
  typedef real_of<stored> real;
  EACH_ELEMENT(column, columns) {
    const int64_t first = column_begin(column, state);
    double sum = 0;
    for (int64_t i = 0; i < state.size; i++) {
      const int64_t at = first + (state.reverse ? state.size - 1 - i : i) * state.inner;
      sum += x[at];
      y[at] = (real)sum;
    }
  }
}

template <class stored>
static __global__ void running_products(const stored *x, stored *y, running_state state,
                                        int64_t columns) {
  typedef real_of<stored> real;
  EACH_ELEMENT(column, columns) {
    const int64_t first = column_begin(column, state);
    double product = 1;
    for (int64_t i = 0; i < state.size; i++) {
      product *= x[first + i * state.inner];
      y[first + i * state.inner] = (real)product;
    }
  }
}

/* log(e^a + e^b); between equal infinities the distance is 0. */
static __device__ inline double log_of_both(double a, double b) {
  const double distance = a == b ? 0 : -fabs(a - b);
  return (a > b || a != a ? a : b) + log1p(exp(distance));
}

template <class stored>
static __global__ void running_logarithms(const stored *x, stored *y, running_state state,
                                          int64_t columns) {
  typedef real_of<stored> real;
  EACH_ELEMENT(column, columns) {
    const int64_t first = column_begin(column, state);
    double sum = -(double)INFINITY;
    for (int64_t i = 0; i < state.size; i++) {
      sum = log_of_both(sum, x[first + i * state.inner]);
      y[first + i * state.inner] = (real)sum;
    }
  }
}

/* d_x[i] is the product of the elements before i, times the sum of d_y[j] times the product of the
 * elements after i up to j. Where sums of d_y y from i on are not finite, d_x[i] is that sum over
 * x[i], as PyTorch computes it. */
template <class stored>
static __global__ void back_from_products(const stored *d_y, const stored *x, const stored *y,
                                          stored *d_x, running_state state, int64_t columns) {
  typedef real_of<stored> real;
  EACH_ELEMENT(column, columns) {
    const int64_t first = column_begin(column, state);
    double sum = 0, plain = 0, next = 0;
    for (int64_t i = state.size - 1; i >= 0; i--) {
      const int64_t at = first + i * state.inner;
      const double d = d_y[at], value = x[at];
      const double before = i > 0 ? (double)y[at - state.inner] : 1.0;
      sum = d + next * sum;
      plain += d * y[at];
      next = value;
      d_x[at] = (real)(plain - plain == 0 ? before * sum : plain / value);
    }
  }
}

/* d_x[i] is e^(x[i] - y[i]) times the sum of d_y[j] e^(y[i] - y[j]) from i on; y does not fall, so
 * that no exponent is positive. */
template <class stored>
static __global__ void back_from_logarithms(const stored *d_y, const stored *x, const stored *y,
                                            stored *d_x, running_state state, int64_t columns) {
  typedef real_of<stored> real;
  EACH_ELEMENT(column, columns) {
    const int64_t first = column_begin(column, state);
    double sum = 0, next = INFINITY;
    for (int64_t i = state.size - 1; i >= 0; i--) {
      const int64_t at = first + i * state.inner;
      const double value = y[at];
      sum = d_y[at] + (value == next ? sum : sum * exp(value - next));
      next = value;
      d_x[at] = (real)(sum * exp(x[at] - value));
    }
  }
}

template <class stored>
static tdm_status run_forward(const tdm_kernel_call *call, const char *name,
                              void (*kernel)(const stored *, stored *, running_state, int64_t)) {
  const running_state *state = state_of<running_state>(call);
  const int64_t columns = state->outer * state->inner;
  return kernel_launch(call, name, kernel, blocks_for(columns), BLOCK, input_of<stored>(call, 0),
                       output_of<stored>(call, 0), *state, columns);
}

template <class stored>
static tdm_status run_back(const tdm_kernel_call *call, const char *name,
                           void (*kernel)(const stored *, const stored *, const stored *, stored *,
                                          running_state, int64_t)) {
  const running_state *state = state_of<running_state>(call);
  const int64_t columns = state->outer * state->inner;
  return kernel_launch(call, name, kernel, blocks_for(columns), BLOCK, input_of<stored>(call, 0),
                       input_of<stored>(call, 1), input_of<stored>(call, 2),
                       output_of<stored>(call, 0), *state, columns);
}

template <class stored> static tdm_status run_cumsum(const tdm_kernel_call *call) {
  return run_forward<stored>(call, "cumsum", running_sums<stored>);
}

template <class stored> static tdm_status run_cumprod(const tdm_kernel_call *call) {
  return run_forward<stored>(call, "cumprod", running_products<stored>);
}

template <class stored> static tdm_status run_logcumsumexp(const tdm_kernel_call *call) {
  return run_forward<stored>(call, "logcumsumexp", running_logarithms<stored>);
}

template <class stored> static tdm_status run_cumprod_gradient(const tdm_kernel_call *call) {
  return run_back<stored>(call, "cumprod_gradient", back_from_products<stored>);
}

template <class stored> static tdm_status run_logcumsumexp_gradient(const tdm_kernel_call *call) {
  return run_back<stored>(call, "logcumsumexp_gradient", back_from_logarithms<stored>);
}

KERNELS(running, KERNEL(TDM_OP_CUMSUM, running_prepare, run_cumsum<stored>),
        KERNEL(TDM_OP_CUMPROD, running_prepare, run_cumprod<stored>),
        KERNEL(TDM_OP_CUMPROD_GRADIENT, running_prepare, run_cumprod_gradient<stored>),
        KERNEL(TDM_OP_LOGCUMSUMEXP, running_prepare, run_logcumsumexp<stored>),
        KERNEL(TDM_OP_LOGCUMSUMEXP_GRADIENT, running_prepare, run_logcumsumexp_gradient<stored>))
