/* Adam, AdamW and SparseAdam as torch.optim does them (single-tensor forms): bias corrections in
 * double, moments and parameter in the parameter's dtype. Kingma and Ba, "Adam: a method for
 * stochastic optimization", ICLR 2015; Loshchilov and Hutter, "Decoupled weight decay
 * regularization", ICLR 2019. */
#include <math.h>

#include "core/status.h"
#include "devices/cpu/kernels/fetch.h"
#include "devices/cpu/kernels/update.h"
#include "devices/cpu/kernels/vector_math.h"

/* The factors of one step, for all elements. */
typedef struct adam_job {
  const stored *gradient; /* (count) */
  stored *parameter;      /* (count) */
  stored *average;        /* (count): exp_avg */
  stored *square;         /* (count): exp_avg_sq */
  real beta1, keep1;      /* keep = 1 - beta */
  real beta2, keep2;
  real epsilon;
  real decay;  /* added to the gradient, times the parameter */
  real shrink; /* the parameter is multiplied by it first; 1: not decoupled */
  real step_size;
  real root; /* the square root of the second bias correction */
} adam_job;

static void adam_range(void *user, int64_t begin, int64_t end) {
  const adam_job *job = user;
  for (int64_t i = begin; i < end; i += LANES) {
    const int64_t left = end - i;
    const vec p = element_load(job->parameter + i, left) * job->shrink;
    const vec g = element_load(job->gradient + i, left) + job->decay * p;
    const vec m = element_load(job->average + i, left) * job->beta1 + g * job->keep1;
    const vec v = element_load(job->square + i, left) * job->beta2 + g * g * job->keep2;
    const vec denominator = vec_sqrt(v) / job->root + job->epsilon;
    element_store(job->average + i, m, left);
    element_store(job->square + i, v, left);
    element_store(job->parameter + i, p - job->step_size * (m / denominator), left);
  }
}

static adam_job job_of(const tdm_kernel_call *call, double step) {
  const tdm_adam_attributes *attributes = call->attributes;
  const double rate = call->scalars->learning_rate;
  const double correction1 = 1.0 - pow(attributes->beta1, step);
  const double correction2 = 1.0 - pow(attributes->beta2, step);
  const bool decoupled = attributes->decoupled != 0;
  return (adam_job){
      .beta1 = (real)attributes->beta1,
      .keep1 = (real)(1.0 - attributes->beta1),
      .beta2 = (real)attributes->beta2,
      .keep2 = (real)(1.0 - attributes->beta2),
      .epsilon = (real)attributes->epsilon,
      .decay = decoupled ? 0 : (real)attributes->weight_decay,
      .shrink = decoupled ? (real)(1.0 - rate * attributes->weight_decay) : 1,
      .step_size = (real)(rate / correction1),
      .root = (real)sqrt(correction2),
  };
}

static tdm_status adam_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return update_prepare(request, answer, 4);
}

static tdm_status adam_execute(const tdm_kernel_call *call) {
  stored *step = call->outputs[3]; /* () */
  stored_add(step, 1);
  adam_job job = job_of(call, (double)widened(*step));
  job.parameter = call->outputs[0];
  job.gradient = call->inputs[1];
  job.average = call->outputs[1];
  job.square = call->outputs[2];
  return update_run(call, adam_range, &job);
}

/* ---- The rows of a sparse gradient --------------------------------------------------------------
 */

typedef struct adam_rows {
  adam_job step;          /* gradient: (n, dim); the others: (rows, dim) */
  const int64_t *indices; /* (n), of which the first count are distinct */
  int64_t count;
  int64_t dim;
} adam_rows;

/* One row: moments move by keep times the difference, only here; all pointers of job are (dim). */
static void sparse_row(const adam_job *job, int64_t dim) {
  for (int64_t i = 0; i < dim; i += LANES) {
    const int64_t left = dim - i;
    const vec g = element_load(job->gradient + i, left);
    vec m = element_load(job->average + i, left), v = element_load(job->square + i, left);
    m += (g - m) * job->keep1;
    v += (g * g - v) * job->keep2;
    const vec p = element_load(job->parameter + i, left);
    const vec change = m / (vec_sqrt(v) + job->epsilon) * job->step_size;
    element_store(job->average + i, m, left);
    element_store(job->square + i, v, left);
    element_store(job->parameter + i, p - change, left);
  }
}

static void rows_range(void *user, int64_t begin, int64_t end) {
  const adam_rows *job = user;
  const int64_t dim = job->dim, ahead = row_fetch_ahead(3 * dim);
  for (int64_t i = begin; i < end; i++) {
    row_fetch_at(job->step.parameter, job->indices, i + ahead, job->count, dim);
    row_fetch_at(job->step.average, job->indices, i + ahead, job->count, dim);
    row_fetch_at(job->step.square, job->indices, i + ahead, job->count, dim);
    adam_job row = job->step;
    row.gradient += i * dim;
    row.parameter += job->indices[i] * dim;
    row.average += job->indices[i] * dim;
    row.square += job->indices[i] * dim;
    sparse_row(&row, dim);
  }
}

static tdm_status adam_sparse_prepare(const tdm_kernel_request *request,
                                      tdm_kernel_answer *answer) {
  return update_rows_prepare(request, answer, 30, 1.5);
}

static tdm_status adam_sparse_execute(const tdm_kernel_call *call) {
  const update_state *state = call->state;
  const tdm_adam_attributes *attributes = call->attributes;
  stored *step = call->outputs[3]; /* () */
  stored_add(step, 1);
  adam_rows job = {.step = job_of(call, (double)widened(*step)),
                   .indices = call->inputs[2],
                   .count = *(const int64_t *)call->inputs[3],
                   .dim = state->sizes.dim};
  const double correction2 = 1.0 - pow(attributes->beta2, (double)widened(*step));
  const double correction1 = 1.0 - pow(attributes->beta1, (double)widened(*step));
  job.step.step_size = (real)(call->scalars->learning_rate * sqrt(correction2) / correction1);
  job.step.gradient = call->inputs[1];
  job.step.parameter = call->outputs[0];
  job.step.average = call->outputs[1];
  job.step.square = call->outputs[2];
  return update_rows_run(call, job.count, rows_range, &job);
}

KERNELS(adam, KERNEL(TDM_OP_ADAM, adam_prepare, adam_execute),
        KERNEL(TDM_OP_ADAM_SPARSE, adam_sparse_prepare, adam_sparse_execute))
