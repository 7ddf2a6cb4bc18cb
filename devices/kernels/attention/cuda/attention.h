/* Code that attention and its gradient share on a GPU: sizes, and one score of a query and a key.
 * Invariants: no (queries, keys) matrix is stored; a score, dropped or not, depends only on its own
 * query and key. */
#ifndef TANDEM_DEVICES_KERNELS_ATTENTION_CUDA_ATTENTION_H
#define TANDEM_DEVICES_KERNELS_ATTENTION_CUDA_ATTENTION_H

#include "core/philox.h"
#include "devices/kernels/attention/attention_sizes.h"
#include "devices/kernels/cuda/reduce.h"

/* Allocates the state. mask: index of the mask's operand. */
static inline attention_sizes *attention_prepare(const tdm_kernel_request *request,
                                                 tdm_kernel_answer *answer, const tdm_spec *q,
                                                 const tdm_spec *v, size_t mask, bool drops) {
  attention_sizes *sizes = state_create<attention_sizes>(answer);
  if (sizes) attention_sizes_read(sizes, request, q, v, mask, drops);
  return sizes;
}

/* hidden_of returns the mask if it hides keys, and added_of returns it if it is added to scores.
 * Otherwise they return NULL. */
static inline const uint8_t *hidden_of(const tdm_kernel_call *call, size_t operand) {
  const attention_sizes *state = state_of<attention_sizes>(call);
  return state->mask_hides ? input_of<uint8_t>(call, operand) : NULL;
}

template <class stored>
static inline const stored *added_of(const tdm_kernel_call *call, size_t operand) {
  const attention_sizes *state = state_of<attention_sizes>(call);
  return state->mask_hides ? NULL : input_of<stored>(call, operand);
}

/* Returns the mask's summand of the score at `place` of (queries, keys) or (batch, heads, queries,
 * keys). */
template <class stored>
static __device__ inline real_of<stored> mask_at(const uint8_t *hidden, const stored *added,
                                                 int64_t place) {
  typedef real_of<stored> real;
  if (hidden) return hidden[place] ? -(real)INFINITY : (real)0;
  return added ? (real_of<stored>)added[place] : (real)0;
}

/* Returns scale a . b + more, or -infinity if the query does not attend to the key. */
template <class stored>
static __device__ inline real_of<stored> score_of(const stored *a, const stored *b, int64_t dim,
                                                  double scale, bool sees, real_of<stored> more) {
  typedef real_of<stored> real;
  real sum = 0;
  for (int64_t d = 0; d < dim; d++)
    sum += a[d] * b[d];
  return sees ? sum * (real)scale + more : -(real)INFINITY;
}

/* Returns the dropout factor of the element at `place` of (batch, heads, queries, keys). */
template <class real>
static __device__ inline real kept_at(uint64_t place, const attention_sizes &shape, uint64_t seed,
                                      uint32_t step) {
  if (shape.threshold == 0) return 1;
  uint32_t words[4];
  tdm_philox_block(seed, shape.stream, step, place / 4, words);
  return words[place % 4] >> 8 < shape.threshold ? 0 : (real)shape.kept_scale;
}

#endif
