/* Single rows of a table copied out and in, as its copies on other devices are refreshed, or added.
 * Invariant: an index of -1 names no row; others are distinct, so no two threads write one element.
 */
#include "devices/kernels/cuda/kernel.h"
#include "devices/kernels/tables/lookup.h"

struct rows_state {
  int64_t elements; /* elements of the rows that are copied */
  int64_t dim;
};

static tdm_status row_copies_prepare(const tdm_kernel_request *request, size_t indices,
                                     tdm_kernel_answer *answer) {
  rows_state *state = state_create<rows_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->dim = last_dim_of(&request->inputs[0]);
  state->elements = count_of(&request->inputs[indices]) * state->dim;
  return TDM_OK;
}

/* ---- Out ------------------------------------------------------------------------------------- */

/* Copies rows of table (rows, dim) at indices (n) to out (n, dim), and writes taken (n); elements =
 * n dim. */
template <class stored>
static __global__ void take_rows(const stored *table, const int64_t *indices, int64_t dim,
                                 stored *out, int64_t *taken, int64_t elements) {
  EACH_ELEMENT(i, elements) {
    const int64_t row = indices[i / dim];
    if (i % dim == 0) taken[i / dim] = row;
    out[i] = row < 0 ? 0 : (real_of<stored>)table[row * dim + i % dim];
  }
}

template <class stored> static tdm_status run_take(const tdm_kernel_call *call) {
  const rows_state *state = state_of<rows_state>(call);
  return kernel_launch(call, "take_rows", take_rows<stored>, blocks_for(state->elements), BLOCK,
                       input_of<stored>(call, 0), input_of<int64_t>(call, 1), state->dim,
                       output_of<stored>(call, 0), output_of<int64_t>(call, 1), state->elements);
}

static tdm_status take_rows_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return row_copies_prepare(request, 1, answer);
}

/* ---- In -------------------------------------------------------------------------------------- */

/* values: (n, dim), indices: (n), table: (rows, dim); elements = n dim. */
template <class stored, bool adds>
static __global__ void put_rows(const stored *values, const int64_t *indices, int64_t dim,
                                stored *table, int64_t elements) {
  EACH_ELEMENT(i, elements) {
    const int64_t row = indices[i / dim];
    if (row < 0) continue;
    stored *to = table + row * dim + i % dim;
    *to = adds ? *to + values[i] : (real_of<stored>)values[i];
  }
}

template <class stored, bool adds> static tdm_status run_put(const tdm_kernel_call *call) {
  const rows_state *state = state_of<rows_state>(call);
  return kernel_launch(call, adds ? "add_rows" : "put_rows", put_rows<stored, adds>,
                       blocks_for(state->elements), BLOCK, input_of<stored>(call, 1),
                       input_of<int64_t>(call, 2), state->dim, output_of<stored>(call, 0),
                       state->elements);
}

static tdm_status rows_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return row_copies_prepare(request, 2, answer);
}

KERNELS(row_copies, KERNEL(TDM_OP_TAKE_ROWS, take_rows_prepare, run_take<stored>),
        KERNEL(TDM_OP_PUT_ROWS, rows_prepare, (run_put<stored, false>)),
        KERNEL(TDM_OP_ADD_ROWS, rows_prepare, (run_put<stored, true>)))
