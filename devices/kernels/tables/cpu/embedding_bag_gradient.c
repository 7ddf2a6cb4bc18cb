/* Gradients of embedding bags, dense and sparse, and of the scales. Invariant: contributions to a
 * row of the table are summed in the order of ids by the one thread that owns the row. */
#include "core/status.h"
#include "devices/kernels/cpu/fetch.h"
#include "devices/kernels/tables/cpu/bags.h"
#include "devices/kernels/tables/cpu/row_sums.h"
#include "devices/kernels/tables/lookup.h"

/* Writes, for every id, its bag (-1: none) and its scale. bags, scales: (count); given may be NULL.
 */
static void read_sources(const bag_list *list, const stored *given, int64_t *bags, real *scales) {
  const bag_state *state = list->state;
  for (int64_t i = 0; i < state->sizes.count; i++)
    bags[i] = -1;
  for (int64_t bag = 0; bag < state->sizes.bags; bag++) {
    const int64_t end = bag_end(list, bag);
    const int64_t size = state->sizes.mean ? bag_size(list, bag) : 1;
    const real scale = 1 / (real)(size > 0 ? size : 1);
    for (int64_t i = bag_begin(list, bag); i < end; i++) {
      bags[i] = bag;
      scales[i] = given ? widened(given[i]) : scale;
    }
  }
}

static size_t sources_bytes(const bag_state *state) {
  return aligned_bytes((size_t)state->sizes.count * (sizeof(int64_t) + sizeof(real)));
}

/* ---- Dense ----------------------------------------------------------------------------------- */

typedef struct dense_job {
  bag_list list;
  const stored *d_y;      /* (bags, dim) */
  const int64_t *winners; /* (bags, dim) or NULL */
  const int64_t *bags;    /* (count) */
  const real *scales;     /* (count) */
  stored *d_weight;       /* (rows, dim) */
} dense_job;

static void add_scaled(stored *to, const stored *from, real scale, int64_t count) {
  const vec factor = vec_set(scale);
  for (int64_t j = 0; j < count; j += LANES) {
    const vec sum = element_load(to + j, count - j) + factor * element_load(from + j, count - j);
    element_store(to + j, sum, count - j);
  }
}

/* Computes rows begin <= row < end of the table: each thread reads all ids and uses those of its
 * rows. */
static void dense_range(void *user, int64_t begin, int64_t end) {
  const dense_job *job = user;
  const bag_state *state = job->list.state;
  const int64_t dim = state->sizes.dim;
  row_zero(job->d_weight + begin * dim, (end - begin) * dim);
  for (int64_t i = 0; i < state->sizes.count; i++) {
    const int64_t id = tdm_cpu_id(&job->list.ids, i), bag = job->bags[i];
    if (id < begin || id >= end || id == state->sizes.padding || bag < 0) continue;
    stored *row = job->d_weight + id * dim; /* (dim) */
    const stored *d = job->d_y + bag * dim; /* (dim) */
    if (!job->winners) {
      add_scaled(row, d, job->scales[i], dim);
      continue;
    }
    const int64_t *winners = job->winners + bag * dim; /* (dim) */
    for (int64_t j = 0; j < dim; j++)
      stored_add(&row[j], winners[j] == i ? widened(d[j]) : 0);
  }
}

static tdm_status embedding_bag_gradient_prepare(const tdm_kernel_request *request,
                                                 tdm_kernel_answer *answer) {
  bag_state *state = bag_state_create(request, answer, 1, &request->inputs[0]);
  if (!state) return TDM_OUT_OF_MEMORY;
  const double stores =
      (double)(state->sizes.rows + state->sizes.count) * (double)state->sizes.dim / LANES;
  state->splits = answer->splits =
      tdm_cpu_splits(request, (double)state->sizes.count * 3.0 + stores);
  answer->workspace_bytes = sources_bytes(state);
  return TDM_OK;
}

static tdm_status embedding_bag_gradient_execute(const tdm_kernel_call *call) {
  const bag_state *state = call->state;
  int64_t *bags = call->workspace;                    /* (count) */
  real *scales = (real *)(bags + state->sizes.count); /* (count) */
  dense_job job = {.d_y = call->inputs[0],
                   .winners = call->inputs[4],
                   .bags = bags,
                   .scales = scales,
                   .d_weight = call->outputs[0]};
  TDM_TRY(bag_list_read(call, 1, &job.list));
  read_sources(&job.list, call->inputs[3], bags, scales);
  tdm_team *team = state->splits ? call->team : NULL;
  const int64_t grain = ceil_div(state->sizes.rows, (int64_t)tdm_team_size(team));
  tdm_team_run(team, state->sizes.rows, grain, dense_range, &job);
  return TDM_OK;
}

/* ---- Sparse ---------------------------------------------------------------------------------- */

