/* Where an element of a result finds its operands, which are broadcast to the result's shape
 * (devices/broadcast.h). Invariant: sizes and repeats travel as plain parameters. */
#ifndef TANDEM_DEVICES_CUDA_KERNELS_BROADCAST_H
#define TANDEM_DEVICES_CUDA_KERNELS_BROADCAST_H

#include "devices/broadcast.h"
#include "devices/cuda/kernels/family.h"
#include "devices/cuda/kernels/kernel.h"

struct broadcast_state {
  tdm_broadcast broadcast;
  int64_t count;                            /* of the result */
  uint32_t repeats[TDM_BROADCAST_OPERANDS]; /* bit d: along dimension d of broadcast */
  bool plain;                               /* nothing is repeated */
};

static inline void broadcast_prepare(const tdm_kernel_request *request, size_t operands,
                                     broadcast_state *state) {
  state->broadcast = tdm_broadcast_of(request->inputs, operands, &request->outputs[0].shape);
  state->count = count_of(&request->outputs[0]);
  state->plain = true;
  for (size_t k = 0; k < operands; k++) {
    for (int d = 0; d < state->broadcast.rank; d++)
      if (state->broadcast.steps[k][d] == 0) state->repeats[k] |= 1u << d;
    state->plain = state->plain && state->repeats[k] == 0;
  }
}

/* Of kernels: the sizes of the result's dimensions, of which rank count; and what is given for
 * them, and a list of them inside. */
#define BROADCAST_PARAMETERS                                                                       \
  int rank, int64_t size_0, int64_t size_1, int64_t size_2, int64_t size_3, int64_t size_4,        \
      int64_t size_5, int64_t size_6, int64_t size_7
#define BROADCAST_ARGUMENTS(of)                                                                    \
  (of).rank, (of).sizes[0], (of).sizes[1], (of).sizes[2], (of).sizes[3], (of).sizes[4],            \
      (of).sizes[5], (of).sizes[6], (of).sizes[7]
#define BROADCAST_SIZES                                                                            \
  { size_0, size_1, size_2, size_3, size_4, size_5, size_6, size_7 }

/* Of every operand its element that belongs to element i of the result. */
template <int operands>
static __device__ void find_places(int64_t i, int rank, const int64_t *sizes,
                                   const uint32_t *repeats, int64_t *out_at) {
  int64_t step[operands];
  for (int k = 0; k < operands; k++) {
    out_at[k] = 0;
    step[k] = 1;
  }
  for (int d = rank - 1; d >= 0; d--) {
    const int64_t rest = d > 0 ? i / sizes[d] : 0;
    const int64_t place = i - rest * sizes[d];
    i = rest;
    for (int k = 0; k < operands; k++) {
      if ((repeats[k] >> d & 1) != 0) continue;
      out_at[k] += place * step[k];
      step[k] *= sizes[d];
    }
  }
}

#endif
