/* Comparisons, and the choice between two numbers by a condition, of operands that are broadcast to
 * one shape. Invariant: an element of the result depends on one element of each operand alone. */
#include "devices/cuda/kernels/broadcast.h"

/* ---- compare --------------------------------------------------------------------------------- */

struct compare_state {
  broadcast_state shape;
  tdm_dtype dtype; /* of the operands */
  int comparison;  /* tdm_comparison */
  double value;    /* what stands for b */
};

tdm_status tdm_cuda_compare_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  compare_state *state = state_create<compare_state>(answer);
  if (state == NULL) return TDM_OUT_OF_MEMORY;
  broadcast_prepare(request, 2, &state->shape);
  state->dtype = request->inputs[0].dtype;
  const tdm_compare_attributes *attributes =
      static_cast<const tdm_compare_attributes *>(request->attributes);
  state->comparison = (int)attributes->comparison;
  state->value = attributes->value;
  return TDM_OK;
}

template <class number> static __device__ bool holds(int comparison, number a, number b) {
  switch (comparison) {
  case TDM_COMPARISON_LESS:
    return a < b;
  case TDM_COMPARISON_LESS_EQUAL:
    return a <= b;
  case TDM_COMPARISON_GREATER:
    return a > b;
  case TDM_COMPARISON_GREATER_EQUAL:
    return a >= b;
  case TDM_COMPARISON_EQUAL:
    return a == b;
  default:
    return a != b;
  }
}

/* out: (sizes), count in all; a and b lack the dimensions that they repeat; b
 * may be NULL: value. */
template <class number>
static __global__ void compare(const number *a, const number *b, uint8_t *out, int64_t count,
                               int comparison, number value, uint32_t a_repeats, uint32_t b_repeats,
                               BROADCAST_PARAMETERS) {
  const int64_t sizes[TDM_MAX_RANK] = BROADCAST_SIZES;
  const uint32_t repeats[2] = {a_repeats, b_repeats};
  EACH_ELEMENT(i, count) {
    int64_t at[2];
    find_places<2>(i, rank, sizes, repeats, at);
    out[i] = holds(comparison, a[at[0]], b != NULL ? b[at[1]] : value);
  }
}

template <class number> static tdm_status run_compare(const tdm_kernel_call *call) {
  const compare_state *state = static_cast<const compare_state *>(call->state);
  const broadcast_state *shape = &state->shape;
  return kernel_launch(call, "compare", compare<number>, blocks_for(shape->count), BLOCK,
                       input_of<number>(call, 0), input_of<number>(call, 1),
                       output_of<uint8_t>(call, 0), shape->count, state->comparison,
                       (number)state->value, shape->repeats[0], shape->repeats[1],
                       BROADCAST_ARGUMENTS(shape->broadcast));
}

tdm_status tdm_cuda_compare_execute(const tdm_kernel_call *call) {
  const tdm_dtype dtype = static_cast<const compare_state *>(call->state)->dtype;
  return dtype == TDM_FLOAT32   ? run_compare<float>(call)
         : dtype == TDM_FLOAT64 ? run_compare<double>(call)
         : dtype == TDM_INT32   ? run_compare<int32_t>(call)
                                : run_compare<int64_t>(call);
}

/* ---- where ----------------------------------------------------------------------------------- */

struct where_state {
  broadcast_state shape;
  double value; /* what stands for an absent operand */
  bool wide;
};

tdm_status tdm_cuda_where_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  where_state *state = state_create<where_state>(answer);
  if (state == NULL) return TDM_OUT_OF_MEMORY;
  broadcast_prepare(request, 3, &state->shape);
  state->value = static_cast<const tdm_where_attributes *>(request->attributes)->value;
  state->wide = request->outputs[0].dtype == TDM_FLOAT64;
  return TDM_OK;
}

/* out: (sizes), count in all; the others lack the dimensions that they repeat, and a and b may be
 * NULL: value. */
template <class real>
static __global__ void where(const uint8_t *condition, const real *a, const real *b, real *out,
                             real value, int64_t count, uint32_t condition_repeats,
                             uint32_t a_repeats, uint32_t b_repeats, BROADCAST_PARAMETERS) {
  const int64_t sizes[TDM_MAX_RANK] = BROADCAST_SIZES;
  const uint32_t repeats[3] = {condition_repeats, a_repeats, b_repeats};
  EACH_ELEMENT(i, count) {
    int64_t at[3];
    find_places<3>(i, rank, sizes, repeats, at);
    const bool first = condition[at[0]] != 0;
    const real *from = first ? a : b;
    out[i] = from != NULL ? from[at[first ? 1 : 2]] : value;
  }
}

template <class real> static tdm_status run_where(const tdm_kernel_call *call) {
  const where_state *state = static_cast<const where_state *>(call->state);
  const broadcast_state *shape = &state->shape;
  return kernel_launch(call, "where", where<real>, blocks_for(shape->count), BLOCK,
                       input_of<uint8_t>(call, 0), input_of<real>(call, 1), input_of<real>(call, 2),
                       output_of<real>(call, 0), (real)state->value, shape->count,
                       shape->repeats[0], shape->repeats[1], shape->repeats[2],
                       BROADCAST_ARGUMENTS(shape->broadcast));
}

tdm_status tdm_cuda_where_execute(const tdm_kernel_call *call) {
  return static_cast<const where_state *>(call->state)->wide ? run_where<double>(call)
                                                             : run_where<float>(call);
}
