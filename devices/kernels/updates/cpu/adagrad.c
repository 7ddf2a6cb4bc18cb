/* Adagrad as torch.optim.Adagrad does it (its single-tensor form): the rate of a step in double,
 * sums and parameter in the parameter's dtype. J. Duchi, E. Hazan, Y. Singer, "Adaptive subgradient
 * methods for online learning and stochastic optimization", JMLR 12, 2011. */
#include "core/status.h"
#include "devices/kernels/cpu/fetch.h"
#include "devices/kernels/cpu/vector_math.h"
#include "devices/kernels/updates/cpu/update.h"
#include "devices/kernels/updates/optimizers.h"

typedef struct adagrad_job {
  const stored *gradient; /* (count) */
  stored *parameter;      /* (count) */
  stored *sum;            /* (count): of squares of all gradients */
  real decay;
  real epsilon;
  real rate; /* of this step */
} adagrad_job;

static void adagrad_range(void *user, int64_t begin, int64_t end) {
  const adagrad_job *job = user;
  for (int64_t i = begin; i < end; i += LANES) {
    const int64_t left = end - i;
    const vec p = element_load(job->parameter + i, left);
    const vec g = with_decay(element_load(job->gradient + i, left), p, job->decay);
    const vec s = element_load(job->sum + i, left) + g * g;
    element_store(job->sum + i, s, left);
    element_store(job->parameter + i, p - job->rate * (g / (vec_sqrt(s) + job->epsilon)), left);
  }
}

/* Counts the step, which is (). */
static adagrad_job begin_step(const tdm_kernel_call *call, stored *step) {
  const tdm_adagrad_attributes *attributes = call->attributes;
  const double slowed = 1.0 + (double)widened(*step) * attributes->rate_decay;
  stored_add(step, 1);
  return (adagrad_job){.gradient = call->inputs[1],
                       .parameter = call->outputs[0],
                       .sum = call->outputs[1],
                       .decay = (real)attributes->weight_decay,
                       .epsilon = (real)attributes->epsilon,
                       .rate = (real)(call->scalars->learning_rate / slowed)};
}

static tdm_status adagrad_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return update_prepare(request, answer, 6);
}

static tdm_status adagrad_execute(const tdm_kernel_call *call) {
  adagrad_job job = begin_step(call, call->outputs[2]);
  return update_run(call, adagrad_range, &job);
}

/* ---- The rows of a sparse gradient --------------------------------------------------------------
 */

typedef struct adagrad_rows {
  adagrad_job step;       /* gradient: (n, dim); parameter, sum: (rows, dim) */
  const int64_t *indices; /* (n), of which the first count are distinct */
  int64_t count;
  int64_t dim;
} adagrad_rows;

static void rows_range(void *user, int64_t begin, int64_t end) {
  const adagrad_rows *job = user;
  const int64_t dim = job->dim, ahead = row_fetch_ahead(2 * dim);
  for (int64_t i = begin; i < end; i++) {
    row_fetch_at(job->step.parameter, job->indices, i + ahead, job->count, dim);
    row_fetch_at(job->step.sum, job->indices, i + ahead, job->count, dim);
    adagrad_job row = job->step;
    row.decay = 0;
    row.gradient += i * dim;
    row.parameter += job->indices[i] * dim;
    row.sum += job->indices[i] * dim;
    adagrad_range(&row, 0, dim);
  }
}

static tdm_status adagrad_sparse_prepare(const tdm_kernel_request *request,
                                         tdm_kernel_answer *answer) {
  return update_rows_prepare(request, answer, 20, 2);
}

static tdm_status adagrad_sparse_execute(const tdm_kernel_call *call) {
  const update_state *state = call->state;
  adagrad_rows job = {.step = begin_step(call, call->outputs[2]),
                      .indices = call->inputs[2],
                      .count = *(const int64_t *)call->inputs[3],
                      .dim = state->sizes.dim};
  return update_rows_run(call, job.count, rows_range, &job);
}

KERNELS(adagrad, KERNEL(TDM_OP_ADAGRAD, adagrad_prepare, adagrad_execute),
        KERNEL(TDM_OP_ADAGRAD_SPARSE, adagrad_sparse_prepare, adagrad_sparse_execute))
