/* One layer of an Elman RNN over a sequence, and its gradient: products over all steps at once
 * where steps do not depend on each other, else a product and a pointwise kernel a step.
 * Invariant: with `deterministic` a row of y and d_x depends on its own row of the batch alone. */
#include "devices/cuda/kernels/family.h"
#include "devices/cuda/kernels/products.h"

struct rnn_state {
  int64_t length;
  int64_t batch;
  int64_t in;
  int64_t hidden;
  size_t step_bytes; /* of (batch, hidden) */
  int32_t nonlinearity;
  bool wide;
  bool alone;
};

static tdm_status prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                          const tdm_spec *x, const tdm_spec *y) {
  rnn_state *state = state_create<rnn_state>(answer);
  if (state == NULL) return TDM_OUT_OF_MEMORY;
  state->length = x->shape.dims[0];
  state->batch = x->shape.dims[1];
  state->in = x->shape.dims[2];
  state->hidden = y->shape.dims[2];
  state->nonlinearity = static_cast<const tdm_rnn_attributes *>(request->attributes)->nonlinearity;
  state->wide = x->dtype == TDM_FLOAT64;
  state->step_bytes = (size_t)(state->batch * state->hidden) * (state->wide ? 8 : 4);
  state->alone = request->deterministic;
  return TDM_OK;
}

static const rnn_state *state_of(const tdm_kernel_call *call) {
  return static_cast<const rnn_state *>(call->state);
}

/* ---- Pointwise ------------------------------------------------------------------------------- */

/* values (count) = act(values); NaN stays NaN. */
template <class real> static __global__ void activate(real *values, bool relu, int64_t count) {
  EACH_ELEMENT(i, count) {
    const real x = values[i];
    values[i] = relu ? (x < 0 ? 0 : x) : (real)tanh(x);
  }
}

/* values (count) *= act'(x), which both give in terms of y = act(x). */
template <class real>
static __global__ void differentiate(const real *y, real *values, bool relu, int64_t count) {
  EACH_ELEMENT(i, count) {
    const real slope = relu ? (y[i] > 0 ? 1 : 0) : 1 - y[i] * y[i];
    values[i] = relu && slope == 0 ? 0 : values[i] * slope;
  }
}

template <class real>
static tdm_status run_activate(const tdm_kernel_call *call, void *values, int64_t count) {
  const bool relu = state_of(call)->nonlinearity == TDM_RNN_RELU;
  return kernel_launch(call, "rnn_activate", activate<real>, blocks_for(count), BLOCK,
                       static_cast<real *>(values), relu, count);
}

template <class real>
static tdm_status run_differentiate(const tdm_kernel_call *call, const void *y, void *values,
                                    int64_t count) {
  const bool relu = state_of(call)->nonlinearity == TDM_RNN_RELU;
  return kernel_launch(call, "rnn_differentiate", differentiate<real>, blocks_for(count), BLOCK,
                       static_cast<const real *>(y), static_cast<real *>(values), relu, count);
}

/* ---- Forward --------------------------------------------------------------------------------- */

tdm_status tdm_cuda_rnn_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return prepare(request, answer, &request->inputs[0], &request->outputs[0]);
}

/* y_t = act(what stands there + before weight_hh^T); y_t, before: (batch, hidden), before may be
 * NULL. */
static tdm_status step(const tdm_kernel_call *call, const void *before, void *y_t) {
  const rnn_state *state = state_of(call);
  const int64_t hidden = state->hidden, count = state->batch * hidden;
  if (before != NULL) {
    const tdm_cuda_product product = product_with_transposed(state->wide, before, call->inputs[3],
                                                             y_t, state->batch, hidden, hidden, 1);
    TDM_TRY(tdm_cuda_product_run(call, &product, state->alone));
  }
  return state->wide ? run_activate<double>(call, y_t, count)
                     : run_activate<float>(call, y_t, count);
}

tdm_status tdm_cuda_rnn_execute(const tdm_kernel_call *call) {
  const rnn_state *state = state_of(call);
  const int64_t rows = state->length * state->batch;
  char *y = static_cast<char *>(call->outputs[0]); /* (length, batch, hidden) */
  TDM_TRY(tdm_cuda_rows_fill(call, state->wide, call->inputs[4], call->inputs[5], y, rows,
                             state->hidden));
  const tdm_cuda_product product = product_with_transposed(
      state->wide, call->inputs[0], call->inputs[2], y, rows, state->hidden, state->in, 1);
  TDM_TRY(tdm_cuda_product_run(call, &product, state->alone));
  const void *before = call->inputs[1]; /* h0 or NULL */
  for (int64_t t = 0; t < state->length; t++) {
    TDM_TRY(step(call, before, y));
    before = y;
    y += state->step_bytes;
  }
  return TDM_OK;
}

