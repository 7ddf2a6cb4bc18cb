/* The linear layer and its gradients. Invariant: with `deterministic` a row of the output depends
 * on its own row alone. */
#include "devices/cuda/kernels/family.h"
#include "devices/cuda/kernels/products.h"

struct linear_state {
  int64_t rows; /* the batch, all leading dimensions */
  int64_t in;
  int64_t out;
  bool wide;
  bool alone; /* rows do not depend on each other */
};

static tdm_status prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                          const tdm_spec *x, const tdm_spec *y) {
  linear_state *state = state_create<linear_state>(answer);
  if (state == NULL) return TDM_OUT_OF_MEMORY;
  state->rows = rows_of(x);
  state->in = last_dim_of(x);
  state->out = last_dim_of(y);
  state->wide = x->dtype == TDM_FLOAT64;
  state->alone = request->deterministic;
  return TDM_OK;
}

static const linear_state *state_of(const tdm_kernel_call *call) {
  return static_cast<const linear_state *>(call->state);
}

tdm_status tdm_cuda_linear_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return prepare(request, answer, &request->inputs[0], &request->outputs[0]);
}

/* x (rows, in), weight (out, in), [bias (out)] -> y (rows, out). */
tdm_status tdm_cuda_linear_execute(const tdm_kernel_call *call) {
  const linear_state *state = state_of(call);
  const void *bias = call->inputs[2];
  void *y = call->outputs[0];
  if (bias != NULL) {
    TDM_TRY(tdm_cuda_rows_fill(call, state->wide, bias, NULL, y, state->rows, state->out));
  }
  const tdm_cuda_product product =
      product_with_transposed(state->wide, call->inputs[0], call->inputs[1], y, state->rows,
                              state->out, state->in, bias != NULL ? 1 : 0);
  return tdm_cuda_product_run(call, &product, state->alone);
}

tdm_status tdm_cuda_linear_input_gradient_prepare(const tdm_kernel_request *request,
                                                  tdm_kernel_answer *answer) {
  return prepare(request, answer, &request->outputs[0], &request->inputs[0]);
}

/* d_out (rows, out), weight (out, in) -> d_x (rows, in). */
tdm_status tdm_cuda_linear_input_gradient_execute(const tdm_kernel_call *call) {
  const linear_state *state = state_of(call);
  const tdm_cuda_product product =
      product_with(state->wide, call->inputs[0], call->inputs[1], call->outputs[0], state->rows,
                   state->in, state->out, 0);
  return tdm_cuda_product_run(call, &product, state->alone);
}

tdm_status tdm_cuda_linear_parameter_gradient_prepare(const tdm_kernel_request *request,
                                                      tdm_kernel_answer *answer) {
  return prepare(request, answer, &request->inputs[1], &request->inputs[0]);
}

/* d_out (rows, out), x (rows, in) -> d_weight (out, in), d_bias (out). */
tdm_status tdm_cuda_linear_parameter_gradient_execute(const tdm_kernel_call *call) {
  const linear_state *state = state_of(call);
  const void *d_out = call->inputs[0];
  const tdm_cuda_product product = product_of_transposed(
      state->wide, d_out, call->inputs[1], call->outputs[0], state->out, state->in, state->rows, 0);
  TDM_TRY(tdm_cuda_product_run(call, &product, false));
  return tdm_cuda_column_sums(call, state->wide, d_out, call->outputs[1], state->rows, state->out);
}
