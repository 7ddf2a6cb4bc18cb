/* GELU, SiLU and leaky ReLU, and their gradients, which are told in terms of the argument x.
 * Invariant: an element of the result depends on the same element of the operands alone. */
#include "devices/cuda/kernels/elements.h"
#include "devices/cuda/kernels/family.h"
#include "devices/cuda/kernels/kernel.h"

struct activation_state {
  int64_t count;
  double setting; /* the slope, or whether GELU goes by tanh */
  bool wide;
};

static activation_state *prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  activation_state *state = state_create<activation_state>(answer);
  if (state == NULL) return NULL;
  state->count = count_of(&request->outputs[0]);
  state->wide = request->outputs[0].dtype == TDM_FLOAT64;
  return state;
}

/* x, y: (count). */
template <class real, class formula>
static __global__ void forward(const real *x, real *y, double setting, int64_t count) {
  EACH_ELEMENT(i, count) {
    y[i] = formula::of(x[i], setting);
  }
}

/* d_y, x, d_x: (count). */
template <class real, class formula>
static __global__ void backward(const real *d_y, const real *x, real *d_x, double setting,
                                int64_t count) {
  EACH_ELEMENT(i, count) {
    d_x[i] = d_y[i] * formula::slope(x[i], setting);
  }
}

template <class real, class formula>
static tdm_status run(const tdm_kernel_call *call, const char *name, bool gradient) {
  const activation_state *state = static_cast<const activation_state *>(call->state);
  const int64_t blocks = blocks_for(state->count);
  const real *first = input_of<real>(call, 0);
  real *out = output_of<real>(call, 0);
  if (!gradient) {
    return kernel_launch(call, name, forward<real, formula>, blocks, BLOCK, first, out,
                         state->setting, state->count);
  }
  return kernel_launch(call, name, backward<real, formula>, blocks, BLOCK, first,
                       input_of<real>(call, 1), out, state->setting, state->count);
}

/* ---- Kernels --------------------------------------------------------------------------------- */

#define KERNEL(name, formula, setting_of, gradient)                                                \
  tdm_status tdm_cuda_##name##_prepare(const tdm_kernel_request *request,                          \
                                       tdm_kernel_answer *answer) {                                \
    activation_state *state = prepare(request, answer);                                            \
    if (state == NULL) return TDM_OUT_OF_MEMORY;                                                   \
    state->setting = setting_of(request->attributes);                                              \
    return TDM_OK;                                                                                 \
  }                                                                                                \
  tdm_status tdm_cuda_##name##_execute(const tdm_kernel_call *call) {                              \
    return static_cast<const activation_state *>(call->state)->wide                                \
               ? run<double, formula>(call, #name, gradient)                                       \
               : run<float, formula>(call, #name, gradient);                                       \
  }

KERNEL(silu, silu, no_setting, false)
KERNEL(silu_gradient, silu, no_setting, true)
KERNEL(gelu, gelu, by_tanh_of, false)
KERNEL(gelu_gradient, gelu, by_tanh_of, true)
KERNEL(leaky_relu, leaky_relu, slope_of, false)
KERNEL(leaky_relu_gradient, leaky_relu, slope_of, true)
