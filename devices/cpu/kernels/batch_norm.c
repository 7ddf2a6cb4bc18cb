/* Batch normalization, its gradient, and its running statistics. x is seen as (n, channels, inner).
 * A task is a channel, or a vector of channels where inner is 1. Invariant: a channel's sums are
 * taken in one order, which the shape alone decides. */
#include <math.h>

#include "core/status.h"
#include "devices/cpu/kernels/rows.h"
#include "devices/operations/normalization.h"
#include "devices/operations/normalization_sizes.h"

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

/* Channels in vectors, so that a channel's arithmetic is the same whatever its neighbours are. */
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

/* mean, inverse and variance (channels) of one channel, or of a vector of them. Of no elements they
 * are those of zeros: finite, so that no gradient is spoilt. */
static void batch_statistics(const tdm_kernel_call *call, int64_t channel, vec *out_mean,
                             vec *out_inverse) {
  const norm_state *state = call->state;
  const bool columns = state->sizes.inner == 1;
  const int64_t lanes = columns ? state->sizes.channels - channel : 1;
  const stored *x = call->inputs[0];
  const int64_t elements = state->sizes.n * state->sizes.inner;
  const double count = elements > 0 ? (double)elements : 1;
  double sums[LANES] = {0}, squares[LANES] = {0};
  vec mean = {0}, inverse = {0}, variance = {0};
  for (int i = 0; i < LANES && i < lanes; i++) {
    for (int64_t image = 0; image < state->sizes.n; image++)
      sums[i] += columns ? (double)widened(x[row_of(state, image, channel + i)])
                         : row_sum(x + row_of(state, image, channel), state->sizes.inner);
    mean[i] = (real)(sums[i] / count);
  }
  for (int i = 0; i < LANES && i < lanes; i++) {
    for (int64_t image = 0; image < state->sizes.n; image++) {
      const stored *row = x + row_of(state, image, channel + i);
      const double d = (double)widened(*row) - (double)mean[i];
      squares[i] +=
          columns ? d * d : row_sum_of_products(row, mean[i], row, mean[i], state->sizes.inner);
    }
    inverse[i] = (real)(1 / sqrt(squares[i] / count + state->sizes.epsilon));
    variance[i] = (real)(squares[i] / (count > 1 ? count - 1 : 1));
  }
  element_store((stored *)call->outputs[1] + channel, mean, lanes);
  element_store((stored *)call->outputs[2] + channel, inverse, lanes);
  element_store((stored *)call->outputs[3] + channel, variance, lanes);
  *out_mean = mean;
  *out_inverse = inverse;
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
    vec mean, inverse;
    batch_statistics(call, channel, &mean, &inverse);
    const vec factor = inverse * channel_values(call->inputs[3], channel, lanes, 1);
    const vec offset = channel_values(call->inputs[4], channel, lanes, 0);
    if (columns)
      scale_columns(state, channel, x, mean, factor, offset, y);
    else
      scale_rows(state, channel, x, mean[0], factor[0], offset[0], y);
  }
}

static tdm_status training_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return batch_norm_prepare(request, answer, &request->inputs[0], batch_norm_sizes_read_own);
}

static tdm_status batch_norm_training_execute(const tdm_kernel_call *call) {
  return batch_norm_run(call, training_range);
}

/* ---- Gradient -------------------------------------------------------------------------------- */

/* With n = (x - mean) inverse: d_x = inverse weight (d_y - average(d_y) - n average(d_y n)). */
static void gradient_of_channel(const tdm_kernel_call *call, int64_t channel) {
  const norm_state *state = call->state;
  const stored *d_y = call->inputs[0], *x = call->inputs[1]; /* (n, channels, inner) */
  const real mean = widened(((const stored *)call->inputs[2])[channel]);
  const real inverse = widened(((const stored *)call->inputs[3])[channel]);
  const stored *weight = call->inputs[4];
  const double count = (double)(state->sizes.n * state->sizes.inner);
  stored *d_x = call->outputs[0]; /* (n, channels, inner) */
  double sum = 0, product = 0;
  for (int64_t image = 0; image < state->sizes.n; image++) {
    const int64_t row = row_of(state, image, channel);
    sum += row_sum(d_y + row, state->sizes.inner);
    product += row_sum_of_products(d_y + row, 0, x + row, mean, state->sizes.inner);
  }
  product *= (double)inverse;
  ((stored *)call->outputs[1])[channel] = narrowed((real)product);
  ((stored *)call->outputs[2])[channel] = narrowed((real)sum);
  const real average = (real)(sum / count), slope = inverse * (real)(product / count);
  const real factor = inverse * (weight ? widened(weight[channel]) : 1);
  for (int64_t image = 0; image < state->sizes.n; image++) {
    const int64_t row = row_of(state, image, channel);
    for (int64_t i = 0; i < state->sizes.inner; i += LANES) {
      const vec d = element_load(d_y + row + i, state->sizes.inner - i);
      const vec apart = element_load(x + row + i, state->sizes.inner - i) - mean;
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

static tdm_status batch_norm_statistics_execute(const tdm_kernel_call *call) {
  const norm_state *state = call->state;
  int64_t *batches = call->outputs[2]; /* () */
  *batches += 1 - state->sizes.instances;
  const double share = state->sizes.momentum < 0 ? 1 / (double)*batches : state->sizes.momentum;
  for (int output = 0; output < 2; output++) {
    stored *running = call->outputs[output];           /* (channels) */
    const stored *of_batch = call->inputs[3 + output]; /* (channels) */
    for (int64_t i = 0; i < state->sizes.channels; i++)
      running[i] = narrowed(
          (real)((1 - share) * (double)widened(running[i]) + share * (double)widened(of_batch[i])));
  }
  return TDM_OK;
}

KERNELS(batch_norm, KERNEL(TDM_OP_BATCH_NORM, prepare_forward, batch_norm_execute),
        KERNEL(TDM_OP_BATCH_NORM_TRAINING, training_prepare, batch_norm_training_execute),
        KERNEL(TDM_OP_BATCH_NORM_GRADIENT, batch_norm_gradient_prepare,
               batch_norm_gradient_execute),
        KERNEL(TDM_OP_BATCH_NORM_STATISTICS, batch_norm_statistics_prepare,
               batch_norm_statistics_execute))
