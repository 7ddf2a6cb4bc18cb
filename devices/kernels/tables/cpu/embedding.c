/* Embedding and its gradients, dense and sparse. Invariants: contributions to a row of a gradient
 * are summed in the order of ids, whichever thread computes the row. The first `count` indices of a
 * sparse gradient are distinct and ascend; the rest are -1, with rows of zeros. */
#include <stdatomic.h>

#include "core/status.h"
#include "devices/kernels/cpu/fetch.h"
#include "devices/kernels/tables/cpu/row_sums.h"
#include "devices/kernels/tables/lookup.h"

typedef struct embedding_state {
  int64_t count; /* ids */
  int64_t rows;  /* rows of the table */
  int64_t dim;
  int64_t padding;
  bool wide;
  bool splits;
} embedding_state;

typedef struct lookup_job {
  const embedding_state *state;
  tdm_cpu_ids ids;
  const stored *weight; /* (rows, dim) */
  stored *out;          /* (count, dim) */
  atomic_bool stray;    /* some id is out of range */
} lookup_job;

#define GRAIN 256            /* rows that are checked, then copied */
#define NEAR_BYTES (2 << 20) /* tables that are not larger stay in caches that are near enough */

static bool is_far(const embedding_state *state) {
  return state->rows * state->dim * (int64_t)sizeof(stored) > NEAR_BYTES;
}

ALWAYS_INLINE void lookup_rows(const lookup_job *job, int64_t begin, int64_t end,
                               const bool fetches) {
  const int64_t dim = job->state->dim, last = job->ids.count - 1;
  const int64_t ahead = row_fetch_ahead(dim);
  for (int64_t i = begin; i < end; i++) {
    if (fetches) {
      const int64_t later = i + ahead < last ? i + ahead : last;
      row_fetch(job->weight, tdm_cpu_id(&job->ids, later), dim);
    }
    row_copy(job->out + i * dim, job->weight + tdm_cpu_id(&job->ids, i) * dim, dim);
  }
}

static void lookup_range(void *user, int64_t begin, int64_t end) {
  lookup_job *job = user;
  const embedding_state *state = job->state;
  const bool fetches = is_far(state);
  for (int64_t first = begin; first < end; first += GRAIN) {
    const int64_t count = lesser_of(end - first, GRAIN);
    if (!tdm_cpu_ids_inside(&job->ids, first, count, state->rows)) {
      atomic_store_explicit(&job->stray, true, memory_order_relaxed);
      return;
    }
    if (fetches)
      lookup_rows(job, first, first + count, true);
    else
      lookup_rows(job, first, first + count, false);
  }
}

static tdm_status embedding_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  embedding_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->count = count_of(&request->inputs[1]);
  state->rows = request->inputs[0].shape.dims[0];
  state->dim = last_dim_of(&request->inputs[0]);
  state->wide = request->inputs[1].dtype == TDM_INT64;
  state->splits = answer->splits =
      tdm_cpu_splits(request, (double)state->count * (3.0 + (double)state->dim / LANES));
  return TDM_OK;
}

static tdm_status embedding_execute(const tdm_kernel_call *call) {
  const embedding_state *state = call->state;
  lookup_job job = {.state = state,
                    .ids = {call->inputs[1], state->count, state->wide},
                    .weight = call->inputs[0],
                    .out = call->outputs[0]};
  tdm_team_run(state->splits ? call->team : NULL, state->count, GRAIN, lookup_range, &job);
  if (atomic_load_explicit(&job.stray, memory_order_relaxed))
    return tdm_cpu_ids_check(&job.ids, state->rows);
  return TDM_OK;
}

/* ---- Dense gradient -------------------------------------------------------------------------- */

typedef struct gradient_job {
  const embedding_state *state;
  tdm_cpu_ids ids;
  const stored *d_out; /* (count, dim) */
  stored *d_weight;    /* (rows, dim) */
} gradient_job;

#define BLOCK 512 /* ids that are looked through before their rows are added */

/* Finds the positions first <= i < last of ids that name rows begin <= row < end of the table, as
 * offsets from first. It has no branch, because a branch would be unpredictable. */
