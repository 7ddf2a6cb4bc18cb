/* Batch normalization, its gradient, and its running statistics. x is seen as (n, channels, inner);
 * a block takes a channel. Invariant: every sum is taken in one order, which depends only on the
 * shape. */
#include "devices/kernels/normalization/cuda/moments.h"
#include "devices/kernels/normalization/normalization.h"
#include "devices/kernels/normalization/normalization_sizes.h"

/* Prepares the kernel. x: the operand of that index, normalized by its own statistics or by given
 * ones. */
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

/* Computes y from x: (n, channels, inner); means, variances: (channels); weight, bias: (channels)
 * or NULL. */
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

/* Computes y from x: (n, channels, inner); weight, bias: (channels) or NULL; means, inverses,
 * variances: (channels). Without elements they are those of zeros: finite, so that no gradient
 * becomes NaN. */
template <class stored>
static __global__ void train(const stored *x, const stored *weight, const stored *bias, stored *y,
                             double *means, stored *inverses, stored *variances,
                             batch_norm_sizes shape, int64_t count) {
  typedef real_of<stored> real;
  EACH_OF_GRID(channel, shape.channels) {
    const moments found = block_moments<real>(count, true, shape.epsilon,
                                              [=](int64_t i) { return (real)x[PLACE(i)]; });
    const normal_rule<real> rule(found.mean, (real)moments_inverse(found, shape.epsilon));
    const real scale = weight ? (real)weight[channel] : 1;
    const real offset = bias ? (real)bias[channel] : 0;
    EACH_OF_BLOCK(i, count) {
      y[PLACE(i)] = rule.of(x[PLACE(i)]) * scale + offset;
    }
    if (threadIdx.x != 0) continue;
    const double unbiased = count > 1 ? (double)count / (double)(count - 1) : 1;
    means[channel] = found.mean;
    inverses[channel] = rule.inverse;
    variances[channel] = (real)(found.variance * unbiased / found.scale / found.scale);
  }
}

template <class stored> static tdm_status run_train(const tdm_kernel_call *call) {
  const batch_norm_sizes *state = state_of<batch_norm_sizes>(call);
  return kernel_launch(call, "batch_norm_training", train<stored>, blocks_of(state->channels),
                       channel_threads(state), input_of<stored>(call, 0), input_of<stored>(call, 3),
                       input_of<stored>(call, 4), output_of<stored>(call, 0),
                       output_of<double>(call, 1), output_of<stored>(call, 2),
                       output_of<stored>(call, 3), *state, state->n * state->inner);
}

/* ---- Gradient -------------------------------------------------------------------------------- */

/* Computes, with n = (x - mean) inverse: d_x = inverse weight (d_y - average(d_y) - n average(d_y
 * n)). */
template <class stored>
static __global__ void gradient(const stored *d_y, const stored *x, const double *means,
                                const stored *inverses, const stored *weight, stored *d_x,
                                stored *d_weight, stored *d_bias, batch_norm_sizes shape,
                                int64_t count) {
  typedef real_of<stored> real;
  EACH_OF_GRID(channel, shape.channels) {
    const normal_rule<real> rule(means[channel], inverses[channel]);
    double sum = 0, products = 0;
    EACH_OF_BLOCK(i, count) {
      sum += d_y[PLACE(i)];
      products += (double)d_y[PLACE(i)] * (double)rule.of(x[PLACE(i)]);
    }
    const double all = block_sum(sum);
    const double product = block_sum(products);
    const real average = (real)(all / (double)count);
    const real slope = (real)(product / (double)count);
    const real factor = weight ? rule.inverse * weight[channel] : rule.inverse;
    EACH_OF_BLOCK(i, count) {
      d_x[PLACE(i)] = factor * (d_y[PLACE(i)] - average - rule.of(x[PLACE(i)]) * slope);
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
                       input_of<double>(call, 2), input_of<stored>(call, 3),
                       input_of<stored>(call, 4), output_of<stored>(call, 0),
                       output_of<stored>(call, 1), output_of<stored>(call, 2), *state,
                       state->n * state->inner);
}

/* ---- Running statistics ---------------------------------------------------------------------- */

/* Updates the running statistics in one block. running_mean, running_var, mean, variance:
 * (channels); batches: (). */
template <class stored>
static __global__ void move_statistics(stored *running_mean, stored *running_var, int64_t *batches,
                                       const double *mean, const stored *variance, double momentum,
                                       int64_t channels, int64_t counted) {
  typedef real_of<stored> real;
  const double share = momentum < 0 ? 1 / (double)(*batches + 1) : momentum;
  EACH_OF_BLOCK(i, channels) {
    running_mean[i] = (real)((1 - share) * (double)running_mean[i] + share * mean[i]);
    running_var[i] = (real)((1 - share) * (double)running_var[i] + share * (double)variance[i]);
  }
  __syncthreads(); /* every thread has read `batches` */
  if (threadIdx.x == 0) *batches += counted;
}

template <class stored> static tdm_status run_statistics(const tdm_kernel_call *call) {
  const batch_norm_sizes *state = state_of<batch_norm_sizes>(call);
  return kernel_launch(
      call, "batch_norm_statistics", move_statistics<stored>, 1, BLOCK, output_of<stored>(call, 0),
      output_of<stored>(call, 1), output_of<int64_t>(call, 2), input_of<double>(call, 3),
      input_of<stored>(call, 4), state->momentum, state->channels, 1 - state->instances);
}

KERNELS(batch_norm, KERNEL(TDM_OP_BATCH_NORM, (batch_norm_prepare<0, false>), run_evaluate<stored>),
        KERNEL(TDM_OP_BATCH_NORM_TRAINING, (batch_norm_prepare<0, true>), run_train<stored>),
        KERNEL(TDM_OP_BATCH_NORM_GRADIENT, (batch_norm_prepare<1, true>), run_gradient<stored>),
        KERNEL(TDM_OP_BATCH_NORM_STATISTICS, (batch_norm_prepare<0, false>),
               run_statistics<stored>))