static tdm_status embedding_bag_sparse_gradient_prepare(const tdm_kernel_request *request,
                                                        tdm_kernel_answer *answer) {
  const tdm_embedding_bag_attributes *attributes = request->attributes;
  tdm_cpu_sorting sorting;
  TDM_TRY(tdm_cpu_sorting_of(attributes->rows, count_of(&request->inputs[1]), &sorting));
  bag_state *state = bag_state_create(request, answer, 1, &request->inputs[0]);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->sorting = sorting;
  state->splits = answer->splits =
      tdm_cpu_splits(request, row_sums_work_ns(state->sizes.count, state->sizes.dim));
  answer->workspace_bytes = sources_bytes(state) + row_sums_bytes(state->sizes.count);
  return TDM_OK;
}

static tdm_status embedding_bag_sparse_gradient_execute(const tdm_kernel_call *call) {
  const bag_state *state = call->state;
  int64_t *bags = call->workspace;                    /* (count) */
  real *scales = (real *)(bags + state->sizes.count); /* (count) */
  const stored *given = call->inputs[3];
  bag_list list;
  TDM_TRY(bag_list_read(call, 1, &list));
  read_sources(&list, given, bags, scales);
  const row_sums sums = {.ids = list.ids,
                         .padding = state->sizes.padding,
                         .sorting = state->sorting,
                         .source = {.d = call->inputs[0],
                                    .bags = bags,
                                    .scales = given || state->sizes.mean ? scales : NULL,
                                    .dim = state->sizes.dim},
                         .rows = call->outputs[0],
                         .indices = call->outputs[1],
                         .used = call->outputs[2]};
  row_sums_run(&sums, (char *)call->workspace + sources_bytes(state),
               state->splits ? call->team : NULL);
  return TDM_OK;
}

/* ---- Of the scales --------------------------------------------------------------------------- */

typedef struct scales_job {
  bag_list list;
  const stored *d_y;    /* (bags, dim) */
  const stored *weight; /* (rows, dim) */
  stored *d_scales;     /* (count) */
} scales_job;

static real product_of_rows(const stored *a, const stored *b, int64_t dim) {
  vec sums = {0};
  for (int64_t j = 0; j < dim; j += LANES)
    sums += element_load(a + j, dim - j) * element_load(b + j, dim - j);
  return vec_sum(sums);
}

static void scales_range(void *user, int64_t begin, int64_t end) {
  const scales_job *job = user;
  const bag_state *state = job->list.state;
  const int64_t dim = state->sizes.dim, ahead = row_fetch_ahead(dim);
  for (int64_t bag = begin; bag < end; bag++) {
    for (int64_t i = bag_begin(&job->list, bag); i < bag_end(&job->list, bag); i++) {
      if (i + ahead < state->sizes.count)
        row_fetch(job->weight, tdm_cpu_id(&job->list.ids, i + ahead), dim);
      const int64_t id = tdm_cpu_id(&job->list.ids, i);
      job->d_scales[i] =
          id == state->sizes.padding
              ? narrowed(0)
              : narrowed(product_of_rows(job->d_y + bag * dim, job->weight + id * dim, dim));
    }
  }
}

static tdm_status embedding_bag_scales_gradient_prepare(const tdm_kernel_request *request,
                                                        tdm_kernel_answer *answer) {
  bag_state *state = bag_state_create(request, answer, 2, &request->inputs[0]);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->splits = answer->splits =
      tdm_cpu_splits(request, (double)state->sizes.count * (6.0 + (double)state->sizes.dim / 8.0));
  return TDM_OK;
}

static tdm_status embedding_bag_scales_gradient_execute(const tdm_kernel_call *call) {
  const bag_state *state = call->state;
  scales_job job = {
      .d_y = call->inputs[0], .weight = call->inputs[1], .d_scales = call->outputs[0]};
  TDM_TRY(bag_list_read(call, 2, &job.list));
  const int64_t last = state->sizes.bags > 0 ? bag_end(&job.list, state->sizes.bags - 1) : 0;
  row_zero(job.d_scales + last, state->sizes.count - last);
  tdm_team_run(state->splits ? call->team : NULL, state->sizes.bags, 64, scales_range, &job);
  return TDM_OK;
}

KERNELS(embedding_bag_gradient,
        KERNEL(TDM_OP_EMBEDDING_BAG_GRADIENT, embedding_bag_gradient_prepare,
               embedding_bag_gradient_execute),
        KERNEL(TDM_OP_EMBEDDING_BAG_SPARSE_GRADIENT, embedding_bag_sparse_gradient_prepare,
               embedding_bag_sparse_gradient_execute),
        KERNEL(TDM_OP_EMBEDDING_BAG_SCALES_GRADIENT, embedding_bag_scales_gradient_prepare,
               embedding_bag_scales_gradient_execute))
