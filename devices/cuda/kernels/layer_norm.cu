/* Layer and root mean square normalization, and their gradients. x is seen as (rows, count); a
 * block takes a row, or a thread takes a column. Invariant: every sum is taken in one order, which
 * the shape alone decides.
 */
#include "devices/cuda/kernels/reduce.h"
#include "devices/operations/normalization.h"
#include "devices/operations/normalization_sizes.h"

/* x: the operand of that number. */
template <size_t operand>
static tdm_status layer_norm_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  layer_norm_sizes *sizes = state_create<layer_norm_sizes>(answer);
  if (!sizes) return TDM_OUT_OF_MEMORY;
  layer_norm_sizes_read(sizes, request, &request->inputs[operand]);
  return TDM_OK;
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* x, y: (rows, count); weight, bias: (count) or NULL; means, inverses: (rows). */
template <class stored>
static __global__ void normalize(const stored *x, const stored *weight, const stored *bias,
                                 stored *y, stored *means, stored *inverses,
                                 const layer_norm_sizes state) {
  typedef real_of<stored> real;
  const int64_t rows = state.rows, count = state.count;
  EACH_OF_GRID(row, rows) {
    const int64_t first = row * count;
    real sum = 0, squares = 0;
    EACH_OF_BLOCK(i, count) {
      sum += x[first + i];
    }
    const real average = block_sum(sum) / (real)count;
    const real mean = state.centered ? average : 0;
    EACH_OF_BLOCK(i, count) {
      const real d = x[first + i] - mean;
      squares += d * d;
    }
    const real variance = block_sum(squares) / (real)count;
    const real inverse = (real)(1 / sqrt((double)variance + state.epsilon));
    EACH_OF_BLOCK(i, count) {
      real value = (x[first + i] - mean) * inverse;
      if (weight) value *= weight[i];
      if (bias) value += bias[i];
      y[first + i] = value;
    }
    if (threadIdx.x == 0) means[row] = mean;
    if (threadIdx.x == 0) inverses[row] = inverse;
  }
}

template <class stored> static tdm_status run_forward(const tdm_kernel_call *call) {
  const layer_norm_sizes *state = state_of<layer_norm_sizes>(call);
  return kernel_launch(
      call, "layer_norm", normalize<stored>, blocks_of(state->rows), threads_for_row(state->count),
      input_of<stored>(call, 0), input_of<stored>(call, 1), input_of<stored>(call, 2),
      output_of<stored>(call, 0), output_of<stored>(call, 1), output_of<stored>(call, 2), *state);
}

/* ---- Gradient of x --------------------------------------------------------------------------- */

/* With g = d_y weight and n = (x - mean) inverse: d_x = inverse (g - average(g) - n average(g n)),
 * where average(g) is the mean's part, and 0 if not centered. */
template <class stored>
static __global__ void input_gradient(const stored *d_y, const stored *x, const stored *means,
                                      const stored *inverses, const stored *weight, stored *d_x,
                                      const layer_norm_sizes state) {
  typedef real_of<stored> real;
  const int64_t rows = state.rows, count = state.count;
  EACH_OF_GRID(row, rows) {
    const int64_t first = row * count;
    const real mean = means[row], inverse = inverses[row];
    real sum = 0, products = 0;
    EACH_OF_BLOCK(i, count) {
      const real g = weight ? d_y[first + i] * weight[i] : (real)d_y[first + i];
      sum += g;
      products += g * ((x[first + i] - mean) * inverse);
    }
    const real sum_average = block_sum(sum) / (real)count;
    const real average = state.centered ? sum_average : 0;
    const real product = block_sum(products) / (real)count;
    EACH_OF_BLOCK(i, count) {
      const real g = weight ? d_y[first + i] * weight[i] : (real)d_y[first + i];
      const real n = (x[first + i] - mean) * inverse;
      d_x[first + i] = inverse * (g - average - n * product);
    }
  }
}

template <class stored> static tdm_status run_gradient(const tdm_kernel_call *call) {
  const layer_norm_sizes *state = state_of<layer_norm_sizes>(call);
  return kernel_launch(call, "layer_norm_gradient", input_gradient<stored>, blocks_of(state->rows),
                       threads_for_row(state->count), input_of<stored>(call, 0),
                       input_of<stored>(call, 1), input_of<stored>(call, 2),
                       input_of<stored>(call, 3), input_of<stored>(call, 4),
                       output_of<stored>(call, 0), *state);
}

/* ---- Gradients of weight and bias ------------------------------------------------------------ */

/* d_y, x: (rows, count); means, inverses: (rows); d_weight, d_bias: (count). */
template <class stored>
static __global__ void parameter_gradient(const stored *d_y, const stored *x, const stored *means,
                                          const stored *inverses, stored *d_weight, stored *d_bias,
                                          int64_t rows, int64_t count) {
  typedef real_of<stored> real;
  EACH_ELEMENT(i, count) {
    real sum = 0, products = 0;
    for (int64_t row = 0; row < rows; row++) {
      const real d = d_y[row * count + i];
      sum += d;
      products += d * ((x[row * count + i] - means[row]) * inverses[row]);
    }
    d_weight[i] = products;
    d_bias[i] = sum;
  }
}

template <class stored> static tdm_status run_parameter_gradient(const tdm_kernel_call *call) {
  const layer_norm_sizes *state = state_of<layer_norm_sizes>(call);
  return kernel_launch(call, "layer_norm_parameter_gradient", parameter_gradient<stored>,
                       blocks_for(state->count), BLOCK, input_of<stored>(call, 0),
                       input_of<stored>(call, 1), input_of<stored>(call, 2),
                       input_of<stored>(call, 3), output_of<stored>(call, 0),
                       output_of<stored>(call, 1), state->rows, state->count);
}

KERNELS(layer_norm, KERNEL(TDM_OP_LAYER_NORM, layer_norm_prepare<0>, run_forward<stored>),
        KERNEL(TDM_OP_LAYER_NORM_GRADIENT, layer_norm_prepare<1>, run_gradient<stored>),
        KERNEL(TDM_OP_LAYER_NORM_PARAMETER_GRADIENT, layer_norm_prepare<1>,
               run_parameter_gradient<stored>))
