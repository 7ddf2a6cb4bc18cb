/* Maximum and average pooling, adaptive too. Invariant: of equal elements the first in its plane
 * is the maximum, and a NaN is larger than any. */
#include "devices/cpu/kernels/pool.h"

#include <math.h>

#include "core/status.h"

/* ---- Maximum --------------------------------------------------------------------------------- */

static void max_plane(const pool_state *state, const real *x, real *y, int32_t *indices) {
  const int64_t width = state->size[1];
  for (int64_t i = 0; i < state->out_size[0]; i++) {
    const pool_window rows = pool_window_at(state, 0, i);
    for (int64_t j = 0; j < state->out_size[1]; j++) {
      const pool_window columns = pool_window_at(state, 1, j);
      real most = (real)-INFINITY;
      int64_t place = rows.begin * width + columns.begin;
      for (int64_t row = rows.begin; row < rows.end; row += rows.step) {
        for (int64_t column = columns.begin; column < columns.end; column += columns.step) {
          const real value = x[row * width + column];
          if (!(value > most || value != value)) continue;
          most = value;
          place = row * width + column;
        }
      }
      *y++ = most;
      *indices++ = (int32_t)place;
    }
  }
}

static void max_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const pool_state *state = call->state;
  const int64_t count = state->size[0] * state->size[1];
  const int64_t out_count = state->out_size[0] * state->out_size[1];
  for (int64_t plane = begin; plane < end; plane++) {
    max_plane(state, (const real *)call->inputs[0] + plane * count,
              (real *)call->outputs[0] + plane * out_count,
              (int32_t *)call->outputs[1] + plane * out_count);
  }
}

tdm_status TDM_NAME(tdm_max_pool_prepare)(const tdm_kernel_request *request,
                                          tdm_kernel_answer *answer) {
  return pool_prepare(request, answer, &request->inputs[0], &request->outputs[0]);
}

tdm_status TDM_NAME(tdm_max_pool_execute)(const tdm_kernel_call *call) {
  return pool_run(call, max_range);
}

/* ---- Average --------------------------------------------------------------------------------- */

static void average_plane(const pool_state *state, const real *x, real *y) {
  const int64_t width = state->size[1];
  for (int64_t i = 0; i < state->out_size[0]; i++) {
    const pool_window rows = pool_window_at(state, 0, i);
    for (int64_t j = 0; j < state->out_size[1]; j++) {
      const pool_window columns = pool_window_at(state, 1, j);
      real sum = 0;
      for (int64_t row = rows.begin; row < rows.end; row++)
        for (int64_t column = columns.begin; column < columns.end; column++)
          sum += x[row * width + column];
      *y++ = sum / pool_divisor(state, rows, columns);
    }
  }
}

static void average_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const pool_state *state = call->state;
  const int64_t count = state->size[0] * state->size[1];
  const int64_t out_count = state->out_size[0] * state->out_size[1];
  for (int64_t plane = begin; plane < end; plane++) {
    average_plane(state, (const real *)call->inputs[0] + plane * count,
                  (real *)call->outputs[0] + plane * out_count);
  }
}

tdm_status TDM_NAME(tdm_average_pool_prepare)(const tdm_kernel_request *request,
                                              tdm_kernel_answer *answer) {
  return pool_prepare(request, answer, &request->inputs[0], &request->outputs[0]);
}

tdm_status TDM_NAME(tdm_average_pool_execute)(const tdm_kernel_call *call) {
  return pool_run(call, average_range);
}
