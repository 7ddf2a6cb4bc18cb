/* What attention and its gradient share on a GPU: sizes, and one score of a query and a key.
 * Invariant: no (queries, keys) matrix is kept; a score, dropped or not, depends on its own query
 * and key alone. */
#ifndef TANDEM_DEVICES_CUDA_KERNELS_ATTENTION_H
#define TANDEM_DEVICES_CUDA_KERNELS_ATTENTION_H

#include "core/philox.h"
#include "devices/cuda/kernels/reduce.h"

/* Kernels are told all of it. */
struct attention_state {
  int64_t batch;
  int64_t queries;
  int64_t keys;
  int64_t heads;
  int64_t dim;   /* of a head's queries and keys */
  int64_t width; /* of a head's values */
  double scale;
  double kept_scale;  /* of what is not dropped */
  uint32_t threshold; /* of dropping; 0: nothing is dropped */
  uint64_t stream;
  int64_t first_batch; /* where this chunk begins in the whole batch */
  bool causal;
  bool mask_each;  /* every head of every batch has a mask of its own */
  bool mask_hides; /* the mask is bool; else it is added */
};

/* mask: the operand of that number. */
static inline attention_state *attention_state_create(const tdm_kernel_request *request,
                                                      tdm_kernel_answer *answer, const tdm_spec *q,
                                                      const tdm_spec *v, size_t mask, bool drops) {
  const tdm_attention_attributes *attributes =
      static_cast<const tdm_attention_attributes *>(request->attributes);
  attention_state *state = state_create<attention_state>(answer);
  if (!state) return NULL;
  state->batch = q->shape.dims[0];
  state->queries = q->shape.dims[1];
  state->keys = v->shape.dims[1];
  state->heads = attributes->heads;
  state->dim = q->shape.dims[2] / state->heads;
  state->width = v->shape.dims[2] / state->heads;
  state->scale = attributes->scale;
  state->causal = attributes->causal != 0;
  if (mask < request->input_count) {
    state->mask_each = request->inputs[mask].shape.rank == 4;
    state->mask_hides = request->inputs[mask].dtype == TDM_BOOL;
  }
  state->threshold = drops ? (uint32_t)(attributes->p * 16777216.0) : 0;
  state->kept_scale = attributes->p < 1 ? 1 / (1 - attributes->p) : 0;
  state->stream = attributes->stream;
  state->first_batch = attributes->chunk.offset;
  return state;
}

/* The mask operand, as what hides keys or as what is added to scores; NULL where it is not that. */
static inline const uint8_t *hidden_of(const tdm_kernel_call *call, size_t operand) {
  const attention_state *state = static_cast<const attention_state *>(call->state);
  return state->mask_hides ? input_of<uint8_t>(call, operand) : NULL;
}

template <class real>
static inline const real *added_of(const tdm_kernel_call *call, size_t operand) {
  const attention_state *state = static_cast<const attention_state *>(call->state);
  return state->mask_hides ? NULL : input_of<real>(call, operand);
}

/* What is added to the score at place of (queries, keys) or (batch, heads, queries, keys). */
template <class real>
static __device__ inline real mask_at(const uint8_t *hidden, const real *added, int64_t place) {
  if (hidden) return hidden[place] ? -(real)INFINITY : (real)0;
  return added ? added[place] : (real)0;
}

/* scale a . b + more, or -infinity where the query does not see the key. */
template <class real>
static __device__ inline real score_of(const real *a, const real *b, int64_t dim, double scale,
                                       bool sees, real more) {
  real sum = 0;
  for (int64_t d = 0; d < dim; d++)
    sum += a[d] * b[d];
  return sees ? sum * (real)scale + more : -(real)INFINITY;
}

/* What the element at place of (batch, heads, queries, keys) is multiplied by. */
template <class real>
static __device__ inline real kept_at(uint64_t place, const attention_state &shape, uint64_t seed,
                                      uint32_t step) {
  if (shape.threshold == 0) return 1;
  uint32_t words[4];
  tdm_philox_block(seed, shape.stream, step, place / 4, words);
  return words[place % 4] >> 8 < shape.threshold ? 0 : (real)shape.kept_scale;
}

#endif
