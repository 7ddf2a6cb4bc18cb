/* relu, tanh and sigmoid, and their gradients, which are told in terms of the result y. */
#include "core/status.h"
#include "devices/cpu/kernels/vector_math.h"

#define GRAIN 4096

typedef struct activation_state {
  int64_t count;
  bool splits;
} activation_state;

static tdm_status prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                          double vector_ns) {
  activation_state *state = tdm_cpu_state_create(answer, sizeof *state);
  if (state == NULL) return TDM_OUT_OF_MEMORY;
  state->count = tdm_cpu_count(&request->outputs[0]);
  state->splits = answer->splits =
      tdm_cpu_splits(request, (double)state->count / LANES * vector_ns);
  return TDM_OK;
}

static tdm_status run(const tdm_kernel_call *call,
                      void (*range)(void *call, int64_t begin, int64_t end)) {
  const activation_state *state = call->state;
  tdm_team_run(state->splits ? call->team : NULL, state->count, GRAIN, range, (void *)call);
  return TDM_OK;
}

/* Defines the kernel `name` whose result is expression, in x. */
#define UNARY(name, expression, vector_ns)                                                         \
  static void name##_range(void *user, int64_t begin, int64_t end) {                               \
    const tdm_kernel_call *call = user;                                                            \
    const real *from = call->inputs[0]; /* (count) */                                              \
    real *to = call->outputs[0];        /* (count) */                                              \
    for (int64_t i = begin; i < end; i += LANES) {                                                 \
      const vec x = vec_load_first(from + i, end - i);                                             \
      vec_store_first(to + i, expression, end - i);                                                \
    }                                                                                              \
  }                                                                                                \
  KERNEL(name, vector_ns)

/* The same of a gradient, in d (of y) and y. */
#define GRADIENT(name, expression)                                                                 \
  static void name##_range(void *user, int64_t begin, int64_t end) {                               \
    const tdm_kernel_call *call = user;                                                            \
    const real *d_y = call->inputs[0], *out = call->inputs[1]; /* (count) */                       \
    real *to = call->outputs[0];                               /* (count) */                       \
    for (int64_t i = begin; i < end; i += LANES) {                                                 \
      const vec d = vec_load_first(d_y + i, end - i), y = vec_load_first(out + i, end - i);        \
      vec_store_first(to + i, expression, end - i);                                                \
    }                                                                                              \
  }                                                                                                \
  KERNEL(name, 4.0)

#define KERNEL(name, vector_ns)                                                                    \
  tdm_status TDM_NAME(tdm_##name##_prepare)(const tdm_kernel_request *request,                     \
                                            tdm_kernel_answer *answer) {                           \
    return prepare(request, answer, vector_ns);                                                    \
  }                                                                                                \
  tdm_status TDM_NAME(tdm_##name##_execute)(const tdm_kernel_call *call) {                         \
    return run(call, name##_range);                                                                \
  }                                                                                                \
  ELEMENT_PART(name)

/* Written so that NaN stays NaN. */
UNARY(relu, vec_select(x < (vec){0}, (vec){0}, x), 3.0)
UNARY(tanh, vec_tanh(x), 6.0)
UNARY(sigmoid, vec_sigmoid(x), 6.0)
GRADIENT(relu_gradient, vec_select(y > (vec){0}, d, (vec){0}))
GRADIENT(tanh_gradient, d *(1 - y * y))
GRADIENT(sigmoid_gradient, d *((1 - y) * y))
