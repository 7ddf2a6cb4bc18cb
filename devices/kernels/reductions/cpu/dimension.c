/* The largest or least element along a dimension, products, logarithms of sums of exponentials, and
 * gradients. Invariant: of equal elements the first counts, and a NaN is beyond all. */
#include <math.h>

#include "devices/kernels/cpu/rows.h"
#include "devices/kernels/reductions/cpu/dimension.h"

/* ---- Extremes -------------------------------------------------------------------------------- */

/* Returns the lanes in which x comes before best. For the least, values are negated. */
ALWAYS_INLINE vec_bits is_beyond(vec x, vec best) {
  return (x > best) | ((x != x) & (best == best));
}

ALWAYS_INLINE bool real_is_beyond(real x, real best) {
  return x > best || (x != x && best == best);
}

/* Finds the extremes of `count` columns, at most LANES; the rows of a column lie `step` apart. */
ALWAYS_INLINE void columns_extreme(const stored *x, int64_t size, int64_t step, int64_t count,
                                   real sign, stored *values, int64_t *indices) {
  vec best = size > 0 ? element_load(x, count) * sign : vec_set((real)-INFINITY);
  vec_bits found = {0};
  for (int64_t i = 1; i < size; i++) {
    const vec value = element_load(x + i * step, count) * sign;
    const vec_bits beyond = is_beyond(value, best);
    best = vec_select(beyond, value, best);
    found = (beyond & ((real_bits)i - (vec_bits){0})) | (~beyond & found);
  }
  element_store(values, best * sign, count);
  for (int64_t k = 0; k < count && k < LANES; k++)
    indices[k] = found[k];
}

/* Finds the extreme of one row: first in each lane, then over the lanes. Among equal elements it is
 * the first one. */
static void row_extreme(const stored *x, int64_t size, real sign, stored *value, int64_t *index) {
  if (size == 0) {
    columns_extreme(x, size, 1, 1, sign, value, index);
    return;
  }
  const int64_t whole = size / LANES;
  real best = widened(x[0]) * sign;
  int64_t found = 0;
  if (whole > 0) {
    stored values[LANES];
    int64_t rows[LANES];
    columns_extreme(x, whole, LANES, LANES, sign, values, rows);
    best = widened(values[0]) * sign;
    found = rows[0] * LANES;
    for (int64_t lane = 1; lane < LANES; lane++) {
      const real other = widened(values[lane]) * sign;
      const int64_t at = rows[lane] * LANES + lane;
      const bool equal = other == best || (other != other && best != best);
      if (real_is_beyond(other, best) || (equal && at < found)) {
        best = other;
        found = at;
      }
    }
  }
  for (int64_t i = whole * LANES; i < size; i++) {
    const real other = widened(x[i]) * sign;
    if (!real_is_beyond(other, best)) continue;
    best = other;
    found = i;
  }
  *value = x[found];
  *index = found;
}

static void extreme_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const dimension_state *state = call->state;
  const real sign = state->least ? -1 : 1;
  for (int64_t task = begin; task < end; task++) {
    const place at = place_of(state, task);
    const stored *x = (const stored *)call->inputs[0] + at.in; /* (size, columns) */
    stored *values = (stored *)call->outputs[0] + at.out;      /* (columns) */
    int64_t *indices = (int64_t *)call->outputs[1] + at.out;   /* (columns) */
    if (state->sizes.inner == 1) {
      row_extreme(x, state->sizes.size, sign, values, indices);
      continue;
    }
    for (int64_t j = 0; j < at.columns; j += LANES)
      columns_extreme(x + j, state->sizes.size, state->sizes.inner, at.columns - j, sign,
                      values + j, indices + j);
  }
}

static tdm_status extreme_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  if (request->inputs[0]
          .shape.dims[((const tdm_dimension_attributes *)request->attributes)->dimension] >
      INT32_MAX)
    return tdm_fail(TDM_UNSUPPORTED, "a dimension of more than 2^31 - 1");
  return dimension_prepare(request, answer, &request->inputs[0]);
}

static tdm_status extreme_execute(const tdm_kernel_call *call) {
  return dimension_run(call, extreme_range);
}

static void gradient_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const dimension_state *state = call->state;
  for (int64_t task = begin; task < end; task++) {
    const place at = place_of(state, task);
    const stored *d_values = (const stored *)call->inputs[0] + at.out;  /* (columns) */
    const int64_t *indices = (const int64_t *)call->inputs[1] + at.out; /* (columns) */
    stored *d_x = (stored *)call->outputs[0] + at.in;                   /* (size, columns) */
    if (state->sizes.inner == 1) {
      row_zero(d_x, state->sizes.size);
    } else {
      for (int64_t i = 0; i < state->sizes.size; i++)
        row_zero(d_x + i * state->sizes.inner, at.columns);
    }
    for (int64_t j = 0; j < at.columns && state->sizes.size > 0; j++)
      d_x[indices[j] * state->sizes.inner + j] = d_values[j];
  }
}

static tdm_status extreme_gradient_prepare(const tdm_kernel_request *request,
                                           tdm_kernel_answer *answer) {
  return dimension_prepare(request, answer, &request->outputs[0]);
}

static tdm_status extreme_gradient_execute(const tdm_kernel_call *call) {
  return dimension_run(call, gradient_range);
}

/* ---- Products -------------------------------------------------------------------------------- */

