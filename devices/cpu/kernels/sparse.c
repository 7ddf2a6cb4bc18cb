/* Sparse gradients of embeddings, and the sum of two such gradients. Invariant: indices ascend and
 * are distinct in the first count entries, then are -1, with rows of zeros. */
#include "core/status.h"
#include "devices/cpu/kernels/row_sums.h"
#include "devices/cpu/kernels/vector.h"
#include "devices/operations/lookup.h"

/* ---- Gradient -------------------------------------------------------------------------------- */

typedef struct gradient_state {
  int64_t count; /* ids */
  int64_t dim;
  int64_t rows; /* of the table */
  int64_t padding;
  tdm_cpu_sorting sorting;
  bool wide;
  bool splits;
} gradient_state;

static tdm_status embedding_sparse_gradient_prepare(const tdm_kernel_request *request,
                                                    tdm_kernel_answer *answer) {
  const tdm_embedding_attributes *attributes = request->attributes;
  const int64_t count = count_of(&request->inputs[1]);
  tdm_cpu_sorting sorting;
  TDM_TRY(tdm_cpu_sorting_of(attributes->rows, count, &sorting));
  gradient_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->count = count;
  state->sorting = sorting;
  state->dim = last_dim_of(&request->inputs[0]);
  state->rows = attributes->rows;
  state->padding = attributes->padding_index;
  state->wide = request->inputs[1].dtype == TDM_INT64;
  state->splits = answer->splits =
      tdm_cpu_splits(request, row_sums_work_ns(state->count, state->dim));
  answer->workspace_bytes = row_sums_bytes(state->count);
  return TDM_OK;
}

static tdm_status embedding_sparse_gradient_execute(const tdm_kernel_call *call) {
  const gradient_state *state = call->state;
  const row_sums sums = {.ids = {call->inputs[1], state->count, state->wide},
                         .padding = state->padding,
                         .sorting = state->sorting,
                         .source = {.d = call->inputs[0], .dim = state->dim},
                         .rows = call->outputs[0],
                         .indices = call->outputs[1],
                         .used = call->outputs[2]};
  TDM_TRY(tdm_cpu_ids_check(&sums.ids, state->rows));
  row_sums_run(&sums, call->workspace, state->splits ? call->team : NULL);
  return TDM_OK;
}

/* ---- Sum of two ------------------------------------------------------------------------------ */

typedef struct add_state {
  int64_t count; /* rows of a */
  int64_t count_b;
  int64_t dim;
} add_state;

static tdm_status sparse_add_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  add_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->count = request->inputs[0].shape.dims[0];
  state->count_b = request->inputs[3].shape.dims[0];
  state->dim = last_dim_of(&request->inputs[0]);
  return TDM_OK;
}

static tdm_status sparse_add_execute(const tdm_kernel_call *call) {
  const add_state *state = call->state;
  const int64_t dim = state->dim;
  const stored *a_rows = call->inputs[0], *b_rows = call->inputs[3];        /* (n, dim) */
  const int64_t *a_indices = call->inputs[1], *b_indices = call->inputs[4]; /* (n) */
  const int64_t a_count = *(const int64_t *)call->inputs[2];
  const int64_t b_count = *(const int64_t *)call->inputs[5];
  stored *rows = call->outputs[0];     /* (n + m, dim) */
  int64_t *indices = call->outputs[1]; /* (n + m) */
  int64_t used = 0;
  for (int64_t a = 0, b = 0; a < a_count || b < b_count; used++) {
    const bool takes_a = a < a_count && (b == b_count || a_indices[a] <= b_indices[b]);
    const int64_t id = takes_a ? a_indices[a] : b_indices[b];
    stored *row = rows + used * dim; /* (dim) */
    indices[used] = id;
    if (takes_a) row_copy(row, a_rows + a++ * dim, dim);
    if (b == b_count || b_indices[b] != id) continue;
    if (takes_a) {
      row_add(row, b_rows + b++ * dim, dim);
    } else {
      row_copy(row, b_rows + b++ * dim, dim);
    }
  }
  const int64_t capacity = state->count + state->count_b;
  for (int64_t i = used; i < capacity; i++)
    indices[i] = -1;
  row_zero(rows + used * dim, (capacity - used) * dim);
  *(int64_t *)call->outputs[2] = used;
  return TDM_OK;
}

KERNELS(sparse,
        KERNEL(TDM_OP_EMBEDDING_SPARSE_GRADIENT, embedding_sparse_gradient_prepare,
               embedding_sparse_gradient_execute),
        KERNEL(TDM_OP_SPARSE_ADD, sparse_add_prepare, sparse_add_execute))
