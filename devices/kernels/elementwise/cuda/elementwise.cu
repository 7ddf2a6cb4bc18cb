/* Operations that compute element by element, of operands that are broadcast to one shape; their
 * formulas are in elements.h. Invariant: an element of the result depends only on one element of
 * each operand. Operands of one shape are indexed without a search for their elements. */
#include "devices/kernels/elementwise/cuda/broadcast.h"
#include "devices/kernels/elementwise/cuda/elements.h"
#include "devices/kernels/elementwise/pointwise.h"

struct element_state {
  broadcast_state shape;
  size_t operands;
  tdm_element_settings settings;
};

static tdm_status prepare_with(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                               tdm_element_settings settings) {
  element_state *state = state_create<element_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->operands = request->input_count;
  state->settings = settings;
  if (state->operands <= TDM_BROADCAST_OPERANDS)
    broadcast_prepare(request, state->operands, &state->shape);
  state->shape.count = count_of(&request->outputs[0]);
  return TDM_OK;
}

static const element_state *state_of(const tdm_kernel_call *call) {
  return static_cast<const element_state *>(call->state);
}

/* ---- Formulas of one operand, or of two ------------------------------------------------------ */

/* Computes out (count) from a and b (count); b is NULL for operations with one operand. */
template <class stored, class formula>
static __global__ void of_one_shape(const stored *a, const stored *b, stored *out,
                                    formula_settings<real_of<stored>> settings, int64_t count) {
  EACH_ELEMENT(i, count) {
    const real_of<stored> x = a[i], y = formula::operands > 1 ? b[i] : a[i];
    out[i] = formula::of(x, y, settings);
  }
}

/* out: (sizes), count in all; a and b lack the dimensions that they repeat. */
template <class stored, class formula>
static __global__ void broadcast(const stored *a, const stored *b, stored *out,
                                 formula_settings<real_of<stored>> settings, broadcast_sizes sizes,
                                 int64_t count) {
  EACH_ELEMENT(i, count) {
    int64_t at[2];
    find_places<2>(i, sizes, at);
    const real_of<stored> x = a[at[0]], y = b[at[1]];
    out[i] = formula::of(x, y, settings);
  }
}

template <class formula>
static tdm_status elementwise_prepare(const tdm_kernel_request *request,
                                      tdm_kernel_answer *answer) {
  return prepare_with(request, answer, formula::settings_of(request->attributes));
}

template <class stored, class formula>
static tdm_status elementwise_run(const tdm_kernel_call *call) {
  typedef real_of<stored> real;
  const element_state *state = state_of(call);
  const formula_settings<real> settings = settings_in<real>(state->settings);
  const int64_t count = state->shape.count, blocks = blocks_for(count);
  const stored *a = input_of<stored>(call, 0);
  const stored *b = formula::operands > 1 ? input_of<stored>(call, 1) : NULL;
  stored *out = output_of<stored>(call, 0);
  if constexpr (formula::broadcasts) {
    if (!state->shape.plain)
      return kernel_launch(call, formula::name(), broadcast<stored, formula>, blocks, BLOCK, a, b,
                           out, settings, state->shape.sizes, count);
  }
  return kernel_launch(call, formula::name(), of_one_shape<stored, formula>, blocks, BLOCK, a, b,
                       out, settings, count);
}

/* ---- accumulate ------------------------------------------------------------------------------ */

/* Computes out = a + b + c + d, all (count); b, c and d may be NULL. */
template <class stored>
static __global__ void accumulate(const stored *a, const stored *b, const stored *c,
                                  const stored *d, stored *out, int64_t count) {
  typedef real_of<stored> real;
  EACH_ELEMENT(i, count) {
    real sum = a[i];
    if (b) sum += b[i];
    if (c) sum += c[i];
    if (d) sum += d[i];
    out[i] = sum;
  }
}

static tdm_status accumulate_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return prepare_with(request, answer, tdm_no_settings(NULL));
}

/* Adds four operands per launch; the partial sum is the first operand of the next launch. */
template <class stored> static tdm_status run_accumulate(const tdm_kernel_call *call) {
  const element_state *state = state_of(call);
  const int64_t count = state->shape.count;
  stored *out = output_of<stored>(call, 0);
  const stored *sum = input_of<stored>(call, 0);
  size_t next = 1;
  do {
    const stored *more[3] = {NULL, NULL, NULL};
    for (size_t i = 0; i < 3 && next < state->operands; i++)
      more[i] = input_of<stored>(call, next++);
    TDM_TRY(kernel_launch(call, "accumulate", accumulate<stored>, blocks_for(count), BLOCK, sum,
                          more[0], more[1], more[2], out, count));
    sum = out;
  } while (next < state->operands);
  return TDM_OK;
}

/* ---- The list -------------------------------------------------------------------------------- */

#define LISTED(operation, name)                                                                    \
  ELEMENT_KERNEL(operation, elementwise_prepare<element<ELEMENT_##name>>,                          \
                 (elementwise_run<stored, element<ELEMENT_##name>>), ELEMENT_##name),
#define UNARY(name, ...) LISTED(#name, name)
#define GRADIENT(name, ...) LISTED(#name, name)
#define BINARY(name, ...) LISTED(#name, name)

KERNELS(elementwise,
        TDM_CUDA_ELEMENTS(UNARY, GRADIENT, BINARY) LISTED(TDM_OP_SCALE, mul)
            LISTED(TDM_OP_DIVIDE, div) ELEMENT_KERNEL(TDM_OP_ACCUMULATE, accumulate_prepare,
                                                      run_accumulate<stored>, ELEMENT_ACCUMULATE))
