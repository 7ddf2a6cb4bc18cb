/* Code that the kernels of the optimizers share: an update of all elements, or of the rows that a
 * sparse gradient names. */
#ifndef TANDEM_DEVICES_KERNELS_UPDATES_CPU_UPDATE_H
#define TANDEM_DEVICES_KERNELS_UPDATES_CPU_UPDATE_H

#include "devices/kernels/cpu/vector.h"
#include "devices/kernels/updates/update_sizes.h"

typedef void (*update_range)(void *job, int64_t begin, int64_t end);

typedef struct update_state {
  update_sizes sizes;
  bool splits;
} update_state;

/* Prepares an update of all elements, at bytes_per_ns bytes of a parameter per nanosecond. */
static inline tdm_status update_prepare(const tdm_kernel_request *request,
                                        tdm_kernel_answer *answer, double bytes_per_ns) {
  update_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  update_sizes_read(&state->sizes, request);
  const double bytes = (double)state->sizes.count * sizeof(real);
  state->splits = answer->splits = tdm_cpu_splits(request, bytes / bytes_per_ns);
  return TDM_OK;
}

/* Prepares an update of rows. A row takes row_ns plus the time of its elements. */
static inline tdm_status update_rows_prepare(const tdm_kernel_request *request,
                                             tdm_kernel_answer *answer, double row_ns,
                                             double elements_per_ns) {
  update_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  update_rows_sizes_read(&state->sizes, request);
  const double each_ns = row_ns + (double)state->sizes.dim / elements_per_ns;
  state->splits = answer->splits = tdm_cpu_splits(request, (double)state->sizes.count * each_ns);
  return TDM_OK;
}

/* Returns the gradient plus decay times the parameter. Without decay nothing is added, even for an
 * infinite parameter. */
ALWAYS_INLINE vec with_decay(vec gradient, vec parameter, real decay) {
  return decay == 0 ? gradient : gradient + decay * parameter;
}

/* Ranges of elements, or of `count` rows, on the call's team. */
static inline tdm_status update_run(const tdm_kernel_call *call, update_range range, void *job) {
  const update_state *state = call->state;
  tdm_team_run(state->splits ? call->team : NULL, state->sizes.count, 4096, range, job);
  return TDM_OK;
}

static inline tdm_status update_rows_run(const tdm_kernel_call *call, int64_t count,
                                         update_range range, void *job) {
  const update_state *state = call->state;
  tdm_team_run(state->splits ? call->team : NULL, count, 256, range, job);
  return TDM_OK;
}

#endif
