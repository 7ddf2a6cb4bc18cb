/* Reductions over whole tensors for gradient clipping and the check for NaN. */
#include <inttypes.h>
#include <math.h>

#include "core/status.h"
#include "devices/kernels/cpu/sums.h"
#include "devices/kernels/updates/optimizers.h"

typedef struct norm_state {
  int64_t count;
  double max_norm;
  bool splits;
} norm_state;

static norm_state *state_create(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  norm_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return NULL;
  state->count = count_of(&request->inputs[0]);
  state->splits = answer->splits =
      tdm_cpu_splits(request, (double)state->count * sizeof(stored) / 20.0);
  return state;
}

static tdm_status sum_of_squares_prepare(const tdm_kernel_request *request,
                                         tdm_kernel_answer *answer) {
  const norm_state *state = state_create(request, answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  answer->workspace_bytes = sum_workspace_bytes(state->count);
  return TDM_OK;
}

static tdm_status sum_of_squares_execute(const tdm_kernel_call *call) {
  const norm_state *state = call->state;
  const double sum = sum_of_squares(call->inputs[0], NULL, state->count, call->workspace,
                                    state->splits ? call->team : NULL);
  *(stored *)call->outputs[0] = narrowed((real)sum);
  *(double *)call->outputs[1] = sum;
  return TDM_OK;
}

static tdm_status clip_factor_prepare(const tdm_kernel_request *request,
                                      tdm_kernel_answer *answer) {
  const tdm_clip_attributes *attributes = request->attributes;
  norm_state *state = state_create(request, answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->max_norm = attributes->max_norm;
  return TDM_OK;
}

static tdm_status clip_factor_execute(const tdm_kernel_call *call) {
  const norm_state *state = call->state;
  const double norm = sqrt(*(const double *)call->inputs[0]);
  const double factor = state->max_norm / (norm + 1e-6);
  const double least = factor > 1.0 ? 1.0 : factor; /* NaN stays NaN */
  *(stored *)call->outputs[0] = narrowed((real)least);
  *(double *)call->outputs[1] = least;
  return TDM_OK;
}

static tdm_status check_finite_prepare(const tdm_kernel_request *request,
                                       tdm_kernel_answer *answer) {
  norm_state *state = state_create(request, answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->splits = answer->splits = false;
  return TDM_OK;
}

/* Only reads: the output is not written. */
static tdm_status check_finite_execute(const tdm_kernel_call *call) {
  const norm_state *state = call->state;
  const stored *x = call->inputs[0]; /* (count) */
  vec spoiled = {0};                 /* x - x is 0, or NaN where x is not finite */
  for (int64_t i = 0; i < state->count; i += LANES) {
    const vec value = element_load(x + i, state->count - i);
    spoiled += value - value;
  }
  if (vec_sum(spoiled) == 0) return TDM_OK;
  int64_t position = 0;
  while (isfinite(widened(x[position])))
    position++;
  return tdm_fail(TDM_NOT_FINITE, "element %" PRId64 " of %" PRId64 " is %g: not finite", position,
                  state->count, (double)widened(x[position]));
}

KERNELS(norms, KERNEL(TDM_OP_SUM_OF_SQUARES, sum_of_squares_prepare, sum_of_squares_execute),
        KERNEL(TDM_OP_CLIP_FACTOR, clip_factor_prepare, clip_factor_execute),
        KERNEL(TDM_OP_CHECK_FINITE, check_finite_prepare, check_finite_execute))
