/* Rows of a tensor overwritten where they lie. Invariant: nothing is written unless every index
 * names a row. */
#include <string.h>

#include "core/status.h"
#include "devices/kernels/cpu/family.h"
#include "devices/kernels/tables/lookup.h"

typedef struct index_copy_state {
  int64_t count; /* indices */
  int64_t rows;  /* rows of the tensor */
  size_t row_bytes;
  bool wide;
  bool splits;
} index_copy_state;

typedef struct index_copy_job {
  const index_copy_state *state;
  tdm_cpu_ids indices;
  const char *from; /* (count) rows */
  char *to;         /* (rows) */
} index_copy_job;

static tdm_status index_copy_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  index_copy_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  const tdm_spec *whole = &request->inputs[0];
  state->count = count_of(&request->inputs[2]);
  state->rows = whole->shape.dims[0];
  state->row_bytes =
      (size_t)dims_product(whole, 1, whole->shape.rank) * tdm_dtype_bytes(whole->dtype);
  state->wide = request->inputs[2].dtype == TDM_INT64;
  state->splits = answer->splits =
      tdm_cpu_splits(request, (double)state->count * (3.0 + (double)state->row_bytes / 32));
  return TDM_OK;
}

static void put_rows(void *user, int64_t begin, int64_t end) {
  const index_copy_job *job = user;
  const size_t row_bytes = job->state->row_bytes;
  for (int64_t i = begin; i < end; i++)
    memcpy(job->to + (size_t)tdm_cpu_id(&job->indices, i) * row_bytes,
           job->from + (size_t)i * row_bytes, row_bytes);
}

static tdm_status index_copy_execute(const tdm_kernel_call *call) {
  const index_copy_state *state = call->state;
  index_copy_job job = {.state = state,
                        .indices = {call->inputs[2], state->count, state->wide},
                        .from = call->inputs[1],
                        .to = call->outputs[0]};
  TDM_TRY(tdm_cpu_indices_check(&job.indices, state->rows));
  if (state->row_bytes > 0)
    tdm_team_run(state->splits ? call->team : NULL, state->count, 256, put_rows, &job);
  return TDM_OK;
}

KERNELS(index_copy,
        KERNEL_OF_EVERY(TDM_OP_INDEX_COPY, index_copy_prepare, index_copy_execute, NULL))
