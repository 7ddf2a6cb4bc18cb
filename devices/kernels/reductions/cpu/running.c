/* Running sums, products and logarithms of sums of exponentials along a dimension, and their
 * gradients. Invariant: all accumulate in float64, one element after the other. */
#include <math.h>

#include "devices/kernels/reductions/cpu/dimension.h"

/* ---- Sums ------------------------------------------------------------------------------------ */

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

static tdm_status cumsum_execute(const tdm_kernel_call *call) {
  return dimension_run(call, cumsum_range);
}

/* ---- Columns of the others --------------------------------------------------------------------
 */

/* One column of the call: operands and result, `step` from element to element. */
typedef struct column {
  const stored *first, *second, *third; /* NULL where the operation has fewer */
  stored *out;
  int64_t size;
  int64_t step;
} column;

ALWAYS_INLINE double at(const stored *from, const column *of, int64_t i) {
  return (double)widened(from[i * of->step]);
}

ALWAYS_INLINE void put(const column *of, int64_t i, double value) {
  of->out[i * of->step] = narrowed((real)value);
}

ALWAYS_INLINE void each_column(const tdm_kernel_call *call, int64_t begin, int64_t end,
                               size_t operands, void (*work)(const column *)) {
  const dimension_state *state = call->state;
  for (int64_t task = begin; task < end; task++) {
    const place from = place_of(state, task);
    for (int64_t j = from.in; j < from.in + from.columns; j++) {
      const column one = {
          .first = (const stored *)call->inputs[0] + j,
          .second = operands > 1 ? (const stored *)call->inputs[1] + j : NULL,
          .third = operands > 2 ? (const stored *)call->inputs[2] + j : NULL,
          .out = (stored *)call->outputs[0] + j,
          .size = state->sizes.size,
          .step = state->sizes.inner,
      };
      work(&one);
    }
  }
}

#define EACH_COLUMN(name, operands)                                                                \
  static void name##_range(void *call, int64_t begin, int64_t end) {                               \
    each_column(call, begin, end, operands, name##_column);                                        \
  }                                                                                                \
  static tdm_status name##_execute(const tdm_kernel_call *call) {                                  \
    return dimension_run(call, name##_range);                                                      \
  }

/* ---- Products -------------------------------------------------------------------------------- */

/* first: x */
static void cumprod_column(const column *of) {
  double product = 1;
  for (int64_t i = 0; i < of->size; i++)
    put(of, i, product *= at(of->first, of, i));
}
EACH_COLUMN(cumprod, 1)

/* first: d_y, second: x, third: y. d_x[i] is the product of the elements before i, times the sum of
 * d_y[j] times the product of the elements after i up to j. Where sums of d_y y from i on are not
 * finite, d_x[i] is that sum over x[i], as PyTorch computes it. */
static void cumprod_gradient_column(const column *of) {
  double sum = 0, plain = 0, next = 0;
  for (int64_t i = of->size - 1; i >= 0; i--) {
    const double d_y = at(of->first, of, i), x = at(of->second, of, i);
    const double before = i > 0 ? at(of->third, of, i - 1) : 1;
    sum = d_y + next * sum;
    plain += d_y * at(of->third, of, i);
    next = x;
    put(of, i, isfinite(plain) ? before * sum : plain / x);
  }
}
EACH_COLUMN(cumprod_gradient, 3)

/* ---- Logarithms of sums of exponentials ------------------------------------------------------ */

/* log(e^a + e^b); between equal infinities the distance is 0. */
static double log_of_both(double a, double b) {
  const double distance = a == b ? 0 : -fabs(a - b);
  return (a > b || a != a ? a : b) + log1p(exp(distance));
}

/* first: x */
static void logcumsumexp_column(const column *of) {
  double sum = -INFINITY;
  for (int64_t i = 0; i < of->size; i++)
    put(of, i, sum = log_of_both(sum, at(of->first, of, i)));
}
EACH_COLUMN(logcumsumexp, 1)

/* first: d_y, second: x, third: y. d_x[i] is e^(x[i] - y[i]) times the sum of d_y[j] e^(y[i] -
 * y[j]) from i on; y does not fall, so that no exponent is positive. */
static void logcumsumexp_gradient_column(const column *of) {
  double sum = 0, next = INFINITY;
  for (int64_t i = of->size - 1; i >= 0; i--) {
    const double y = at(of->third, of, i);
    sum = at(of->first, of, i) + (y == next ? sum : sum * exp(y - next));
    next = y;
    put(of, i, sum * exp(at(of->second, of, i) - y));
  }
}
EACH_COLUMN(logcumsumexp_gradient, 3)

KERNELS(running, KERNEL(TDM_OP_CUMSUM, dimension_prepare_first, cumsum_execute),
        KERNEL(TDM_OP_CUMPROD, dimension_prepare_first, cumprod_execute),
        KERNEL(TDM_OP_CUMPROD_GRADIENT, dimension_prepare_second, cumprod_gradient_execute),
        KERNEL(TDM_OP_LOGCUMSUMEXP, dimension_prepare_first, logcumsumexp_execute),
        KERNEL(TDM_OP_LOGCUMSUMEXP_GRADIENT, dimension_prepare_second,
               logcumsumexp_gradient_execute))
