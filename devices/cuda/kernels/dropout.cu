/* Dropout. Invariant: whether an element goes depends on seed, step, stream and its place in the
 * whole value alone, by integers, as in the cpu's kernel. */
#include "core/philox.h"
#include "devices/cuda/kernels/family.h"
#include "devices/cuda/kernels/kernel.h"

struct dropout_state {
  int64_t count;
  int64_t stretch;       /* elements that follow one another in the whole value too */
  int64_t whole_stretch; /* from one stretch to the next there */
  int64_t first;         /* where the first stretch begins there */
  uint64_t stream;
  uint32_t threshold;
  double scale;
  bool wide;
};

tdm_status tdm_cuda_dropout_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  const tdm_dropout_attributes *attributes =
      static_cast<const tdm_dropout_attributes *>(request->attributes);
  const tdm_spec *spec = &request->outputs[0];
  const tdm_chunk *chunk = &attributes->chunk;
  dropout_state *state = state_create<dropout_state>(answer);
  if (state == NULL) return TDM_OUT_OF_MEMORY;
  state->count = state->stretch = state->whole_stretch = count_of(spec);
  if (chunk->whole != 0) {
    const int64_t inner = dims_product(spec, chunk->dimension + 1, spec->shape.rank);
    state->stretch = spec->shape.dims[chunk->dimension] * inner;
    state->whole_stretch = chunk->whole * inner;
    state->first = chunk->offset * inner;
  }
  state->stream = attributes->stream;
  state->threshold = (uint32_t)(attributes->p * 16777216.0);
  state->scale = attributes->p < 1 ? 1 / (1 - attributes->p) : 0;
  state->wide = spec->dtype == TDM_FLOAT64;
  return TDM_OK;
}

/* x, y: (count). */
template <class real>
static __global__ void dropout(const real *x, real *y, uint64_t seed, uint64_t stream,
                               uint32_t step, uint32_t threshold, double scale, int64_t stretch,
                               int64_t whole_stretch, int64_t first, int64_t count) {
  EACH_ELEMENT(i, count) {
    const uint64_t place = (uint64_t)(i / stretch * whole_stretch + first + i % stretch);
    uint32_t words[4];
    tdm_philox_block(seed, stream, step, place / 4, words);
    y[i] = words[place % 4] >> 8 < threshold ? 0 : x[i] * (real)scale;
  }
}

template <class real> static tdm_status run(const tdm_kernel_call *call) {
  const dropout_state *state = static_cast<const dropout_state *>(call->state);
  return kernel_launch(call, "dropout", dropout<real>, blocks_for(state->count), BLOCK,
                       input_of<real>(call, 0), output_of<real>(call, 0), call->scalars->seed,
                       state->stream, (uint32_t)call->scalars->step, state->threshold, state->scale,
                       state->stretch, state->whole_stretch, state->first, state->count);
}

tdm_status tdm_cuda_dropout_execute(const tdm_kernel_call *call) {
  return static_cast<const dropout_state *>(call->state)->wide ? run<double>(call)
                                                               : run<float>(call);
}
