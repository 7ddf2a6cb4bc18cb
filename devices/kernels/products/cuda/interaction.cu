/* The products of pairs of vectors, and their gradient. Invariant: every element is one thread's,
 * summed in order. */
#include "devices/kernels/cuda/kernel.h"
#include "devices/kernels/products/interaction_sizes.h"
#include "devices/kernels/products/products.h"

/* Prepares the kernel. x: the operand of that index. */
template <size_t operand>
static tdm_status interaction_prepare(const tdm_kernel_request *request,
                                      tdm_kernel_answer *answer) {
  interaction_sizes *sizes = state_create<interaction_sizes>(answer);
  if (!sizes) return TDM_OUT_OF_MEMORY;
  interaction_sizes_read(sizes, request, &request->inputs[operand]);
  return TDM_OK;
}

/* Returns the number of pairs before those of vector i. */
static __device__ inline int64_t pairs_before(int64_t i, int64_t self) {
  return i * (i - 1) / 2 + self * i;
}

/* Computes y (batch, pairs) from x (batch, vectors, dim). Each thread has an element of the square
 * (vectors, vectors); those above the diagonal are idle. */
template <class stored>
static __global__ void multiply_pairs(const stored *x, stored *y, int64_t vectors, int64_t dim,
                                      int64_t pairs, int64_t self, int64_t places) {
  typedef real_of<stored> real;
  EACH_ELEMENT(place, places) {
    const int64_t j = place % vectors, i = place / vectors % vectors;
    const int64_t sample = place / vectors / vectors;
    if (j < i + self) {
      const stored *a = x + (sample * vectors + i) * dim, *b = x + (sample * vectors + j) * dim;
      real sum = 0;
      for (int64_t d = 0; d < dim; d++)
        sum += a[d] * b[d];
      y[sample * pairs + pairs_before(i, self) + j] = sum;
    }
  }
}

template <class stored> static tdm_status interaction_run(const tdm_kernel_call *call) {
  const interaction_sizes *state = state_of<interaction_sizes>(call);
  const int64_t places = state->batch * state->vectors * state->vectors;
  return kernel_launch(call, "multiply_pairs", multiply_pairs<stored>, blocks_for(places), BLOCK,
                       input_of<stored>(call, 0), output_of<stored>(call, 0), state->vectors,
                       state->dim, state->pairs, state->self, places);
}

/* Computes d_x (batch, vectors, dim) from d_y (batch, pairs) and x (batch, vectors, dim). */
template <class stored>
static __global__ void share_pairs(const stored *d_y, const stored *x, stored *d_x, int64_t vectors,
                                   int64_t dim, int64_t pairs, int64_t self, int64_t count) {
  typedef real_of<stored> real;
  EACH_ELEMENT(at, count) {
    const int64_t d = at % dim, i = at / dim % vectors, sample = at / dim / vectors;
    const stored *slopes = d_y + sample * pairs;
    real sum = 0;
    for (int64_t j = 0; j < vectors; j++) {
      const int64_t high = i > j ? i : j, low = i > j ? j : i;
      if (high == low && !self) continue;
      const real slope = slopes[pairs_before(high, self) + low];
      sum += (high == low ? 2 * slope : slope) * x[(sample * vectors + j) * dim + d];
    }
    d_x[at] = sum;
  }
}

template <class stored> static tdm_status run_gradient(const tdm_kernel_call *call) {
  const interaction_sizes *state = state_of<interaction_sizes>(call);
  const int64_t count = state->batch * state->vectors * state->dim;
  return kernel_launch(call, "share_pairs", share_pairs<stored>, blocks_for(count), BLOCK,
                       input_of<stored>(call, 0), input_of<stored>(call, 1),
                       output_of<stored>(call, 0), state->vectors, state->dim, state->pairs,
                       state->self, count);
}

KERNELS(interaction,
        KERNEL(TDM_OP_DOT_INTERACTION, interaction_prepare<0>, interaction_run<stored>),
        KERNEL(TDM_OP_DOT_INTERACTION_GRADIENT, interaction_prepare<1>, run_gradient<stored>))
