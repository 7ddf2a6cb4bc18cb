/* Mean squared error of two tensors of one shape, and its gradient. */
#include "core/status.h"
#include "devices/cpu/kernels/sums.h"
#include "devices/operations/losses.h"

typedef struct mse_state {
  int64_t count;
  int32_t reduction; /* tdm_reduction */
  bool splits;
} mse_state;

static tdm_status mse_prepare_state(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                    const tdm_spec *a) {
  const tdm_loss_attributes *attributes = request->attributes;
  mse_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->count = count_of(a);
  state->reduction = attributes->reduction;
  state->splits = answer->splits =
      tdm_cpu_splits(request, (double)state->count * sizeof(stored) / 8.0);
  return TDM_OK;
}

static void squares_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const stored *a = call->inputs[0], *b = call->inputs[1]; /* (count) */
  stored *loss = call->outputs[0];                         /* (count) */
  for (int64_t i = begin; i < end; i += LANES) {
    const vec d = element_load(a + i, end - i) - element_load(b + i, end - i);
    element_store(loss + i, d * d, end - i);
  }
}

static tdm_status mse_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  TDM_TRY(mse_prepare_state(request, answer, &request->inputs[0]));
  const mse_state *state = answer->state;
  if (state->reduction != TDM_REDUCTION_NONE) {
    answer->workspace_bytes = sum_workspace_bytes(state->count);
  }
  return TDM_OK;
}

static tdm_status mse_execute(const tdm_kernel_call *call) {
  const mse_state *state = call->state;
  tdm_team *team = state->splits ? call->team : NULL;
  if (state->reduction == TDM_REDUCTION_NONE) {
    tdm_team_run(team, state->count, 4096, squares_range, (void *)call);
    return TDM_OK;
  }
  const double sum =
      sum_of_squares(call->inputs[0], call->inputs[1], state->count, call->workspace, team);
  const double divisor = state->reduction == TDM_REDUCTION_MEAN ? (double)state->count : 1.0;
  *(stored *)call->outputs[0] = narrowed((real)(sum / divisor));
  return TDM_OK;
}

/* d_a = 2 (a - b) d_loss, divided by the count for the mean. */
static void gradient_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const mse_state *state = call->state;
  const stored *d_loss = call->inputs[0];                  /* () or (count) */
  const stored *a = call->inputs[1], *b = call->inputs[2]; /* (count) */
  stored *d_a = call->outputs[0];                          /* (count) */
  const bool each = state->reduction == TDM_REDUCTION_NONE;
  const real scale =
      state->reduction == TDM_REDUCTION_MEAN ? (real)(2.0 / (double)state->count) : 2;
  for (int64_t i = begin; i < end; i += LANES) {
    const vec d = element_load(a + i, end - i) - element_load(b + i, end - i);
    const vec from = each ? element_load(d_loss + i, end - i) : element_all(d_loss[0]);
    element_store(d_a + i, d * scale * from, end - i);
  }
}

static tdm_status mse_gradient_prepare(const tdm_kernel_request *request,
                                       tdm_kernel_answer *answer) {
  return mse_prepare_state(request, answer, &request->inputs[1]);
}

static tdm_status mse_gradient_execute(const tdm_kernel_call *call) {
  const mse_state *state = call->state;
  tdm_team_run(state->splits ? call->team : NULL, state->count, 4096, gradient_range, (void *)call);
  return TDM_OK;
}

KERNELS(mse, KERNEL(TDM_OP_MSE, mse_prepare, mse_execute),
        KERNEL(TDM_OP_MSE_GRADIENT, mse_gradient_prepare, mse_gradient_execute))
