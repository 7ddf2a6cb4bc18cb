/* Functions of one number, element by element: exponential, logarithm, powers, absolute value,
 * affine and clamped, softplus, ELU; and their gradients. Invariant: an element of the result
 * depends on the same element of the operands alone. */
#include <math.h>

#include "core/status.h"
#include "devices/cpu/kernels/vector_math.h"

#define GRAIN 4096

typedef struct function_state {
  int64_t count;
  real first; /* the attributes' */
  real second;
  bool open;
  bool splits;
} function_state;

static tdm_status prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                          double vector_ns) {
  function_state *state = tdm_cpu_state_create(answer, sizeof *state);
  if (state == NULL) return TDM_OUT_OF_MEMORY;
  const tdm_function_attributes *attributes = request->attributes;
  state->first = (real)attributes->first;
  state->second = (real)attributes->second;
  state->open = attributes->open != 0;
  state->count = tdm_cpu_count(&request->outputs[0]);
  state->splits = answer->splits =
      tdm_cpu_splits(request, (double)state->count / LANES * vector_ns);
  return TDM_OK;
}

static tdm_status run(const tdm_kernel_call *call,
                      void (*range)(void *call, int64_t begin, int64_t end)) {
  const function_state *state = call->state;
  tdm_team_run(state->splits ? call->team : NULL, state->count, GRAIN, range, (void *)call);
  return TDM_OK;
}

/* ---- Formulas -------------------------------------------------------------------------------- */

/* The exponents that PyTorch knows go without logarithms; others through the C library. */
ALWAYS_INLINE vec vec_pow(vec x, real exponent) {
  if (exponent == 0) return vec_set(1);
  if (exponent == 1) return x;
  if (exponent == 2) return x * x;
  if (exponent == 3) return x * x * x;
  if (exponent == (real)0.5) return vec_sqrt(x);
  if (exponent == (real)-0.5) return 1 / vec_sqrt(x);
  if (exponent == -1) return 1 / x;
  if (exponent == -2) return 1 / (x * x);
  for (int i = 0; i < LANES; i++)
    x[i] = TDM_REAL_BITS == 64 ? (real)pow(x[i], exponent) : powf((float)x[i], (float)exponent);
  return x;
}

/* Nothing flows back through the power 0, whatever x is. */
ALWAYS_INLINE vec vec_pow_slope(vec x, real exponent) {
  return exponent == 0 ? (vec){0} : exponent * vec_pow(x, exponent - 1);
}

ALWAYS_INLINE vec vec_clamp(vec x, vec least, vec most) {
  x = vec_select(x < least, least, x);
  return vec_select(x > most, most, x);
}

/* All bits set where x lies between, with the ends unless `open`. */
ALWAYS_INLINE vec_bits vec_between(vec x, vec least, vec most, bool open) {
  return open ? (x > least) & (x < most) : (x >= least) & (x <= most);
}

/* log(1 + e^(beta x)) / beta, and x where beta x is above threshold. */
ALWAYS_INLINE vec vec_softplus(vec x, real beta, real threshold) {
  const vec scaled = x * beta;
  const vec rest = vec_log1p_of_fraction(vec_exp(-vec_absolute(scaled)));
  const vec curved = (vec_select(scaled > (vec){0}, scaled, (vec){0}) + rest) / beta;
  return vec_select(scaled > vec_set(threshold), x, vec_select(x == x, curved, x));
}

/* ---- Kernels --------------------------------------------------------------------------------- */

#define KERNEL(name, vector_ns)                                                                    \
  tdm_status TDM_NAME(tdm_##name##_prepare)(const tdm_kernel_request *request,                     \
                                            tdm_kernel_answer *answer) {                           \
    return prepare(request, answer, vector_ns);                                                    \
  }                                                                                                \
  tdm_status TDM_NAME(tdm_##name##_execute)(const tdm_kernel_call *call) {                         \
    return run(call, name##_range);                                                                \
  }

/* Defines the kernel `name` whose result is expression, in x, first and second. */
#define UNARY(name, vector_ns, expression)                                                         \
  static void name##_range(void *user, int64_t begin, int64_t end) {                               \
    const tdm_kernel_call *call = user;                                                            \
    const function_state *state = call->state;                                                     \
    const real first = state->first, second = state->second;                                       \
    const real *from = call->inputs[0]; /* (count) */                                              \
    real *to = call->outputs[0];        /* (count) */                                              \
    (void)first, (void)second;                                                                     \
    for (int64_t i = begin; i < end; i += LANES) {                                                 \
      const vec x = vec_load_first(from + i, end - i);                                             \
      vec_store_first(to + i, expression, end - i);                                                \
    }                                                                                              \
  }                                                                                                \
  KERNEL(name, vector_ns)

/* The same of a gradient, in d (of y) and x, which is the argument or, where it says so, y. */
#define GRADIENT(name, vector_ns, expression)                                                      \
  static void name##_range(void *user, int64_t begin, int64_t end) {                               \
    const tdm_kernel_call *call = user;                                                            \
    const function_state *state = call->state;                                                     \
    const real first = state->first, second = state->second;                                       \
    const bool open = state->open;                                                                 \
    const real *d_y = call->inputs[0], *from = call->inputs[1]; /* (count) */                      \
    real *to = call->outputs[0];                                /* (count) */                      \
    (void)first, (void)second, (void)open;                                                         \
    for (int64_t i = begin; i < end; i += LANES) {                                                 \
      const vec d = vec_load_first(d_y + i, end - i), x = vec_load_first(from + i, end - i);       \
      vec_store_first(to + i, expression, end - i);                                                \
    }                                                                                              \
  }                                                                                                \
  KERNEL(name, vector_ns)

/* What a vector of a general power costs, in the C library. */
#define POW_NS (LANES * 15.0)

UNARY(affine, 3.0, x *first + second)
UNARY(absolute, 3.0, vec_absolute(x))
GRADIENT(absolute_gradient, 4.0,
         vec_select(x > (vec){0}, d, vec_select(x < (vec){0}, -d, (vec){0})))
UNARY(exp, 6.0, vec_exp(x))
UNARY(log, 8.0, vec_log_of_any(x))
UNARY(sqrt, 6.0, vec_sqrt(x))
GRADIENT(sqrt_gradient, 6.0, d / (2 * x)) /* x is y */
UNARY(rsqrt, 10.0, 1 / vec_sqrt(x))
GRADIENT(rsqrt_gradient, 4.0, (real)-0.5 * d * (x * x * x)) /* x is y */
UNARY(pow, POW_NS, vec_pow(x, first))
GRADIENT(pow_gradient, POW_NS, d *vec_pow_slope(x, first))
UNARY(clamp, 3.0, vec_clamp(x, vec_set(first), vec_set(second)))
GRADIENT(clamp_gradient, 4.0,
         vec_select(vec_between(x, vec_set(first), vec_set(second), open), d, (vec){0}))
UNARY(softplus, 14.0, vec_softplus(x, first, second))
GRADIENT(softplus_gradient, 8.0,
         vec_select(x *first > vec_set(second), d, d *vec_sigmoid(x *first)))
UNARY(elu, 6.0, vec_select(x > (vec){0}, x, first *vec_expm1_below(x)))
GRADIENT(elu_gradient, 6.0, vec_select(x > (vec){0}, d, d *first *vec_exp(x)))
