/* RMSprop as torch.optim.RMSprop does it (its single-tensor form): with weight decay, momentum, and
 * centered. T. Tieleman, G. Hinton, "Lecture 6.5: rmsprop", 2012; centered: A. Graves, "Generating
 * sequences with recurrent neural networks", arXiv:1308.0850, 2013. */
#include "core/status.h"
#include "devices/kernels/cpu/vector_math.h"
#include "devices/kernels/updates/cpu/update.h"
#include "devices/kernels/updates/optimizers.h"

typedef struct rmsprop_job {
  const stored *gradient; /* (count), as all that follow */
  stored *parameter;
  stored *square;   /* square_avg */
  stored *average;  /* grad_avg; NULL where it is not centered */
  stored *buffer;   /* momentum_buffer; NULL without momentum */
  real alpha, kept; /* kept = 1 - alpha */
  real epsilon;
  real decay;
  real momentum;
  real rate;
} rmsprop_job;

static void rmsprop_range(void *user, int64_t begin, int64_t end) {
  const rmsprop_job *job = user;
  for (int64_t i = begin; i < end; i += LANES) {
    const int64_t left = end - i;
    const vec p = element_load(job->parameter + i, left);
    const vec g = with_decay(element_load(job->gradient + i, left), p, job->decay);
    vec s = element_load(job->square + i, left) * job->alpha + g * g * job->kept;
    element_store(job->square + i, s, left);
    if (job->average) {
      const vec m = element_load(job->average + i, left) * job->alpha + g * job->kept;
      element_store(job->average + i, m, left);
      s -= m * m;
    }
    vec direction = g / (vec_sqrt(s) + job->epsilon);
    if (job->buffer) {
      direction += element_load(job->buffer + i, left) * job->momentum;
      element_store(job->buffer + i, direction, left);
    }
    element_store(job->parameter + i, p - job->rate * direction, left);
  }
}

static tdm_status rmsprop_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return update_prepare(request, answer, 4);
}

static tdm_status rmsprop_execute(const tdm_kernel_call *call) {
  const tdm_rmsprop_attributes *attributes = call->attributes;
  const bool centered = attributes->centered != 0;
  const double momentum =
      call->scalars->has_momentum ? call->scalars->momentum : attributes->momentum;
  /* A run without momentum leaves the buffer to those that have some. */
  const bool buffers = attributes->momentum != 0 && momentum != 0;
  rmsprop_job job = {
      .gradient = call->inputs[1],
      .parameter = call->outputs[0],
      .square = call->outputs[1],
      .average = centered ? call->outputs[2] : NULL,
      .buffer = buffers ? call->outputs[centered ? 3 : 2] : NULL,
      .alpha = (real)attributes->alpha,
      .kept = (real)(1.0 - attributes->alpha),
      .epsilon = (real)attributes->epsilon,
      .decay = (real)attributes->weight_decay,
      .momentum = (real)momentum,
      .rate = (real)call->scalars->learning_rate,
  };
  return update_run(call, rmsprop_range, &job);
}

KERNELS(rmsprop, KERNEL(TDM_OP_RMSPROP, rmsprop_prepare, rmsprop_execute))
