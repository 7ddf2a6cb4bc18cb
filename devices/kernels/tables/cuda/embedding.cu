/* Embedding and its gradients, dense and sparse. Invariant: contributions to a row are summed in
 * the order of ids by one group of threads; an id outside the table is reported and passed over. */
#include "devices/kernels/tables/cuda/row_sums.h"
#include "devices/kernels/tables/lookup.h"

struct embedding_state {
  int64_t count; /* ids */
  int64_t rows;  /* rows of the table */
  int64_t dim;
  int64_t padding;
  bool wide_ids;
  segments_plan plan; /* plan for the gradients */
};

static embedding_state *embedding_prepare_state(const tdm_kernel_request *request,
                                                tdm_kernel_answer *answer) {
  const tdm_embedding_attributes *attributes = attributes_of<tdm_embedding_attributes>(request);
  embedding_state *state = state_create<embedding_state>(answer);
  if (!state) return NULL;
  state->count = count_of(&request->inputs[1]);
  state->rows = attributes->rows;
  state->dim = last_dim_of(&request->inputs[0]);
  state->padding = attributes->padding_index;
  state->wide_ids = request->inputs[1].dtype == TDM_INT64;
  answer->workspace_bytes = aligned_bytes(report_workspace_bytes(state->count));
  return state;
}

static tdm_status check(const tdm_kernel_call *call) {
  const embedding_state *state = state_of<embedding_state>(call);
  const id_list ids = {call->inputs[1], state->count, state->wide_ids};
  return tdm_cuda_ids_check(call, &ids, state->rows, static_cast<int64_t *>(call->workspace));
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* weight: (rows, dim), ids: (count), out: (count, dim); elements = count dim. */
template <class stored>
static __global__ void look_up(const stored *weight, const void *ids, bool wide, int64_t rows,
                               int64_t dim, stored *out, int64_t elements) {
  EACH_ELEMENT(i, elements) {
    const int64_t id = id_at(ids, wide, i / dim);
    out[i] = is_inside(id, rows) ? (real_of<stored>)weight[id * dim + i % dim] : 0;
  }
}

static tdm_status embedding_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  embedding_state *state = embedding_prepare_state(request, answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->rows = request->inputs[0].shape.dims[0];
  return TDM_OK;
}

template <class stored> static tdm_status embedding_run(const tdm_kernel_call *call) {
  const embedding_state *state = state_of<embedding_state>(call);
  const int64_t elements = state->count * state->dim;
  TDM_TRY(check(call));
  return kernel_launch(call, "look_up", look_up<stored>, blocks_for(elements), BLOCK,
                       input_of<stored>(call, 0), call->inputs[1], state->wide_ids, state->rows,
                       state->dim, output_of<stored>(call, 0), elements);
}

/* ---- Gradients ------------------------------------------------------------------------------- */

static tdm_status prepare_gradient(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  embedding_state *state = embedding_prepare_state(request, answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->plan = tdm_cuda_segments_plan(state->count);
  answer->workspace_bytes +=
      tdm_cuda_segments_bytes(&state->plan) +
      row_sums_bytes(state->count, state->dim, tdm_dtype_bytes(request->inputs[0].dtype));
  return TDM_OK;
}

/* Checks the ids and sorts their keys. row_sums follows, and uses the rest of the workspace,
 * *out_behind. */
static tdm_status sort_ids(const tdm_kernel_call *call, segments *out, void **out_behind) {
  const embedding_state *state = state_of<embedding_state>(call);
  const segments_plan *plan = &state->plan;
  const int64_t *no_bags = NULL;
  char *workspace =
      static_cast<char *>(call->workspace) + aligned_bytes(report_workspace_bytes(state->count));
  *out = tdm_cuda_segments_at(plan, workspace);
  *out_behind = workspace + tdm_cuda_segments_bytes(plan);
  TDM_TRY(check(call));
  TDM_TRY(kernel_launch(call, "make_keys", make_keys, blocks_for(plan->capacity), BLOCK,
                        call->inputs[1], state->wide_ids, no_bags, state->count, state->rows,
                        state->padding, plan->shift, out->keys, plan->capacity));
  return tdm_cuda_segments_sort(call, plan, out);
}

template <class stored> static tdm_status run_gradient(const tdm_kernel_call *call) {
  const embedding_state *state = state_of<embedding_state>(call);
  const int64_t *none = NULL;
  const stored *no_scales = NULL;
  segments sorted;
  void *behind;
  TDM_TRY(sort_ids(call, &sorted, &behind));
  TDM_TRY(tdm_cuda_kernel_stream_fill(kernel_stream_of(call), call->outputs[0], 0,
                                      (size_t)(state->rows * state->dim) * sizeof(stored)));
  return row_sums(call, &state->plan, &sorted, input_of<stored>(call, 0), none, no_scales, none,
                  none, state->dim, output_of<stored>(call, 0), behind);
}

/* Outputs: rows (count, dim), indices (count), count (). */
template <class stored> static tdm_status run_sparse(const tdm_kernel_call *call) {
  const embedding_state *state = state_of<embedding_state>(call);
  const int64_t *none = NULL;
  const stored *no_scales = NULL;
  segments sorted;
  void *behind;
  TDM_TRY(sort_ids(call, &sorted, &behind));
  TDM_TRY(tdm_cuda_segments_begin_rows(call, &state->plan, &sorted,
                                       (size_t)state->dim * sizeof(stored)));
  const int64_t *ranks = sorted.ranks;
  return row_sums(call, &state->plan, &sorted, input_of<stored>(call, 0), none, no_scales, none,
                  ranks, state->dim, output_of<stored>(call, 0), behind);
}

KERNELS(embedding, KERNEL(TDM_OP_EMBEDDING, embedding_prepare, embedding_run<stored>),
        KERNEL(TDM_OP_EMBEDDING_GRADIENT, prepare_gradient, run_gradient<stored>),
        KERNEL(TDM_OP_EMBEDDING_SPARSE_GRADIENT, prepare_gradient, run_sparse<stored>))
