/* The linear layer and its gradients. Invariant: with `deterministic` a row of the output depends
 * only on its own row. */
#include "devices/kernels/cuda/column_sums.h"
#include "devices/kernels/products/cuda/products.h"
#include "devices/kernels/products/products.h"

struct linear_state {
  int64_t rows; /* the batch, all leading dimensions */
  int64_t in;
  int64_t out;
  bool alone; /* rows do not depend on each other */
};

static tdm_status linear_prepare_state(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                       const tdm_spec *x, const tdm_spec *y) {
  linear_state *state = state_create<linear_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->rows = rows_of(x);
  state->in = last_dim_of(x);
  state->out = last_dim_of(y);
  state->alone = request->deterministic;
  return TDM_OK;
}

static tdm_status linear_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return linear_prepare_state(request, answer, &request->inputs[0], &request->outputs[0]);
}

/* Computes y (rows, out) from x (rows, in), weight (out, in), [bias (out)]. */
template <class stored> static tdm_status linear_execute(const tdm_kernel_call *call) {
  const linear_state *state = state_of<linear_state>(call);
  const void *bias = call->inputs[2];
  void *y = call->outputs[0];
  if (bias) TDM_TRY(rows_fill<stored>(call, bias, NULL, y, state->rows, state->out));
  const tdm_cuda_product product = product_with_transposed<stored>(
      call->inputs[0], call->inputs[1], y, state->rows, state->out, state->in, bias ? 1 : 0);
  return product_run<stored>(call, &product, state->alone);
}

static tdm_status linear_input_gradient_prepare(const tdm_kernel_request *request,
                                                tdm_kernel_answer *answer) {
  return linear_prepare_state(request, answer, &request->outputs[0], &request->inputs[0]);
}

/* Computes d_x (rows, in) from d_out (rows, out) and weight (out, in). */
template <class stored>
static tdm_status linear_input_gradient_execute(const tdm_kernel_call *call) {
  const linear_state *state = state_of<linear_state>(call);
  const tdm_cuda_product product = product_with<stored>(
      call->inputs[0], call->inputs[1], call->outputs[0], state->rows, state->in, state->out, 0);
  return product_run<stored>(call, &product, state->alone);
}

static tdm_status linear_parameter_gradient_prepare(const tdm_kernel_request *request,
                                                    tdm_kernel_answer *answer) {
  const tdm_spec *d_out = &request->inputs[0];
  TDM_TRY(linear_prepare_state(request, answer, &request->inputs[1], d_out));
  answer->workspace_bytes =
      column_sums_bytes(rows_of(d_out), last_dim_of(d_out), tdm_dtype_bytes(d_out->dtype));
  return TDM_OK;
}

/* Computes d_weight (out, in) and d_bias (out) from d_out (rows, out) and x (rows, in). */
template <class stored>
static tdm_status linear_parameter_gradient_execute(const tdm_kernel_call *call) {
  const linear_state *state = state_of<linear_state>(call);
  const stored *d_out = input_of<stored>(call, 0);
  const tdm_cuda_product product = product_of_transposed<stored>(
      d_out, call->inputs[1], call->outputs[0], state->out, state->in, state->rows, 0);
  TDM_TRY(product_run<stored>(call, &product, false));
  return column_sums<stored>(call, d_out, output_of<stored>(call, 1), state->rows, state->out,
                             call->workspace);
}

KERNELS(linear, KERNEL(TDM_OP_LINEAR, linear_prepare, linear_execute<stored>),
        KERNEL(TDM_OP_LINEAR_INPUT_GRADIENT, linear_input_gradient_prepare,
               linear_input_gradient_execute<stored>),
        KERNEL(TDM_OP_LINEAR_PARAMETER_GRADIENT, linear_parameter_gradient_prepare,
               linear_parameter_gradient_execute<stored>))