static void prod_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const dimension_state *state = call->state;
  for (int64_t task = begin; task < end; task++) {
    const place at = place_of(state, task);
    const stored *x = (const stored *)call->inputs[0] + at.in; /* (size, columns) */
    stored *y = (stored *)call->outputs[0] + at.out;           /* (columns) */
    double products[COLUMNS];
    for (int64_t j = 0; j < at.columns; j++)
      products[j] = 1;
    for (int64_t i = 0; i < state->sizes.size; i++)
      for (int64_t j = 0; j < at.columns; j++)
        products[j] *= (double)widened(x[i * state->sizes.inner + j]);
    for (int64_t j = 0; j < at.columns; j++)
      y[j] = narrowed((real)products[j]);
  }
}

static tdm_status prod_execute(const tdm_kernel_call *call) {
  return dimension_run(call, prod_range);
}

/* The product of one column, from which the gradient of each element follows. */
typedef struct column_product {
  double of_others; /* of all elements except zeros */
  int64_t zeros;
} column_product;

/* d_y times the product of the other elements: that of all divided by x, as PyTorch computes it, so
 * that a product that is not finite has PyTorch's gradient. */
static double prod_slope(const column_product *product, double d_y, double x) {
  if (product->zeros == 0) return d_y * (product->of_others / x);
  const bool is_only_zero = product->zeros == 1 && x == 0;
  return d_y * (is_only_zero ? product->of_others : 0 * product->of_others);
}

static void prod_gradient_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const dimension_state *state = call->state;
  const int64_t size = state->sizes.size, inner = state->sizes.inner;
  for (int64_t task = begin; task < end; task++) {
    const place at = place_of(state, task);
    const stored *d_y = (const stored *)call->inputs[0] + at.out; /* (columns) */
    const stored *x = (const stored *)call->inputs[1] + at.in;    /* (size, columns) */
    stored *d_x = (stored *)call->outputs[0] + at.in;             /* (size, columns) */
    column_product products[COLUMNS];
    for (int64_t j = 0; j < at.columns; j++)
      products[j] = (column_product){1, 0};
    for (int64_t i = 0; i < size; i++)
      for (int64_t j = 0; j < at.columns; j++) {
        const double value = (double)widened(x[i * inner + j]);
        products[j].of_others *= value == 0 ? 1 : value;
        products[j].zeros += value == 0;
      }
    for (int64_t i = 0; i < size; i++)
      for (int64_t j = 0; j < at.columns; j++)
        d_x[i * inner + j] = narrowed((real)prod_slope(&products[j], (double)widened(d_y[j]),
                                                       (double)widened(x[i * inner + j])));
  }
}

static tdm_status prod_gradient_execute(const tdm_kernel_call *call) {
  return dimension_run(call, prod_gradient_range);
}

/* ---- Logarithms of sums of exponentials ------------------------------------------------------ */

/* Returns the number to subtract before exponentials are taken: the largest, or 0 if that is
 * infinite or NaN. */
ALWAYS_INLINE vec finite_shift(vec most) {
  return vec_select(vec_absolute(most) < vec_set((real)INFINITY), most, (vec){0});
}

/* Computes `count` columns, at most LANES; the rows of a column lie `step` apart. */
static void columns_logsumexp(const stored *x, stored *y, int64_t size, int64_t step,
                              int64_t count) {
  vec most = vec_set((real)-INFINITY);
  for (int64_t i = 0; i < size; i++) {
    const vec value = element_load(x + i * step, count);
    most = vec_select(value > most, value, most);
  }
  const vec shift = finite_shift(most);
  vec_sums sums = {{{0}}};
  for (int64_t i = 0; i < size; i++)
    vec_sums_add(&sums, i, vec_exp(element_load(x + i * step, count) - shift));
  element_store(y, vec_log_of_any(vec_sums_total(&sums)) + shift, count);
}

static void logsumexp_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const dimension_state *state = call->state;
  for (int64_t task = begin; task < end; task++) {
    const place at = place_of(state, task);
    const stored *x = (const stored *)call->inputs[0] + at.in; /* (size, columns) */
    stored *y = (stored *)call->outputs[0] + at.out;           /* (columns) */
    if (state->sizes.inner == 1) {
      const real most = row_max(x, state->sizes.size);
      const real shift = isfinite(most) ? most : 0;
      *y = narrowed(real_log(row_sum_of_exp(x, shift, NULL, state->sizes.size)) + shift);
      continue;
    }
    for (int64_t j = 0; j < at.columns; j += LANES)
      columns_logsumexp(x + j, y + j, state->sizes.size, state->sizes.inner, at.columns - j);
  }
}

static tdm_status logsumexp_execute(const tdm_kernel_call *call) {
  return dimension_run(call, logsumexp_range);
}

KERNELS(dimension, KERNEL(TDM_OP_EXTREME, extreme_prepare, extreme_execute),
        KERNEL(TDM_OP_EXTREME_GRADIENT, extreme_gradient_prepare, extreme_gradient_execute),
        KERNEL(TDM_OP_PROD, dimension_prepare_first, prod_execute),
        KERNEL(TDM_OP_PROD_GRADIENT, dimension_prepare_second, prod_gradient_execute),
        KERNEL(TDM_OP_LOGSUMEXP, dimension_prepare_first, logsumexp_execute))
