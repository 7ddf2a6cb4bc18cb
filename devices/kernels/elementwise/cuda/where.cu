/* The choice between two numbers by a condition, of operands that are broadcast to one shape; words
 * of the numbers' size are moved. Invariant: an element of the result is one of an operand's, or
 * the value that replaces an absent operand. */
#include "devices/kernels/elementwise/cuda/broadcast.h"
#include "devices/kernels/elementwise/cuda/convert.h"
#include "devices/kernels/elementwise/cuda/elements.h"
#include "devices/kernels/elementwise/pointwise.h"

struct where_state {
  broadcast_state shape;
  tdm_dtype dtype;
  double value; /* the value that replaces an absent operand */
};

static tdm_status where_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  where_state *state = state_create<where_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  broadcast_prepare(request, 3, &state->shape);
  state->dtype = request->outputs[0].dtype;
  state->value = attributes_of<tdm_where_attributes>(request)->value;
  return TDM_OK;
}

/* out: (sizes), count in all; the others lack the dimensions that they repeat, and a and b may be
 * NULL: value. */
template <class word>
static __global__ void where(const uint8_t *condition, const word *a, const word *b, word *out,
                             word value, broadcast_sizes sizes, int64_t count) {
  EACH_ELEMENT(i, count) {
    int64_t at[3];
    find_places<3>(i, sizes, at);
    const bool first = condition[at[0]] != 0;
    const word *from = first ? a : b;
    out[i] = from ? from[at[first ? 1 : 2]] : value;
  }
}

template <class word> static tdm_status where_run(const tdm_kernel_call *call) {
  const where_state *state = state_of<where_state>(call);
  return kernel_launch(call, "where", where<word>, blocks_for(state->shape.count), BLOCK,
                       input_of<uint8_t>(call, 0), input_of<word>(call, 1), input_of<word>(call, 2),
                       output_of<word>(call, 0), word_of<word>(state->dtype, state->value),
                       state->shape.sizes, state->shape.count);
}

#define LISTED(dtype, word)                                                                        \
  KERNEL_OF(dtype, TDM_OP_WHERE, where_prepare, where_run<word>, ELEMENT_WHERE)
TYPED_KERNELS(where, LISTED(TDM_FLOAT32, uint32_t), LISTED(TDM_FLOAT64, uint64_t),
              LISTED(TDM_INT32, uint32_t), LISTED(TDM_INT64, uint64_t), LISTED(TDM_UINT8, uint8_t),
              LISTED(TDM_BOOL, uint8_t), LISTED(TDM_FLOAT16, uint16_t),
              LISTED(TDM_BFLOAT16, uint16_t))
