/* The negative log-likelihood of class indices, with weights of classes and smoothed labels, its
 * gradient, and the counting of targets. Invariant: the loss is summed over the rows in order, in
 * double, by one thread. */
#include "core/status.h"
#include "devices/kernels/cpu/rows.h"
#include "devices/kernels/losses/class_loss_sizes.h"
#include "devices/kernels/losses/cpu/targets.h"
#include "devices/kernels/losses/losses.h"

typedef struct nll_state {
  class_loss_sizes sizes;
  real kept;   /* 1 - smoothing */
  real spread; /* smoothing / classes */
  bool splits;
} nll_state;

static tdm_status nll_prepare_state(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                    const tdm_spec *targets, int64_t classes) {
  const tdm_loss_attributes *attributes = request->attributes;
  nll_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  class_loss_sizes_read(&state->sizes, request, targets, classes);
  state->kept = (real)(1.0 - attributes->smoothing);
  state->spread = (real)(attributes->smoothing / (double)classes);
  return TDM_OK;
}

/* ---- Loss ------------------------------------------------------------------------------------ */

typedef struct loss_job {
  const nll_state *state;
  tdm_cpu_ids targets;
  const stored *log_probabilities; /* (rows, classes) */
  const stored *weight;            /* (classes) or NULL */
  stored *losses;                  /* (rows) */
} loss_job;

static void loss_range(void *user, int64_t begin, int64_t end) {
  const loss_job *job = user;
  const nll_state *state = job->state;
  for (int64_t row = begin; row < end; row++) {
    const stored *log_probabilities = job->log_probabilities + row * state->sizes.classes;
    const int64_t target = tdm_cpu_id(&job->targets, row);
    real loss = 0;
    if (target != state->sizes.ignored) {
      loss = -widened(log_probabilities[target]) * state->kept;
      if (job->weight) loss *= widened(job->weight[target]);
      if (state->spread != 0)
        loss -= state->spread * (real)row_sum_of_products(log_probabilities, 0, job->weight, 0,
                                                          state->sizes.classes);
    }
    job->losses[row] = narrowed(loss);
  }
}

static tdm_status nll_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  TDM_TRY(
      nll_prepare_state(request, answer, &request->inputs[1], request->inputs[0].shape.dims[1]));
  nll_state *state = answer->state;
  const double read = state->spread != 0 ? (double)state->sizes.classes : 1.0;
  state->splits = answer->splits =
      tdm_cpu_splits(request, (double)state->sizes.rows * (4.0 + read / 8));
  if (state->sizes.reduction != TDM_REDUCTION_NONE)
    answer->workspace_bytes = (size_t)state->sizes.rows * sizeof(stored);
  return TDM_OK;
}

static tdm_status nll_execute(const tdm_kernel_call *call) {
  const nll_state *state = call->state;
  const bool reduces = state->sizes.reduction != TDM_REDUCTION_NONE;
  const bool mean = state->sizes.reduction == TDM_REDUCTION_MEAN;
  loss_job job = {.state = state,
                  .targets = {call->inputs[1], state->sizes.rows, state->sizes.wide_targets},
                  .log_probabilities = call->inputs[0],
                  .weight = call->inputs[2],
                  .losses = reduces ? call->workspace : call->outputs[0]};
  TDM_TRY(tdm_cpu_targets_check(&job.targets, state->sizes.classes, state->sizes.ignored));
  tdm_team_run(state->splits ? call->team : NULL, state->sizes.rows, 64, loss_range, &job);
  stored *divisor = call->outputs[1];
  *divisor = narrowed(mean ? targets_weight(&job.targets, state->sizes.ignored, job.weight) : 1);
  if (reduces) {
    double sum = 0;
    for (int64_t row = 0; row < state->sizes.rows; row++)
      sum += (double)widened(job.losses[row]);
    *(stored *)call->outputs[0] = narrowed((real)(sum / (double)widened(*divisor)));
  }
  return TDM_OK;
}

