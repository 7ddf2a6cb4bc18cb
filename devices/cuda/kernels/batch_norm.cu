/* Batch normalization, its gradient, and its running statistics. x is seen as (n, channels, inner);
 * a block takes a channel. Invariant: every sum is taken in one order, which the shape alone
 * decides. */
#include "devices/cuda/kernels/reduce.h"
#include "devices/operations/normalization.h"
#include "devices/operations/normalization_sizes.h"

/* x: the operand of that number, normalized by its own statistics or by others. */
template <size_t operand, bool own>
static tdm_status batch_norm_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  batch_norm_sizes *sizes = state_create<batch_norm_sizes>(answer);
  if (!sizes) return TDM_OUT_OF_MEMORY;
  (own ? batch_norm_sizes_read_own : batch_norm_sizes_read)(sizes, request,
                                                            &request->inputs[operand]);
  return TDM_OK;
}

static int channel_threads(const batch_norm_sizes *state) {
  return threads_for_row(state->n * state->inner);
}

/* Element i of a channel, of n x inner. */
#define PLACE(i) (((i) / shape.inner * shape.channels + channel) * shape.inner + (i) % shape.inner)

/* ---- Evaluation ------------------------------------------------------------------------------ */

/* x, y: (n, channels, inner); means, variances: (channels); weight, bias: (channels) or NULL. */
template <class stored>
static __global__ void evaluate(const stored *x, const stored *means, const stored *variances,
                                const stored *weight, const stored *bias, stored *y,
                                batch_norm_sizes shape, int64_t count) {
  typedef real_of<stored> real;
  EACH_ELEMENT(i, count) {
    const int64_t channel = i / shape.inner % shape.channels;
    real factor = (real)(1 / sqrt((double)variances[channel] + shape.epsilon));
    if (weight) factor *= weight[channel];
    y[i] = (x[i] - means[channel]) * factor + (bias ? (real)bias[channel] : 0);
  }
}

template <class stored> static tdm_status run_evaluate(const tdm_kernel_call *call) {
  const batch_norm_sizes *state = state_of<batch_norm_sizes>(call);
  const int64_t count = state->n * state->channels * state->inner;
  return kernel_launch(call, "batch_norm", evaluate<stored>, blocks_for(count), BLOCK,
                       input_of<stored>(call, 0), input_of<stored>(call, 1),
                       input_of<stored>(call, 2), input_of<stored>(call, 3),
                       input_of<stored>(call, 4), output_of<stored>(call, 0), *state, count);
}

/* ---- Training -------------------------------------------------------------------------------- */

/* x, y: (n, channels, inner); weight, bias: (channels) or NULL; means, inverses, variances:
 * (channels), of no elements those of zeros: finite, so that no gradient is spoilt. */
template <class stored>
static __global__ void train(const stored *x, const stored *weight, const stored *bias, stored *y,
                             stored *means, stored *inverses, stored *variances,
                             batch_norm_sizes shape, int64_t count) {
  typedef real_of<stored> real;
  const double terms = count > 0 ? (double)count : 1;
  EACH_OF_GRID(channel, shape.channels) {
    double sum = 0, squares = 0;
    EACH_OF_BLOCK(i, count) {
      sum += x[PLACE(i)];
    }
    const real mean = (real)(block_sum(sum) / terms);
    EACH_OF_BLOCK(i, count) {
      const double d = (double)x[PLACE(i)] - (double)mean;
      squares += d * d;
    }
    const double all = block_sum(squares);
    const real inverse = (real)(1 / sqrt(all / terms + shape.epsilon));
    const real factor = weight ? inverse * weight[channel] : inverse;
    const real offset = bias ? (real)bias[channel] : 0;
    EACH_OF_BLOCK(i, count) {
      y[PLACE(i)] = (x[PLACE(i)] - mean) * factor + offset;
    }
    if (threadIdx.x != 0) continue;
    means[channel] = mean;
    inverses[channel] = inverse;
    variances[channel] = (real)(all / (double)(count > 1 ? count - 1 : 1));
  }
}

