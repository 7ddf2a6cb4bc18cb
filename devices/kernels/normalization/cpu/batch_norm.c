/* Batch normalization, its gradient, and its running statistics. x is seen as (n, channels, inner).
 * A task is a channel, or a vector of channels where inner is 1. Invariant: a channel's sums are
 * taken in one order, which depends only on the shape. */
#include "core/status.h"
#include "devices/kernels/cpu/moments.h"
#include "devices/kernels/normalization/normalization.h"
#include "devices/kernels/normalization/normalization_sizes.h"

typedef struct norm_state {
  batch_norm_sizes sizes;
  bool splits;
} norm_state;

typedef void (*sizes_reader)(batch_norm_sizes *sizes, const tdm_kernel_request *request,
                             const tdm_spec *x);

static tdm_status batch_norm_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                     const tdm_spec *x, sizes_reader read) {
  norm_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  read(&state->sizes, request, x);
  state->splits = answer->splits =
      tdm_cpu_splits(request, (double)count_of(x) * sizeof(stored) / 8.0);
  return TDM_OK;
}

/* Divides channels into vectors. A channel's arithmetic does not depend on its neighbours. */
static tdm_status batch_norm_run(const tdm_kernel_call *call,
                                 void (*range)(void *call, int64_t begin, int64_t end)) {
  const norm_state *state = call->state;
  const bool columns = state->sizes.inner == 1;
  const int64_t tasks = columns ? ceil_div(state->sizes.channels, LANES) : state->sizes.channels;
  tdm_team_run(state->splits ? call->team : NULL, tasks, columns ? 4 : 1, range, (void *)call);
  return TDM_OK;
}

/* Where image i of a channel begins. */
ALWAYS_INLINE int64_t row_of(const norm_state *state, int64_t image, int64_t channel) {
  return (image * state->sizes.channels + channel) * state->sizes.inner;
}

ALWAYS_INLINE vec channel_values(const stored *values, int64_t channel, int64_t lanes, real other) {
  return values ? element_load(values + channel, lanes) : vec_set(other);
}

/* ---- y = x factor + offset ------------------------------------------------------------------- */

static void scale_rows(const norm_state *state, int64_t channel, const stored *x, real mean,
                       real factor, real offset, stored *y) {
  for (int64_t image = 0; image < state->sizes.n; image++) {
    const int64_t row = row_of(state, image, channel);
    for (int64_t i = 0; i < state->sizes.inner; i += LANES) {
      const vec value =
          (element_load(x + row + i, state->sizes.inner - i) - mean) * factor + offset;
      element_store(y + row + i, value, state->sizes.inner - i);
    }
  }
}

static void scale_columns(const norm_state *state, int64_t channel, const stored *x, vec mean,
                          vec factor, vec offset, stored *y) {
  const int64_t lanes = state->sizes.channels - channel;
  for (int64_t image = 0; image < state->sizes.n; image++) {
    const int64_t row = row_of(state, image, channel);
    element_store(y + row, (element_load(x + row, lanes) - mean) * factor + offset, lanes);
  }
}

/* ---- Evaluation ------------------------------------------------------------------------------ */

static void evaluate_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const norm_state *state = call->state;
  const stored *x = call->inputs[0];                                   /* (n, channels, inner) */
  const stored *means = call->inputs[1], *variances = call->inputs[2]; /* (channels) */
  const stored *weight = call->inputs[3], *bias = call->inputs[4];     /* (channels) or NULL */
  stored *y = call->outputs[0];                                        /* (n, channels, inner) */
  if (state->sizes.inner == 1) {
    begin *= LANES;
    end = lesser_of(end * LANES, state->sizes.channels);
  }
  for (int64_t channel = begin; channel < end; channel += state->sizes.inner == 1 ? LANES : 1) {
    const int64_t lanes = state->sizes.inner == 1 ? state->sizes.channels - channel : 1;
    vec inverse = element_load(variances + channel, lanes);
    for (int i = 0; i < LANES; i++)
      inverse[i] = (real)(1 / sqrt((double)inverse[i] + state->sizes.epsilon));
    const vec mean = element_load(means + channel, lanes);
    const vec factor = inverse * channel_values(weight, channel, lanes, 1);
    const vec offset = channel_values(bias, channel, lanes, 0);
    if (state->sizes.inner == 1)
      scale_columns(state, channel, x, mean, factor, offset, y);
    else
      scale_rows(state, channel, x, mean[0], factor[0], offset[0], y);
  }
}

static tdm_status prepare_forward(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return batch_norm_prepare(request, answer, &request->inputs[0], batch_norm_sizes_read);
}

static tdm_status batch_norm_execute(const tdm_kernel_call *call) {
  return batch_norm_run(call, evaluate_range);
}

/* ---- Training -------------------------------------------------------------------------------- */

