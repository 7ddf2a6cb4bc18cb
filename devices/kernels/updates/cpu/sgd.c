/* Stochastic gradient descent as torch.optim.SGD does it (its single-tensor form): weight decay,
 * momentum with dampening, Nesterov; and its plain form on the rows of a sparse gradient. */
#include "core/status.h"
#include "devices/kernels/cpu/fetch.h"
#include "devices/kernels/updates/cpu/update.h"
#include "devices/kernels/updates/optimizers.h"

typedef struct sgd_job {
  const stored *gradient; /* (count) */
  stored *parameter;      /* (count) */
  stored *buffer;         /* (count); NULL without momentum */
  real rate;
  real weight_decay;
  real momentum;
  real kept; /* 1 - dampening */
  bool nesterov;
  bool first; /* the buffer holds nothing yet */
} sgd_job;

static void plain_range(void *user, int64_t begin, int64_t end) {
  const sgd_job *job = user;
  const stored *gradient = job->gradient;
  stored *parameter = job->parameter;
  const vec rate = vec_set(job->rate);
  for (int64_t i = begin; i < end; i += LANES) {
    const int64_t left = end - i;
    const vec p = element_load(parameter + i, left);
    const vec d = with_decay(element_load(gradient + i, left), p, job->weight_decay);
    element_store(parameter + i, p - rate * d, left);
  }
}

static void momentum_range(void *user, int64_t begin, int64_t end) {
  const sgd_job *job = user;
  for (int64_t i = begin; i < end; i += LANES) {
    const int64_t left = end - i;
    const vec p = element_load(job->parameter + i, left);
    const vec d = with_decay(element_load(job->gradient + i, left), p, job->weight_decay);
    vec m = d;
    if (!job->first) {
      m = job->momentum * element_load(job->buffer + i, left) + job->kept * d;
    }
    element_store(job->buffer + i, m, left);
    const vec direction = job->nesterov ? d + job->momentum * m : m;
    element_store(job->parameter + i, p - job->rate * direction, left);
  }
}

static tdm_status sgd_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return update_prepare(request, answer, 8);
}

static tdm_status sgd_execute(const tdm_kernel_call *call) {
  const tdm_sgd_attributes *attributes = call->attributes;
  sgd_job job = {.parameter = call->outputs[0],
                 .gradient = call->inputs[1],
                 .rate = (real)call->scalars->learning_rate,
                 .weight_decay = (real)attributes->weight_decay,
                 .momentum = (real)(call->scalars->has_momentum ? call->scalars->momentum
                                                                : attributes->momentum),
                 .kept = (real)(1.0 - attributes->dampening),
                 .nesterov = attributes->nesterov != 0};
  /* A run without momentum leaves the buffer to those that have some. */
  if (attributes->momentum == 0 || job.momentum == 0) return update_run(call, plain_range, &job);
  stored *initialized = call->outputs[2]; /* () */
  job.buffer = call->outputs[1];
  job.first = widened(*initialized) == 0;
  TDM_TRY(update_run(call, momentum_range, &job));
  *initialized = narrowed(1);
  return TDM_OK;
}

/* ---- On single rows -------------------------------------------------------------------------- */

typedef struct rows_job {
  const stored *rows;     /* (n, dim) */
  const int64_t *indices; /* (n), of which those that count are distinct */
  int64_t count;
  int64_t dim;
  stored *parameter; /* (table's rows, dim) */
  real rate;
} rows_job;

static void rows_range(void *user, int64_t begin, int64_t end) {
  const rows_job *job = user;
  const int64_t dim = job->dim, ahead = row_fetch_ahead(dim);
  for (int64_t i = begin; i < end; i++) {
    row_fetch_at(job->parameter, job->indices, i + ahead, job->count, dim);
    stored *parameter = job->parameter + job->indices[i] * dim; /* (dim) */
    const stored *gradient = job->rows + i * dim;               /* (dim) */
    for (int64_t j = 0; j < dim; j += LANES) {
      const vec p = element_load(parameter + j, dim - j);
      element_store(parameter + j, p - job->rate * element_load(gradient + j, dim - j), dim - j);
    }
  }
}

static tdm_status sgd_sparse_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return update_rows_prepare(request, answer, 10, 4);
}

static tdm_status sgd_sparse_execute(const tdm_kernel_call *call) {
  const update_state *state = call->state;
  rows_job job = {.rows = call->inputs[1],
                  .indices = call->inputs[2],
                  .count = *(const int64_t *)call->inputs[3],
                  .dim = state->sizes.dim,
                  .parameter = call->outputs[0],
                  .rate = (real)call->scalars->learning_rate};
  return update_rows_run(call, job.count, rows_range, &job);
}

KERNELS(sgd, KERNEL(TDM_OP_SGD, sgd_prepare, sgd_execute),
        KERNEL(TDM_OP_SGD_SPARSE, sgd_sparse_prepare, sgd_sparse_execute))
