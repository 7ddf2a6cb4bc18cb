/* relu, tanh and sigmoid, and their gradients, which are told in terms of the result y. Invariant:
 * an element of the result depends on the same element of the operands alone. */
#include "devices/cuda/kernels/elements.h"
#include "devices/cuda/kernels/family.h"
#include "devices/cuda/kernels/kernel.h"

struct activation_state {
  int64_t count;
  bool wide;
};

static tdm_status prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  activation_state *state = state_create<activation_state>(answer);
  if (state == NULL) return TDM_OUT_OF_MEMORY;
  state->count = count_of(&request->outputs[0]);
  state->wide = request->outputs[0].dtype == TDM_FLOAT64;
  return TDM_OK;
}

/* x, y: (count). */
template <class real, class formula>
static __global__ void forward(const real *x, real *y, int64_t count) {
  EACH_ELEMENT(i, count) {
    y[i] = formula::of(x[i]);
  }
}

/* d_y, y, d_x: (count). */
template <class real, class formula>
static __global__ void backward(const real *d_y, const real *y, real *d_x, int64_t count) {
  EACH_ELEMENT(i, count) {
    d_x[i] = formula::gradient(d_y[i], y[i]);
  }
}

template <class real, class formula>
static tdm_status run(const tdm_kernel_call *call, const char *name, bool gradient) {
  const int64_t count = static_cast<const activation_state *>(call->state)->count;
  const int64_t blocks = blocks_for(count);
  const real *first = input_of<real>(call, 0);
  real *out = output_of<real>(call, 0);
  if (!gradient) {
    return kernel_launch(call, name, forward<real, formula>, blocks, BLOCK, first, out, count);
  }
  return kernel_launch(call, name, backward<real, formula>, blocks, BLOCK, first,
                       input_of<real>(call, 1), out, count);
}

#define KERNEL(name, formula, gradient)                                                            \
  tdm_status tdm_cuda_##name##_prepare(const tdm_kernel_request *request,                          \
                                       tdm_kernel_answer *answer) {                                \
    return prepare(request, answer);                                                               \
  }                                                                                                \
  tdm_status tdm_cuda_##name##_execute(const tdm_kernel_call *call) {                              \
    return static_cast<const activation_state *>(call->state)->wide                                \
               ? run<double, formula>(call, #name, gradient)                                       \
               : run<float, formula>(call, #name, gradient);                                       \
  }

KERNEL(relu, relu, false)
KERNEL(tanh, hyperbolic_tangent, false)
KERNEL(sigmoid, sigmoid, false)
KERNEL(relu_gradient, relu, true)
KERNEL(tanh_gradient, hyperbolic_tangent, true)
KERNEL(sigmoid_gradient, sigmoid, true)
