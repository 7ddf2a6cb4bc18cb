/* Mean squared error of two tensors of one shape, and its gradient. */
#include "devices/cuda/kernels/sums.h"

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
template <class real>
static __global__ void squares(const real *a, const real *b, real *loss, int64_t count) {
  EACH_ELEMENT(i, count) {
    const real d = a[i] - b[i];
    loss[i] = d * d;
  }
}

template <class real>
static tdm_status mse_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  TDM_TRY(mse_prepare_state<0>(request, answer));
  const mse_state *state = static_cast<const mse_state *>(answer->state);
  if (state->reduction != TDM_REDUCTION_NONE) {
    answer->workspace_bytes = sum_workspace_bytes<real>(state->count);
  }
  return TDM_OK;
}

template <class real> static tdm_status mse_run(const tdm_kernel_call *call) {
  const mse_state *state = state_of<mse_state>(call);
  const real *a = input_of<real>(call, 0), *b = input_of<real>(call, 1);
  real *loss = output_of<real>(call, 0);
  if (state->reduction == TDM_REDUCTION_NONE) {
    return kernel_launch(call, "squares", squares<real>, blocks_for(state->count), BLOCK, a, b,
                         loss, state->count);
  }
  const double divisor = state->reduction == TDM_REDUCTION_MEAN ? (double)state->count : 1;
  return sum_of_squares(call, a, b, state->count, divisor, loss);
}

/* ---- Gradient -------------------------------------------------------------------------------- */

/* d_a = (a - b) scale d_loss; d_loss: () or, each, (count); the others (count). */
template <class real>
static __global__ void gradient(const real *d_loss, bool each, const real *a, const real *b,
                                real scale, real *d_a, int64_t count) {
  EACH_ELEMENT(i, count) {
    d_a[i] = (a[i] - b[i]) * scale * d_loss[each ? i : 0];
  }
}

template <class real> static tdm_status run_gradient(const tdm_kernel_call *call) {
  const mse_state *state = state_of<mse_state>(call);
  const real scale =
      state->reduction == TDM_REDUCTION_MEAN ? (real)(2.0 / (double)state->count) : 2;
  return kernel_launch(call, "mse_gradient", gradient<real>, blocks_for(state->count), BLOCK,
                       input_of<real>(call, 0), state->reduction == TDM_REDUCTION_NONE,
                       input_of<real>(call, 1), input_of<real>(call, 2), scale,
                       output_of<real>(call, 0), state->count);
}

KERNELS(mse, KERNEL(TDM_OP_MSE, mse_prepare<real>, mse_run<real>),
        KERNEL(TDM_OP_MSE_GRADIENT, mse_prepare_state<1>, run_gradient<real>))
