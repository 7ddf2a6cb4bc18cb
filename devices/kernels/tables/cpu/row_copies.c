/* Single rows of a table copied out and in, as its copies on other devices are refreshed, or added.
 * Invariant: an index of -1 names no row; others are distinct, so rows may come in any order. */
#include "core/status.h"
#include "devices/kernels/cpu/fetch.h"
#include "devices/kernels/tables/lookup.h"

typedef struct rows_state {
  int64_t count; /* indices */
  int64_t dim;
  bool splits;
} rows_state;

typedef struct rows_job {
  const rows_state *state;
  const int64_t *indices; /* (count) */
  const stored *from;     /* the table, or (count, dim) */
  stored *to;             /* (count, dim), or the table */
  int64_t *taken;         /* (count): the indices of what is taken */
} rows_job;

static tdm_status row_copies_prepare(const tdm_kernel_request *request, size_t indices,
                                     tdm_kernel_answer *answer) {
  rows_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->count = count_of(&request->inputs[indices]);
  state->dim = last_dim_of(&request->inputs[0]);
  state->splits = answer->splits =
      tdm_cpu_splits(request, (double)state->count * (3.0 + (double)state->dim / LANES));
  return TDM_OK;
}

static void row_copies_run(const tdm_kernel_call *call, void (*range)(void *, int64_t, int64_t),
                           rows_job *job) {
  const rows_state *state = call->state;
  job->state = state;
  tdm_team_run(state->splits ? call->team : NULL, state->count, 256, range, job);
}

static void take_range(void *user, int64_t begin, int64_t end) {
  const rows_job *job = user;
  const int64_t dim = job->state->dim, ahead = row_fetch_ahead(dim);
  for (int64_t i = begin; i < end; i++) {
    row_fetch_at(job->from, job->indices, i + ahead, job->state->count, dim);
    job->taken[i] = job->indices[i];
    if (job->indices[i] < 0)
      row_zero(job->to + i * dim, dim);
    else
      row_copy(job->to + i * dim, job->from + job->indices[i] * dim, dim);
  }
}

static tdm_status take_rows_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return row_copies_prepare(request, 1, answer);
}

static tdm_status take_rows_execute(const tdm_kernel_call *call) {
  rows_job job = {.from = call->inputs[0],
                  .indices = call->inputs[1],
                  .to = call->outputs[0],
                  .taken = call->outputs[1]};
  row_copies_run(call, take_range, &job);
  return TDM_OK;
}

/* Rows of the table set to, or increased by, rows begin <= i < end. */
ALWAYS_INLINE void put_rows(const rows_job *job, int64_t begin, int64_t end, const bool adds) {
  const int64_t dim = job->state->dim, ahead = row_fetch_ahead(dim);
  for (int64_t i = begin; i < end; i++) {
    row_fetch_at(job->to, job->indices, i + ahead, job->state->count, dim);
    if (job->indices[i] < 0) continue;
    stored *to = job->to + job->indices[i] * dim;
    if (adds)
      row_add(to, job->from + i * dim, dim);
    else
      row_copy(to, job->from + i * dim, dim);
  }
}

static void put_range(void *job, int64_t begin, int64_t end) {
  put_rows(job, begin, end, false);
}

static void add_range(void *job, int64_t begin, int64_t end) {
  put_rows(job, begin, end, true);
}

static tdm_status prepare_put(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return row_copies_prepare(request, 2, answer);
}

static tdm_status put_rows_execute(const tdm_kernel_call *call) {
  rows_job job = {.from = call->inputs[1], .indices = call->inputs[2], .to = call->outputs[0]};
  row_copies_run(call, put_range, &job);
  return TDM_OK;
}

static tdm_status add_rows_execute(const tdm_kernel_call *call) {
  rows_job job = {.from = call->inputs[1], .indices = call->inputs[2], .to = call->outputs[0]};
  row_copies_run(call, add_range, &job);
  return TDM_OK;
}

KERNELS(row_copies, KERNEL(TDM_OP_TAKE_ROWS, take_rows_prepare, take_rows_execute),
        KERNEL(TDM_OP_PUT_ROWS, prepare_put, put_rows_execute),
        KERNEL(TDM_OP_ADD_ROWS, prepare_put, add_rows_execute))
