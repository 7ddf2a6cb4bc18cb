/* Layer and root mean square normalization, and their gradients. x is seen as (rows, count); a
 * block takes a row, or a piece of some columns. Invariant: every sum is taken in one order, which
 * depends only on the shape. */
#include "devices/kernels/cuda/column_sums.h"
#include "devices/kernels/normalization/cuda/moments.h"
#include "devices/kernels/normalization/normalization.h"
#include "devices/kernels/normalization/normalization_sizes.h"

/* Prepares the kernel. x: the operand of that index. */
template <size_t operand>
static tdm_status layer_norm_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  layer_norm_sizes *sizes = state_create<layer_norm_sizes>(answer);
  if (!sizes) return TDM_OUT_OF_MEMORY;
  layer_norm_sizes_read(sizes, request, &request->inputs[operand]);
  return TDM_OK;
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* Computes y from x: (rows, count); weight, bias: (count) or NULL; means, inverses: (rows). */
template <class stored>
static __global__ void normalize(const stored *x, const stored *weight, const stored *bias,
                                 stored *y, double *means, stored *inverses,
                                 const layer_norm_sizes state) {
  typedef real_of<stored> real;
  const int64_t rows = state.rows, count = state.count;
  EACH_OF_GRID(row, rows) {
    const int64_t first = row * count;
    const moments found = block_moments<real>(count, state.centered, state.epsilon,
                                              [=](int64_t i) { return (real)x[first + i]; });
    const normal_rule<real> rule(found.mean, (real)moments_inverse(found, state.epsilon));
    EACH_OF_BLOCK(i, count) {
      real value = rule.of(x[first + i]);
      if (weight) value *= weight[i];
      if (bias) value += bias[i];
      y[first + i] = value;
    }
    if (threadIdx.x == 0) means[row] = found.mean;
    if (threadIdx.x == 0) inverses[row] = rule.inverse;
  }
}

template <class stored> static tdm_status run_forward(const tdm_kernel_call *call) {
  const layer_norm_sizes *state = state_of<layer_norm_sizes>(call);
  return kernel_launch(
      call, "layer_norm", normalize<stored>, blocks_of(state->rows), threads_for_row(state->count),
      input_of<stored>(call, 0), input_of<stored>(call, 1), input_of<stored>(call, 2),
      output_of<stored>(call, 0), output_of<double>(call, 1), output_of<stored>(call, 2), *state);
}

/* ---- Gradient of x --------------------------------------------------------------------------- */

/* Computes, with g = d_y weight and n = (x - mean) inverse: d_x = inverse (g - average(g) - n
 * average(g n)), where average(g) is the mean's part, and 0 if not centered. */
template <class stored>
static __global__ void input_gradient(const stored *d_y, const stored *x, const double *means,
                                      const stored *inverses, const stored *weight, stored *d_x,
                                      const layer_norm_sizes state) {
  typedef real_of<stored> real;
  const int64_t rows = state.rows, count = state.count;
  EACH_OF_GRID(row, rows) {
    const int64_t first = row * count;
    const normal_rule<real> rule(means[row], inverses[row]);
    double sum = 0, products = 0;
    EACH_OF_BLOCK(i, count) {
      const real g = weight ? d_y[first + i] * weight[i] : (real)d_y[first + i];
      sum += g;
      products += g * rule.of(x[first + i]);
    }
    const double all = block_sum(sum);
    const real average = state.centered ? (real)(all / (double)count) : 0;
    const real product = (real)(block_sum(products) / (double)count);
    EACH_OF_BLOCK(i, count) {
      const real g = weight ? d_y[first + i] * weight[i] : (real)d_y[first + i];
      d_x[first + i] = rule.inverse * (g - average - rule.of(x[first + i]) * product);
    }
  }
}

template <class stored> static tdm_status run_gradient(const tdm_kernel_call *call) {
  const layer_norm_sizes *state = state_of<layer_norm_sizes>(call);
  return kernel_launch(call, "layer_norm_gradient", input_gradient<stored>, blocks_of(state->rows),
                       threads_for_row(state->count), input_of<stored>(call, 0),
                       input_of<stored>(call, 1), input_of<double>(call, 2),
                       input_of<stored>(call, 3), input_of<stored>(call, 4),
                       output_of<stored>(call, 0), *state);
}

/* ---- Gradients of weight and bias ------------------------------------------------------------ */

static tdm_status parameter_gradient_prepare(const tdm_kernel_request *request,
                                             tdm_kernel_answer *answer) {
  TDM_TRY(layer_norm_prepare<1>(request, answer));
  const layer_norm_sizes *sizes = static_cast<const layer_norm_sizes *>(answer->state);
  const size_t bytes = tdm_dtype_bytes(request->inputs[0].dtype);
  answer->workspace_bytes = 2 * column_sums_bytes(sizes->rows, sizes->count, bytes);
  return TDM_OK;
}

/* Computes d_weight and d_bias (pieces, count) from d_y and x (rows, count), means and inverses
 * (rows). */
template <class stored, class element>
static __global__ void parameter_gradient(const stored *d_y, const stored *x, const double *means,
                                          const stored *inverses, element *d_weight,
                                          element *d_bias, column_pieces pieces) {
  typedef real_of<stored> real;
  const int64_t count = pieces.columns;
  sum_piece<real>(pieces, d_weight, [=](int64_t row, int64_t i) {
    const normal_rule<real> rule(means[row], inverses[row]);
    return d_y[row * count + i] * rule.of(x[row * count + i]);
  });
  sum_piece<real>(pieces, d_bias,
                  [=](int64_t row, int64_t i) { return (real)d_y[row * count + i]; });
}

template <class stored, class element>
static tdm_status sum_parameters(const tdm_kernel_call *call, element *d_weight, element *d_bias,
                                 const column_pieces &pieces) {
  return kernel_launch(call, "layer_norm_parameter_gradient", parameter_gradient<stored, element>,
                       pieces.tiles * pieces.count, BLOCK, input_of<stored>(call, 0),
                       input_of<stored>(call, 1), input_of<double>(call, 2),
                       input_of<stored>(call, 3), d_weight, d_bias, pieces);
}

template <class stored> static tdm_status run_parameter_gradient(const tdm_kernel_call *call) {
  typedef real_of<stored> real;
  const layer_norm_sizes *state = state_of<layer_norm_sizes>(call);
  const column_pieces pieces = column_pieces_of(state->rows, state->count);
  stored *d_weight = output_of<stored>(call, 0), *d_bias = output_of<stored>(call, 1);
  if (pieces.count == 1) return sum_parameters<stored>(call, d_weight, d_bias, pieces);
  real *weights = static_cast<real *>(call->workspace);
  real *biases = weights + pieces.count * state->count;
  real *left = biases + pieces.count * state->count;
  TDM_TRY(sum_parameters<stored>(call, weights, biases, pieces));
  TDM_TRY(column_sums_of_pieces<stored>(call, weights, d_weight, pieces.count, state->count, left));
  return column_sums_of_pieces<stored>(call, biases, d_bias, pieces.count, state->count, left);
}

KERNELS(layer_norm, KERNEL(TDM_OP_LAYER_NORM, layer_norm_prepare<0>, run_forward<stored>),
        KERNEL(TDM_OP_LAYER_NORM_GRADIENT, layer_norm_prepare<1>, run_gradient<stored>),
        KERNEL(TDM_OP_LAYER_NORM_PARAMETER_GRADIENT, parameter_gradient_prepare,
               run_parameter_gradient<stored>))
