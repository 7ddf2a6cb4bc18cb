/* Cross-entropy of logits and class indices. Invariant: a block takes a row; the losses of the rows
 * are summed by one block in one order. */
#include "devices/kernels/losses/class_loss_sizes.h"
#include "devices/kernels/losses/cuda/targets.h"
#include "devices/kernels/losses/losses.h"
#include "devices/kernels/normalization/cuda/softmax.h"

static tdm_status cross_entropy_prepare_state(const tdm_kernel_request *request,
                                              tdm_kernel_answer *answer,
                                              const tdm_spec *log_probabilities,
                                              const tdm_spec *targets) {
  class_loss_sizes *sizes = state_create<class_loss_sizes>(answer);
  if (!sizes) return TDM_OUT_OF_MEMORY;
  class_loss_sizes_read(sizes, request, targets, log_probabilities->shape.dims[1]);
  answer->workspace_bytes = aligned_bytes(report_workspace_bytes(sizes->rows));
  return TDM_OK;
}

static id_list targets_of(const class_loss_sizes *state, const void *data) {
  return (id_list){data, state->rows, state->wide_targets};
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* logits, log_probabilities: (rows, classes); targets, losses: (rows). A target outside the classes
 * was reported, its loss is none. */
template <class stored>
static __global__ void losses_of_rows(const stored *logits, const void *targets, bool wide,
                                      int64_t rows, int64_t classes, int64_t ignored,
                                      stored *log_probabilities, stored *losses) {
  EACH_OF_GRID(row, rows) {
    stored *out = log_probabilities + row * classes;
    row_softmax<stored, true>(logits + row * classes, out, classes);
    const int64_t target = id_at(targets, wide, row);
    const bool counts = target != ignored && is_inside(target, classes);
    if (!counts && threadIdx.x == 0) losses[row] = 0;
    if (counts && threadIdx.x == target % blockDim.x) losses[row] = -out[target]; /* its own */
  }
}

template <class stored>
static tdm_status cross_entropy_prepare(const tdm_kernel_request *request,
                                        tdm_kernel_answer *answer) {
  TDM_TRY(cross_entropy_prepare_state(request, answer, &request->inputs[0], &request->inputs[1]));
  const class_loss_sizes *state = static_cast<const class_loss_sizes *>(answer->state);
  if (state->reduction != TDM_REDUCTION_NONE)
    answer->workspace_bytes += (size_t)state->rows * sizeof(stored);
  return TDM_OK;
}

template <class stored> static tdm_status cross_entropy_run(const tdm_kernel_call *call) {
  const class_loss_sizes *state = state_of<class_loss_sizes>(call);
  const bool reduces = state->reduction != TDM_REDUCTION_NONE;
  const id_list targets = targets_of(state, call->inputs[1]);
  char *workspace = static_cast<char *>(call->workspace);
  stored *sums = (stored *)(workspace + aligned_bytes(report_workspace_bytes(state->rows)));
  stored *losses = reduces ? sums : output_of<stored>(call, 0);
  TDM_TRY(tdm_cuda_targets_check(call, &targets, state->classes, state->ignored,
                                 (int64_t *)call->workspace));
  TDM_TRY(kernel_launch(call, "losses_of_rows", losses_of_rows<stored>, blocks_of(state->rows),
                        threads_for_row(state->classes), input_of<stored>(call, 0), targets.data,
                        targets.wide, state->rows, state->classes, state->ignored,
                        output_of<stored>(call, 1), losses));
  const stored *no_weight = NULL;
  return sum_losses<stored>(call, reduces ? losses : NULL, &targets, no_weight, state->classes,
                            state->ignored, state->reduction == TDM_REDUCTION_MEAN,
                            reduces ? output_of<stored>(call, 0) : NULL,
                            output_of<stored>(call, 2));
}

/* ---- Gradient -------------------------------------------------------------------------------- */

/* d_logits = (softmax - one_hot(target)) d_loss / divisor; if the target is
 * ignored 0, or NaN where the log-probability is. d_loss:
 * () or, each, (rows); log_probabilities, d_logits: (rows, classes). */
template <class stored>
static __global__ void gradient_of_rows(const stored *d_loss, bool each,
                                        const stored *log_probabilities, const void *targets,
                                        bool wide, const stored *divisor, int64_t rows,
                                        int64_t classes, int64_t ignored, stored *d_logits) {
  typedef real_of<stored> real;
  EACH_OF_GRID(row, rows) {
    const int64_t target = id_at(targets, wide, row);
    const real factor = d_loss[each ? row : 0] / *divisor;
    EACH_OF_BLOCK(i, classes) {
      const real logarithm = log_probabilities[row * classes + i];
      real d = logarithm != logarithm ? logarithm : 0;
      if (target != ignored) d = exp(logarithm) * factor - (i == target ? factor : 0);
      d_logits[row * classes + i] = d;
    }
  }
}

static tdm_status cross_entropy_gradient_prepare(const tdm_kernel_request *request,
                                                 tdm_kernel_answer *answer) {
  return cross_entropy_prepare_state(request, answer, &request->inputs[1], &request->inputs[2]);
}

template <class stored> static tdm_status run_gradient(const tdm_kernel_call *call) {
  const class_loss_sizes *state = state_of<class_loss_sizes>(call);
  const id_list targets = targets_of(state, call->inputs[2]);
  TDM_TRY(tdm_cuda_targets_check(call, &targets, state->classes, state->ignored,
                                 (int64_t *)call->workspace));
  return kernel_launch(call, "gradient_of_rows", gradient_of_rows<stored>, blocks_of(state->rows),
                       threads_for_row(state->classes), input_of<stored>(call, 0),
                       state->reduction == TDM_REDUCTION_NONE, input_of<stored>(call, 1),
                       targets.data, targets.wide, input_of<stored>(call, 3), state->rows,
                       state->classes, state->ignored, output_of<stored>(call, 0));
}

KERNELS(cross_entropy,
        KERNEL(TDM_OP_CROSS_ENTROPY, cross_entropy_prepare<stored>, cross_entropy_run<stored>),
        KERNEL(TDM_OP_CROSS_ENTROPY_GRADIENT, cross_entropy_gradient_prepare, run_gradient<stored>))
