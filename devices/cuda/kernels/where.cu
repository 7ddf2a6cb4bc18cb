/* The choice between two numbers by a condition, of operands that are broadcast to one shape.
 * Invariant: an element of the result is one of an operand's, or the value that stands for one
 * that is absent. */
#include "devices/cuda/kernels/broadcast.h"
#include "devices/cuda/kernels/elements.h"
#include "devices/operations/pointwise.h"

struct where_state {
  broadcast_state shape;
  double value; /* what stands for an absent operand */
};

static tdm_status where_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  where_state *state = state_create<where_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  broadcast_prepare(request, 3, &state->shape);
  state->value = attributes_of<tdm_where_attributes>(request)->value;
  return TDM_OK;
}

/* out: (sizes), count in all; the others lack the dimensions that they repeat, and a and b may be
 * NULL: value. */
template <class stored>
static __global__ void where(const uint8_t *condition, const stored *a, const stored *b,
                             stored *out, real_of<stored> value, broadcast_sizes sizes,
                             int64_t count) {
  EACH_ELEMENT(i, count) {
    int64_t at[3];
    find_places<3>(i, sizes, at);
    const bool first = condition[at[0]] != 0;
    const stored *from = first ? a : b;
    out[i] = from ? (real_of<stored>)from[at[first ? 1 : 2]] : value;
  }
}

template <class stored> static tdm_status where_run(const tdm_kernel_call *call) {
  typedef real_of<stored> real;
  const where_state *state = state_of<where_state>(call);
  return kernel_launch(call, "where", where<stored>, blocks_for(state->shape.count), BLOCK,
                       input_of<uint8_t>(call, 0), input_of<stored>(call, 1),
                       input_of<stored>(call, 2), output_of<stored>(call, 0), (real)state->value,
                       state->shape.sizes, state->shape.count);
}

KERNELS(where, ELEMENT_KERNEL(TDM_OP_WHERE, where_prepare, where_run<stored>, ELEMENT_WHERE))
