/* Embedding and its dense gradient. Invariant: contributions to a row of the gradient are summed in
 * the order of ids, whichever thread owns the row. */
#include "core/status.h"
#include "devices/cpu/kernels/vector.h"

typedef struct embedding_state {
  int64_t count; /* ids */
  int64_t rows;  /* of the table */
  int64_t dim;
  int64_t padding;
  bool wide;
  bool splits;
} embedding_state;

typedef struct lookup_job {
  const embedding_state *state;
  tdm_cpu_ids ids;
  const real *weight; /* (rows, dim) */
  real *out;          /* (count, dim) */
} lookup_job;

#define AHEAD 16 /* rows fetched before they are copied: tables are larger than caches */

static void lookup_range(void *user, int64_t begin, int64_t end) {
  const lookup_job *job = user;
  const int64_t dim = job->state->dim;
  const int64_t last = job->ids.count - 1;
  for (int64_t i = begin; i < end; i++) {
    const int64_t later = i + AHEAD < last ? i + AHEAD : last;
    __builtin_prefetch(job->weight + tdm_cpu_id(&job->ids, later) * dim);
    row_copy(job->out + i * dim, job->weight + tdm_cpu_id(&job->ids, i) * dim, dim);
  }
}

tdm_status TDM_NAME(tdm_embedding_prepare)(const tdm_kernel_request *request,
                                           tdm_kernel_answer *answer) {
  embedding_state *state = tdm_cpu_state_create(answer, sizeof *state);
  if (state == NULL) return TDM_OUT_OF_MEMORY;
  state->count = tdm_cpu_count(&request->inputs[1]);
  state->rows = request->inputs[0].shape.dims[0];
  state->dim = tdm_cpu_last_dim(&request->inputs[0]);
  state->wide = request->inputs[1].dtype == TDM_INT64;
  state->splits = answer->splits =
      tdm_cpu_splits(request, (double)state->count * (3.0 + (double)state->dim / LANES));
  return TDM_OK;
}

tdm_status TDM_NAME(tdm_embedding_execute)(const tdm_kernel_call *call) {
  const embedding_state *state = call->state;
  lookup_job job = {.state = state,
                    .ids = {call->inputs[1], state->count, state->wide},
                    .weight = call->inputs[0],
                    .out = call->outputs[0]};
  TDM_TRY(tdm_cpu_ids_check(&job.ids, state->rows));
  tdm_team_run(state->splits ? call->team : NULL, state->count, 256, lookup_range, &job);
  return TDM_OK;
}

/* ---- Gradient -------------------------------------------------------------------------------- */

typedef struct gradient_job {
  const embedding_state *state;
  tdm_cpu_ids ids;
  const real *d_out; /* (count, dim) */
  real *d_weight;    /* (rows, dim) */
} gradient_job;

/* Rows begin <= row < end of the table: each thread looks at all ids and takes its own. */
static void gradient_range(void *user, int64_t begin, int64_t end) {
  const gradient_job *job = user;
  const int64_t dim = job->state->dim, padding = job->state->padding;
  row_zero(job->d_weight + begin * dim, (end - begin) * dim);
  for (int64_t i = 0; i < job->ids.count; i++) {
    const int64_t id = tdm_cpu_id(&job->ids, i);
    if (id < begin || id >= end || id == padding) continue;
    row_add(job->d_weight + id * dim, job->d_out + i * dim, dim);
  }
}

tdm_status TDM_NAME(tdm_embedding_gradient_prepare)(const tdm_kernel_request *request,
                                                    tdm_kernel_answer *answer) {
  const tdm_embedding_attributes *attributes = request->attributes;
  embedding_state *state = tdm_cpu_state_create(answer, sizeof *state);
  if (state == NULL) return TDM_OUT_OF_MEMORY;
  state->count = tdm_cpu_count(&request->inputs[1]);
  state->rows = request->outputs[0].shape.dims[0];
  state->dim = tdm_cpu_last_dim(&request->outputs[0]);
  state->padding = attributes->padding_index;
  state->wide = request->inputs[1].dtype == TDM_INT64;
  const double stores = (double)(state->rows + state->count) * (double)state->dim / LANES;
  state->splits = answer->splits = tdm_cpu_splits(request, (double)state->count * 3.0 + stores);
  return TDM_OK;
}

tdm_status TDM_NAME(tdm_embedding_gradient_execute)(const tdm_kernel_call *call) {
  const embedding_state *state = call->state;
  gradient_job job = {.state = state,
                      .ids = {call->inputs[1], state->count, state->wide},
                      .d_out = call->inputs[0],
                      .d_weight = call->outputs[0]};
  TDM_TRY(tdm_cpu_ids_check(&job.ids, state->rows));
  tdm_team *team = state->splits ? call->team : NULL;
  const int64_t grain = tdm_cpu_chunks(state->rows, (int64_t)tdm_team_size(team));
  tdm_team_run(team, state->rows, grain, gradient_range, &job);
  return TDM_OK;
}
