/* Sums, means and squared distances over dimensions, and their gradients. x is seen as (a, b, c, d,
 * e), its sums as (a, c, e): b and d are the groups of dimensions that are reduced. Invariant: an
 * element of the result is summed in one order, which depends only on the shape. */
#include <math.h>

#include "core/status.h"
#include "devices/kernels/cpu/moments.h"
#include "devices/kernels/reductions/deviations.h"
#include "devices/kernels/reductions/reduction_sizes.h"

#define COLUMNS 256 /* of e that a task takes */

typedef struct reduce_state {
  reduce_sizes sizes;
  int64_t column_tasks;
  real divisor;
  bool splits;
} reduce_state;

static tdm_status state_create(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                               const tdm_shape *x) {
  reduce_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  TDM_TRY(reduce_sizes_read(&state->sizes, request, x));
  const double count = (double)tdm_shape_count(x);
  state->column_tasks = ceil_div(state->sizes.sizes[4], COLUMNS);
  state->divisor = (real)state->sizes.divisor;
  state->splits = answer->splits = tdm_cpu_splits(request, count * sizeof(stored) / 20.0);
  return TDM_OK;
}

/* A task is a block of columns of one (a, c). */
static tdm_status reduce_run(const tdm_kernel_call *call,
                             void (*range)(void *call, int64_t begin, int64_t end)) {
  const reduce_state *state = call->state;
  const int64_t tasks = state->sizes.sizes[0] * state->sizes.sizes[2] * state->column_tasks;
  const int64_t terms = state->sizes.sizes[1] * state->sizes.sizes[3];
  const int64_t grain = terms > 0 && terms < 1024 ? 1024 / terms : 1;
  tdm_team_run(state->splits ? call->team : NULL, tasks, grain, range, (void *)call);
  return TDM_OK;
}

/* Where a task's elements lie. */
typedef struct place {
  int64_t in;      /* of x, at b = d = 0 */
  int64_t out;     /* of the sums */
  int64_t columns; /* of e */
} place;

static place place_of(const reduce_state *state, int64_t task) {
  const int64_t *sizes = state->sizes.sizes;
  const int64_t column = task % state->column_tasks * COLUMNS, pair = task / state->column_tasks;
  const int64_t a = pair / sizes[2], c = pair % sizes[2];
  return (place){.in = (a * sizes[1] * sizes[2] + c) * sizes[3] * sizes[4] + column,
                 .out = pair * sizes[4] + column,
                 .columns = lesser_of(sizes[4] - column, COLUMNS)};
}

/* ---- Sums ------------------------------------------------------------------------------------ */

static void sum_rows(const reduce_state *state, const stored *x, stored *out) {
  const int64_t step = state->sizes.sizes[2] * state->sizes.sizes[3];
  double total = 0;
  for (int64_t b = 0; b < state->sizes.sizes[1]; b++)
    total += row_sum(x + b * step, state->sizes.sizes[3]);
  *out = narrowed((real)(total / state->divisor));
}

/* One vector of columns. */
static void sum_columns(const reduce_state *state, const stored *x, stored *out, int64_t columns) {
  const int64_t d = state->sizes.sizes[3], e = state->sizes.sizes[4],
                terms = state->sizes.sizes[1] * d;
  const int64_t step = state->sizes.sizes[2] * d * e;
  vec_sums sums = {{{0}}};
  for (int64_t i = 0; i < terms; i++)
    vec_sums_add(&sums, i, element_load(x + i / d * step + i % d * e, columns));
  element_store(out, vec_sums_total(&sums) / state->divisor, columns);
}

static void reduce_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const reduce_state *state = call->state;
  for (int64_t task = begin; task < end; task++) {
    const place at = place_of(state, task);
    const stored *x = (const stored *)call->inputs[0] + at.in; /* (b, ..., d, e) */
    stored *out = (stored *)call->outputs[0] + at.out;         /* (columns) */
    if (state->sizes.by_rows) {
      sum_rows(state, x, out);
      continue;
    }
    for (int64_t j = 0; j < at.columns; j += LANES)
      sum_columns(state, x + j, out + j, at.columns - j);
  }
}

static tdm_status reduce_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return state_create(request, answer, &request->inputs[0].shape);
}

static tdm_status reduce_execute(const tdm_kernel_call *call) {
  return reduce_run(call, reduce_range);
}

/* ---- Their gradient -------------------------------------------------------------------------- */

static void row_fill(stored *to, real value, int64_t count) {
  for (int64_t i = 0; i < count; i += LANES)
    element_store(to + i, vec_set(value), count - i);
}

