/* Where an element of a result finds its operands, which are broadcast to the result's shape
 * (devices/kernels/elementwise/broadcast.h), and functions of two operands. */
#ifndef TANDEM_DEVICES_KERNELS_ELEMENTWISE_CUDA_BROADCAST_H
#define TANDEM_DEVICES_KERNELS_ELEMENTWISE_CUDA_BROADCAST_H

#include "devices/kernels/cuda/kernel.h"
#include "devices/kernels/elementwise/broadcast.h"

/* The shapes that kernels receive. */
struct broadcast_sizes {
  int rank;
  int64_t sizes[TDM_MAX_RANK];              /* sizes of the result */
  uint32_t repeats[TDM_BROADCAST_OPERANDS]; /* bit d: along dimension d */
};

struct broadcast_state {
  broadcast_sizes sizes;
  int64_t count; /* elements of the result */
  bool plain;    /* no operand is repeated */
};

static inline broadcast_sizes broadcast_sizes_of(const tdm_spec *operands, size_t count,
                                                 const tdm_spec *result) {
  const tdm_broadcast broadcast = tdm_broadcast_of(operands, count, &result->shape);
  broadcast_sizes made = {};
  made.rank = broadcast.rank;
  for (int d = 0; d < broadcast.rank; d++)
    made.sizes[d] = broadcast.sizes[d];
  for (size_t k = 0; k < count; k++)
    for (int d = 0; d < broadcast.rank; d++)
      if (broadcast.steps[k][d] == 0) made.repeats[k] |= 1u << d;
  return made;
}

static inline void broadcast_prepare(const tdm_kernel_request *request, size_t operands,
                                     broadcast_state *state) {
  state->count = count_of(&request->outputs[0]);
  state->sizes = broadcast_sizes_of(request->inputs, operands, &request->outputs[0]);
  state->plain = true;
  for (size_t k = 0; k < operands; k++)
    state->plain = state->plain && state->sizes.repeats[k] == 0;
}

/* Finds, for every operand, its element that belongs to element i of the result. */
template <int operands>
static __device__ void find_places(int64_t i, const broadcast_sizes &shape, int64_t *out_at) {
  int64_t step[operands];
  for (int k = 0; k < operands; k++) {
    out_at[k] = 0;
    step[k] = 1;
  }
  for (int d = shape.rank - 1; d >= 0; d--) {
    const int64_t size = shape.sizes[d], rest = d > 0 ? i / size : 0;
    const int64_t place = i - rest * size;
    i = rest;
    for (int k = 0; k < operands; k++) {
      if ((shape.repeats[k] >> d & 1) != 0) continue;
      out_at[k] += place * step[k];
      step[k] *= size;
    }
  }
}

#endif