/* ---- Counting -------------------------------------------------------------------------------- */

static tdm_status count_targets_prepare(const tdm_kernel_request *request,
                                        tdm_kernel_answer *answer) {
  const bool weighs = request->input_count > 1 && request->inputs[1].dtype != TDM_DTYPE_NONE;
  return nll_prepare_state(request, answer, &request->inputs[0],
                           weighs ? request->inputs[1].shape.dims[0] : 0);
}

static tdm_status count_targets_execute(const tdm_kernel_call *call) {
  const nll_state *state = call->state;
  const tdm_cpu_ids targets = {call->inputs[0], state->sizes.rows, state->sizes.wide_targets};
  const stored *weight = state->sizes.classes > 0 ? call->inputs[1] : NULL;
  if (weight) TDM_TRY(tdm_cpu_targets_check(&targets, state->sizes.classes, state->sizes.ignored));
  *(stored *)call->outputs[0] = narrowed(targets_weight(&targets, state->sizes.ignored, weight));
  return TDM_OK;
}

/* ---- Gradient -------------------------------------------------------------------------------- */

typedef struct gradient_job {
  const nll_state *state;
  tdm_cpu_ids targets;
  const stored *d_loss; /* () or (rows) */
  const stored *weight; /* (classes) or NULL */
  real divisor;
  stored *d_log_probabilities; /* (rows, classes) */
} gradient_job;

static void gradient_range(void *user, int64_t begin, int64_t end) {
  const gradient_job *job = user;
  const nll_state *state = job->state;
  const int64_t classes = state->sizes.classes;
  const bool each = state->sizes.reduction == TDM_REDUCTION_NONE;
  for (int64_t row = begin; row < end; row++) {
    stored *to = job->d_log_probabilities + row * classes;
    const int64_t target = tdm_cpu_id(&job->targets, row);
    const bool counts = target != state->sizes.ignored;
    row_zero(to, classes);
    if (!counts && !(state->spread != 0 && job->weight)) continue;
    const real factor = counts ? -widened(job->d_loss[each ? row : 0]) / job->divisor : 0;
    for (int64_t j = 0; state->spread != 0 && j < classes; j++)
      to[j] = narrowed(factor * state->spread * (job->weight ? widened(job->weight[j]) : 1));
    if (counts)
      stored_add(&to[target],
                 factor * state->kept * (job->weight ? widened(job->weight[target]) : 1));
  }
}

static tdm_status nll_gradient_prepare(const tdm_kernel_request *request,
                                       tdm_kernel_answer *answer) {
  const tdm_loss_attributes *attributes = request->attributes;
  TDM_TRY(nll_prepare_state(request, answer, &request->inputs[1], attributes->classes));
  nll_state *state = answer->state;
  state->splits = answer->splits =
      tdm_cpu_splits(request, (double)state->sizes.rows * (4.0 + (double)state->sizes.classes / 8));
  return TDM_OK;
}

static tdm_status nll_gradient_execute(const tdm_kernel_call *call) {
  const nll_state *state = call->state;
  gradient_job job = {.state = state,
                      .targets = {call->inputs[1], state->sizes.rows, state->sizes.wide_targets},
                      .d_loss = call->inputs[0],
                      .weight = call->inputs[3],
                      .divisor = widened(*(const stored *)call->inputs[2]),
                      .d_log_probabilities = call->outputs[0]};
  TDM_TRY(tdm_cpu_targets_check(&job.targets, state->sizes.classes, state->sizes.ignored));
  tdm_team_run(state->splits ? call->team : NULL, state->sizes.rows, 64, gradient_range, &job);
  return TDM_OK;
}

KERNELS(nll, KERNEL(TDM_OP_NLL, nll_prepare, nll_execute),
        KERNEL(TDM_OP_COUNT_TARGETS, count_targets_prepare, count_targets_execute),
        KERNEL(TDM_OP_NLL_GRADIENT, nll_gradient_prepare, nll_gradient_execute))
