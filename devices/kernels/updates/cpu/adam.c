/* Adam and its kin as torch.optim does them (single-tensor forms): AdamW, AMSGrad, NAdam, RAdam,
 * Adamax, SparseAdam. Bias corrections in double, moments and parameter in the parameter's dtype.
 * Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015; Loshchilov and Hutter,
 * "Decoupled weight decay regularization", ICLR 2019; Reddi et al., "On the convergence of Adam and
 * beyond", ICLR 2018; of the others see devices/kernels/updates/optimizers.h. */
#include <math.h>

#include "core/status.h"
#include "devices/kernels/cpu/fetch.h"
#include "devices/kernels/cpu/vector_math.h"
#include "devices/kernels/updates/cpu/update.h"
#include "devices/kernels/updates/moment_rates.h"
#include "devices/kernels/updates/optimizers.h"

/* The factors of one step, for all elements. */
typedef struct moments_job {
  const stored *gradient; /* (count), as all that follow */
  stored *parameter;
  stored *average;   /* exp_avg */
  stored *square;    /* exp_avg_sq; exp_inf of adamax */
  stored *largest;   /* max_exp_avg_sq, of amsgrad */
  real beta1, keep1; /* keep = 1 - beta */
  real beta2, keep2;
  real epsilon;
  real decay;       /* added to the gradient, times the parameter */
  real shrink;      /* the parameter is multiplied by it first; 1: not decoupled */
  real of_gradient; /* tdm_moment_rates */
  real of_average;
  real root;
} moments_job;

ALWAYS_INLINE vec larger_of(vec a, vec b) {
  return vec_select((a > b) | (a != a), a, b); /* a NaN stays, as in torch.maximum */
}

typedef enum moments_form { ADAM, AMSGRAD, NADAM, PLAIN, ADAMAX } moments_form;

ALWAYS_INLINE void moments_of(const moments_job *job, moments_form form, int64_t begin,
                              int64_t end) {
  for (int64_t i = begin; i < end; i += LANES) {
    const int64_t left = end - i;
    const vec p = element_load(job->parameter + i, left) * job->shrink;
    const vec g = with_decay(element_load(job->gradient + i, left), p, job->decay);
    const vec m = element_load(job->average + i, left) * job->beta1 + g * job->keep1;
    const vec before = element_load(job->square + i, left) * job->beta2;
    const vec v = form == ADAMAX ? larger_of(before, vec_absolute(g) + job->epsilon)
                                 : before + g * g * job->keep2;
    element_store(job->average + i, m, left);
    element_store(job->square + i, v, left);
    vec most = v;
    if (form == AMSGRAD) {
      most = larger_of(element_load(job->largest + i, left), v);
      element_store(job->largest + i, most, left);
    }
    vec change = m, direct = g;
    if (form != PLAIN) {
      const vec denominator = form == ADAMAX ? v : vec_sqrt(most) / job->root + job->epsilon;
      change = m / denominator;
      direct = g / denominator;
    }
    vec after = p - job->of_average * change;
    if (form == NADAM) after -= job->of_gradient * direct;
    element_store(job->parameter + i, after, left);
  }
}

#define MOMENTS_RANGE(name, form)                                                                  \
  static void name(void *user, int64_t begin, int64_t end) {                                       \
    moments_of(user, form, begin, end);                                                            \
  }
MOMENTS_RANGE(adam_range, ADAM)
MOMENTS_RANGE(amsgrad_range, AMSGRAD)
MOMENTS_RANGE(nadam_range, NADAM)
MOMENTS_RANGE(plain_range, PLAIN)
MOMENTS_RANGE(adamax_range, ADAMAX)

static moments_job job_of(const tdm_kernel_call *call, const tdm_adam_attributes *attributes,
                          const tdm_moment_rates *rates) {
  const double decay = attributes->weight_decay;
  const bool decoupled = attributes->decoupled != 0;
  return (moments_job){
      .gradient = call->inputs[1],
      .parameter = call->outputs[0],
      .average = call->outputs[1],
      .square = call->outputs[2],
      .beta1 = (real)attributes->beta1,
      .keep1 = (real)(1.0 - attributes->beta1),
      .beta2 = (real)attributes->beta2,
      .keep2 = (real)(1.0 - attributes->beta2),
      .epsilon = (real)attributes->epsilon,
      .decay = decoupled ? 0 : (real)decay,
      .shrink = decoupled ? (real)(1.0 - call->scalars->learning_rate * decay) : 1,
      .of_gradient = (real)rates->of_gradient,
      .of_average = (real)rates->of_average,
      .root = (real)rates->root,
  };
}

