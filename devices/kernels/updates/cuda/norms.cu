/* Reductions over whole tensors for gradient clipping and the check for NaN. */
#include <string.h>

#include "devices/kernels/cuda/report.h"
#include "devices/kernels/cuda/sums.h"
#include "devices/kernels/updates/optimizers.h"

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

/* sums: (blocks), of squares of x: (count). In float64, where no square of a float32 overflows. */
template <class stored>
static __global__ void squares_of_pieces(const stored *x, int64_t count, double *sums) {
  const int64_t begin = (int64_t)blockIdx.x * SUM_PIECE;
  const int64_t left = count - begin < SUM_PIECE ? count - begin : SUM_PIECE;
  double part = 0;
  EACH_OF_BLOCK(i, left) {
    const double d = (double)x[begin + i];
    part += d * d;
  }
  const double sum = block_sum(part);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/* One block. sums: (count); rounded, out: (). */
template <class stored>
static __global__ void sum_of_squares(const double *sums, int64_t count, stored *rounded,
                                      double *out) {
  typedef real_of<stored> real;
  double part = 0;
  EACH_OF_BLOCK(i, count) {
    part += sums[i];
  }
  const double sum = block_sum(part);
  if (threadIdx.x != 0) return;
  *rounded = (real)sum;
  *out = sum;
}

static tdm_status sum_of_squares_prepare(const tdm_kernel_request *request,
                                         tdm_kernel_answer *answer) {
  const norm_state *state = norms_prepare(request, answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  answer->workspace_bytes = (size_t)ceil_div(state->count, SUM_PIECE) * sizeof(double);
  return TDM_OK;
}

template <class stored> static tdm_status run_sum(const tdm_kernel_call *call) {
  const int64_t count = state_of<norm_state>(call)->count, pieces = ceil_div(count, SUM_PIECE);
  double *sums = static_cast<double *>(call->workspace);
  TDM_TRY(kernel_launch(call, "squares_of_pieces", squares_of_pieces<stored>, pieces, BLOCK,
                        input_of<stored>(call, 0), count, sums));
  return kernel_launch(call, "sum_of_squares", sum_of_squares<stored>, 1, BLOCK, sums, pieces,
                       output_of<stored>(call, 0), output_of<double>(call, 1));
}

/* ---- clip_factor ----------------------------------------------------------------------------- */

/* sum, factor: (); one thread works. NaN stays NaN. */
template <class stored>
static __global__ void clip_factor(const double *sum, double max_norm, stored *rounded,
                                   double *factor) {
  typedef real_of<stored> real;
  if (threadIdx.x != 0) return;
  const double wanted = max_norm / (sqrt(*sum) + 1e-6);
  *factor = wanted > 1 ? 1 : wanted;
  *rounded = (real)*factor;
}

static tdm_status clip_factor_prepare(const tdm_kernel_request *request,
                                      tdm_kernel_answer *answer) {
  norm_state *state = norms_prepare(request, answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->max_norm = attributes_of<tdm_clip_attributes>(request)->max_norm;
  return TDM_OK;
}

template <class stored> static tdm_status run_clip(const tdm_kernel_call *call) {
  return kernel_launch(call, "clip_factor", clip_factor<stored>, 1, WARP, input_of<double>(call, 0),
                       state_of<norm_state>(call)->max_norm, output_of<stored>(call, 0),
                       output_of<double>(call, 1));
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

/* Only reads: the output is not written. */
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

KERNELS(norms, KERNEL(TDM_OP_SUM_OF_SQUARES, sum_of_squares_prepare, run_sum<stored>),
        KERNEL(TDM_OP_CLIP_FACTOR, clip_factor_prepare, run_clip<stored>),
        KERNEL(TDM_OP_CHECK_FINITE, check_finite_prepare, run_check<stored>))