static void spread_columns(const reduce_state *state, const stored *d_out, stored *d_x,
                           int64_t columns) {
  const int64_t d = state->sizes.sizes[3], e = state->sizes.sizes[4],
                terms = state->sizes.sizes[1] * d;
  const int64_t step = state->sizes.sizes[2] * d * e;
  const vec value = element_load(d_out, columns) / state->divisor;
  for (int64_t i = 0; i < terms; i++)
    element_store(d_x + i / d * step + i % d * e, value, columns);
}

static void gradient_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const reduce_state *state = call->state;
  const int64_t step = state->sizes.sizes[2] * state->sizes.sizes[3];
  for (int64_t task = begin; task < end; task++) {
    const place at = place_of(state, task);
    const stored *d_out = (const stored *)call->inputs[0] + at.out; /* (columns) */
    stored *d_x = (stored *)call->outputs[0] + at.in;               /* (b, ..., d, e) */
    for (int64_t b = 0; state->sizes.sizes[4] == 1 && b < state->sizes.sizes[1]; b++)
      row_fill(d_x + b * step, widened(*d_out) / state->divisor, state->sizes.sizes[3]);
    for (int64_t j = 0; state->sizes.sizes[4] != 1 && j < at.columns; j += LANES)
      spread_columns(state, d_out + j, d_x + j, at.columns - j);
  }
}

static tdm_status reduce_gradient_prepare(const tdm_kernel_request *request,
                                          tdm_kernel_answer *answer) {
  return state_create(request, answer, &request->outputs[0].shape);
}

static tdm_status reduce_gradient_execute(const tdm_kernel_call *call) {
  return reduce_run(call, gradient_range);
}

/* ---- Means in float64 ------------------------------------------------------------------------ */

static strips strips_at(const reduce_state *state, const stored *x) {
  const int64_t *sizes = state->sizes.sizes;
  return (strips){.x = x, .count = sizes[1], .stride = sizes[2] * sizes[3], .length = sizes[3]};
}

/* Returns the mean over `terms` terms, from the sum of the distances from shift of the `own` terms
 * in this part. */
static double mean_of(double shift, double sum, double own, double terms) {
  return own == terms ? shift + sum / terms : (shift * own + sum) / terms;
}

static double mean_of_row(const reduce_state *state, const stored *x) {
  const strips from = strips_at(state, x);
  const double own = (double)(from.count * from.length);
  if (own == 0) return 0 / state->sizes.divisor;
  const real shift = strips_guess(&from);
  return mean_of((double)shift, strips_deviations(&from, shift, 1).sum, own, state->sizes.divisor);
}

/* The terms of a vector of columns: d neighbours in each of b places. */
typedef struct column_terms {
  const stored *x;
  int64_t b, b_step, d, d_step;
  int64_t lanes;
} column_terms;

static column_terms columns_at(const reduce_state *state, const stored *x, int64_t lanes) {
  const int64_t *sizes = state->sizes.sizes;
  return (column_terms){.x = x,
                        .b = sizes[1],
                        .b_step = sizes[2] * sizes[3] * sizes[4],
                        .d = sizes[3],
                        .d_step = sizes[4],
                        .lanes = lesser_of(lanes, LANES)};
}

/* Adds (x - near + rest), or its square, of every lane. */
ALWAYS_INLINE void columns_add(const column_terms *of, vec near, vec rest, bool squares,
                               double sums[LANES]) {
  for (int64_t i = 0; i < of->b; i++) {
    for (int64_t first = 0; first < of->d; first += MOMENT_TERMS) {
      const int64_t end = lesser_of(of->d, first + MOMENT_TERMS);
      const stored *x = of->x + i * of->b_step;
      vec sum = {0};
      for (int64_t j = first; j < end; j++) {
        const vec apart = element_load(x + j * of->d_step, of->lanes) - near + rest;
        sum += squares ? apart * apart : apart;
      }
      for (int lane = 0; lane < LANES; lane++)
        sums[lane] += (double)sum[lane];
    }
  }
}

static void means_of_columns(const reduce_state *state, const stored *x, double *out,
                             int64_t columns) {
  const column_terms of = columns_at(state, x, columns);
  const double own = (double)(of.b * of.d);
  const vec shift = own > 0 ? element_load(x, of.lanes) : (vec){0};
  double sums[LANES] = {0};
  columns_add(&of, shift, (vec){0}, false, sums);
  for (int lane = 0; lane < of.lanes; lane++)
    out[lane] = mean_of((double)shift[lane], sums[lane], own, state->sizes.divisor);
}

