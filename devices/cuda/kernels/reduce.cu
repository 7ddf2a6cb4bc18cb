/* Sums and means over dimensions, and their gradient. x is seen as (a, b, c, d, e), its sums as (a,
 * c, e): b and d are the groups of dimensions that go. Where rows are taken (by_rows) a block takes
 * a sum, else a thread does. Invariant: every sum is taken in one order, which the shape alone
 * decides. */
#include "devices/cuda/kernels/reduce.h"
#include "devices/operations/reduction_sizes.h"
#include "devices/operations/reductions.h"

static tdm_status reduce_prepare_state(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                       const tdm_shape *x) {
  reduce_sizes *sizes = state_create<reduce_sizes>(answer);
  return sizes ? reduce_sizes_read(sizes, request, x) : TDM_OUT_OF_MEMORY;
}

/* ---- Sums ------------------------------------------------------------------------------------ */

/* A sum a block; x: (a, b, c, d), out: (a, c). */
template <class stored>
static __global__ void sum_rows(const stored *x, stored *out, int64_t b, int64_t c, int64_t d,
                                double divisor, int64_t sums) {
  typedef real_of<stored> real;
  EACH_OF_GRID(pair, sums) {
    const int64_t first = (pair / c * b * c + pair % c) * d;
    real part = 0;
    EACH_OF_BLOCK(i, b * d) {
      part += x[first + i / d * c * d + i % d];
    }
    const real sum = block_sum(part);
    if (threadIdx.x == 0) out[pair] = (real)(sum / divisor);
  }
}

/* A sum a thread; x: (a, b, c, d, e), out: (a, c, e). */
template <class stored>
static __global__ void sum_columns(const stored *x, stored *out, int64_t b, int64_t c, int64_t d,
                                   int64_t e, double divisor, int64_t sums) {
  typedef real_of<stored> real;
  EACH_ELEMENT(place, sums) {
    const int64_t pair = place / e;
    const int64_t first = (pair / c * b * c + pair % c) * d * e + place % e;
    real sum = 0;
    for (int64_t i = 0; i < b; i++) {
      real part = 0;
      for (int64_t j = 0; j < d; j++)
        part += x[first + (i * c * d + j) * e];
      sum += part;
    }
    out[place] = (real)(sum / divisor);
  }
}

template <class stored> static tdm_status run_reduce(const tdm_kernel_call *call) {
  const reduce_sizes *state = state_of<reduce_sizes>(call);
  const int64_t *sizes = state->sizes;
  const int64_t sums = sizes[0] * sizes[2] * sizes[4];
  if (state->by_rows) {
    return kernel_launch(call, "reduce", sum_rows<stored>, blocks_of(sums),
                         threads_for_row(sizes[1] * sizes[3]), input_of<stored>(call, 0),
                         output_of<stored>(call, 0), sizes[1], sizes[2], sizes[3], state->divisor,
                         sums);
  }
  return kernel_launch(call, "reduce", sum_columns<stored>, blocks_for(sums), BLOCK,
                       input_of<stored>(call, 0), output_of<stored>(call, 0), sizes[1], sizes[2],
                       sizes[3], sizes[4], state->divisor, sums);
}

static tdm_status reduce_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return reduce_prepare_state(request, answer, &request->inputs[0].shape);
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
