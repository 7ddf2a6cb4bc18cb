/* Arithmetic of integers, of operands that are broadcast to one shape, and of one value and
 * numbers; the formulas are elements.h's. Invariant: every operand has a result: sums, differences
 * and products wrap on overflow, as those of unsigned numbers do, and a quotient by 0 is 0. */
#include "devices/kernels/elementwise/cuda/broadcast.h"
#include "devices/kernels/elementwise/cuda/elements.h"
#include "devices/kernels/elementwise/pointwise.h"

static tdm_status binary_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  broadcast_state *state = state_create<broadcast_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  broadcast_prepare(request, 2, state);
  return TDM_OK;
}

/* out: (sizes), count in all; a and b lack the dimensions that they repeat. */
template <class number, int operation>
static __global__ void integers(const number *a, const number *b, number *out,
                                broadcast_sizes sizes, int64_t count) {
  EACH_ELEMENT(i, count) {
    int64_t at[2];
    find_places<2>(i, sizes, at);
    out[i] = integer_of(operation, a[at[0]], b[at[1]]);
  }
}

template <class number, int operation> static tdm_status integers_run(const tdm_kernel_call *call) {
  const broadcast_state *state = state_of<broadcast_state>(call);
  return kernel_launch(call, "integers", integers<number, operation>, blocks_for(state->count),
                       BLOCK, input_of<number>(call, 0), input_of<number>(call, 1),
                       output_of<number>(call, 0), state->sizes, state->count);
}

struct affine_state {
  uint64_t scale;
  uint64_t shift;
  int64_t count;
};

static tdm_status affine_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  const tdm_function_attributes *attributes = attributes_of<tdm_function_attributes>(request);
  affine_state *state = state_create<affine_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->scale = (uint64_t)(int64_t)attributes->first;
  state->shift = (uint64_t)(int64_t)attributes->second;
  state->count = count_of(&request->outputs[0]);
  return TDM_OK;
}

/* Computes out (count) from x (count). */
template <class number>
static __global__ void affine(const number *x, number *out, number scale, number shift,
                              int64_t count) {
  EACH_ELEMENT(i, count) {
    out[i] = x[i] * scale + shift;
  }
}

template <class number> static tdm_status affine_run(const tdm_kernel_call *call) {
  const affine_state *state = state_of<affine_state>(call);
  return kernel_launch(call, "affine", affine<number>, blocks_for(state->count), BLOCK,
                       input_of<number>(call, 0), output_of<number>(call, 0), (number)state->scale,
                       (number)state->shift, state->count);
}

#define LISTED(name)                                                                               \
  KERNEL_OF(TDM_INT32, #name, binary_prepare, (integers_run<int32_t, ELEMENT_##name>),             \
            ELEMENT_##name),                                                                       \
      KERNEL_OF(TDM_INT64, #name, binary_prepare, (integers_run<int64_t, ELEMENT_##name>),         \
                ELEMENT_##name),
TYPED_KERNELS(integers,
              TDM_CUDA_INTEGERS(LISTED) KERNEL_OF(TDM_INT32, TDM_OP_AFFINE, affine_prepare,
                                                  affine_run<uint32_t>, ELEMENT_affine),
              KERNEL_OF(TDM_INT64, TDM_OP_AFFINE, affine_prepare, affine_run<uint64_t>,
                        ELEMENT_affine))