/* Returns the mean of some of the column's elements in each lane. */
static vec columns_guess(const stored *x, int64_t n, int64_t stride, int64_t lanes) {
  const int64_t sampled = lesser_of(n, MOMENT_TERMS);
  const real part = 1 / (real)sampled;
  vec sum = {0};
  for (int64_t i = 0; i < sampled; i++)
    sum += element_load(x + i * n / sampled * stride, lanes) * part;
  return sum;
}

static __attribute__((noinline, cold)) moments column_moments(const stored *x, int64_t n,
                                                              int64_t stride, double epsilon) {
  const strips from = {.x = x, .count = n, .stride = stride, .length = 1};
  return strips_moments(&from, epsilon);
}

/* Computes the moments of a column in each lane, of n elements that are `stride` apart. A lane
 * whose guess is not near its mean is computed separately. */
static void columns_moments(const stored *x, int64_t n, int64_t stride, int64_t lanes,
                            double epsilon, moments *out) {
  const vec shift = columns_guess(x, n, stride, lanes);
  double sums[LANES] = {0}, squares[LANES] = {0};
  for (int64_t first = 0; first < n; first += MOMENT_TERMS) {
    const int64_t end = lesser_of(n, first + MOMENT_TERMS);
    vec sum = {0}, square = {0};
    for (int64_t i = first; i < end; i++) {
      const vec d = element_load(x + i * stride, lanes) - shift;
      sum += d;
      square += d * d;
    }
    for (int i = 0; i < LANES; i++) {
      sums[i] += (double)sum[i];
      squares[i] += (double)square[i];
    }
  }
  for (int i = 0; i < LANES && i < lanes; i++) {
    const double mean = sums[i] / (double)n, variance = squares[i] / (double)n - mean * mean;
    if (squares_are_exact(squares[i], epsilon) && mean * mean <= variance * 0.25)
      out[i] = (moments){.mean = (double)shift[i] + mean, .variance = variance, .scale = 1};
    else
      out[i] = column_moments(x + i, n, stride, epsilon);
  }
}

/* How a channel is normalized, or a vector of channels: (x - mean) inverse, and what the digits of
 * the mean add that `real` does not hold. */
typedef struct channel_rule {
  vec mean;
  vec inverse;
  vec rest;
} channel_rule;

/* Writes mean, inverse and variance (channels) of one channel, or of a vector of channels. A
 * channel without elements has the statistics of zeros: they are finite, so that no gradient
 * becomes NaN. */
static channel_rule batch_statistics(const tdm_kernel_call *call, int64_t channel) {
  const norm_state *state = call->state;
  const batch_norm_sizes *sizes = &state->sizes;
  const bool columns = sizes->inner == 1;
  const int64_t lanes = columns ? lesser_of(sizes->channels - channel, LANES) : 1;
  const double count = (double)(sizes->n * sizes->inner), epsilon = sizes->epsilon;
  const strips from = {.x = (const stored *)call->inputs[0] + row_of(state, 0, channel),
                       .count = sizes->n,
                       .stride = sizes->channels * sizes->inner,
                       .length = sizes->inner};
  moments found[LANES];
  for (int i = 0; i < LANES; i++)
    found[i] = (moments){.scale = 1};
  if (count > 0 && columns)
    columns_moments(from.x, from.count, from.stride, lanes, epsilon, found);
  else if (count > 0)
    found[0] = strips_moments(&from, epsilon);
  channel_rule rule = {{0}, {0}, {0}};
  vec variance = {0};
  for (int i = 0; i < lanes; i++) {
    const double unbiased = count > 1 ? count / (count - 1) : 1;
    rule.mean[i] = (real)found[i].mean;
    rule.inverse[i] = (real)moments_inverse(&found[i], epsilon);
    rule.rest[i] = (real)(((double)rule.mean[i] - found[i].mean) * (double)rule.inverse[i]);
    variance[i] = (real)(found[i].variance * unbiased / found[i].scale / found[i].scale);
    ((double *)call->outputs[1])[channel + i] = found[i].mean;
  }
  element_store((stored *)call->outputs[2] + channel, rule.inverse, lanes);
  element_store((stored *)call->outputs[3] + channel, variance, lanes);
  return rule;
}

static void training_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const norm_state *state = call->state;
  const bool columns = state->sizes.inner == 1;
  const stored *x = call->inputs[0]; /* (n, channels, inner) */
  stored *y = call->outputs[0];      /* (n, channels, inner) */
  for (int64_t task = begin; task < end; task++) {
    const int64_t channel = columns ? task * LANES : task;
    const int64_t lanes = columns ? state->sizes.channels - channel : 1;
    const channel_rule rule = batch_statistics(call, channel);
    const vec weight = channel_values(call->inputs[3], channel, lanes, 1);
    const vec factor = rule.inverse * weight;
    const vec offset = rule.rest * weight + channel_values(call->inputs[4], channel, lanes, 0);
    if (columns)
      scale_columns(state, channel, x, rule.mean, factor, offset, y);
    else
      scale_rows(state, channel, x, rule.mean[0], factor[0], offset[0], y);
  }
}

