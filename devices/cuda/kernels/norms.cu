/* What gradient clipping and the guard against NaN need of whole tensors. */
#include <string.h>

#include "devices/cuda/kernels/report.h"
#include "devices/cuda/kernels/sums.h"
#include "devices/operations/optimizers.h"

struct norm_state {
  int64_t count;
  double max_norm;
};

static norm_state *norms_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  norm_state *state = state_create<norm_state>(answer);
  if (!state) return NULL;
  state->count = count_of(&request->inputs[0]);
  return state;
}

/* ---- sum_of_squares -------------------------------------------------------------------------- */

template <class stored>
static tdm_status sum_of_squares_prepare(const tdm_kernel_request *request,
                                         tdm_kernel_answer *answer) {
  const norm_state *state = norms_prepare(request, answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  answer->workspace_bytes = sum_workspace_bytes<stored>(state->count);
  return TDM_OK;
}

template <class stored> static tdm_status run_sum(const tdm_kernel_call *call) {
  return sum_of_squares(call, input_of<stored>(call, 0), state_of<norm_state>(call)->count,
                        output_of<stored>(call, 0));
}

/* ---- clip_factor ----------------------------------------------------------------------------- */

/* sum, factor: (); one thread works. NaN stays NaN. */
template <class stored>
static __global__ void clip_factor(const stored *sum, double max_norm, stored *factor) {
  typedef real_of<stored> real;
  if (threadIdx.x != 0) return;
  const double wanted = max_norm / (sqrt((double)*sum) + 1e-6);
  *factor = (real)(wanted > 1 ? 1 : wanted);
}

static tdm_status clip_factor_prepare(const tdm_kernel_request *request,
                                      tdm_kernel_answer *answer) {
  norm_state *state = norms_prepare(request, answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->max_norm = attributes_of<tdm_clip_attributes>(request)->max_norm;
  return TDM_OK;
}

template <class stored> static tdm_status run_clip(const tdm_kernel_call *call) {
  return kernel_launch(call, "clip_factor", clip_factor<stored>, 1, WARP, input_of<stored>(call, 0),
                       state_of<norm_state>(call)->max_norm, output_of<stored>(call, 0));
}

/* ---- check_finite ---------------------------------------------------------------------------- */

/* x: (count), firsts: (blocks), each block's first element that is not finite. */
template <class stored>
static __global__ void search_not_finite(const stored *x, int64_t count, int64_t *firsts) {
  /* x - x is 0, or NaN where x is not finite */
  const int64_t first = first_wrong(count, [=](int64_t i) { return !(x[i] - x[i] == 0); });
  if (threadIdx.x == 0) firsts[blockIdx.x] = first;
}

/* One block. */
template <class stored>
static __global__ void report_not_finite(const stored *x, const int64_t *firsts, int64_t blocks,
                                         tdm_cuda_report *report) {
  const int64_t first = least_of(firsts, blocks);
  if (threadIdx.x != 0 || first == NOWHERE) return;
  const double value = x[first];
  int64_t bits;
  memcpy(&bits, &value, sizeof bits);
  report->value = bits;
  report->position = first;
}

static tdm_status check_finite_prepare(const tdm_kernel_request *request,
                                       tdm_kernel_answer *answer) {
  const norm_state *state = norms_prepare(request, answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  answer->workspace_bytes = report_workspace_bytes(state->count);
  return TDM_OK;
}

/* Reads alone: the output is not written. */
template <class stored> static tdm_status run_check(const tdm_kernel_call *call) {
  const int64_t count = state_of<norm_state>(call)->count;
  const int64_t blocks = ceil_div(count, REPORT_PIECE);
  int64_t *firsts = static_cast<int64_t *>(call->workspace);
  const stored *x = input_of<stored>(call, 0);
  tdm_cuda_report *report =
      tdm_cuda_kernel_stream_report(kernel_stream_of(call), TDM_CUDA_REPORT_FINITE, count);
  if (blocks == 0) return TDM_OK;
  TDM_TRY(kernel_launch(call, "search_not_finite", search_not_finite<stored>, blocks, BLOCK, x,
                        count, firsts));
  return kernel_launch(call, "report_not_finite", report_not_finite<stored>, 1, BLOCK, x, firsts,
                       blocks, report);
}

KERNELS(norms, KERNEL(TDM_OP_SUM_OF_SQUARES, sum_of_squares_prepare<stored>, run_sum<stored>),
        KERNEL(TDM_OP_CLIP_FACTOR, clip_factor_prepare, run_clip<stored>),
        KERNEL(TDM_OP_CHECK_FINITE, check_finite_prepare, run_check<stored>))
