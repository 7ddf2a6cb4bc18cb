/* What elementwise operations compute of one element, for the kernels of each and for fused nodes,
 * which therefore give the same bits. Invariant: every operation of TDM_ELEMENT_KERNELS has an
 * element here, by the same name. */
#ifndef TANDEM_DEVICES_CUDA_KERNELS_ELEMENTS_H
#define TANDEM_DEVICES_CUDA_KERNELS_ELEMENTS_H

#include "core/philox.h"
#include "devices/cuda/kernels/family.h"
#include "devices/cuda/kernels/kernel.h"

/* ---- Formulas of the result y, written so that NaN stays NaN --------------------------------- */

struct relu {
  template <class real> static __device__ real of(real x) {
    return x < 0 ? 0 : x;
  }
  template <class real> static __device__ real gradient(real d, real y) {
    return y > 0 ? d : 0;
  }
};

struct hyperbolic_tangent {
  template <class real> static __device__ real of(real x) {
    return tanh(x);
  }
  template <class real> static __device__ real gradient(real d, real y) {
    return d * (1 - y * y);
  }
};

struct sigmoid {
  template <class real> static __device__ real of(real x) {
    return 1 / (1 + exp(-x));
  }
  template <class real> static __device__ real gradient(real d, real y) {
    return d * ((1 - y) * y);
  }
};

/* ---- Formulas of the argument x, with a setting ---------------------------------------------- */

struct silu {
  template <class real> static __device__ real of(real x, double) {
    return x / (1 + exp(-x));
  }
  template <class real> static __device__ real slope(real x, double) {
    const real s = 1 / (1 + exp(-x));
    return s * (1 + x * (1 - s));
  }
};

/* The setting: by tanh, or not. */
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

static inline double no_setting(const void *) {
  return 0;
}

static inline double by_tanh_of(const void *attributes) {
  return (double)static_cast<const tdm_gelu_attributes *>(attributes)->by_tanh;
}

static inline double slope_of(const void *attributes) {
  return static_cast<const tdm_leaky_relu_attributes *>(attributes)->slope;
}

/* ---- Dropout --------------------------------------------------------------------------------- */

/* Which elements go: by their places in the whole value. */
struct dropout_pattern {
  int64_t stretch;       /* elements that follow one another in the whole value too */
  int64_t whole_stretch; /* from one stretch to the next there */
  int64_t first;         /* where the first stretch begins there */
  uint64_t stream;
  uint32_t threshold;
};

static inline dropout_pattern pattern_of(const tdm_dropout_attributes *attributes,
                                         const tdm_spec *spec) {
  dropout_pattern pattern = {};
  const tdm_chunk *chunk = &attributes->chunk;
  pattern.stretch = pattern.whole_stretch = count_of(spec);
  if (chunk->whole != 0) {
    const int64_t inner = dims_product(spec, chunk->dimension + 1, spec->shape.rank);
    pattern.stretch = spec->shape.dims[chunk->dimension] * inner;
    pattern.whole_stretch = chunk->whole * inner;
    pattern.first = chunk->offset * inner;
  }
  pattern.stream = attributes->stream;
  pattern.threshold = (uint32_t)(attributes->p * 16777216.0);
  return pattern;
}

/* Of what stays. */
static inline double dropout_scale_of(const void *attributes) {
  const double p = static_cast<const tdm_dropout_attributes *>(attributes)->p;
  return p < 1 ? 1 / (1 - p) : 0;
}

/* Element i of a chunk. */
static __device__ inline bool is_dropped(int64_t i, int64_t stretch, int64_t whole_stretch,
                                         int64_t first, uint64_t seed, uint64_t stream,
                                         uint32_t step, uint32_t threshold) {
  const uint64_t place = (uint64_t)(i / stretch * whole_stretch + first + i % stretch);
  uint32_t words[4];
  tdm_philox_block(seed, stream, step, place / 4, words);
  return words[place % 4] >> 8 < threshold;
}

/* ---- Elements -------------------------------------------------------------------------------- */

/* of(a, b, setting): of the first two inputs; of dropout, where the element stays. Sums of more
 * inputs are sums of two, from left to right. */
template <int number> struct element;

#define ELEMENT(name, formula, setting_from)                                                       \
  template <> struct element<TDM_ELEMENT_##name> {                                                 \
    template <class real> static __device__ real of(real a, real b, double setting) {              \
      (void)b;                                                                                     \
      (void)setting;                                                                               \
      return formula;                                                                              \
    }                                                                                              \
    static double setting_of(const void *attributes) {                                             \
      return setting_from(attributes);                                                             \
    }                                                                                              \
  };

ELEMENT(relu, relu::of(a), no_setting)
ELEMENT(tanh, hyperbolic_tangent::of(a), no_setting)
ELEMENT(sigmoid, sigmoid::of(a), no_setting)
ELEMENT(relu_gradient, relu::gradient(a, b), no_setting)
ELEMENT(tanh_gradient, hyperbolic_tangent::gradient(a, b), no_setting)
ELEMENT(sigmoid_gradient, sigmoid::gradient(a, b), no_setting)
ELEMENT(silu, silu::of(a, setting), no_setting)
ELEMENT(silu_gradient, a *silu::slope(b, setting), no_setting)
ELEMENT(gelu, gelu::of(a, setting), by_tanh_of)
ELEMENT(gelu_gradient, a *gelu::slope(b, setting), by_tanh_of)
ELEMENT(leaky_relu, leaky_relu::of(a, setting), slope_of)
ELEMENT(leaky_relu_gradient, a *leaky_relu::slope(b, setting), slope_of)
ELEMENT(mul, a *b, no_setting)
ELEMENT(add, a + b, no_setting)
ELEMENT(accumulate, a + b, no_setting)
ELEMENT(scale, a *b, no_setting)
ELEMENT(divide, a / b, no_setting)
ELEMENT(dropout, a *(real)setting, dropout_scale_of)

#endif
