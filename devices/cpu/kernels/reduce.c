/* Sums and means over dimensions, and their gradient. x is seen as (a, b, c, d, e), its sums as (a,
 * c, e): b and d are the groups of dimensions that go. Invariant: an element of the result is
 * summed in one order, which the shape alone decides. */
#include <math.h>

#include "core/status.h"
#include "devices/cpu/kernels/rows.h"
#include "devices/operations/reduction_sizes.h"
#include "devices/operations/reductions.h"

#define COLUMNS 256 /* of e that a task takes */
#define DEPTH 512   /* terms that are summed before their sum is added to the rest */

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
  vec total = {0};
  for (int64_t first = 0; first < terms; first += DEPTH) {
    const int64_t end = lesser_of(terms, first + DEPTH);
    vec sum = {0};
    for (int64_t i = first; i < end; i++)
      sum += element_load(x + i / d * step + i % d * e, columns);
    total += sum;
  }
  element_store(out, total / state->divisor, columns);
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

KERNELS(reduce, KERNEL(TDM_OP_REDUCE, reduce_prepare, reduce_execute),
        KERNEL(TDM_OP_REDUCE_GRADIENT, reduce_gradient_prepare, reduce_gradient_execute))
