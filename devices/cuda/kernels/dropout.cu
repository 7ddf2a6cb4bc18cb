/* Dropout. Invariant: whether an element goes depends on seed, step, stream and its place in the
 * whole value alone, by integers, as in the cpu's kernel. */
#include "devices/cuda/kernels/elements.h"
#include "devices/cuda/kernels/family.h"
#include "devices/cuda/kernels/kernel.h"

struct dropout_state {
  int64_t count;
  dropout_pattern pattern;
  double scale;
  bool wide;
};

tdm_status tdm_cuda_dropout_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  const tdm_dropout_attributes *attributes =
      static_cast<const tdm_dropout_attributes *>(request->attributes);
  const tdm_spec *spec = &request->outputs[0];
  dropout_state *state = state_create<dropout_state>(answer);
  if (state == NULL) return TDM_OUT_OF_MEMORY;
  state->count = count_of(spec);
  state->pattern = pattern_of(attributes, spec);
  state->scale = dropout_scale_of(attributes);
  state->wide = spec->dtype == TDM_FLOAT64;
  return TDM_OK;
}

/* x, y: (count). */
template <class real>
static __global__ void dropout(const real *x, real *y, uint64_t seed, uint64_t stream,
                               uint32_t step, uint32_t threshold, double scale, int64_t stretch,
                               int64_t whole_stretch, int64_t first, int64_t count) {
  EACH_ELEMENT(i, count) {
    const bool dropped =
        is_dropped(i, stretch, whole_stretch, first, seed, stream, step, threshold);
    y[i] = dropped ? 0 : element<TDM_ELEMENT_dropout>::of(x[i], x[i], scale);
  }
}

template <class real> static tdm_status run(const tdm_kernel_call *call) {
  const dropout_state *state = static_cast<const dropout_state *>(call->state);
  const dropout_pattern *pattern = &state->pattern;
  return kernel_launch(call, "dropout", dropout<real>, blocks_for(state->count), BLOCK,
                       input_of<real>(call, 0), output_of<real>(call, 0), call->scalars->seed,
                       pattern->stream, (uint32_t)call->scalars->step, pattern->threshold,
                       state->scale, pattern->stretch, pattern->whole_stretch, pattern->first,
                       state->count);
}

tdm_status tdm_cuda_dropout_execute(const tdm_kernel_call *call) {
  return static_cast<const dropout_state *>(call->state)->wide ? run<double>(call)
                                                               : run<float>(call);
}
