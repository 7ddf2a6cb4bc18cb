/* Cutting a tensor along a dimension, and putting the parts together. Invariant: whole is (outer,
 * n, inner), part i is (outer, sizes[i], inner), and elements are only moved, by words of their
 * size. */
#include "devices/kernels/cuda/kernel.h"
#include "devices/kernels/moves/shape.h"

struct parts_state {
  int64_t outer;
  int64_t whole; /* elements of one outer index */
  size_t count;
  int64_t part[TDM_MAX_PARTS]; /* the same of each part */
};

static tdm_status parts_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                const tdm_spec *whole, const tdm_spec *parts, size_t count) {
  const tdm_parts_attributes *attributes = attributes_of<tdm_parts_attributes>(request);
  parts_state *state = state_create<parts_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  const int64_t dimension = attributes->dimension;
  const int64_t inner = dims_product(whole, dimension + 1, whole->shape.rank);
  state->outer = dims_product(whole, 0, dimension);
  state->whole = whole->shape.dims[dimension] * inner;
  state->count = count;
  for (size_t i = 0; i < count; i++)
    state->part[i] = parts[i].shape.dims[dimension] * inner;
  return TDM_OK;
}

/* Copies part (outer, part_row) from whole (outer, whole_row), beginning at an offset; elements =
 * outer part_row. */
template <class word>
static __global__ void cut(const word *whole, int64_t whole_row, int64_t offset, word *part,
                           int64_t part_row, int64_t elements) {
  EACH_ELEMENT(i, elements) {
    part[i] = whole[i / part_row * whole_row + offset + i % part_row];
  }
}

template <class word>
static __global__ void put(word *whole, int64_t whole_row, int64_t offset, const word *part,
                           int64_t part_row, int64_t elements) {
  EACH_ELEMENT(i, elements) {
    whole[i / part_row * whole_row + offset + i % part_row] = part[i];
  }
}

template <class word, bool splits> static tdm_status parts_run(const tdm_kernel_call *call) {
  const parts_state *state = state_of<parts_state>(call);
  int64_t offset = 0;
  for (size_t i = 0; i < state->count; i++) {
    const int64_t elements = state->outer * state->part[i], blocks = blocks_for(elements);
    TDM_TRY(splits ? kernel_launch(call, "split", cut<word>, blocks, BLOCK, input_of<word>(call, 0),
                                   state->whole, offset, output_of<word>(call, i), state->part[i],
                                   elements)
                   : kernel_launch(call, "concat", put<word>, blocks, BLOCK,
                                   output_of<word>(call, 0), state->whole, offset,
                                   input_of<word>(call, i), state->part[i], elements));
    offset += state->part[i];
  }
  return TDM_OK;
}

template <class word> static tdm_status run_split(const tdm_kernel_call *call) {
  return parts_run<word, true>(call);
}

template <class word> static tdm_status run_concat(const tdm_kernel_call *call) {
  return parts_run<word, false>(call);
}

static tdm_status split_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return parts_prepare(request, answer, request->inputs, request->outputs, request->output_count);
}

static tdm_status concat_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return parts_prepare(request, answer, request->outputs, request->inputs, request->input_count);
}

TYPED_KERNELS(parts, KERNEL_OF_EVERY(TDM_OP_SPLIT, split_prepare, run_split),
              KERNEL_OF_EVERY(TDM_OP_CONCAT, concat_prepare, run_concat))
