/* Sums of integers, of operands that are broadcast to one shape. Invariant: they wrap on overflow,
 * as unsigned sums do. */
#include "devices/cuda/kernels/broadcast.h"
#include "devices/cuda/kernels/elements.h"

static tdm_status add_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  broadcast_state *state = state_create<broadcast_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  broadcast_prepare(request, 2, state);
  return TDM_OK;
}

/* out: (sizes), count in all; a and b lack the dimensions that they repeat. */
template <class number>
static __global__ void add(const number *a, const number *b, number *out, broadcast_sizes sizes,
                           int64_t count) {
  EACH_ELEMENT(i, count) {
    int64_t at[2];
    find_places<2>(i, sizes, at);
    out[i] = a[at[0]] + b[at[1]];
  }
}

template <class number> static tdm_status integers_run(const tdm_kernel_call *call) {
  const broadcast_state *state = state_of<broadcast_state>(call);
  return kernel_launch(call, "add_integers", add<number>, blocks_for(state->count), BLOCK,
                       input_of<number>(call, 0), input_of<number>(call, 1),
                       output_of<number>(call, 0), state->sizes, state->count);
}

#define ADD(dtype, number)                                                                         \
  KERNEL_OF(dtype, TDM_OP_ADD, add_prepare, integers_run<number>, ELEMENT_add)

TYPED_KERNELS(integers, ADD(TDM_INT32, uint32_t), ADD(TDM_INT64, uint64_t))
