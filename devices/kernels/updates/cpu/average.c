/* Moving averages of parameters, as torch.optim.swa_utils makes them (get_ema_multi_avg_fn, and the
 * mean of AveragedModel): which share is new, in double, the average in the parameter's dtype. */
#include "core/status.h"
#include "devices/kernels/cpu/vector.h"
#include "devices/kernels/updates/average_share.h"
#include "devices/kernels/updates/cpu/update.h"

typedef struct average_job {
  const stored *parameter; /* (count) */
  stored *average;         /* (count) */
  real share;              /* of the parameter */
} average_job;

/* From the nearer end, as torch.lerp: so a share of 1 copies. */
static void average_range(void *user, int64_t begin, int64_t end) {
  const average_job *job = user;
  const real kept = 1 - job->share;
  for (int64_t i = begin; i < end; i += LANES) {
    const int64_t left = end - i;
    const vec p = element_load(job->parameter + i, left);
    const vec a = element_load(job->average + i, left);
    const vec d = p - a;
    element_store(job->average + i, job->share < (real)0.5 ? a + d * job->share : p - d * kept,
                  left);
  }
}

static tdm_status average_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return update_prepare(request, answer, 6);
}

static tdm_status average_execute(const tdm_kernel_call *call) {
  const tdm_average_attributes *attributes = call->attributes;
  stored *count = call->outputs[1]; /* () */
  average_job job = {.parameter = call->inputs[1], .average = call->outputs[0]};
  job.share = (real)tdm_average_share(attributes->decay, (double)widened(*count));
  stored_add(count, 1);
  return update_run(call, average_range, &job);
}

KERNELS(average, KERNEL(TDM_OP_AVERAGE, average_prepare, average_execute))
