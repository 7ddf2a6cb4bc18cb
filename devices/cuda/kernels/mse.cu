/* Mean squared error of two tensors of one shape, and its gradient. */
#include "devices/cuda/kernels/sums.h"
#include "devices/operations/losses.h"

struct mse_state {
  int64_t count;
  int32_t reduction; /* tdm_reduction */
};

/* x: the operand of that number. */
template <size_t operand>
static tdm_status mse_prepare_state(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  const tdm_spec *a = &request->inputs[operand];
  const tdm_loss_attributes *attributes = attributes_of<tdm_loss_attributes>(request);
  mse_state *state = state_create<mse_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->count = count_of(a);
  state->reduction = attributes->reduction;
  return TDM_OK;
}

/* a, b, loss: (count). */
template <class stored>
static __global__ void squares(const stored *a, const stored *b, stored *loss, int64_t count) {
  typedef real_of<stored> real;
  EACH_ELEMENT(i, count) {
    const real d = a[i] - b[i];
    loss[i] = d * d;
  }
}

template <class stored>
static tdm_status mse_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  TDM_TRY(mse_prepare_state<0>(request, answer));
  const mse_state *state = static_cast<const mse_state *>(answer->state);
  if (state->reduction != TDM_REDUCTION_NONE) {
    answer->workspace_bytes = sum_workspace_bytes<stored>(state->count);
  }
  return TDM_OK;
}

template <class stored> static tdm_status mse_run(const tdm_kernel_call *call) {
  const mse_state *state = state_of<mse_state>(call);
  const stored *a = input_of<stored>(call, 0), *b = input_of<stored>(call, 1);
  stored *loss = output_of<stored>(call, 0);
  if (state->reduction == TDM_REDUCTION_NONE) {
    return kernel_launch(call, "squares", squares<stored>, blocks_for(state->count), BLOCK, a, b,
                         loss, state->count);
  }
  const double divisor = state->reduction == TDM_REDUCTION_MEAN ? (double)state->count : 1;
  return sum_of_squares(call, a, b, state->count, divisor, loss);
}

/* ---- Gradient -------------------------------------------------------------------------------- */

/* d_a = (a - b) scale d_loss; d_loss: () or, each, (count); the others (count). */
template <class stored>
static __global__ void gradient(const stored *d_loss, bool each, const stored *a, const stored *b,
                                real_of<stored> scale, stored *d_a, int64_t count) {
  EACH_ELEMENT(i, count) {
    d_a[i] = (a[i] - b[i]) * scale * d_loss[each ? i : 0];
  }
}

template <class stored> static tdm_status run_gradient(const tdm_kernel_call *call) {
  typedef real_of<stored> real;
  const mse_state *state = state_of<mse_state>(call);
  const real scale =
      state->reduction == TDM_REDUCTION_MEAN ? (real)(2.0 / (double)state->count) : 2;
  return kernel_launch(call, "mse_gradient", gradient<stored>, blocks_for(state->count), BLOCK,
                       input_of<stored>(call, 0), state->reduction == TDM_REDUCTION_NONE,
                       input_of<stored>(call, 1), input_of<stored>(call, 2), scale,
                       output_of<stored>(call, 0), state->count);
}

KERNELS(mse, KERNEL(TDM_OP_MSE, mse_prepare<stored>, mse_run<stored>),
        KERNEL(TDM_OP_MSE_GRADIENT, mse_prepare_state<1>, run_gradient<stored>))
