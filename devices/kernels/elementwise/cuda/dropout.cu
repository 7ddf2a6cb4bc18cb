/* Dropout. Invariant: whether an element is dropped depends only on seed, step, stream and its
 * position in the whole value, and is computed with integers, as in the cpu's kernel. */
#include "devices/kernels/elementwise/cuda/elements.h"
#include "devices/kernels/elementwise/dropout.h"

struct dropout_state {
  int64_t count;
  dropout_pattern pattern;
  double scale;
};

static tdm_status dropout_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  dropout_state *state = state_create<dropout_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->count = count_of(&request->outputs[0]);
  state->pattern = pattern_of(attributes_of<tdm_dropout_attributes>(request), &request->outputs[0]);
  state->scale = dropout_settings(request->attributes).first;
  return TDM_OK;
}

/* Computes y (count) from x (count). */
template <class stored>
static __global__ void dropout(const stored *x, stored *y, dropout_pattern pattern, uint64_t seed,
                               uint32_t step, real_of<stored> scale, int64_t count) {
  EACH_ELEMENT(i, count) {
    y[i] = dropped_or_scaled((real_of<stored>)x[i], i, pattern, seed, step, scale);
  }
}

template <class stored> static tdm_status dropout_run(const tdm_kernel_call *call) {
  typedef real_of<stored> real;
  const dropout_state *state = state_of<dropout_state>(call);
  return kernel_launch(call, "dropout", dropout<stored>, blocks_for(state->count), BLOCK,
                       input_of<stored>(call, 0), output_of<stored>(call, 0), state->pattern,
                       call->scalars->seed, (uint32_t)call->scalars->step, (real)state->scale,
                       state->count);
}

KERNELS(dropout,
        ELEMENT_KERNEL(TDM_OP_DROPOUT, dropout_prepare, dropout_run<stored>, ELEMENT_DROPOUT))
