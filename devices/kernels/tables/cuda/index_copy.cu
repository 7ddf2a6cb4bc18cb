/* Rows of a tensor overwritten where they lie, by words of its elements' size. Invariant: an index
 * that names no row is reported and passed over. */
#include "devices/kernels/cuda/report.h"
#include "devices/kernels/tables/lookup.h"

struct index_copy_state {
  int64_t elements; /* elements of the rows that are written */
  int64_t count;    /* indices */
  int64_t rows;     /* rows of the tensor */
  int64_t row;      /* elements of a row */
  bool wide;
};

static tdm_status index_copy_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  index_copy_state *state = state_create<index_copy_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  const tdm_spec *whole = &request->inputs[0];
  state->count = count_of(&request->inputs[2]);
  state->rows = whole->shape.dims[0];
  state->row = dims_product(whole, 1, whole->shape.rank);
  state->elements = state->count * state->row;
  state->wide = request->inputs[2].dtype == TDM_INT64;
  answer->workspace_bytes = aligned_bytes(report_workspace_bytes(state->count));
  return TDM_OK;
}

/* Copies rows from (count, row) to (rows, row); elements = count row. */
template <class word>
static __global__ void index_copy(const word *from, const void *indices, bool wide, int64_t rows,
                                  int64_t row, word *to, int64_t elements) {
  EACH_ELEMENT(i, elements) {
    const int64_t index = id_at(indices, wide, i / row);
    if (is_inside(index, rows)) to[index * row + i % row] = from[i];
  }
}

template <class word> static tdm_status run_index_copy(const tdm_kernel_call *call) {
  const index_copy_state *state = state_of<index_copy_state>(call);
  const id_list indices = {call->inputs[2], state->count, state->wide};
  TDM_TRY(
      tdm_cuda_indices_check(call, &indices, state->rows, static_cast<int64_t *>(call->workspace)));
  return kernel_launch(call, "index_copy", index_copy<word>, blocks_for(state->elements), BLOCK,
                       input_of<word>(call, 1), call->inputs[2], state->wide, state->rows,
                       state->row, output_of<word>(call, 0), state->elements);
}

TYPED_KERNELS(index_copy, KERNEL_OF_EVERY(TDM_OP_INDEX_COPY, index_copy_prepare, run_index_copy))