static tdm_status moments_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return update_prepare(request, answer, 4);
}

/* Increments the step, which is (), and returns its number. */
static double next_step(stored *step) {
  stored_add(step, 1);
  return (double)widened(*step);
}

static tdm_status adam_execute(const tdm_kernel_call *call) {
  const tdm_adam_attributes attributes = tdm_adam_attributes_of(call);
  const bool amsgrad = attributes.amsgrad != 0;
  const double step = next_step(call->outputs[amsgrad ? 4 : 3]);
  const tdm_moment_rates rates = tdm_adam_rates(&attributes, call->scalars->learning_rate, step);
  moments_job job = job_of(call, &attributes, &rates);
  if (amsgrad) job.largest = call->outputs[3];
  return update_run(call, amsgrad ? amsgrad_range : adam_range, &job);
}

static tdm_status nadam_execute(const tdm_kernel_call *call) {
  const tdm_adam_attributes attributes = tdm_adam_attributes_of(call);
  stored *product = call->outputs[3]; /* () */
  const double step = next_step(call->outputs[4]);
  *product = narrowed(widened(*product) * (real)tdm_nadam_momentum(&attributes, step));
  const tdm_moment_rates rates =
      tdm_nadam_rates(&attributes, call->scalars->learning_rate, step, (double)widened(*product));
  moments_job job = job_of(call, &attributes, &rates);
  return update_run(call, nadam_range, &job);
}

static tdm_status radam_execute(const tdm_kernel_call *call) {
  const tdm_adam_attributes attributes = tdm_adam_attributes_of(call);
  const double step = next_step(call->outputs[3]);
  const tdm_moment_rates rates = tdm_radam_rates(&attributes, call->scalars->learning_rate, step);
  moments_job job = job_of(call, &attributes, &rates);
  return update_run(call, rates.plain != 0 ? plain_range : adam_range, &job);
}

static tdm_status adamax_execute(const tdm_kernel_call *call) {
  const tdm_adam_attributes attributes = tdm_adam_attributes_of(call);
  const double step = next_step(call->outputs[3]);
  const tdm_moment_rates rates = tdm_adamax_rates(&attributes, call->scalars->learning_rate, step);
  moments_job job = job_of(call, &attributes, &rates);
  return update_run(call, adamax_range, &job);
}

/* ---- The rows of a sparse gradient --------------------------------------------------------------
 */

typedef struct adam_rows {
  moments_job step;       /* gradient: (n, dim); the others: (rows, dim) */
  const int64_t *indices; /* (n), of which the first count are distinct */
  int64_t count;
  int64_t dim;
} adam_rows;

/* One row: moments move by keep times the difference, only here; all pointers of job are (dim). */
static void sparse_row(const moments_job *job, int64_t dim) {
  for (int64_t i = 0; i < dim; i += LANES) {
    const int64_t left = dim - i;
    const vec g = element_load(job->gradient + i, left);
    vec m = element_load(job->average + i, left), v = element_load(job->square + i, left);
    m += (g - m) * job->keep1;
    v += (g * g - v) * job->keep2;
    const vec p = element_load(job->parameter + i, left);
    const vec change = m / (vec_sqrt(v) + job->epsilon) * job->of_average;
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
    moments_job row = job->step;
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
  const tdm_adam_attributes attributes = tdm_adam_attributes_of(call);
  const double step = next_step(call->outputs[3]);
  tdm_moment_rates rates = tdm_adam_rates(&attributes, call->scalars->learning_rate, step);
  rates.of_average *= rates.root;
  adam_rows job = {.step = job_of(call, &attributes, &rates),
                   .indices = call->inputs[2],
                   .count = *(const int64_t *)call->inputs[3],
                   .dim = state->sizes.dim};
  return update_rows_run(call, job.count, rows_range, &job);
}

KERNELS(adam, KERNEL(TDM_OP_ADAM, moments_prepare, adam_execute),
        KERNEL(TDM_OP_NADAM, moments_prepare, nadam_execute),
        KERNEL(TDM_OP_RADAM, moments_prepare, radam_execute),
        KERNEL(TDM_OP_ADAMAX, moments_prepare, adamax_execute),
        KERNEL(TDM_OP_ADAM_SPARSE, adam_sparse_prepare, adam_sparse_execute))
