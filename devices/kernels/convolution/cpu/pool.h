/* Windows of pooling along one axis. Invariant: a window lies inside x; adaptive ones share it out
 * as evenly as may be, from floor(i n / m) to ceil((i + 1) n / m). */
#ifndef TANDEM_DEVICES_KERNELS_CONVOLUTION_CPU_POOL_H
#define TANDEM_DEVICES_KERNELS_CONVOLUTION_CPU_POOL_H

#include "devices/kernels/convolution/pool_windows.h"
#include "devices/kernels/cpu/real.h"

typedef struct pool_state {
  pool_sizes sizes;
  bool splits;
} pool_state;

static inline tdm_status pool_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                      const tdm_spec *x, const tdm_spec *y) {
  pool_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  pool_sizes_read(&state->sizes, request, x, y);
  state->splits = answer->splits = tdm_cpu_splits(request, (double)count_of(x));
  return TDM_OK;
}

/* Processes one plane of x and one of y, which begin at these elements. */
typedef void (*pool_plane)(const tdm_kernel_call *call, int64_t x_first, int64_t y_first);

typedef struct pool_job {
  const tdm_kernel_call *call;
  pool_plane plane;
} pool_job;

static inline void pool_range(void *user, int64_t begin, int64_t end) {
  const pool_job *job = (const pool_job *)user;
  const pool_sizes *sizes = &((const pool_state *)job->call->state)->sizes;
  for (int64_t plane = begin; plane < end; plane++)
    job->plane(job->call, plane * sizes->size[0] * sizes->size[1],
               plane * sizes->out_size[0] * sizes->out_size[1]);
}

/* Runs `plane` on all planes, divided among the team. */
static inline tdm_status pool_run(const tdm_kernel_call *call, pool_plane plane) {
  const pool_state *state = call->state;
  const int64_t size = state->sizes.size[0] * state->sizes.size[1];
  const int64_t grain = size > 0 && size < 4096 ? 4096 / size : 1;
  pool_job job = {call, plane};
  tdm_team_run(state->splits ? call->team : NULL, state->sizes.planes, grain, pool_range, &job);
  return TDM_OK;
}

#endif
