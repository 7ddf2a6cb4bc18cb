/* Mean squared error of two tensors of one shape, and its gradient. */
#include "devices/cuda/kernels/family.h"
#include "devices/cuda/kernels/sums.h"

struct mse_state {
  int64_t count;
  int32_t reduction; /* tdm_reduction */
  bool wide;
};

static tdm_status prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                          const tdm_spec *a) {
  const tdm_loss_attributes *attributes =
      static_cast<const tdm_loss_attributes *>(request->attributes);
  mse_state *state = state_create<mse_state>(answer);
  if (state == NULL) return TDM_OUT_OF_MEMORY;
  state->count = count_of(a);
  state->reduction = attributes->reduction;
  state->wide = a->dtype == TDM_FLOAT64;
  return TDM_OK;
}

static const mse_state *state_of(const tdm_kernel_call *call) {
  return static_cast<const mse_state *>(call->state);
}

/* a, b, loss: (count). */
template <class real>
static __global__ void squares(const real *a, const real *b, real *loss, int64_t count) {
  EACH_ELEMENT(i, count) {
    const real d = a[i] - b[i];
    loss[i] = d * d;
  }
}

tdm_status tdm_cuda_mse_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  TDM_TRY(prepare(request, answer, &request->inputs[0]));
  const mse_state *state = static_cast<const mse_state *>(answer->state);
  if (state->reduction != TDM_REDUCTION_NONE) {
    answer->workspace_bytes = state->wide ? sum_workspace_bytes<double>(state->count)
                                          : sum_workspace_bytes<float>(state->count);
  }
  return TDM_OK;
}

template <class real> static tdm_status run(const tdm_kernel_call *call) {
  const mse_state *state = state_of(call);
  const real *a = input_of<real>(call, 0), *b = input_of<real>(call, 1);
  real *loss = output_of<real>(call, 0);
  if (state->reduction == TDM_REDUCTION_NONE) {
    return kernel_launch(call, "squares", squares<real>, blocks_for(state->count), BLOCK, a, b,
                         loss, state->count);
  }
  const double divisor = state->reduction == TDM_REDUCTION_MEAN ? (double)state->count : 1;
  return sum_of_squares(call, a, b, state->count, divisor, loss);
}

tdm_status tdm_cuda_mse_execute(const tdm_kernel_call *call) {
  return state_of(call)->wide ? run<double>(call) : run<float>(call);
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

tdm_status tdm_cuda_mse_gradient_prepare(const tdm_kernel_request *request,
                                         tdm_kernel_answer *answer) {
  return prepare(request, answer, &request->inputs[1]);
}

template <class real> static tdm_status run_gradient(const tdm_kernel_call *call) {
  const mse_state *state = state_of(call);
  const real scale =
      state->reduction == TDM_REDUCTION_MEAN ? (real)(2.0 / (double)state->count) : 2;
  return kernel_launch(call, "mse_gradient", gradient<real>, blocks_for(state->count), BLOCK,
                       input_of<real>(call, 0), state->reduction == TDM_REDUCTION_NONE,
                       input_of<real>(call, 1), input_of<real>(call, 2), scale,
                       output_of<real>(call, 0), state->count);
}

tdm_status tdm_cuda_mse_gradient_execute(const tdm_kernel_call *call) {
  return state_of(call)->wide ? run_gradient<double>(call) : run_gradient<float>(call);
}
