/* Cross-entropy of logits and class indices. Invariant: the loss is summed over the rows in order,
 * in double, by one thread. */
#include <math.h>

#include "core/status.h"
#include "devices/kernels/cpu/rows.h"
#include "devices/kernels/losses/class_loss_sizes.h"
#include "devices/kernels/losses/cpu/targets.h"
#include "devices/kernels/losses/losses.h"

#define GRAIN 64 /* rows; a multiple of every vector's lanes */

typedef struct loss_state {
  class_loss_sizes sizes;
  bool splits;
} loss_state;

typedef struct loss_job {
  const loss_state *state;
  tdm_cpu_ids targets;
  const stored *logits;      /* (rows, classes) */
  stored *log_probabilities; /* (rows, classes) */
  stored *losses;            /* (rows) */
} loss_job;

static void loss_range(void *user, int64_t begin, int64_t end) {
  const loss_job *job = user;
  const int64_t classes = job->state->sizes.classes;
  rows_log_softmax(job->logits + begin * classes, job->log_probabilities + begin * classes,
                   end - begin, classes);
  for (int64_t row = begin; row < end; row++) {
    const stored *log_probabilities = job->log_probabilities + row * classes;
    const int64_t target = tdm_cpu_id(&job->targets, row);
    job->losses[row] =
        narrowed(target == job->state->sizes.ignored ? 0 : -widened(log_probabilities[target]));
  }
}

static tdm_status cross_entropy_prepare_state(const tdm_kernel_request *request,
                                              tdm_kernel_answer *answer,
                                              const tdm_spec *log_probabilities,
                                              const tdm_spec *targets) {
  loss_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  class_loss_sizes_read(&state->sizes, request, targets, log_probabilities->shape.dims[1]);
  state->splits = answer->splits =
      tdm_cpu_splits(request, (double)state->sizes.rows * (10.0 + (double)state->sizes.classes));
  return TDM_OK;
}

static tdm_status cross_entropy_prepare(const tdm_kernel_request *request,
                                        tdm_kernel_answer *answer) {
  TDM_TRY(cross_entropy_prepare_state(request, answer, &request->inputs[0], &request->inputs[1]));
  const loss_state *state = answer->state;
  if (state->sizes.reduction != TDM_REDUCTION_NONE)
    answer->workspace_bytes = (size_t)state->sizes.rows * sizeof(stored);
  return TDM_OK;
}

static tdm_status cross_entropy_execute(const tdm_kernel_call *call) {
  const loss_state *state = call->state;
  const bool reduces = state->sizes.reduction != TDM_REDUCTION_NONE;
  loss_job job = {.state = state,
                  .targets = {call->inputs[1], state->sizes.rows, state->sizes.wide_targets},
                  .logits = call->inputs[0],
                  .log_probabilities = call->outputs[1],
                  .losses = reduces ? call->workspace : call->outputs[0]};
  TDM_TRY(tdm_cpu_targets_check(&job.targets, state->sizes.classes, state->sizes.ignored));
  tdm_team_run(state->splits ? call->team : NULL, state->sizes.rows, GRAIN, loss_range, &job);
  stored *divisor = call->outputs[2];
  *divisor = narrowed(state->sizes.reduction == TDM_REDUCTION_MEAN
                          ? targets_weight(&job.targets, state->sizes.ignored, NULL)
                          : 1);
  if (reduces) {
    double sum = 0;
    for (int64_t row = 0; row < state->sizes.rows; row++)
      sum += (double)widened(job.losses[row]);
    *(stored *)call->outputs[0] = narrowed((real)(sum / (double)widened(*divisor)));
  }
  return TDM_OK;
}

/* ---- Gradient -------------------------------------------------------------------------------- */

typedef struct gradient_job {
  const loss_state *state;
  tdm_cpu_ids targets;
  const stored *d_loss;            /* () or (rows) */
  const stored *log_probabilities; /* (rows, classes) */
  real divisor;
  stored *d_logits; /* (rows, classes) */
} gradient_job;

/* to (count) = exp(from) factor */
ALWAYS_INLINE void scaled_exp(const stored *from, real factor, stored *to, int64_t count) {
  for (int64_t i = 0; i < count; i += LANES) {
    const vec p = vec_exp(element_load(from + i, count - i));
    element_store(to + i, p * factor, count - i);
  }
}

/* The row of a target that is ignored: 0, or NaN if the log-probabilities are. */
static void ignored_row(const stored *log_probabilities, stored *d_logits, int64_t count) {
  const vec value = element_all(log_probabilities[0]);
  const vec nothing = vec_select(value == value, (vec){0}, value);
  for (int64_t i = 0; i < count; i += LANES)
    element_store(d_logits + i, nothing, count - i);
}

/* d_logits = (softmax - one_hot(target)) d_loss / divisor. */
static void gradient_range(void *user, int64_t begin, int64_t end) {
  const gradient_job *job = user;
  const int64_t classes = job->state->sizes.classes;
  const bool per_row = job->state->sizes.reduction == TDM_REDUCTION_NONE;
  const real shared = per_row ? 0 : widened(job->d_loss[0]) / job->divisor;
  if (!per_row) /* one factor: rows are contiguous, and vectors continue over their ends */
    scaled_exp(job->log_probabilities + begin * classes, shared, job->d_logits + begin * classes,
               (end - begin) * classes);
  for (int64_t row = begin; row < end; row++) {
    stored *d_logits = job->d_logits + row * classes;
    const int64_t target = tdm_cpu_id(&job->targets, row);
    if (target == job->state->sizes.ignored) {
      ignored_row(job->log_probabilities + row * classes, d_logits, classes);
      continue;
    }
    const real factor = per_row ? widened(job->d_loss[row]) / job->divisor : shared;
    if (per_row) scaled_exp(job->log_probabilities + row * classes, factor, d_logits, classes);
    stored_add(&d_logits[target], -factor);
  }
}

static tdm_status cross_entropy_gradient_prepare(const tdm_kernel_request *request,
                                                 tdm_kernel_answer *answer) {
  return cross_entropy_prepare_state(request, answer, &request->inputs[1], &request->inputs[2]);
}

static tdm_status cross_entropy_gradient_execute(const tdm_kernel_call *call) {
  const loss_state *state = call->state;
  gradient_job job = {.state = state,
                      .targets = {call->inputs[2], state->sizes.rows, state->sizes.wide_targets},
                      .d_loss = call->inputs[0],
                      .log_probabilities = call->inputs[1],
                      .divisor = widened(*(const stored *)call->inputs[3]),
                      .d_logits = call->outputs[0]};
  TDM_TRY(tdm_cpu_targets_check(&job.targets, state->sizes.classes, state->sizes.ignored));
  tdm_team_run(state->splits ? call->team : NULL, state->sizes.rows, GRAIN, gradient_range, &job);
  return TDM_OK;
}

KERNELS(cross_entropy, KERNEL(TDM_OP_CROSS_ENTROPY, cross_entropy_prepare, cross_entropy_execute),
        KERNEL(TDM_OP_CROSS_ENTROPY_GRADIENT, cross_entropy_gradient_prepare,
               cross_entropy_gradient_execute))