static void mean_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const reduce_state *state = call->state;
  for (int64_t task = begin; task < end; task++) {
    const place at = place_of(state, task);
    const stored *x = (const stored *)call->inputs[0] + at.in; /* (b, ..., d, e) */
    stored *rounded = (stored *)call->outputs[0] + at.out;     /* (columns) */
    double *out = (double *)call->outputs[1] + at.out;         /* (columns) */
    if (state->sizes.by_rows) *out = mean_of_row(state, x);
    for (int64_t j = 0; !state->sizes.by_rows && j < at.columns; j += LANES)
      means_of_columns(state, x + j, out + j, at.columns - j);
    for (int64_t j = 0; j < at.columns; j++)
      rounded[j] = narrowed((real)out[j]);
  }
}

static tdm_status precise_mean_execute(const tdm_kernel_call *call) {
  return reduce_run(call, mean_range);
}

/* ---- Squared distances ----------------------------------------------------------------------- */

/* The root of the sum of squares of distances from mean, of which `real` cannot hold the squares:
 * in double, and scaled. */
static __attribute__((noinline, cold)) double root_of_scaled(const column_terms *of, double mean) {
  double largest = 0, squares = 0;
  for (int64_t i = 0; i < of->b * of->d; i++) {
    const int64_t at = i / of->d * of->b_step + i % of->d * of->d_step;
    const double apart = fabs((double)widened(of->x[at]) - mean);
    if (!(apart <= largest) && largest == largest) largest = apart; /* NaN stays */
  }
  if (!(largest > 0) || largest > DBL_MAX) return largest;
  for (int64_t i = 0; i < of->b * of->d; i++) {
    const int64_t at = i / of->d * of->b_step + i % of->d * of->d_step;
    const double apart = ((double)widened(of->x[at]) - mean) / largest;
    squares += apart * apart;
  }
  return largest * sqrt(squares);
}

/* Returns the deviation for a sum of squares. of: the terms of the lane. */
static stored deviation_of(const tdm_deviations_attributes *attributes, double squares,
                           double divisor, const column_terms *of, double mean) {
  if (attributes->root == 0) return narrowed((real)(squares / divisor));
  const double root = squares_are_exact(squares, 0) ? sqrt(squares) : root_of_scaled(of, mean);
  return narrowed((real)(root / sqrt(divisor)));
}

static double squares_of_row(const strips *from, real near, real rest) {
  double squares = 0;
  for (int64_t i = 0; i < from->count; i++) {
    const stored *x = from->x + i * from->stride;
    for (int64_t first = 0; first < from->length; first += 4 * LANES * MOMENT_TERMS) {
      const int64_t end = lesser_of(from->length, first + 4 * LANES * MOMENT_TERMS);
      vec sums[4] = {{0}, {0}, {0}, {0}};
      int64_t j = first;
      for (; j + 4 * LANES <= end; j += 4 * LANES) {
        for (int v = 0; v < 4; v++) {
          const vec apart = element_load_whole(x + j + v * LANES) - near + rest;
          sums[v] += apart * apart;
        }
      }
      for (; j < end; j += LANES) {
        const vec apart = vec_keep_first(element_load(x + j, end - j) - near + rest, end - j, 0);
        sums[0] += apart * apart;
      }
      squares += (double)vec_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
    }
  }
  return squares;
}

static void deviation_of_row(const tdm_kernel_call *call, const stored *x, const double *mean,
                             double divisor, stored *out) {
  const strips from = strips_at(call->state, x);
  const column_terms of = columns_at(call->state, x, 1);
  const real near = mean ? (real)*mean : 0;
  const real rest = mean ? (real)((double)near - *mean) : 0;
  *out = deviation_of(call->attributes, squares_of_row(&from, near, rest), divisor, &of,
                      mean ? *mean : 0);
}

/* means of the lanes in two parts: their sum is the mean's negative, or near it. */
ALWAYS_INLINE void means_split(const double *means, int64_t lanes, vec *near, vec *rest) {
  *near = *rest = (vec){0};
  for (int64_t i = 0; means && i < lanes; i++) {
    (*near)[i] = (real)means[i];
    (*rest)[i] = (real)((double)(*near)[i] - means[i]);
  }
}

static void deviations_of_columns(const tdm_kernel_call *call, const stored *x, const double *means,
                                  double divisor, stored *out, int64_t columns) {
  column_terms of = columns_at(call->state, x, columns);
  vec near, rest;
  means_split(means, of.lanes, &near, &rest);
  double sums[LANES] = {0};
  columns_add(&of, near, rest, true, sums);
  for (int lane = 0; lane < of.lanes; lane++, of.x++)
    out[lane] = deviation_of(call->attributes, sums[lane], divisor, &of, means ? means[lane] : 0);
}

