/* Layer and root mean square normalization, and their gradients. x is seen as (rows, count).
 * Invariant: a row of the result depends on its own row alone; sums over rows go in blocks of a
 * fixed size. */
#include <math.h>

#include "core/status.h"
#include "devices/cpu/kernels/rows.h"
#include "devices/operations/normalization.h"
#include "devices/operations/normalization_sizes.h"

#define DEPTH 256 /* rows whose contributions are summed before their sum is added to the rest */

typedef struct norm_state {
  layer_norm_sizes sizes;
  bool splits;
} norm_state;

static tdm_status layer_norm_prepare_state(const tdm_kernel_request *request,
                                           tdm_kernel_answer *answer, const tdm_spec *x) {
  norm_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  layer_norm_sizes_read(&state->sizes, request, x);
  state->splits = answer->splits =
      tdm_cpu_splits(request, (double)count_of(x) * sizeof(stored) / 10.0);
  return TDM_OK;
}

static tdm_status layer_norm_run(const tdm_kernel_call *call, int64_t tasks, int64_t grain,
                                 void (*range)(void *call, int64_t begin, int64_t end)) {
  const norm_state *state = call->state;
  tdm_team_run(state->splits ? call->team : NULL, tasks, grain, range, (void *)call);
  return TDM_OK;
}

static int64_t grain_of(const norm_state *state) {
  return state->sizes.count > 0 && state->sizes.count < 1024 ? 1024 / state->sizes.count : 1;
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* y = (x - mean) inverse weight + bias; weight and bias (count) or NULL. */
static void row_normalize(const stored *x, real mean, real inverse, const stored *weight,
                          const stored *bias, stored *y, int64_t count) {
  for (int64_t i = 0; i < count; i += LANES) {
    vec value = (element_load(x + i, count - i) - mean) * inverse;
    if (weight) value *= element_load(weight + i, count - i);
    if (bias) value += element_load(bias + i, count - i);
    element_store(y + i, value, count - i);
  }
}

static void forward_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const norm_state *state = call->state;
  const int64_t count = state->sizes.count;
  stored *means = call->outputs[1], *inverses = call->outputs[2]; /* (rows) */
  for (int64_t row = begin; row < end; row++) {
    const stored *x = (const stored *)call->inputs[0] + row * count; /* (count) */
    stored *y = (stored *)call->outputs[0] + row * count;            /* (count) */
    const real mean = state->sizes.centered ? (real)(row_sum(x, count) / (double)count) : 0;
    const double squares = row_sum_of_products(x, mean, x, mean, count);
    const real inverse = (real)(1 / sqrt(squares / (double)count + state->sizes.epsilon));
    means[row] = narrowed(mean);
    inverses[row] = narrowed(inverse);
    row_normalize(x, mean, inverse, call->inputs[1], call->inputs[2], y, count);
  }
}

static tdm_status layer_norm_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return layer_norm_prepare_state(request, answer, &request->inputs[0]);
}

static tdm_status layer_norm_execute(const tdm_kernel_call *call) {
  const norm_state *state = call->state;
  return layer_norm_run(call, state->sizes.rows, grain_of(state), forward_range);
}

/* ---- Gradient of x --------------------------------------------------------------------------- */

/* With g = d_y weight and n = (x - mean) inverse: d_x = inverse (g - average(g) - n average(g n)),
 * where average(g) is the mean's part, and 0 if not centered. */
static void row_gradient(const stored *d_y, const stored *x, real mean, real inverse,
                         const stored *weight, stored *d_x, const norm_state *state) {
  const int64_t count = state->sizes.count;
  vec sums = {0}, products = {0};
  for (int64_t i = 0; i < count; i += LANES) {
    vec g = element_load(d_y + i, count - i);
    if (weight) g *= element_load(weight + i, count - i);
    sums += g;
    products += g * ((element_load(x + i, count - i) - mean) * inverse);
  }
  const real sum = state->sizes.centered ? vec_sum(sums) / (real)count : 0;
  const real product = vec_sum(products) / (real)count;
  for (int64_t i = 0; i < count; i += LANES) {
    vec g = element_load(d_y + i, count - i);
    if (weight) g *= element_load(weight + i, count - i);
    const vec n = (element_load(x + i, count - i) - mean) * inverse;
    element_store(d_x + i, inverse * (g - sum - n * product), count - i);
  }
}

static void gradient_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const norm_state *state = call->state;
  const int64_t count = state->sizes.count;
  const stored *means = call->inputs[2], *inverses = call->inputs[3]; /* (rows) */
  for (int64_t row = begin; row < end; row++) {
    const stored *d_y = (const stored *)call->inputs[0] + row * count; /* (count) */
    const stored *x = (const stored *)call->inputs[1] + row * count;   /* (count) */
    stored *d_x = (stored *)call->outputs[0] + row * count;            /* (count) */
    row_gradient(d_y, x, widened(means[row]), widened(inverses[row]), call->inputs[4], d_x, state);
  }
}

static tdm_status prepare_gradient(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return layer_norm_prepare_state(request, answer, &request->inputs[1]);
}

static tdm_status layer_norm_gradient_execute(const tdm_kernel_call *call) {
  const norm_state *state = call->state;
  return layer_norm_run(call, state->sizes.rows, grain_of(state), gradient_range);
}

/* ---- Gradients of weight and bias ------------------------------------------------------------ */

/* One vector of columns j. */
static void column_gradients(const tdm_kernel_call *call, int64_t j) {
  const norm_state *state = call->state;
  const int64_t count = state->sizes.count, columns = count - j;
  const stored *d_y = call->inputs[0], *x = call->inputs[1];          /* (rows, count) */
  const stored *means = call->inputs[2], *inverses = call->inputs[3]; /* (rows) */
  vec d_weight = {0}, d_bias = {0};
  for (int64_t first = 0; first < state->sizes.rows; first += DEPTH) {
    const int64_t end = lesser_of(state->sizes.rows, first + DEPTH);
    vec products = {0}, sums = {0};
    for (int64_t row = first; row < end; row++) {
      const vec d = element_load(d_y + row * count + j, columns);
      sums += d;
      const vec apart = element_load(x + row * count + j, columns) - widened(means[row]);
      products += d * (apart * widened(inverses[row]));
    }
    d_weight += products;
    d_bias += sums;
  }
  element_store((stored *)call->outputs[0] + j, d_weight, columns);
  element_store((stored *)call->outputs[1] + j, d_bias, columns);
}

static void parameter_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  for (int64_t task = begin; task < end; task++)
    column_gradients(call, task * LANES);
}

static tdm_status layer_norm_parameter_gradient_execute(const tdm_kernel_call *call) {
  const norm_state *state = call->state;
  return layer_norm_run(call, ceil_div(state->sizes.count, LANES), 4, parameter_range);
}

KERNELS(layer_norm, KERNEL(TDM_OP_LAYER_NORM, layer_norm_prepare, layer_norm_execute),
        KERNEL(TDM_OP_LAYER_NORM_GRADIENT, prepare_gradient, layer_norm_gradient_execute),
        KERNEL(TDM_OP_LAYER_NORM_PARAMETER_GRADIENT, prepare_gradient,
               layer_norm_parameter_gradient_execute))
