/* Adadelta as torch.optim.Adadelta does it (its single-tensor form). M. D. Zeiler, "ADADELTA: an
 * adaptive learning rate method", arXiv:1212.5701, 2012. */
#include "core/status.h"
#include "devices/kernels/cpu/vector_math.h"
#include "devices/kernels/updates/cpu/update.h"
#include "devices/kernels/updates/optimizers.h"

typedef struct adadelta_job {
  const stored *gradient; /* (count), as all that follow */
  stored *parameter;
  stored *square;  /* square_avg */
  stored *changes; /* acc_delta */
  real rho, kept;  /* kept = 1 - rho */
  real epsilon;
  real decay;
  real rate;
} adadelta_job;

static void adadelta_range(void *user, int64_t begin, int64_t end) {
  const adadelta_job *job = user;
  for (int64_t i = begin; i < end; i += LANES) {
    const int64_t left = end - i;
    const vec p = element_load(job->parameter + i, left);
    const vec g = with_decay(element_load(job->gradient + i, left), p, job->decay);
    const vec v = element_load(job->square + i, left) * job->rho + g * g * job->kept;
    const vec u = element_load(job->changes + i, left);
    const vec change = vec_sqrt(u + job->epsilon) / vec_sqrt(v + job->epsilon) * g;
    element_store(job->square + i, v, left);
    element_store(job->changes + i, u * job->rho + change * change * job->kept, left);
    element_store(job->parameter + i, p - job->rate * change, left);
  }
}

static tdm_status adadelta_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return update_prepare(request, answer, 4);
}

static tdm_status adadelta_execute(const tdm_kernel_call *call) {
  const tdm_adadelta_attributes *attributes = call->attributes;
  adadelta_job job = {
      .gradient = call->inputs[1],
      .parameter = call->outputs[0],
      .square = call->outputs[1],
      .changes = call->outputs[2],
      .rho = (real)attributes->rho,
      .kept = (real)(1.0 - attributes->rho),
      .epsilon = (real)attributes->epsilon,
      .decay = (real)attributes->weight_decay,
      .rate = (real)call->scalars->learning_rate,
  };
  return update_run(call, adadelta_range, &job);
}

KERNELS(adadelta, KERNEL(TDM_OP_ADADELTA, adadelta_prepare, adadelta_execute))
