/* Operations that compute element by element, of operands that are broadcast to one shape; their
 * formulas are in elements.h. Invariants: an element of the result depends only on one element of
 * each operand, and has the same bits in a part as in the whole; operands of one shape are one row.
 */
#include "devices/kernels/elementwise/cpu/broadcast_rows.h"
#include "devices/kernels/elementwise/cpu/elements.h"
#include "devices/kernels/elementwise/element_settings.h"
#include "devices/kernels/elementwise/pointwise.h"

#define GRAIN 4096

typedef struct element_state {
  tdm_broadcast broadcast;
  int64_t count;
  int64_t operands;
  real first; /* the settings */
  real second;
  bool flag;
  bool splits;
} element_state;

/* Elements of a row of the result: each operand's are (end), or one that is repeated. */
typedef void (*element_row)(const stored *a, bool a_repeats, const stored *b, bool b_repeats,
                            stored *out, int64_t end);

/* ---- Preparing ------------------------------------------------------------------------------- */

static tdm_status elementwise_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                                      tdm_element_settings settings, double vector_ns) {
  element_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->count = count_of(&request->outputs[0]);
  state->operands = (int64_t)request->input_count;
  state->first = (real)settings.first;
  state->second = (real)settings.second;
  state->flag = settings.flag;
  if (state->operands <= TDM_BROADCAST_OPERANDS)
    state->broadcast =
        tdm_broadcast_of(request->inputs, request->input_count, &request->outputs[0].shape);
  state->splits = answer->splits =
      tdm_cpu_splits(request, (double)state->count / LANES * vector_ns);
  return TDM_OK;
}

/* ---- Executing ------------------------------------------------------------------------------- */

static tdm_status elementwise_run(const tdm_kernel_call *call, tdm_cpu_part part) {
  const element_state *state = call->state;
  return tdm_cpu_run_parts(call, part, state->splits, state->count, GRAIN);
}

/* Elements begin <= i < end of the result, row by row, of two operands. */
ALWAYS_INLINE void each_row(const tdm_kernel_call *call, int64_t begin, int64_t end,
                            element_row row) {
  const tdm_broadcast *broadcast = &((const element_state *)call->state)->broadcast;
  const stored *a = call->inputs[0], *b = call->inputs[1];
  stored *out = call->outputs[0]; /* (count) */
  const bool a_repeats = broadcast_step(broadcast, 0) == 0;
  const bool b_repeats = broadcast_step(broadcast, 1) == 0;
  EACH_BROADCAST_ROW(broadcast, 2, begin, end) {
    row(a + walk.at[0], a_repeats, b + walk.at[1], b_repeats, out + walk.i, walk.count);
  }
}

/* ---- Kernels of one operand, and of two ------------------------------------------------------ */

/* Stores the formula of the vectors of elements begin <= i < end, with the settings. */
#define EACH_VECTOR(vectors, formula)                                                              \
  for (int64_t i = begin; i < end; i += LANES) {                                                   \
    vectors;                                                                                       \
    element_store(out + i, formula, end - i);                                                      \
  }
#define LOAD(operand) element_load(operand + i, end - i)
#define SETTINGS                                                                                   \
  const real first = state->first, second = state->second;                                         \
  const bool flag = state->flag;                                                                   \
  (void)first, (void)second, (void)flag;

/* Defines what prepares and executes the kernel `name`, of which name_part computes a part. */
#define WHOLE(name, settings, vector_ns)                                                           \
  static tdm_status name##_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) { \
    return elementwise_prepare(request, answer, settings(request->attributes), vector_ns);         \
  }                                                                                                \
  static tdm_status name##_execute(const tdm_kernel_call *call) {                                  \
    return elementwise_run(call, name##_part);                                                     \
  }

