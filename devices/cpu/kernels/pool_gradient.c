/* The gradients of pooling. Invariant: windows add to their elements in the order of the windows.
 */
#include "core/status.h"
#include "devices/cpu/kernels/pool.h"
#include "devices/cpu/kernels/vector.h"

static void max_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const pool_state *state = call->state;
  const int64_t count = state->size[0] * state->size[1];
  const int64_t out_count = state->out_size[0] * state->out_size[1];
  for (int64_t plane = begin; plane < end; plane++) {
    const real *d_y = (const real *)call->inputs[0] + plane * out_count;           /* (h', w') */
    const int32_t *indices = (const int32_t *)call->inputs[1] + plane * out_count; /* (h', w') */
    real *d_x = (real *)call->outputs[0] + plane * count;                          /* (h, w) */
    row_zero(d_x, count);
    for (int64_t i = 0; i < out_count; i++)
      d_x[indices[i]] += d_y[i];
  }
}

static tdm_status prepare_gradient(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return pool_prepare(request, answer, &request->outputs[0], &request->inputs[0]);
}

static tdm_status max_pool_gradient_execute(const tdm_kernel_call *call) {
  return pool_run(call, max_range);
}

static void average_plane(const pool_state *state, const real *d_y, real *d_x) {
  const int64_t width = state->size[1];
  for (int64_t i = 0; i < state->out_size[0]; i++) {
    const pool_window rows = pool_window_at(state, 0, i);
    for (int64_t j = 0; j < state->out_size[1]; j++) {
      const pool_window columns = pool_window_at(state, 1, j);
      const real share = *d_y++ / pool_divisor(state, rows, columns);
      for (int64_t row = rows.begin; row < rows.end; row++)
        for (int64_t column = columns.begin; column < columns.end; column++)
          d_x[row * width + column] += share;
    }
  }
}

static void average_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const pool_state *state = call->state;
  const int64_t count = state->size[0] * state->size[1];
  const int64_t out_count = state->out_size[0] * state->out_size[1];
  for (int64_t plane = begin; plane < end; plane++) {
    real *d_x = (real *)call->outputs[0] + plane * count; /* (h, w) */
    row_zero(d_x, count);
    average_plane(state, (const real *)call->inputs[0] + plane * out_count, d_x);
  }
}

static tdm_status average_pool_gradient_execute(const tdm_kernel_call *call) {
  return pool_run(call, average_range);
}

KERNELS(pool_gradient,
        KERNEL(TDM_OP_MAX_POOL_GRADIENT, prepare_gradient, max_pool_gradient_execute),
        KERNEL(TDM_OP_AVERAGE_POOL_GRADIENT, prepare_gradient, average_pool_gradient_execute))