ALWAYS_INLINE int64_t find_own(const gradient_job *job, int64_t begin, int64_t end, int64_t first,
                               int64_t last, int32_t *positions) {
  int64_t count = 0;
  for (int64_t i = first; i < last; i++) {
    const int64_t id = tdm_cpu_id(&job->ids, i);
    positions[count] = (int32_t)(i - first);
    count += (id >= begin) & (id < end) & (id != job->state->padding);
  }
  return count;
}

/* Computes rows begin <= row < end of the table: each thread reads all ids and uses those of its
 * rows. */
static void gradient_range(void *user, int64_t begin, int64_t end) {
  const gradient_job *job = user;
  const int64_t dim = job->state->dim, ahead = row_fetch_ahead(dim);
  const bool fetches = is_far(job->state);
  int32_t positions[BLOCK];
  row_zero(job->d_weight + begin * dim, (end - begin) * dim);
  for (int64_t first = 0; first < job->ids.count; first += BLOCK) {
    const int64_t last = lesser_of(job->ids.count, first + BLOCK);
    const int64_t count = find_own(job, begin, end, first, last, positions);
    for (int64_t p = 0; p < count; p++) {
      const int64_t i = first + positions[p];
      if (fetches && p + ahead < count)
        row_fetch(job->d_weight, tdm_cpu_id(&job->ids, first + positions[p + ahead]), dim);
      row_add(job->d_weight + tdm_cpu_id(&job->ids, i) * dim, job->d_out + i * dim, dim);
    }
  }
}

static tdm_status embedding_gradient_prepare(const tdm_kernel_request *request,
                                             tdm_kernel_answer *answer) {
  const tdm_embedding_attributes *attributes = request->attributes;
  embedding_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->count = count_of(&request->inputs[1]);
  state->rows = request->outputs[0].shape.dims[0];
  state->dim = last_dim_of(&request->outputs[0]);
  state->padding = attributes->padding_index;
  state->wide = request->inputs[1].dtype == TDM_INT64;
  const double stores = (double)(state->rows + state->count) * (double)state->dim / LANES;
  state->splits = answer->splits = tdm_cpu_splits(request, (double)state->count * 3.0 + stores);
  return TDM_OK;
}

static tdm_status embedding_gradient_execute(const tdm_kernel_call *call) {
  const embedding_state *state = call->state;
  gradient_job job = {.state = state,
                      .ids = {call->inputs[1], state->count, state->wide},
                      .d_out = call->inputs[0],
                      .d_weight = call->outputs[0]};
  TDM_TRY(tdm_cpu_ids_check(&job.ids, state->rows));
  tdm_team *team = state->splits ? call->team : NULL;
  const int64_t grain = ceil_div(state->rows, (int64_t)tdm_team_size(team));
  tdm_team_run(team, state->rows, grain, gradient_range, &job);
  return TDM_OK;
}

/* ---- Sparse gradient ------------------------------------------------------------------------- */

typedef struct sparse_state {
  int64_t count; /* ids */
  int64_t dim;
  int64_t rows; /* rows of the table */
  int64_t padding;
  tdm_cpu_sorting sorting;
  bool wide;
  bool splits;
} sparse_state;

static tdm_status embedding_sparse_gradient_prepare(const tdm_kernel_request *request,
                                                    tdm_kernel_answer *answer) {
  const tdm_embedding_attributes *attributes = request->attributes;
  const int64_t count = count_of(&request->inputs[1]);
  tdm_cpu_sorting sorting;
  TDM_TRY(tdm_cpu_sorting_of(attributes->rows, count, &sorting));
  sparse_state *state = kernel_state_create(answer, sizeof *state);
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
  const sparse_state *state = call->state;
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

KERNELS(embedding, KERNEL(TDM_OP_EMBEDDING, embedding_prepare, embedding_execute),
        KERNEL(TDM_OP_EMBEDDING_GRADIENT, embedding_gradient_prepare, embedding_gradient_execute),
        KERNEL(TDM_OP_EMBEDDING_SPARSE_GRADIENT, embedding_sparse_gradient_prepare,
               embedding_sparse_gradient_execute))
