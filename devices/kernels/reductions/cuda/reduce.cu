/* Sums and means over dimensions, and their gradient. x is seen as (a, b, c, d, e), its sums as (a,
 * c, e): b and d are the groups of dimensions that are reduced. If by_rows, a block computes a sum,
 * or a piece of it; else a thread does. Invariant: every sum is taken in one order, which depends
 * only on the shape, not on the number of sums. */
#include "devices/kernels/cuda/reduce.h"
#include "devices/kernels/reductions/reduction_sizes.h"
#include "devices/kernels/reductions/reductions.h"

static tdm_status reduce_prepare_state(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                       const tdm_shape *x) {
  reduce_sizes *sizes = state_create<reduce_sizes>(answer);
  return sizes ? reduce_sizes_read(sizes, request, x) : TDM_OUT_OF_MEMORY;
}

/* ---- Sums ------------------------------------------------------------------------------------ */

static const int64_t PIECE = 8192; /* elements of a sum that a block takes */

static int64_t pieces_of(const reduce_sizes *state) {
  const int64_t length = state->sizes[1] * state->sizes[3];
  return state->by_rows && length > PIECE ? ceil_div(length, PIECE) : 1;
}

/* A piece of a sum a block; x: (a, b, c, d), out: (a, c, pieces), count in all. */
template <class real, class from, class to>
static __global__ void sum_rows(const from *x, to *out, int64_t b, int64_t c, int64_t d,
                                double divisor, int64_t pieces, int64_t count) {
  EACH_OF_GRID(place, count) {
    const int64_t pair = place / pieces, begin = place % pieces * PIECE;
    const int64_t first = (pair / c * b * c + pair % c) * d;
    const int64_t left = pieces == 1 || b * d - begin < PIECE ? b * d - begin : PIECE;
    real part = 0;
    EACH_OF_BLOCK(j, left) {
      const int64_t i = begin + j;
      part += x[first + i / d * c * d + i % d];
    }
    const real sum = block_sum(part);
    if (threadIdx.x == 0) out[place] = (real)(sum / divisor);
  }
}

template <class stored>
static tdm_status run_rows(const tdm_kernel_call *call, const reduce_sizes *state, int64_t sums) {
  typedef real_of<stored> real;
  const int64_t *sizes = state->sizes, pieces = pieces_of(state), one = 1;
  const int threads = threads_for_row(pieces > 1 ? PIECE : sizes[1] * sizes[3]);
  const stored *x = input_of<stored>(call, 0);
  stored *out = output_of<stored>(call, 0);
  if (pieces == 1)
    return kernel_launch(call, "reduce", sum_rows<real, stored, stored>, blocks_of(sums), threads,
                         x, out, sizes[1], sizes[2], sizes[3], state->divisor, one, sums);
  real *parts = static_cast<real *>(call->workspace);
  TDM_TRY(kernel_launch(call, "reduce_pieces", sum_rows<real, stored, real>,
                        blocks_of(sums * pieces), threads, x, parts, sizes[1], sizes[2], sizes[3],
                        1.0, pieces, sums * pieces));
  return kernel_launch(call, "reduce", sum_rows<real, real, stored>, blocks_of(sums),
                       threads_for_row(pieces), parts, out, one, one, pieces, state->divisor, one,
                       sums);
}

/* A sum a thread; x: (a, b, c, d, e), out: (a, c, e). */
template <class stored>
static __global__ void sum_columns(const stored *x, stored *out, int64_t b, int64_t c, int64_t d,
                                   int64_t e, double divisor, int64_t sums) {
  typedef real_of<stored> real;
  EACH_ELEMENT(place, sums) {
    const int64_t pair = place / e;
    const int64_t first = (pair / c * b * c + pair % c) * d * e + place % e;
    levelled_sum<real> sum = {};
    for (int64_t i = 0; i < b; i++)
      for (int64_t j = 0; j < d; j++)
        sum.add(i * d + j, x[first + (i * c * d + j) * e]);
    out[place] = (real)(sum.total() / divisor);
  }
}

template <class stored> static tdm_status run_reduce(const tdm_kernel_call *call) {
  const reduce_sizes *state = state_of<reduce_sizes>(call);
  const int64_t *sizes = state->sizes;
  const int64_t sums = sizes[0] * sizes[2] * sizes[4];
  if (state->by_rows) return run_rows<stored>(call, state, sums);
  return kernel_launch(call, "reduce", sum_columns<stored>, blocks_for(sums), BLOCK,
                       input_of<stored>(call, 0), output_of<stored>(call, 0), sizes[1], sizes[2],
                       sizes[3], sizes[4], state->divisor, sums);
}

static tdm_status reduce_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  TDM_TRY(reduce_prepare_state(request, answer, &request->inputs[0].shape));
  const reduce_sizes *state = static_cast<const reduce_sizes *>(answer->state);
  const int64_t pieces = pieces_of(state), sums = state->sizes[0] * state->sizes[2];
  if (pieces > 1)
    answer->workspace_bytes = (size_t)(sums * pieces) * tdm_dtype_bytes(request->inputs[0].dtype);
  return TDM_OK;
}

/* ---- Their gradient -------------------------------------------------------------------------- */

/* d_out: (a, c, e), d_x: (a, b, c, d, e). */
template <class stored>
static __global__ void spread(const stored *d_out, stored *d_x, int64_t b, int64_t c, int64_t d,
                              int64_t e, double divisor, int64_t count) {
  typedef real_of<stored> real;
  EACH_ELEMENT(i, count) {
    const int64_t rest = i / e / d;
    const int64_t from = (rest / c / b * c + rest % c) * e + i % e;
    d_x[i] = d_out[from] / (real)divisor;
  }
}

template <class stored> static tdm_status run_gradient(const tdm_kernel_call *call) {
  const reduce_sizes *state = state_of<reduce_sizes>(call);
  const int64_t *sizes = state->sizes;
  const int64_t count = sizes[0] * sizes[1] * sizes[2] * sizes[3] * sizes[4];
  return kernel_launch(call, "reduce_gradient", spread<stored>, blocks_for(count), BLOCK,
                       input_of<stored>(call, 0), output_of<stored>(call, 0), sizes[1], sizes[2],
                       sizes[3], sizes[4], state->divisor, count);
}

static tdm_status reduce_gradient_prepare(const tdm_kernel_request *request,
                                          tdm_kernel_answer *answer) {
  return reduce_prepare_state(request, answer, &request->outputs[0].shape);
}

KERNELS(reduce, KERNEL(TDM_OP_REDUCE, reduce_prepare, run_reduce<stored>),
        KERNEL(TDM_OP_REDUCE_GRADIENT, reduce_gradient_prepare, run_gradient<stored>))