/* ---- Gradient -------------------------------------------------------------------------------- */

tdm_status tdm_cuda_rnn_gradient_prepare(const tdm_kernel_request *request,
                                         tdm_kernel_answer *answer) {
  TDM_TRY(prepare(request, answer, &request->inputs[1], &request->inputs[2]));
  const rnn_state *state = static_cast<const rnn_state *>(answer->state);
  answer->workspace_bytes = (size_t)state->length * state->step_bytes;
  return TDM_OK;
}

/* d_before (batch, hidden) = d_a weight_hh + beta d_before. */
static tdm_status step_back(const tdm_kernel_call *call, const void *d_a, void *d_before,
                            double beta) {
  const rnn_state *state = state_of(call);
  const int64_t hidden = state->hidden;
  const tdm_cuda_product product =
      product_with(state->wide, d_a, call->inputs[5], d_before, state->batch, hidden, hidden, beta);
  return tdm_cuda_product_run(call, &product, state->alone);
}

/* d_a (length, batch, hidden), the gradients before the activation, from the last step back. */
static tdm_status run_back(const tdm_kernel_call *call, char *d_a) {
  const rnn_state *state = state_of(call);
  const int64_t count = state->batch * state->hidden;
  const char *y = static_cast<const char *>(call->inputs[2]);
  TDM_TRY(tdm_cuda_lane_copy(lane_of(call), d_a, call->inputs[0],
                             (size_t)state->length * state->step_bytes));
  for (int64_t t = state->length - 1; t >= 0; t--) {
    const size_t place = (size_t)t * state->step_bytes;
    char *d_a_t = d_a + place;
    if (t + 1 < state->length) TDM_TRY(step_back(call, d_a_t + state->step_bytes, d_a_t, 1));
    TDM_TRY(state->wide ? run_differentiate<double>(call, y + place, d_a_t, count)
                        : run_differentiate<float>(call, y + place, d_a_t, count));
  }
  if (state->length > 0) return step_back(call, d_a, call->outputs[1], 0);
  return tdm_cuda_lane_fill(lane_of(call), call->outputs[1], 0, state->step_bytes);
}

/* d_weight_hh = d_a^T of the states that went in: h0, then y but for its last step. */
static tdm_status run_recurrent_weight(const tdm_kernel_call *call, const char *d_a) {
  const rnn_state *state = state_of(call);
  const int64_t hidden = state->hidden, steps = state->length > 0 ? state->length - 1 : 0;
  const bool initial = call->inputs[3] != NULL && state->length > 0;
  const tdm_cuda_product first =
      product_of_transposed(state->wide, d_a, call->inputs[3], call->outputs[3], hidden, hidden,
                            initial ? state->batch : 0, 0);
  TDM_TRY(tdm_cuda_product_run(call, &first, false));
  const tdm_cuda_product rest =
      product_of_transposed(state->wide, d_a + state->step_bytes, call->inputs[2], call->outputs[3],
                            hidden, hidden, steps * state->batch, 1);
  return tdm_cuda_product_run(call, &rest, false);
}

/* d_y, x, y, [h0], weight_ih, weight_hh -> d_x, d_h0, d_weight_ih, d_weight_hh, d_bias. */
tdm_status tdm_cuda_rnn_gradient_execute(const tdm_kernel_call *call) {
  const rnn_state *state = state_of(call);
  const int64_t rows = state->length * state->batch, in = state->in, hidden = state->hidden;
  char *d_a = static_cast<char *>(call->workspace);
  TDM_TRY(run_back(call, d_a));
  const tdm_cuda_product d_x =
      product_with(state->wide, d_a, call->inputs[4], call->outputs[0], rows, in, hidden, 0);
  TDM_TRY(tdm_cuda_product_run(call, &d_x, state->alone));
  const tdm_cuda_product d_weight_ih = product_of_transposed(state->wide, d_a, call->inputs[1],
                                                             call->outputs[2], hidden, in, rows, 0);
  TDM_TRY(tdm_cuda_product_run(call, &d_weight_ih, false));
  TDM_TRY(run_recurrent_weight(call, d_a));
  return tdm_cuda_column_sums(call, state->wide, d_a, call->outputs[4], rows, hidden);
}
