/* The negative log-likelihood of class indices, with weights of classes and smoothed labels, its
 * gradient, and the counting of targets. Invariant: a block takes a row; the losses of the rows are
 * summed by one block in one order. */
#include "devices/kernels/losses/class_loss_sizes.h"
#include "devices/kernels/losses/cuda/targets.h"
#include "devices/kernels/losses/losses.h"

/* classes: of count_targets 0 without weights. */
struct nll_state : class_loss_sizes {
  double kept;   /* 1 - smoothing */
  double spread; /* smoothing / classes */
};

static tdm_status nll_prepare_state(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                    const tdm_spec *targets, int64_t classes) {
  const tdm_loss_attributes *attributes = attributes_of<tdm_loss_attributes>(request);
  nll_state *state = state_create<nll_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  class_loss_sizes_read(state, request, targets, classes);
  state->kept = 1.0 - attributes->smoothing;
  state->spread = attributes->smoothing / (double)classes;
  answer->workspace_bytes = aligned_bytes(report_workspace_bytes(state->rows));
  return TDM_OK;
}

static tdm_status check_targets(const tdm_kernel_call *call, const id_list *targets) {
  const nll_state *state = state_of<nll_state>(call);
  return tdm_cuda_targets_check(call, targets, state->classes, state->ignored,
                                static_cast<int64_t *>(call->workspace));
}

/* ---- Loss ------------------------------------------------------------------------------------ */

/* log_probabilities: (rows, classes); targets, losses: (rows); weight: (classes) or NULL. A target
 * outside the classes was reported, its loss is none. */
template <class stored>
static __global__ void nll_of_rows(const stored *log_probabilities, const void *targets,
                                   const stored *weight, stored *losses, nll_state shape) {
  typedef real_of<stored> real;
  const int64_t classes = shape.classes;
  const real kept = (real)shape.kept, spread = (real)shape.spread;
  EACH_OF_GRID(row, shape.rows) {
    const stored *from = log_probabilities + row * classes;
    double part = 0;
    EACH_OF_BLOCK(i, classes) {
      if (spread != 0) part += weight ? from[i] * weight[i] : (real)from[i];
    }
    const double sum = block_sum(part);
    if (threadIdx.x != 0) continue;
    const int64_t target = id_at(targets, shape.wide_targets, row);
    real loss = 0;
    if (target != shape.ignored && is_inside(target, classes))
      loss = -from[target] * kept * (weight ? (real)weight[target] : 1) - spread * (real)sum;
    losses[row] = loss;
  }
}

template <class stored>
static tdm_status nll_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  TDM_TRY(
      nll_prepare_state(request, answer, &request->inputs[1], request->inputs[0].shape.dims[1]));
  const nll_state *state = static_cast<const nll_state *>(answer->state);
  if (state->reduction != TDM_REDUCTION_NONE)
    answer->workspace_bytes += (size_t)state->rows * sizeof(stored);
  return TDM_OK;
}

template <class stored> static tdm_status nll_run(const tdm_kernel_call *call) {
  const nll_state *state = state_of<nll_state>(call);
  const bool reduces = state->reduction != TDM_REDUCTION_NONE;
  const id_list targets = {call->inputs[1], state->rows, state->wide_targets};
  char *workspace = static_cast<char *>(call->workspace);
  stored *sums = (stored *)(workspace + aligned_bytes(report_workspace_bytes(state->rows)));
  stored *losses = reduces ? sums : output_of<stored>(call, 0);
  const stored *weight = input_of<stored>(call, 2);
  TDM_TRY(check_targets(call, &targets));
  TDM_TRY(kernel_launch(call, "nll_of_rows", nll_of_rows<stored>, blocks_of(state->rows),
                        threads_for_row(state->classes), input_of<stored>(call, 0), targets.data,
                        weight, losses, *state));
  return sum_losses<stored>(call, reduces ? losses : NULL, &targets, weight, state->classes,
                            state->ignored, state->reduction == TDM_REDUCTION_MEAN,
                            reduces ? output_of<stored>(call, 0) : NULL,
                            output_of<stored>(call, 1));
}

/* ---- Counting -------------------------------------------------------------------------------- */

static tdm_status count_targets_prepare(const tdm_kernel_request *request,
                                        tdm_kernel_answer *answer) {
  const bool weighs = request->input_count > 1 && request->inputs[1].dtype != TDM_DTYPE_NONE;
  return nll_prepare_state(request, answer, &request->inputs[0],
                           weighs ? request->inputs[1].shape.dims[0] : 0);
}

template <class stored> static tdm_status run_count(const tdm_kernel_call *call) {
  const nll_state *state = state_of<nll_state>(call);
  const id_list targets = {call->inputs[0], state->rows, state->wide_targets};
  const stored *no_losses = NULL;
  stored *no_loss = NULL;
  const stored *weight = state->classes > 0 ? input_of<stored>(call, 1) : NULL;
  if (weight) TDM_TRY(check_targets(call, &targets));
  return sum_losses<stored>(call, no_losses, &targets, weight, state->classes, state->ignored, true,
                            no_loss, output_of<stored>(call, 0));
}

/* ---- Gradient -------------------------------------------------------------------------------- */

/* d_loss: () or, each, (rows); weight: (classes) or NULL; d_log_probabilities: (rows, classes). */
template <class stored>
static __global__ void gradient_of_rows(const stored *d_loss, const void *targets,
                                        const stored *divisor, const stored *weight,
                                        stored *d_log_probabilities, nll_state shape) {
  typedef real_of<stored> real;
  const int64_t classes = shape.classes;
  const real kept = (real)shape.kept, spread = (real)shape.spread;
  const bool each = shape.reduction == TDM_REDUCTION_NONE;
  EACH_OF_GRID(row, shape.rows) {
    const int64_t target = id_at(targets, shape.wide_targets, row);
    const real factor = target == shape.ignored ? 0 : -d_loss[each ? row : 0] / *divisor;
    EACH_OF_BLOCK(i, classes) {
      const real weighted = weight ? factor * weight[i] : factor;
      real d = spread != 0 ? weighted * spread : 0;
      if (i == target && target != shape.ignored) d += weighted * kept;
      d_log_probabilities[row * classes + i] = d;
    }
  }
}

static tdm_status nll_gradient_prepare(const tdm_kernel_request *request,
                                       tdm_kernel_answer *answer) {
  const tdm_loss_attributes *attributes = attributes_of<tdm_loss_attributes>(request);
  return nll_prepare_state(request, answer, &request->inputs[1], attributes->classes);
}

template <class stored> static tdm_status run_gradient(const tdm_kernel_call *call) {
  const nll_state *state = state_of<nll_state>(call);
  const id_list targets = {call->inputs[1], state->rows, state->wide_targets};
  TDM_TRY(check_targets(call, &targets));
  return kernel_launch(call, "nll_gradient", gradient_of_rows<stored>, blocks_of(state->rows),
                       threads_for_row(state->classes), input_of<stored>(call, 0), targets.data,
                       input_of<stored>(call, 2), input_of<stored>(call, 3),
                       output_of<stored>(call, 0), *state);
}

KERNELS(nll, KERNEL(TDM_OP_NLL, nll_prepare<stored>, nll_run<stored>),
        KERNEL(TDM_OP_COUNT_TARGETS, count_targets_prepare, run_count<stored>),
        KERNEL(TDM_OP_NLL_GRADIENT, nll_gradient_prepare, run_gradient<stored>))
