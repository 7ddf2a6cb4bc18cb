/* GELU, SiLU and leaky ReLU, and their gradients, which are told in terms of the argument x.
 * Invariant: an element of the result depends on the same element of the operands alone. */
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

/* ---- Formulas -------------------------------------------------------------------------------- */

struct silu {
  template <class real> static __device__ real of(real x, double) {
    return x / (1 + exp(-x));
  }
  template <class real> static __device__ real slope(real x, double) {
    const real s = 1 / (1 + exp(-x));
    return s * (1 + x * (1 - s));
  }
};

struct gelu {
  template <class real> static __device__ real inner(real x) {
    return (real)0.79788456080286535588 * (x + (real)0.044715 * x * x * x);
  }
  template <class real> static __device__ real of(real x, double by_tanh) {
    if (by_tanh != 0) return (real)0.5 * x * (1 + tanh(inner(x)));
    return (real)0.5 * x * (1 + erf(x * (real)0.70710678118654752440));
  }
  template <class real> static __device__ real slope(real x, double by_tanh) {
    if (by_tanh != 0) {
      const real t = tanh(inner(x));
      const real inner_slope = (real)0.79788456080286535588 * (1 + 3 * (real)0.044715 * x * x);
      return (real)0.5 * (1 + t) + (real)0.5 * x * (1 - t * t) * inner_slope;
    }
    const real density = (real)0.39894228040143267794 * exp((real)-0.5 * x * x);
    return (real)0.5 * (1 + erf(x * (real)0.70710678118654752440)) + x * density;
  }
};

struct leaky_relu {
  template <class real> static __device__ real of(real x, double slope_below) {
    return x < 0 ? x * (real)slope_below : x;
  }
  template <class real> static __device__ real slope(real x, double slope_below) {
    return x > 0 ? 1 : (real)slope_below;
  }
};

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

static double no_setting(const void *) {
  return 0;
}

static double by_tanh_of(const void *attributes) {
  return (double)static_cast<const tdm_gelu_attributes *>(attributes)->by_tanh;
}

static double slope_of(const void *attributes) {
  return static_cast<const tdm_leaky_relu_attributes *>(attributes)->slope;
}

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
