/* Layer and root mean square normalization, and their gradients. x is seen as (rows, count).
 * Invariant: a row of the result depends on its own row alone; sums over rows go in blocks of a
 * fixed size. */
#include <math.h>

#include "core/status.h"
#include "devices/cpu/kernels/rows.h"
#include "devices/kernel_sizes.h"

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
      tdm_cpu_splits(request, (double)count_of(x) * sizeof(real) / 10.0);
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
static void row_normalize(const real *x, real mean, real inverse, const real *weight,
                          const real *bias, real *y, int64_t count) {
  for (int64_t i = 0; i < count; i += LANES) {
    vec value = (vec_load_first(x + i, count - i) - mean) * inverse;
    if (weight) value *= vec_load_first(weight + i, count - i);
    if (bias) value += vec_load_first(bias + i, count - i);
    vec_store_first(y + i, value, count - i);
  }
}

static void forward_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const norm_state *state = call->state;
  const int64_t count = state->sizes.count;
  real *means = call->outputs[1], *inverses = call->outputs[2]; /* (rows) */
  for (int64_t row = begin; row < end; row++) {
    const real *x = (const real *)call->inputs[0] + row * count; /* (count) */
    real *y = (real *)call->outputs[0] + row * count;            /* (count) */
    means[row] = state->sizes.centered ? (real)(row_sum(x, count) / (double)count) : 0;
    const double squares = row_sum_of_products(x, means[row], x, means[row], count);
    inverses[row] = (real)(1 / sqrt(squares / (double)count + state->sizes.epsilon));
    row_normalize(x, means[row], inverses[row], call->inputs[1], call->inputs[2], y, count);
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
static void row_gradient(const real *d_y, const real *x, real mean, real inverse,
                         const real *weight, real *d_x, const norm_state *state) {
  const int64_t count = state->sizes.count;
  vec sums = {0}, products = {0};
  for (int64_t i = 0; i < count; i += LANES) {
    vec g = vec_load_first(d_y + i, count - i);
    if (weight) g *= vec_load_first(weight + i, count - i);
    sums += g;
    products += g * ((vec_load_first(x + i, count - i) - mean) * inverse);
  }
  const real sum = state->sizes.centered ? vec_sum(sums) / (real)count : 0;
  const real product = vec_sum(products) / (real)count;
  for (int64_t i = 0; i < count; i += LANES) {
    vec g = vec_load_first(d_y + i, count - i);
    if (weight) g *= vec_load_first(weight + i, count - i);
    const vec n = (vec_load_first(x + i, count - i) - mean) * inverse;
    vec_store_first(d_x + i, inverse * (g - sum - n * product), count - i);
  }
}

static void gradient_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const norm_state *state = call->state;
  const int64_t count = state->sizes.count;
  const real *means = call->inputs[2], *inverses = call->inputs[3]; /* (rows) */
  for (int64_t row = begin; row < end; row++) {
    const real *d_y = (const real *)call->inputs[0] + row * count; /* (count) */
    const real *x = (const real *)call->inputs[1] + row * count;   /* (count) */
    real *d_x = (real *)call->outputs[0] + row * count;            /* (count) */
    row_gradient(d_y, x, means[row], inverses[row], call->inputs[4], d_x, state);
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
  const real *d_y = call->inputs[0], *x = call->inputs[1];          /* (rows, count) */
  const real *means = call->inputs[2], *inverses = call->inputs[3]; /* (rows) */
  vec d_weight = {0}, d_bias = {0};
  for (int64_t first = 0; first < state->sizes.rows; first += DEPTH) {
    const int64_t end = lesser_of(state->sizes.rows, first + DEPTH);
    vec products = {0}, sums = {0};
    for (int64_t row = first; row < end; row++) {
      const vec d = vec_load_first(d_y + row * count + j, columns);
      sums += d;
      products += d * ((vec_load_first(x + row * count + j, columns) - means[row]) * inverses[row]);
    }
    d_weight += products;
    d_bias += sums;
  }
  vec_store_first((real *)call->outputs[0] + j, d_weight, columns);
  vec_store_first((real *)call->outputs[1] + j, d_bias, columns);
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