static void deviations_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const reduce_state *state = call->state;
  const double divisor = deviations_divisor(call->attributes, state->sizes.divisor);
  for (int64_t task = begin; task < end; task++) {
    const place at = place_of(state, task);
    const stored *x = (const stored *)call->inputs[0] + at.in; /* (b, ..., d, e) */
    const double *means = call->inputs[1];                     /* (a, c, e), or NULL */
    stored *out = (stored *)call->outputs[0] + at.out;         /* (columns) */
    if (means) means += at.out;
    if (state->sizes.by_rows) deviation_of_row(call, x, means, divisor, out);
    for (int64_t j = 0; !state->sizes.by_rows && j < at.columns; j += LANES)
      deviations_of_columns(call, x + j, means ? means + j : NULL, divisor, out + j,
                            at.columns - j);
  }
}

static tdm_status deviations_execute(const tdm_kernel_call *call) {
  return reduce_run(call, deviations_range);
}

/* ---- Their gradient -------------------------------------------------------------------------- */

/* d_x = (x - mean) first second, where these are 2 d_out / divisor and 1, or of a root 1 / out and
 * d_out / divisor, so that neither leaves the range of `real`. */
static void deviation_factors(const tdm_deviations_attributes *attributes, double divisor,
                              double d_out, double out, real *first, real *second) {
  *first = attributes->root == 0 ? (real)(2 * d_out / divisor) : out == 0 ? 0 : (real)(1 / out);
  *second = attributes->root == 0 ? 1 : out == 0 ? 0 : (real)(d_out / divisor);
}

ALWAYS_INLINE void columns_scale(const column_terms *of, vec near, vec rest, vec first, vec second,
                                 stored *d_x) {
  for (int64_t i = 0; i < of->b * of->d; i++) {
    const int64_t at = i / of->d * of->b_step + i % of->d * of->d_step;
    const vec apart = element_load(of->x + at, of->lanes) - near + rest;
    element_store(d_x + at, apart * first * second, of->lanes);
  }
}

/* The same of one column, whose terms are neighbours. */
ALWAYS_INLINE void rows_scale(const column_terms *of, real near, real rest, real first, real second,
                              stored *d_x) {
  for (int64_t i = 0; i < of->b; i++) {
    for (int64_t j = 0; j < of->d; j += LANES) {
      const int64_t at = i * of->b_step + j, left = of->d - j;
      const vec apart = element_load(of->x + at, left) - near + rest;
      element_store(d_x + at, apart * first * second, left);
    }
  }
}

static void deviations_gradient_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const reduce_state *state = call->state;
  const double divisor = deviations_divisor(call->attributes, state->sizes.divisor);
  for (int64_t task = begin; task < end; task++) {
    const place at = place_of(state, task);
    const stored *d_out = (const stored *)call->inputs[0] + at.out; /* (columns) */
    const stored *out = (const stored *)call->inputs[2] + at.out;   /* (columns) */
    const double *means = call->inputs[3];                          /* (a, c, e), or NULL */
    const bool is_row = state->sizes.sizes[4] == 1;
    for (int64_t column = 0; column < at.columns; column += LANES) {
      column_terms of =
          columns_at(state, (const stored *)call->inputs[1] + at.in + column, at.columns - column);
      vec near, rest, first = {0}, second = {0};
      means_split(means ? means + at.out + column : NULL, of.lanes, &near, &rest);
      for (int lane = 0; lane < of.lanes; lane++) {
        real one, other;
        deviation_factors(call->attributes, divisor, (double)widened(d_out[column + lane]),
                          (double)widened(out[column + lane]), &one, &other);
        first[lane] = one;
        second[lane] = other;
      }
      stored *d_x = (stored *)call->outputs[0] + at.in + column; /* (b, ..., d, e) */
      if (is_row)
        rows_scale(&of, near[0], rest[0], first[0], second[0], d_x);
      else
        columns_scale(&of, near, rest, first, second, d_x);
    }
  }
}

static tdm_status deviations_gradient_prepare(const tdm_kernel_request *request,
                                              tdm_kernel_answer *answer) {
  return state_create(request, answer, &request->inputs[1].shape);
}

static tdm_status deviations_gradient_execute(const tdm_kernel_call *call) {
  return reduce_run(call, deviations_gradient_range);
}

KERNELS(reduce, KERNEL(TDM_OP_REDUCE, reduce_prepare, reduce_execute),
        KERNEL(TDM_OP_REDUCE_GRADIENT, reduce_gradient_prepare, reduce_gradient_execute),
        KERNEL(TDM_OP_PRECISE_MEAN, reduce_prepare, precise_mean_execute),
        KERNEL(TDM_OP_DEVIATIONS, reduce_prepare, deviations_execute),
        KERNEL(TDM_OP_DEVIATIONS_GRADIENT, deviations_gradient_prepare,
               deviations_gradient_execute))
