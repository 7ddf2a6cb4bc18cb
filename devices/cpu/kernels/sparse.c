/* Sparse gradients of embeddings: ids sorted with their positions, duplicates summed in the order
 * of ids; and the sum of two such gradients. Invariant: indices ascend and are distinct in the
 * first count entries, then are -1, with rows of zeros. */
#include <string.h>

#include "core/status.h"
#include "devices/cpu/kernels/vector.h"

typedef struct sparse_state {
  int64_t count; /* ids, or rows of a */
  int64_t count_b;
  int64_t dim;
  int64_t rows; /* of the table */
  int64_t padding;
  int digits; /* of an id, DIGIT_BITS each */
  bool wide;
} sparse_state;

/* ---- Sorting --------------------------------------------------------------------------------- */

typedef struct entry {
  int64_t id;
  int64_t position;
} entry;

#define DIGIT_BITS 8
#define DIGIT_VALUES (1 << DIGIT_BITS)

/* One stable pass of a radix sort, by the digit at shift. */
static void sort_pass(const entry *from, entry *to, int64_t count, int shift) {
  int64_t places[DIGIT_VALUES] = {0};
  for (int64_t i = 0; i < count; i++)
    places[from[i].id >> shift & (DIGIT_VALUES - 1)]++;
  int64_t place = 0;
  for (int digit = 0; digit < DIGIT_VALUES; digit++) {
    const int64_t size = places[digit];
    places[digit] = place;
    place += size;
  }
  for (int64_t i = 0; i < count; i++) {
    to[places[from[i].id >> shift & (DIGIT_VALUES - 1)]++] = from[i];
  }
}

/* Sorts entries by id, keeping the order of equal ones; answers which of the two holds them. */
static const entry *sort(entry *entries, entry *scratch, int64_t count, int digits) {
  for (int digit = 0; digit < digits; digit++) {
    sort_pass(entries, scratch, count, digit * DIGIT_BITS);
    entry *const swapped = entries;
    entries = scratch;
    scratch = swapped;
  }
  return entries;
}

/* ---- Gradient -------------------------------------------------------------------------------- */

tdm_status TDM_NAME(tdm_embedding_sparse_gradient_prepare)(const tdm_kernel_request *request,
                                                           tdm_kernel_answer *answer) {
  const tdm_embedding_attributes *attributes = request->attributes;
  sparse_state *state = tdm_cpu_state_create(answer, sizeof *state);
  if (state == NULL) return TDM_OUT_OF_MEMORY;
  state->count = tdm_cpu_count(&request->inputs[1]);
  state->dim = tdm_cpu_last_dim(&request->inputs[0]);
  state->rows = attributes->rows;
  state->padding = attributes->padding_index;
  state->wide = request->inputs[1].dtype == TDM_INT64;
  for (int64_t most = state->rows - 1; most > 0; most >>= DIGIT_BITS)
    state->digits++;
  answer->workspace_bytes = 2 * (size_t)state->count * sizeof(entry);
  return TDM_OK;
}

tdm_status TDM_NAME(tdm_embedding_sparse_gradient_execute)(const tdm_kernel_call *call) {
  const sparse_state *state = call->state;
  const int64_t dim = state->dim;
  const real *d_out = call->inputs[0]; /* (count, dim) */
  const tdm_cpu_ids ids = {call->inputs[1], state->count, state->wide};
  real *rows = call->outputs[0];       /* (count, dim) */
  int64_t *indices = call->outputs[1]; /* (count) */
  TDM_TRY(tdm_cpu_ids_check(&ids, state->rows));

  entry *entries = call->workspace; /* (2, count) */
  for (int64_t i = 0; i < ids.count; i++)
    entries[i] = (entry){tdm_cpu_id(&ids, i), i};
  const entry *sorted = sort(entries, entries + ids.count, ids.count, state->digits);
  int64_t used = 0;
  for (int64_t i = 0; i < ids.count; i++) {
    if (sorted[i].id == state->padding) continue;
    const real *d = d_out + sorted[i].position * dim;
    if (used > 0 && indices[used - 1] == sorted[i].id) {
      row_add(rows + (used - 1) * dim, d, dim);
    } else {
      indices[used] = sorted[i].id;
      row_copy(rows + used * dim, d, dim);
      used++;
    }
  }
  for (int64_t i = used; i < ids.count; i++)
    indices[i] = -1;
  row_zero(rows + used * dim, (ids.count - used) * dim);
  *(int64_t *)call->outputs[2] = used;
  return TDM_OK;
}

/* ---- Sum of two ------------------------------------------------------------------------------ */

tdm_status TDM_NAME(tdm_sparse_add_prepare)(const tdm_kernel_request *request,
                                            tdm_kernel_answer *answer) {
  sparse_state *state = tdm_cpu_state_create(answer, sizeof *state);
  if (state == NULL) return TDM_OUT_OF_MEMORY;
  state->count = request->inputs[0].shape.dims[0];
  state->count_b = request->inputs[3].shape.dims[0];
  state->dim = tdm_cpu_last_dim(&request->inputs[0]);
  return TDM_OK;
}

tdm_status TDM_NAME(tdm_sparse_add_execute)(const tdm_kernel_call *call) {
  const sparse_state *state = call->state;
  const int64_t dim = state->dim;
  const real *a_rows = call->inputs[0], *b_rows = call->inputs[3];          /* (n, dim) */
  const int64_t *a_indices = call->inputs[1], *b_indices = call->inputs[4]; /* (n) */
  const int64_t a_count = *(const int64_t *)call->inputs[2];
  const int64_t b_count = *(const int64_t *)call->inputs[5];
  real *rows = call->outputs[0];       /* (n + m, dim) */
  int64_t *indices = call->outputs[1]; /* (n + m) */
  int64_t used = 0;
  for (int64_t a = 0, b = 0; a < a_count || b < b_count; used++) {
    const bool takes_a = a < a_count && (b == b_count || a_indices[a] <= b_indices[b]);
    const int64_t id = takes_a ? a_indices[a] : b_indices[b];
    real *row = rows + used * dim; /* (dim) */
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
