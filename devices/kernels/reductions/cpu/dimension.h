/* Code that kernels along one dimension share. x is seen as (outer, size, inner); a task computes
 * some columns. */
#ifndef TANDEM_DEVICES_KERNELS_REDUCTIONS_CPU_DIMENSION_H
#define TANDEM_DEVICES_KERNELS_REDUCTIONS_CPU_DIMENSION_H

#include "core/status.h"
#include "devices/kernels/axis_sizes.h"
#include "devices/kernels/cpu/vector.h"
#include "devices/kernels/reductions/reductions.h"

#define COLUMNS 64 /* of inner that a task takes */

typedef struct dimension_state {
  axis_sizes sizes;
  int64_t column_tasks; /* of one outer */
  bool least;
  bool reverse;
  bool splits;
} dimension_state;

static inline tdm_status dimension_prepare(const tdm_kernel_request *request,
                                           tdm_kernel_answer *answer, const tdm_spec *x) {
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
static inline tdm_status dimension_run(const tdm_kernel_call *call,
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

static inline place place_of(const dimension_state *state, int64_t task) {
  const int64_t outer = task / state->column_tasks, column = task % state->column_tasks * COLUMNS;
  return (place){.in = outer * state->sizes.size * state->sizes.inner + column,
                 .out = outer * state->sizes.inner + column,
                 .columns = lesser_of(state->sizes.inner - column, COLUMNS)};
}

/* Prepares operations whose first operand is x. */
static inline tdm_status dimension_prepare_first(const tdm_kernel_request *request,
                                                 tdm_kernel_answer *answer) {
  return dimension_prepare(request, answer, &request->inputs[0]);
}

/* Prepares gradients, whose second operand is x. */
static inline tdm_status dimension_prepare_second(const tdm_kernel_request *request,
                                                  tdm_kernel_answer *answer) {
  return dimension_prepare(request, answer, &request->inputs[1]);
}

#endif
