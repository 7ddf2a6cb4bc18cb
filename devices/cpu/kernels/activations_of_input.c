/* GELU, SiLU and leaky ReLU, and their gradients, which are told in terms of the argument x.
 * Invariant: an element of the result depends on the same element of the operands alone. */
#include <math.h>

#include "core/status.h"
#include "devices/cpu/kernels/vector_math.h"

#define GRAIN 4096

typedef struct activation_state {
  int64_t count;
  real slope;
  bool by_tanh;
  bool splits;
} activation_state;

static activation_state *prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                 double vector_ns) {
  activation_state *state = tdm_cpu_state_create(answer, sizeof *state);
  if (state == NULL) return NULL;
  state->count = tdm_cpu_count(&request->outputs[0]);
  state->splits = answer->splits =
      tdm_cpu_splits(request, (double)state->count / LANES * vector_ns);
  return state;
}

static tdm_status run(const tdm_kernel_call *call,
                      void (*range)(void *call, int64_t begin, int64_t end)) {
  const activation_state *state = call->state;
  tdm_team_run(state->splits ? call->team : NULL, state->count, GRAIN, range, (void *)call);
  return TDM_OK;
}

/* ---- Formulas -------------------------------------------------------------------------------- */

#if TDM_REAL_BITS == 64
ALWAYS_INLINE vec vec_erf(vec x) {
  for (int i = 0; i < LANES; i++)
    x[i] = erf(x[i]);
  return x;
}
#else
/* Abramowitz and Stegun, "Handbook of mathematical functions", 7.1.26: within 1.5e-7. */
ALWAYS_INLINE vec vec_erf(vec x) {
  const vec_bits sign = (vec_bits)x & (vec_bits)vec_set((real)-0.0);
  const vec magnitude = (vec)((vec_bits)x ^ sign);
  const vec t = 1 / (1 + 0.3275911f * magnitude);
  const vec series =
      t * (0.254829592f +
           t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
  return (vec)((vec_bits)(1 - series * vec_exp(-magnitude * magnitude)) | sign);
}
#endif

#define SQRT_HALF ((real)0.70710678118654752440)
#define SQRT_TWO_OVER_PI ((real)0.79788456080286535588)
#define INVERSE_SQRT_TWO_PI ((real)0.39894228040143267794)
#define CUBIC ((real)0.044715)

ALWAYS_INLINE vec vec_gelu(vec x, bool by_tanh) {
  if (!by_tanh) return (real)0.5 * x * (1 + vec_erf(x * SQRT_HALF));
  return (real)0.5 * x * (1 + vec_tanh(SQRT_TWO_OVER_PI * (x + CUBIC * x * x * x)));
}

ALWAYS_INLINE vec vec_gelu_slope(vec x, bool by_tanh) {
  if (!by_tanh) {
    const vec density = INVERSE_SQRT_TWO_PI * vec_exp((real)-0.5 * x * x);
    return (real)0.5 * (1 + vec_erf(x * SQRT_HALF)) + x * density;
  }
  const vec t = vec_tanh(SQRT_TWO_OVER_PI * (x + CUBIC * x * x * x));
  const vec inner = SQRT_TWO_OVER_PI * (1 + 3 * CUBIC * x * x);
  return (real)0.5 * (1 + t) + (real)0.5 * x * (1 - t * t) * inner;
}

ALWAYS_INLINE vec vec_silu_slope(vec x) {
  const vec s = vec_sigmoid(x);
  return s * (1 + x * (1 - s));
}

/* ---- Kernels --------------------------------------------------------------------------------- */

/* Defines the execution of `name`, whose result is expression, in x. */
#define UNARY(name, expression)                                                                    \
  static void name##_range(void *user, int64_t begin, int64_t end) {                               \
    const tdm_kernel_call *call = user;                                                            \
    const activation_state *state = call->state;                                                   \
    const real *from = call->inputs[0]; /* (count) */                                              \
    real *to = call->outputs[0];        /* (count) */                                              \
    (void)state;                                                                                   \
    for (int64_t i = begin; i < end; i += LANES) {                                                 \
      const vec x = vec_load_first(from + i, end - i);                                             \
      vec_store_first(to + i, expression, end - i);                                                \
    }                                                                                              \
  }                                                                                                \
  tdm_status TDM_NAME(tdm_##name##_execute)(const tdm_kernel_call *call) {                         \
    return run(call, name##_range);                                                                \
  }                                                                                                \
  ELEMENT_PART(name)

/* The same of a gradient, in d (of y) and x. */
#define GRADIENT(name, expression)                                                                 \
  static void name##_range(void *user, int64_t begin, int64_t end) {                               \
    const tdm_kernel_call *call = user;                                                            \
    const activation_state *state = call->state;                                                   \
    const real *d_y = call->inputs[0], *from = call->inputs[1]; /* (count) */                      \
    real *to = call->outputs[0];                                /* (count) */                      \
    (void)state;                                                                                   \
    for (int64_t i = begin; i < end; i += LANES) {                                                 \
      const vec d = vec_load_first(d_y + i, end - i), x = vec_load_first(from + i, end - i);       \
      vec_store_first(to + i, expression, end - i);                                                \
    }                                                                                              \
  }                                                                                                \
  tdm_status TDM_NAME(tdm_##name##_execute)(const tdm_kernel_call *call) {                         \
    return run(call, name##_range);                                                                \
  }                                                                                                \
  ELEMENT_PART(name)

#define PREPARE(name, vector_ns, setting)                                                          \
  tdm_status TDM_NAME(tdm_##name##_prepare)(const tdm_kernel_request *request,                     \
                                            tdm_kernel_answer *answer) {                           \
    activation_state *state = prepare(request, answer, vector_ns);                                 \
    if (state == NULL) return TDM_OUT_OF_MEMORY;                                                   \
    setting;                                                                                       \
    return TDM_OK;                                                                                 \
  }

static void set_by_tanh(activation_state *state, const tdm_kernel_request *request) {
  state->by_tanh = ((const tdm_gelu_attributes *)request->attributes)->by_tanh != 0;
}

static void set_slope(activation_state *state, const tdm_kernel_request *request) {
  state->slope = (real)((const tdm_leaky_relu_attributes *)request->attributes)->slope;
}

UNARY(silu, x *vec_sigmoid(x))
GRADIENT(silu_gradient, d *vec_silu_slope(x))
UNARY(gelu, state->by_tanh ? vec_gelu(x, true) : vec_gelu(x, false))
GRADIENT(gelu_gradient, d *(state->by_tanh ? vec_gelu_slope(x, true) : vec_gelu_slope(x, false)))
UNARY(leaky_relu, vec_select(x < (vec){0}, x * state->slope, x))
GRADIENT(leaky_relu_gradient, vec_select(x > (vec){0}, d, d * state->slope))

PREPARE(silu, 6.0, (void)state)
PREPARE(silu_gradient, 6.0, (void)state)
PREPARE(gelu, TDM_REAL_BITS == 64 ? 60.0 : 8.0, set_by_tanh(state, request))
PREPARE(gelu_gradient, TDM_REAL_BITS == 64 ? 60.0 : 12.0, set_by_tanh(state, request))
PREPARE(leaky_relu, 3.0, set_slope(state, request))
PREPARE(leaky_relu_gradient, 4.0, set_slope(state, request))
