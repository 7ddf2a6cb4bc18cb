/* The largest or least element along a dimension, products and running sums, and gradients. x is
 * seen as (outer, size, inner). Invariant: of equal elements the first counts, and a NaN is beyond
 * all. */
#include <math.h>

#include "core/status.h"
#include "devices/cpu/kernels/vector.h"
#include "devices/operations/axis_sizes.h"
#include "devices/operations/reductions.h"

#define COLUMNS 64 /* of inner that a task takes */

typedef struct dimension_state {
  axis_sizes sizes;
  int64_t column_tasks; /* of one outer */
  bool least;
  bool reverse;
  bool splits;
} dimension_state;

static tdm_status dimension_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                    const tdm_spec *x) {
  const tdm_dimension_attributes *attributes = request->attributes;
  dimension_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  axis_sizes_read(&state->sizes, x, attributes->dimension);
  state->column_tasks = ceil_div(state->sizes.inner, COLUMNS);
  state->least = attributes->least != 0;
  state->reverse = attributes->reverse != 0;
  state->splits = answer->splits = tdm_cpu_splits(request, (double)count_of(x) / 2);
  return TDM_OK;
}

/* A task is a block of columns of one outer. */
static tdm_status dimension_run(const tdm_kernel_call *call,
                                void (*range)(void *call, int64_t begin, int64_t end)) {
  const dimension_state *state = call->state;
  const int64_t grain =
      state->sizes.size > 0 && state->sizes.size < 1024 ? 1024 / state->sizes.size : 1;
  tdm_team_run(state->splits ? call->team : NULL, state->sizes.outer * state->column_tasks, grain,
               range, (void *)call);
  return TDM_OK;
}

/* Where a task's elements lie. */
typedef struct place {
  int64_t in;      /* of x */
  int64_t out;     /* of (outer, inner) */
  int64_t columns; /* of inner */
} place;

static place place_of(const dimension_state *state, int64_t task) {
  const int64_t outer = task / state->column_tasks, column = task % state->column_tasks * COLUMNS;
  return (place){.in = outer * state->sizes.size * state->sizes.inner + column,
                 .out = outer * state->sizes.inner + column,
                 .columns = lesser_of(state->sizes.inner - column, COLUMNS)};
}

/* ---- Extremes -------------------------------------------------------------------------------- */

/* Lanes in which x comes before best: the least are told by their negatives. */
ALWAYS_INLINE vec_bits is_beyond(vec x, vec best) {
  return (x > best) | ((x != x) & (best == best));
}

ALWAYS_INLINE bool real_is_beyond(real x, real best) {
  return x > best || (x != x && best == best);
}

/* Of count columns, at most LANES, that lie `step` apart from row to row. */
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

/* Of one row: lane by lane, then of the lanes the best, of equals the one that comes first. */
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

/* ---- Running sums ---------------------------------------------------------------------------- */

#define ROWS 4 /* whose sums do not wait for each other */

/* x, y: (count, size), count at most ROWS: of each row from its first element on, or its last. */
ALWAYS_INLINE void rows_cumsum(const stored *x, stored *y, int64_t count, int64_t size,
                               bool reverse) {
  double sums[ROWS] = {0};
  for (int64_t i = 0; i < size; i++) {
    const int64_t at = reverse ? size - 1 - i : i;
    for (int64_t row = 0; row < count; row++) {
      sums[row] += (double)widened(x[row * size + at]);
      y[row * size + at] = narrowed((real)sums[row]);
    }
  }
}

/* x, y: (size, columns), `step` from row to row. */
static void columns_cumsum(const stored *x, stored *y, int64_t columns, int64_t size, int64_t step,
                           bool reverse) {
  double sums[COLUMNS] = {0};
  for (int64_t i = 0; i < size; i++) {
    const int64_t row = (reverse ? size - 1 - i : i) * step;
    for (int64_t j = 0; j < columns; j++) {
      sums[j] += (double)widened(x[row + j]);
      y[row + j] = narrowed((real)sums[j]);
    }
  }
}

static void cumsum_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const dimension_state *state = call->state;
  const stored *x = call->inputs[0]; /* (outer, size, inner) */
  stored *y = call->outputs[0];      /* (outer, size, inner) */
  int64_t task = begin;
  for (; state->sizes.inner == 1 && task + ROWS <= end; task += ROWS)
    rows_cumsum(x + task * state->sizes.size, y + task * state->sizes.size, ROWS, state->sizes.size,
                state->reverse);
  for (; task < end; task++) {
    const place at = place_of(state, task);
    if (state->sizes.inner == 1)
      rows_cumsum(x + at.in, y + at.in, 1, state->sizes.size, state->reverse);
    else
      columns_cumsum(x + at.in, y + at.in, at.columns, state->sizes.size, state->sizes.inner,
                     state->reverse);
  }
}

static tdm_status cumsum_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return dimension_prepare(request, answer, &request->inputs[0]);
}

static tdm_status cumsum_execute(const tdm_kernel_call *call) {
  return dimension_run(call, cumsum_range);
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

static tdm_status prod_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return dimension_prepare(request, answer, &request->inputs[0]);
}

static tdm_status prod_execute(const tdm_kernel_call *call) {
  return dimension_run(call, prod_range);
}

/* The product of the elements before one, then times d_y and those behind it: zeros are divided by
 * nowhere. */
static void prod_gradient_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const dimension_state *state = call->state;
  const int64_t size = state->sizes.size, inner = state->sizes.inner;
  for (int64_t task = begin; task < end; task++) {
    const place at = place_of(state, task);
    const stored *d_y = (const stored *)call->inputs[0] + at.out; /* (columns) */
    const stored *x = (const stored *)call->inputs[1] + at.in;    /* (size, columns) */
    stored *d_x = (stored *)call->outputs[0] + at.in;             /* (size, columns) */
    double products[COLUMNS];
    for (int64_t j = 0; j < at.columns; j++)
      products[j] = 1;
    for (int64_t i = 0; i < size; i++)
      for (int64_t j = 0; j < at.columns; j++) {
        d_x[i * inner + j] = narrowed((real)products[j]);
        products[j] *= (double)widened(x[i * inner + j]);
      }
    for (int64_t j = 0; j < at.columns; j++)
      products[j] = (double)widened(d_y[j]);
    for (int64_t i = size - 1; i >= 0; i--)
      for (int64_t j = 0; j < at.columns; j++) {
        d_x[i * inner + j] = narrowed((real)((double)widened(d_x[i * inner + j]) * products[j]));
        products[j] *= (double)widened(x[i * inner + j]);
      }
  }
}

static tdm_status prod_gradient_prepare(const tdm_kernel_request *request,
                                        tdm_kernel_answer *answer) {
  return dimension_prepare(request, answer, &request->inputs[1]);
}

static tdm_status prod_gradient_execute(const tdm_kernel_call *call) {
  return dimension_run(call, prod_gradient_range);
}

KERNELS(dimension, KERNEL(TDM_OP_EXTREME, extreme_prepare, extreme_execute),
        KERNEL(TDM_OP_EXTREME_GRADIENT, extreme_gradient_prepare, extreme_gradient_execute),
        KERNEL(TDM_OP_CUMSUM, cumsum_prepare, cumsum_execute),
        KERNEL(TDM_OP_PROD, prod_prepare, prod_execute),
        KERNEL(TDM_OP_PROD_GRADIENT, prod_gradient_prepare, prod_gradient_execute))