template <class stored> static tdm_status run_train(const tdm_kernel_call *call) {
  const batch_norm_sizes *state = state_of<batch_norm_sizes>(call);
  return kernel_launch(call, "batch_norm_training", train<stored>, blocks_of(state->channels),
                       channel_threads(state), input_of<stored>(call, 0), input_of<stored>(call, 3),
                       input_of<stored>(call, 4), output_of<stored>(call, 0),
                       output_of<stored>(call, 1), output_of<stored>(call, 2),
                       output_of<stored>(call, 3), *state, state->n * state->inner);
}

/* ---- Gradient -------------------------------------------------------------------------------- */

/* With n = (x - mean) inverse: d_x = inverse weight (d_y - average(d_y) - n average(d_y n)). */
template <class stored>
static __global__ void gradient(const stored *d_y, const stored *x, const stored *means,
                                const stored *inverses, const stored *weight, stored *d_x,
                                stored *d_weight, stored *d_bias, batch_norm_sizes shape,
                                int64_t count) {
  typedef real_of<stored> real;
  EACH_OF_GRID(channel, shape.channels) {
    const real mean = means[channel], inverse = inverses[channel];
    double sum = 0, products = 0;
    EACH_OF_BLOCK(i, count) {
      sum += d_y[PLACE(i)];
      products += (double)d_y[PLACE(i)] * (double)(x[PLACE(i)] - mean);
    }
    const double all = block_sum(sum);
    const double product = block_sum(products) * (double)inverse;
    const real average = (real)(all / (double)count);
    const real slope = inverse * (real)(product / (double)count);
    const real factor = weight ? inverse * weight[channel] : inverse;
    EACH_OF_BLOCK(i, count) {
      d_x[PLACE(i)] = factor * (d_y[PLACE(i)] - average - (x[PLACE(i)] - mean) * slope);
    }
    if (threadIdx.x != 0) continue;
    d_weight[channel] = (real)product;
    d_bias[channel] = (real)all;
  }
}

template <class stored> static tdm_status run_gradient(const tdm_kernel_call *call) {
  const batch_norm_sizes *state = state_of<batch_norm_sizes>(call);
  return kernel_launch(call, "batch_norm_gradient", gradient<stored>, blocks_of(state->channels),
                       channel_threads(state), input_of<stored>(call, 0), input_of<stored>(call, 1),
                       input_of<stored>(call, 2), input_of<stored>(call, 3),
                       input_of<stored>(call, 4), output_of<stored>(call, 0),
                       output_of<stored>(call, 1), output_of<stored>(call, 2), *state,
                       state->n * state->inner);
}

/* ---- Running statistics ---------------------------------------------------------------------- */

/* One block. running_mean, running_var, mean, variance: (channels); batches: (). */
template <class stored>
static __global__ void move_statistics(stored *running_mean, stored *running_var, int64_t *batches,
                                       const stored *mean, const stored *variance, double momentum,
                                       int64_t channels, int64_t counted) {
  typedef real_of<stored> real;
  const double share = momentum < 0 ? 1 / (double)(*batches + 1) : momentum;
  EACH_OF_BLOCK(i, channels) {
    running_mean[i] = (real)((1 - share) * (double)running_mean[i] + share * (double)mean[i]);
    running_var[i] = (real)((1 - share) * (double)running_var[i] + share * (double)variance[i]);
  }
  __syncthreads(); /* all have read batches */
  if (threadIdx.x == 0) *batches += counted;
}

template <class stored> static tdm_status run_statistics(const tdm_kernel_call *call) {
  const batch_norm_sizes *state = state_of<batch_norm_sizes>(call);
  return kernel_launch(
      call, "batch_norm_statistics", move_statistics<stored>, 1, BLOCK, output_of<stored>(call, 0),
      output_of<stored>(call, 1), output_of<int64_t>(call, 2), input_of<stored>(call, 3),
      input_of<stored>(call, 4), state->momentum, state->channels, 1 - state->instances);
}

KERNELS(batch_norm, KERNEL(TDM_OP_BATCH_NORM, (batch_norm_prepare<0, false>), run_evaluate<stored>),
        KERNEL(TDM_OP_BATCH_NORM_TRAINING, (batch_norm_prepare<0, true>), run_train<stored>),
        KERNEL(TDM_OP_BATCH_NORM_GRADIENT, (batch_norm_prepare<1, true>), run_gradient<stored>),
        KERNEL(TDM_OP_BATCH_NORM_STATISTICS, (batch_norm_prepare<0, false>),
               run_statistics<stored>))
