/* The gradients of pooling. Invariant: windows add to their elements in the order of the windows.
 */
#include "core/status.h"
#include "devices/kernels/convolution/cpu/pool.h"
#include "devices/kernels/convolution/images.h"
#include "devices/kernels/cpu/vector.h"

static void max_plane(const tdm_kernel_call *call, int64_t x_first, int64_t y_first) {
  const pool_sizes *sizes = &((const pool_state *)call->state)->sizes;
  const stored *d_y = (const stored *)call->inputs[0] + y_first;       /* (h', w') */
  const int32_t *indices = (const int32_t *)call->inputs[1] + y_first; /* (h', w') */
  stored *d_x = (stored *)call->outputs[0] + x_first;                  /* (h, w) */
  row_zero(d_x, sizes->size[0] * sizes->size[1]);
  for (int64_t i = 0; i < sizes->out_size[0] * sizes->out_size[1]; i++)
    stored_add(&d_x[indices[i]], widened(d_y[i]));
}

static tdm_status prepare_gradient(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return pool_prepare(request, answer, &request->outputs[0], &request->inputs[0]);
}

static tdm_status max_pool_gradient_execute(const tdm_kernel_call *call) {
  return pool_run(call, max_plane);
}

static void average_plane(const tdm_kernel_call *call, int64_t x_first, int64_t y_first) {
  const pool_state *state = call->state;
  const stored *d_y = (const stored *)call->inputs[0] + y_first; /* (h', w') */
  stored *d_x = (stored *)call->outputs[0] + x_first;            /* (h, w) */
  row_zero(d_x, state->sizes.size[0] * state->sizes.size[1]);
  const int64_t width = state->sizes.size[1];
  for (int64_t i = 0; i < state->sizes.out_size[0]; i++) {
    const pool_window rows = pool_window_at(&state->sizes, 0, i);
    for (int64_t j = 0; j < state->sizes.out_size[1]; j++) {
      const pool_window columns = pool_window_at(&state->sizes, 1, j);
      const real share = widened(*d_y++) / (real)pool_divisor(&state->sizes, rows, columns);
      for (int64_t row = rows.begin; row < rows.end; row++)
        for (int64_t column = columns.begin; column < columns.end; column++)
          stored_add(&d_x[row * width + column], share);
    }
  }
}

static tdm_status average_pool_gradient_execute(const tdm_kernel_call *call) {
  return pool_run(call, average_plane);
}

KERNELS(pool_gradient,
        KERNEL(TDM_OP_MAX_POOL_GRADIENT, prepare_gradient, max_pool_gradient_execute),
        KERNEL(TDM_OP_AVERAGE_POOL_GRADIENT, prepare_gradient, average_pool_gradient_execute))
