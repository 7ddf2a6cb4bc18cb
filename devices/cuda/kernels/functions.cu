/* Functions of one number, element by element: exponential, logarithm, powers, absolute value,
 * affine and clamped, softplus, ELU; and their gradients. Invariant: an element of the result
 * depends on the same element of the operands alone. */
#include "devices/cuda/kernels/family.h"
#include "devices/cuda/kernels/kernel.h"

struct function_state {
  int64_t count;
  double first; /* the attributes' */
  double second;
  bool open;
  bool wide;
};

static tdm_status prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  function_state *state = state_create<function_state>(answer);
  if (state == NULL) return TDM_OUT_OF_MEMORY;
  const tdm_function_attributes *attributes =
      static_cast<const tdm_function_attributes *>(request->attributes);
  state->first = attributes->first;
  state->second = attributes->second;
  state->open = attributes->open != 0;
  state->count = count_of(&request->outputs[0]);
  state->wide = request->outputs[0].dtype == TDM_FLOAT64;
  return TDM_OK;
}

/* ---- Formulas -------------------------------------------------------------------------------- */
/* Of x, and the attributes first and second; a gradient of d (of y) and x, or y where it says so.
 */

struct affine {
  template <class real> static __device__ real of(real x, real scale, real shift) {
    return x * scale + shift;
  }
};

struct absolute {
  template <class real> static __device__ real of(real x, real, real) {
    return fabs(x);
  }
  template <class real> static __device__ real gradient(real d, real x, real, real, bool) {
    return x > 0 ? d : x < 0 ? -d : 0;
  }
};

struct exponential {
  template <class real> static __device__ real of(real x, real, real) {
    return exp(x);
  }
};

struct logarithm {
  template <class real> static __device__ real of(real x, real, real) {
    return log(x);
  }
};

struct square_root {
  template <class real> static __device__ real of(real x, real, real) {
    return sqrt(x);
  }
  template <class real> static __device__ real gradient(real d, real y, real, real, bool) {
    return d / (2 * y);
  }
};

struct inverse_root {
  template <class real> static __device__ real of(real x, real, real) {
    return 1 / sqrt(x);
  }
  template <class real> static __device__ real gradient(real d, real y, real, real, bool) {
    return (real)-0.5 * d * (y * y * y);
  }
};

struct power {
  template <class real> static __device__ real of(real x, real exponent, real) {
    if (exponent == 0) return 1;
    if (exponent == 1) return x;
    if (exponent == 2) return x * x;
    if (exponent == 3) return x * x * x;
    if (exponent == (real)0.5) return sqrt(x);
    if (exponent == (real)-0.5) return 1 / sqrt(x);
    if (exponent == -1) return 1 / x;
    if (exponent == -2) return 1 / (x * x);
    return pow(x, exponent);
  }
  template <class real> static __device__ real gradient(real d, real x, real exponent, real, bool) {
    return exponent == 0 ? 0 : d * (exponent * of(x, exponent - 1, (real)0));
  }
};

struct clamp_between {
  template <class real> static __device__ real of(real x, real least, real most) {
    const real raised = x < least ? least : x;
    return raised > most ? most : raised;
  }
  template <class real>
  static __device__ real gradient(real d, real x, real least, real most, bool open) {
    return (open ? x > least && x < most : x >= least && x <= most) ? d : 0;
  }
};

struct softplus {
  template <class real> static __device__ real of(real x, real beta, real threshold) {
    const real scaled = x * beta;
    if (scaled > threshold) return x;
    return (log1p(exp(-fabs(scaled))) + (scaled < 0 ? 0 : scaled)) / beta;
  }
  template <class real>
  static __device__ real gradient(real d, real x, real beta, real threshold, bool) {
    const real scaled = x * beta;
    return scaled > threshold ? d : d * (1 / (1 + exp(-scaled)));
  }
};

struct exponential_unit {
  template <class real> static __device__ real of(real x, real alpha, real) {
    return x > 0 ? x : alpha * expm1(x);
  }
  template <class real> static __device__ real gradient(real d, real x, real alpha, real, bool) {
    return x > 0 ? d : d * alpha * exp(x);
  }
};

/* ---- Kernels --------------------------------------------------------------------------------- */

/* x, y: (count). */
template <class real, class formula>
static __global__ void forward(const real *x, real *y, double first, double second, int64_t count) {
  EACH_ELEMENT(i, count) {
    y[i] = formula::of(x[i], (real)first, (real)second);
  }
}

/* d_y, x (or y), d_x: (count). */
template <class real, class formula>
static __global__ void backward(const real *d_y, const real *x, real *d_x, double first,
                                double second, bool open, int64_t count) {
  EACH_ELEMENT(i, count) {
    d_x[i] = formula::gradient(d_y[i], x[i], (real)first, (real)second, open);
  }
}

static const function_state *state_of(const tdm_kernel_call *call) {
  return static_cast<const function_state *>(call->state);
}

template <class real, class formula>
static tdm_status run_forward(const tdm_kernel_call *call, const char *name) {
  const function_state *state = state_of(call);
  return kernel_launch(call, name, forward<real, formula>, blocks_for(state->count), BLOCK,
                       input_of<real>(call, 0), output_of<real>(call, 0), state->first,
                       state->second, state->count);
}

template <class real, class formula>
static tdm_status run_backward(const tdm_kernel_call *call, const char *name) {
  const function_state *state = state_of(call);
  return kernel_launch(call, name, backward<real, formula>, blocks_for(state->count), BLOCK,
                       input_of<real>(call, 0), input_of<real>(call, 1), output_of<real>(call, 0),
                       state->first, state->second, state->open, state->count);
}

#define KERNEL(name, formula, run)                                                                 \
  tdm_status tdm_cuda_##name##_prepare(const tdm_kernel_request *request,                          \
                                       tdm_kernel_answer *answer) {                                \
    return prepare(request, answer);                                                               \
  }                                                                                                \
  tdm_status tdm_cuda_##name##_execute(const tdm_kernel_call *call) {                              \
    return state_of(call)->wide ? run<double, formula>(call, #name)                                \
                                : run<float, formula>(call, #name);                                \
  }

KERNEL(affine, affine, run_forward)
KERNEL(absolute, absolute, run_forward)
KERNEL(absolute_gradient, absolute, run_backward)
KERNEL(exp, exponential, run_forward)
KERNEL(log, logarithm, run_forward)
KERNEL(sqrt, square_root, run_forward)
KERNEL(sqrt_gradient, square_root, run_backward)
KERNEL(rsqrt, inverse_root, run_forward)
KERNEL(rsqrt_gradient, inverse_root, run_backward)
KERNEL(pow, power, run_forward)
KERNEL(pow_gradient, power, run_backward)
KERNEL(clamp, clamp_between, run_forward)
KERNEL(clamp_gradient, clamp_between, run_backward)
KERNEL(softplus, softplus, run_forward)
KERNEL(softplus_gradient, softplus, run_backward)
KERNEL(elu, exponential_unit, run_forward)
KERNEL(elu_gradient, exponential_unit, run_backward)
