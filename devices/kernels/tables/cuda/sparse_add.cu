/* The sum of two sparse gradients: their ids are sorted together, a's before b's where they are
 * equal, and each segment, of one row or two, is summed. */
#include "devices/kernels/tables/cuda/segments.h"
#include "devices/kernels/tables/lookup.h"

struct sparse_add_state {
  int64_t count_a; /* capacities */
  int64_t count_b;
  int64_t dim;
  segments_plan plan;
};

static tdm_status sparse_add_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  sparse_add_state *state = state_create<sparse_add_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->count_a = request->inputs[0].shape.dims[0];
  state->count_b = request->inputs[3].shape.dims[0];
  state->dim = last_dim_of(&request->inputs[0]);
  state->plan = tdm_cuda_segments_plan(state->count_a + state->count_b);
  answer->workspace_bytes = tdm_cuda_segments_bytes(&state->plan);
  return TDM_OK;
}

/* a_indices: (count_a), b_indices: (count_b), used_a, used_b: (), keys: (capacity). Position i is
 * row i of a, or row i - count_a of b. */
static __global__ void make_keys(const int64_t *a_indices, const int64_t *used_a,
                                 const int64_t *b_indices, const int64_t *used_b, int64_t count_a,
                                 int shift, uint64_t *keys, int64_t capacity) {
  EACH_ELEMENT(i, capacity) {
    const bool in_a = i < count_a;
    const int64_t place = in_a ? i : i - count_a;
    uint64_t key = NO_KEY;
    if (place < (in_a ? *used_a : *used_b))
      key = (uint64_t)(in_a ? a_indices : b_indices)[place] << shift | (uint64_t)i;
    keys[i] = key;
  }
}

/* Sums, in each block, the segment that begins at its key, if one does. a_rows: (count_a, dim),
 * b_rows: (count - count_a, dim); keys, ranks: (count); out: (count, dim). */
template <class stored>
static __global__ void sum_segments(const stored *a_rows, const stored *b_rows, int64_t count_a,
                                    const uint64_t *keys, const int64_t *ranks, int64_t count,
                                    int shift, int64_t dim, stored *out) {
  typedef real_of<stored> real;
  const uint64_t places = ((uint64_t)1 << shift) - 1;
  EACH_OF_GRID(first, count) {
    if (!begins_segment(keys, first, shift)) continue;
    const uint64_t id = keys[first] >> shift;
    EACH_OF_BLOCK(j, dim) {
      real sum = 0;
      for (int64_t i = first; i < count && keys[i] != NO_KEY && keys[i] >> shift == id; i++) {
        const int64_t place = (int64_t)(keys[i] & places);
        sum += place < count_a ? a_rows[place * dim + j] : b_rows[(place - count_a) * dim + j];
      }
      out[ranks[first] * dim + j] = sum;
    }
  }
}

template <class stored> static tdm_status sparse_add_run(const tdm_kernel_call *call) {
  const sparse_add_state *state = state_of<sparse_add_state>(call);
  const segments_plan *plan = &state->plan;
  const segments sorted = tdm_cuda_segments_at(plan, call->workspace);
  TDM_TRY(kernel_launch(call, "make_keys", make_keys, blocks_for(plan->capacity), BLOCK,
                        input_of<int64_t>(call, 1), input_of<int64_t>(call, 2),
                        input_of<int64_t>(call, 4), input_of<int64_t>(call, 5), state->count_a,
                        plan->shift, sorted.keys, plan->capacity));
  TDM_TRY(tdm_cuda_segments_sort(call, plan, &sorted));
  TDM_TRY(tdm_cuda_segments_begin_rows(call, plan, &sorted, (size_t)state->dim * sizeof(stored)));
  return kernel_launch(call, "sum_segments", sum_segments<stored>, blocks_of(plan->count),
                       threads_for_row(state->dim), input_of<stored>(call, 0),
                       input_of<stored>(call, 3), state->count_a, sorted.keys, sorted.ranks,
                       plan->count, plan->shift, state->dim, output_of<stored>(call, 0));
}

KERNELS(sparse_add, KERNEL(TDM_OP_SPARSE_ADD, sparse_add_prepare, sparse_add_run<stored>))