/* Operands of one shape: vectors are read from a and b (count). */
#define PLAIN(name, settings, vector_ns, vectors, formula)                                         \
  static tdm_status name##_part(const tdm_kernel_call *call, int64_t begin, int64_t end) {         \
    const element_state *state = call->state;                                                      \
    const stored *a = call->inputs[0], *b = call->inputs[state->operands - 1];                     \
    stored *out = call->outputs[0];                                                                \
    (void)b;                                                                                       \
    SETTINGS                                                                                       \
    EACH_VECTOR(vectors, formula)                                                                  \
    return TDM_OK;                                                                                 \
  }                                                                                                \
  WHOLE(name, settings, vector_ns)

#define UNARY(name, settings, vector_ns, formula)                                                  \
  PLAIN(name, settings, vector_ns, const vec x = LOAD(a), formula)
#define GRADIENT(name, settings, vector_ns, read, formula)                                         \
  PLAIN(name, settings, vector_ns, const vec d = LOAD(a); const vec read = LOAD(b), formula)
#define BINARY(name, formula)                                                                      \
  static void name##_row(const stored *a, bool a_repeats, const stored *b, bool b_repeats,         \
                         stored *out, int64_t end) {                                               \
    const int64_t begin = 0;                                                                       \
    const vec all_a = element_all(*a), all_b = element_all(*b);                                    \
    if (!a_repeats && !b_repeats) {                                                                \
      EACH_VECTOR(const vec x = LOAD(a); const vec y = LOAD(b), formula)                           \
    } else if (!a_repeats) {                                                                       \
      EACH_VECTOR(const vec x = LOAD(a); const vec y = all_b, formula)                             \
    } else {                                                                                       \
      EACH_VECTOR(const vec x = all_a; const vec y = LOAD(b), formula)                             \
    }                                                                                              \
  }                                                                                                \
  static tdm_status name##_part(const tdm_kernel_call *call, int64_t begin, int64_t end) {         \
    each_row(call, begin, end, name##_row);                                                        \
    return TDM_OK;                                                                                 \
  }                                                                                                \
  WHOLE(name, tdm_no_settings, BINARY_NS)

TDM_CPU_ELEMENTS(UNARY, GRADIENT, BINARY)

/* ---- accumulate ------------------------------------------------------------------------------ */

static tdm_status accumulate_part(const tdm_kernel_call *call, int64_t begin, int64_t end) {
  const int64_t operands = ((const element_state *)call->state)->operands;
  stored *out = call->outputs[0]; /* (count), like every input */
  for (int64_t i = begin; i < end; i += LANES) {
    const int64_t left = end - i;
    vec sum = element_load((const stored *)call->inputs[0] + i, left);
    for (int64_t k = 1; k < operands; k++)
      sum += element_load((const stored *)call->inputs[k] + i, left);
    element_store(out + i, sum, left);
  }
  return TDM_OK;
}

static tdm_status accumulate_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  const double operands = (double)request->input_count + 1;
  return elementwise_prepare(request, answer, tdm_no_settings(NULL),
                             operands * TDM_VECTOR_BYTES / 20.0);
}

static tdm_status accumulate_execute(const tdm_kernel_call *call) {
  return elementwise_run(call, accumulate_part);
}

/* ---- The list -------------------------------------------------------------------------------- */

#define UNARY_KERNEL(name, settings, vector_ns, formula) LISTED(#name, name)
#define GRADIENT_KERNEL(name, settings, vector_ns, read, formula) LISTED(#name, name)
#define BINARY_KERNEL(name, formula) LISTED(#name, name)
#define LISTED(operation, name)                                                                    \
  ELEMENT_KERNEL(operation, name##_prepare, name##_execute, name##_part),

KERNELS(elementwise,
        TDM_CPU_ELEMENTS(UNARY_KERNEL, GRADIENT_KERNEL, BINARY_KERNEL) LISTED(TDM_OP_SCALE, mul)
            LISTED(TDM_OP_DIVIDE, div) LISTED(TDM_OP_ACCUMULATE, accumulate))
