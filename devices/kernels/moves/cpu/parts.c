/* Cutting a tensor along a dimension, and putting the parts together. Invariant: whole is (outer,
 * n, inner), part i is (outer, sizes[i], inner), and elements are only moved. */
#include <string.h>

#include "core/status.h"
#include "devices/kernels/cpu/family.h"
#include "devices/kernels/moves/shape.h"

typedef struct parts_state {
  int64_t outer;
  size_t whole_bytes; /* bytes of the whole tensor at one outer index */
  size_t count;
  size_t part_bytes[TDM_MAX_PARTS]; /* bytes of each part at one outer index */
} parts_state;

static tdm_status parts_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                const tdm_spec *whole, const tdm_spec *parts, size_t count) {
  const tdm_parts_attributes *attributes = request->attributes;
  parts_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  const int64_t dimension = attributes->dimension;
  const size_t inner_bytes =
      (size_t)dims_product(whole, dimension + 1, whole->shape.rank) * tdm_dtype_bytes(whole->dtype);
  state->outer = dims_product(whole, 0, dimension);
  state->whole_bytes = (size_t)whole->shape.dims[dimension] * inner_bytes;
  state->count = count;
  for (size_t i = 0; i < count; i++)
    state->part_bytes[i] = (size_t)parts[i].shape.dims[dimension] * inner_bytes;
  return TDM_OK;
}

static tdm_status split_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return parts_prepare(request, answer, request->inputs, request->outputs, request->output_count);
}

static tdm_status split_execute(const tdm_kernel_call *call) {
  const parts_state *state = call->state;
  const char *whole = call->inputs[0];
  for (size_t i = 0; i < state->count; i++) {
    char *part = call->outputs[i];
    for (int64_t o = 0; o < state->outer && state->part_bytes[i] > 0; o++)
      memcpy(part + (size_t)o * state->part_bytes[i], whole + (size_t)o * state->whole_bytes,
             state->part_bytes[i]);
    whole += state->part_bytes[i];
  }
  return TDM_OK;
}

static tdm_status concat_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return parts_prepare(request, answer, request->outputs, request->inputs, request->input_count);
}

static tdm_status concat_execute(const tdm_kernel_call *call) {
  const parts_state *state = call->state;
  char *whole = call->outputs[0];
  for (size_t i = 0; i < state->count; i++) {
    const char *part = call->inputs[i];
    for (int64_t o = 0; o < state->outer && state->part_bytes[i] > 0; o++)
      memcpy(whole + (size_t)o * state->whole_bytes, part + (size_t)o * state->part_bytes[i],
             state->part_bytes[i]);
    whole += state->part_bytes[i];
  }
  return TDM_OK;
}

KERNELS(parts, KERNEL_OF_EVERY(TDM_OP_SPLIT, split_prepare, split_execute, NULL),
        KERNEL_OF_EVERY(TDM_OP_CONCAT, concat_prepare, concat_execute, NULL))
