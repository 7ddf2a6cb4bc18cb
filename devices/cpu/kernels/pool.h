/* Windows of pooling along one axis. Invariant: a window lies inside x; adaptive ones share it out
 * as evenly as may be, from floor(i n / m) to ceil((i + 1) n / m). */
#ifndef TANDEM_DEVICES_CPU_KERNELS_POOL_H
#define TANDEM_DEVICES_CPU_KERNELS_POOL_H

#include "devices/cpu/kernels/real.h"

typedef struct pool_state {
  tdm_pool_attributes attributes;
  int64_t planes; /* images x channels */
  int64_t size[2];
  int64_t out_size[2];
  bool splits;
} pool_state;

static inline tdm_status pool_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                      const tdm_spec *x, const tdm_spec *y) {
  pool_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->attributes = *(const tdm_pool_attributes *)request->attributes;
  state->planes = x->shape.dims[0] * x->shape.dims[1];
  for (int axis = 0; axis < 2; axis++) {
    const int from_last = 2 - axis;
    const bool flat = from_last > x->shape.rank - 2; /* of one dimension: the height is 1 */
    state->size[axis] = flat ? 1 : x->shape.dims[x->shape.rank - from_last];
    state->out_size[axis] = flat ? 1 : y->shape.dims[y->shape.rank - from_last];
  }
  state->splits = answer->splits = tdm_cpu_splits(request, (double)count_of(x));
  return TDM_OK;
}

/* Planes are shared out to the team. */
static inline tdm_status pool_run(const tdm_kernel_call *call,
                                  void (*range)(void *call, int64_t begin, int64_t end)) {
  const pool_state *state = call->state;
  const int64_t plane = state->size[0] * state->size[1];
  const int64_t grain = plane > 0 && plane < 4096 ? 4096 / plane : 1;
  tdm_team_run(state->splits ? call->team : NULL, state->planes, grain, range, (void *)call);
  return TDM_OK;
}

typedef struct pool_window {
  int64_t begin;
  int64_t end;
  int64_t step;
  int64_t counted; /* elements for the divisor where padding counts */
} pool_window;

static inline pool_window pool_window_at(const pool_state *state, int axis, int64_t i) {
  const tdm_pool_attributes *of = &state->attributes;
  const int64_t size = state->size[axis], out = state->out_size[axis];
  if (of->adaptive != 0) {
    const int64_t begin = i * size / out, end = ((i + 1) * size + out - 1) / out;
    return (pool_window){begin, end, 1, end - begin};
  }
  const int64_t step = of->dilation[axis], padding = of->padding[axis];
  int64_t begin = i * of->stride[axis] - padding;
  int64_t end = begin + (of->kernel[axis] - 1) * step + 1;
  const int64_t counted = lesser_of(end, size + padding) - begin;
  if (begin < 0) begin += (-begin + step - 1) / step * step;
  return (pool_window){begin, lesser_of(end, size), step, counted};
}

/* What the sum over two windows is divided by. */
static inline real pool_divisor(const pool_state *state, pool_window rows, pool_window columns) {
  const tdm_pool_attributes *of = &state->attributes;
  if (of->divisor != 0) return (real)of->divisor;
  if (of->count_padding != 0) return (real)(rows.counted * columns.counted);
  return (real)((rows.end - rows.begin) * (columns.end - columns.begin));
}

#endif