static tdm_status training_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return batch_norm_prepare(request, answer, &request->inputs[0], batch_norm_sizes_read_own);
}

static tdm_status batch_norm_training_execute(const tdm_kernel_call *call) {
  return batch_norm_run(call, training_range);
}

/* ---- Gradient -------------------------------------------------------------------------------- */

/* Computes, with n = (x - mean) inverse: d_x = inverse weight (d_y - average(d_y) - n average(d_y
 * n)). */
static void gradient_of_channel(const tdm_kernel_call *call, int64_t channel) {
  const norm_state *state = call->state;
  const stored *d_y = call->inputs[0], *x = call->inputs[1]; /* (n, channels, inner) */
  const double mean = ((const double *)call->inputs[2])[channel];
  const real near = (real)mean;            /* x - near is exact where the two are close */
  const double rest = (double)near - mean; /* x - mean is x - near + rest */
  const real inverse = widened(((const stored *)call->inputs[3])[channel]);
  const stored *weight = call->inputs[4];
  const double count = (double)(state->sizes.n * state->sizes.inner);
  stored *d_x = call->outputs[0]; /* (n, channels, inner) */
  double sum = 0, product = 0;
  for (int64_t image = 0; image < state->sizes.n; image++) {
    const int64_t row = row_of(state, image, channel);
    sum += row_sum(d_y + row, state->sizes.inner);
    product += row_sum_of_products(d_y + row, 0, x + row, near, state->sizes.inner);
  }
  product = (product + rest * sum) * (double)inverse;
  ((stored *)call->outputs[1])[channel] = narrowed((real)product);
  ((stored *)call->outputs[2])[channel] = narrowed((real)sum);
  const real slope = inverse * (real)(product / count);
  const real average = (real)(sum / count + rest * (double)slope);
  const real factor = inverse * (weight ? widened(weight[channel]) : 1);
  for (int64_t image = 0; image < state->sizes.n; image++) {
    const int64_t row = row_of(state, image, channel);
    for (int64_t i = 0; i < state->sizes.inner; i += LANES) {
      const vec d = element_load(d_y + row + i, state->sizes.inner - i);
      const vec apart = element_load(x + row + i, state->sizes.inner - i) - near;
      element_store(d_x + row + i, factor * (d - average - apart * slope), state->sizes.inner - i);
    }
  }
}

static void gradient_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const norm_state *state = call->state;
  if (state->sizes.inner == 1) {
    begin *= LANES;
    end = lesser_of(end * LANES, state->sizes.channels);
  }
  for (int64_t channel = begin; channel < end; channel++)
    gradient_of_channel(call, channel);
}

static tdm_status batch_norm_gradient_prepare(const tdm_kernel_request *request,
                                              tdm_kernel_answer *answer) {
  return batch_norm_prepare(request, answer, &request->inputs[1], batch_norm_sizes_read_own);
}

static tdm_status batch_norm_gradient_execute(const tdm_kernel_call *call) {
  return batch_norm_run(call, gradient_range);
}

/* ---- Running statistics ---------------------------------------------------------------------- */

static tdm_status batch_norm_statistics_prepare(const tdm_kernel_request *request,
                                                tdm_kernel_answer *answer) {
  norm_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  batch_norm_sizes_read(&state->sizes, request, &request->inputs[0]);
  return TDM_OK;
}

static stored moved(stored running, double of_batch, double share) {
  return narrowed((real)((1 - share) * (double)widened(running) + share * of_batch));
}

static tdm_status batch_norm_statistics_execute(const tdm_kernel_call *call) {
  const norm_state *state = call->state;
  int64_t *batches = call->outputs[2]; /* () */
  *batches += 1 - state->sizes.instances;
  const double share = state->sizes.momentum < 0 ? 1 / (double)*batches : state->sizes.momentum;
  stored *running_mean = call->outputs[0], *running_variance = call->outputs[1]; /* (channels) */
  const double *means = call->inputs[3];                                         /* (channels) */
  const stored *variances = call->inputs[4];                                     /* (channels) */
  for (int64_t i = 0; i < state->sizes.channels; i++) {
    running_mean[i] = moved(running_mean[i], means[i], share);
    running_variance[i] = moved(running_variance[i], (double)widened(variances[i]), share);
  }
  return TDM_OK;
}

KERNELS(batch_norm, KERNEL(TDM_OP_BATCH_NORM, prepare_forward, batch_norm_execute),
        KERNEL(TDM_OP_BATCH_NORM_TRAINING, training_prepare, batch_norm_training_execute),
        KERNEL(TDM_OP_BATCH_NORM_GRADIENT, batch_norm_gradient_prepare,
               batch_norm_gradient_execute),
        KERNEL(TDM_OP_BATCH_NORM_STATISTICS, batch_norm_statistics_prepare,
               batch_norm_statistics_execute))
