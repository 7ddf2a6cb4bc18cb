/* The sum of two sparse gradients. Invariant: indices ascend and are distinct in the first count
 * entries, then are -1, with rows of zeros. */
#include "core/status.h"
#include "devices/kernels/cpu/rows.h"
#include "devices/kernels/tables/lookup.h"

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

KERNELS(sparse_add, KERNEL(TDM_OP_SPARSE_ADD, sparse_add_prepare, sparse_add_execute))
