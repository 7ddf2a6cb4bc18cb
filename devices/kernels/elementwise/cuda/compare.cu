/* Comparisons of numbers of any dtype, of operands that are broadcast to one shape. Invariant: an
 * element of the result, 0 or 1, depends only on one element of each operand. */
#include "devices/kernels/elementwise/cuda/broadcast.h"
#include "devices/kernels/elementwise/cuda/convert.h"
#include "devices/kernels/elementwise/cuda/elements.h"
#include "devices/kernels/elementwise/pointwise.h"

struct compare_state {
  broadcast_state shape;
  tdm_dtype dtype; /* dtype of the operands */
  int comparison;  /* tdm_comparison */
  double value;    /* the value that replaces b */
};

static tdm_status compare_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  compare_state *state = state_create<compare_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  broadcast_prepare(request, 2, &state->shape);
  state->dtype = request->inputs[0].dtype;
  const tdm_compare_attributes *attributes = attributes_of<tdm_compare_attributes>(request);
  state->comparison = (int)attributes->comparison;
  state->value = attributes->value;
  return TDM_OK;
}

/* Computes out (sizes) of `count` elements. a and b are not stored along the dimensions that they
 * repeat; b NULL: value. */
template <class number>
static __global__ void compare(const number *a, const number *b, uint8_t *out, int comparison,
                               number value, broadcast_sizes sizes, int64_t count) {
  EACH_ELEMENT(i, count) {
    int64_t at[2];
    find_places<2>(i, sizes, at);
    out[i] = holds(comparison, a[at[0]], b ? b[at[1]] : value);
  }
}

template <class number> static tdm_status compare_run(const tdm_kernel_call *call) {
  const compare_state *state = state_of<compare_state>(call);
  union {
    double widest;
    number value;
  } absent = {};
  store_double(state->dtype, &absent, 0, state->value);
  return kernel_launch(call, "compare", compare<number>, blocks_for(state->shape.count), BLOCK,
                       input_of<number>(call, 0), input_of<number>(call, 1),
                       output_of<uint8_t>(call, 0), state->comparison, absent.value,
                       state->shape.sizes, state->shape.count);
}

static tdm_status compare_execute(const tdm_kernel_call *call) {
  const tdm_dtype dtype = state_of<compare_state>(call)->dtype;
#define RUN_PRECISION(stored, real, number, ...)                                                   \
  if (dtype == number) return compare_run<stored>(call);
  TDM_CUDA_PRECISIONS(RUN_PRECISION)
  if (dtype == TDM_INT32) return compare_run<int32_t>(call);
  return dtype == TDM_INT64 ? compare_run<int64_t>(call) : compare_run<uint8_t>(call);
}

TYPED_KERNELS(compare, KERNEL_OF(TDM_BOOL, TDM_OP_COMPARE, compare_prepare, compare_execute,
                                 ELEMENT_COMPARE))
