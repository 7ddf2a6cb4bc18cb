/* Sums and scaling of whole tensors. Invariant: an element of the result depends on the same
 * element of the operands alone; sums are taken in operand order. */
#include "devices/cuda/kernels/family.h"
#include "devices/cuda/kernels/kernel.h"

struct elementwise_state {
  int64_t count;
  size_t inputs;
  bool wide; /* elements of 8 bytes */
};

static tdm_status prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  elementwise_state *state = state_create<elementwise_state>(answer);
  if (state == NULL) return TDM_OUT_OF_MEMORY;
  state->count = count_of(&request->outputs[0]);
  state->inputs = request->input_count;
  state->wide = tdm_dtype_bytes(request->outputs[0].dtype) == 8;
  return TDM_OK;
}

static const elementwise_state *state_of(const tdm_kernel_call *call) {
  return static_cast<const elementwise_state *>(call->state);
}

/* ---- accumulate ------------------------------------------------------------------------------ */

/* out = a + b + c + d, from left to right, as far as they are there; all (count). a may be out. */
template <class real>
static __global__ void accumulate(const real *a, const real *b, const real *c, const real *d,
                                  real *out, int64_t count) {
  EACH_ELEMENT(i, count) {
    real sum = a[i];
    if (b != NULL) sum += b[i];
    if (c != NULL) sum += c[i];
    if (d != NULL) sum += d[i];
    out[i] = sum;
  }
}

/* Four operands a launch; the sum so far is the first of the next. */
template <class real> static tdm_status run_accumulate(const tdm_kernel_call *call) {
  const elementwise_state *state = state_of(call);
  real *out = output_of<real>(call, 0);
  const real *sum = input_of<real>(call, 0);
  size_t next = 1;
  do {
    const real *more[3] = {NULL, NULL, NULL};
    for (size_t i = 0; i < 3 && next < state->inputs; i++)
      more[i] = input_of<real>(call, next++);
    TDM_TRY(kernel_launch(call, "accumulate", accumulate<real>, blocks_for(state->count), BLOCK,
                          sum, more[0], more[1], more[2], out, state->count));
    sum = out;
  } while (next < state->inputs);
  return TDM_OK;
}

tdm_status tdm_cuda_accumulate_prepare(const tdm_kernel_request *request,
                                       tdm_kernel_answer *answer) {
  return prepare(request, answer);
}

tdm_status tdm_cuda_accumulate_execute(const tdm_kernel_call *call) {
  return state_of(call)->wide ? run_accumulate<double>(call) : run_accumulate<float>(call);
}

/* ---- scale, divide --------------------------------------------------------------------------- */

/* x, out: (count); s: (). */
template <class real, bool divides>
static __global__ void scale(const real *x, const real *s, real *out, int64_t count) {
  const real factor = *s;
  EACH_ELEMENT(i, count) {
    out[i] = divides ? x[i] / factor : x[i] * factor;
  }
}

template <class real, bool divides> static tdm_status run_scale(const tdm_kernel_call *call) {
  const int64_t count = state_of(call)->count;
  return kernel_launch(call, divides ? "divide" : "scale", scale<real, divides>, blocks_for(count),
                       BLOCK, input_of<real>(call, 0), input_of<real>(call, 1),
                       output_of<real>(call, 0), count);
}

tdm_status tdm_cuda_scale_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return prepare(request, answer);
}

tdm_status tdm_cuda_scale_execute(const tdm_kernel_call *call) {
  return state_of(call)->wide ? run_scale<double, false>(call) : run_scale<float, false>(call);
}

tdm_status tdm_cuda_divide_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return prepare(request, answer);
}

tdm_status tdm_cuda_divide_execute(const tdm_kernel_call *call) {
  return state_of(call)->wide ? run_scale<double, true>(call) : run_scale<float, true>(call);
}
