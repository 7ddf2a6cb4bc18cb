/* Fills and conversions between dtypes. Invariant: float to integer truncates and saturates, NaN
 * becomes 0, integers pass through int64. */
#include "devices/kernels/elementwise/cuda/convert.h"
#include "devices/kernels/elementwise/cuda/elements.h"
#include "devices/kernels/elementwise/pointwise.h"

struct cast_state {
  int64_t count;
  tdm_dtype from;
  tdm_dtype to;
  double value; /* the value that fill writes */
};

/* ---- cast ------------------------------------------------------------------------------------ */

/* Converts x (count) to out (count). */
static __global__ void cast(tdm_dtype from, const void *x, tdm_dtype to, void *out, int64_t count) {
  EACH_ELEMENT(i, count) {
    convert_element(from, x, to, out, i);
  }
}

static tdm_status cast_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  cast_state *state = state_create<cast_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->count = count_of(&request->outputs[0]);
  state->from = request->inputs[0].dtype;
  state->to = request->outputs[0].dtype;
  return TDM_OK;
}

static tdm_status cast_execute(const tdm_kernel_call *call) {
  const cast_state *state = state_of<cast_state>(call);
  return kernel_launch(call, "cast", cast, blocks_for(state->count), BLOCK, state->from,
                       call->inputs[0], state->to, call->outputs[0], state->count);
}

/* ---- fill ------------------------------------------------------------------------------------ */

/* Sets every element of out (count) to these bits. */
template <class word> static __global__ void fill(word *out, word bits, int64_t count) {
  EACH_ELEMENT(i, count) {
    out[i] = bits;
  }
}

static tdm_status fill_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  const tdm_fill_attributes *attributes = attributes_of<tdm_fill_attributes>(request);
  cast_state *state = state_create<cast_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->count = count_of(&request->outputs[0]);
  state->to = request->outputs[0].dtype;
  state->value = attributes->value;
  return TDM_OK;
}

template <class word> static tdm_status run_fill(const tdm_kernel_call *call) {
  const cast_state *state = state_of<cast_state>(call);
  return kernel_launch(call, "fill", fill<word>, blocks_for(state->count), BLOCK,
                       output_of<word>(call, 0), word_of<word>(state->to, state->value),
                       state->count);
}

#define CAST(dtype) KERNEL_OF(dtype, TDM_OP_CAST, cast_prepare, cast_execute, ELEMENT_CAST)

TYPED_KERNELS(cast, CAST(TDM_FLOAT32), CAST(TDM_FLOAT64), CAST(TDM_INT32), CAST(TDM_INT64),
              CAST(TDM_UINT8), CAST(TDM_BOOL), KERNEL_OF_EVERY(TDM_OP_FILL, fill_prepare, run_fill))
