/* Arithmetic of integers and the choice between them, of operands that are broadcast to one shape.
 * Invariant: sums, differences and products wrap on overflow, as those of unsigned numbers do. */
#include "core/status.h"
#include "devices/cpu/kernels/broadcast_rows.h"
#include "devices/cpu/kernels/convert.h"
#include "devices/cpu/kernels/family.h"
#include "devices/operations/pointwise.h"

#define GRAIN 4096

typedef struct integers_state {
  tdm_broadcast broadcast;
  int64_t count;
  int64_t value; /* of where: an absent operand, in its first bytes */
  bool splits;
} integers_state;

static tdm_status integers_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  integers_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->broadcast =
      tdm_broadcast_of(request->inputs, request->input_count, &request->outputs[0].shape);
  state->count = count_of(&request->outputs[0]);
  state->splits = answer->splits = tdm_cpu_splits(request, (double)state->count / 2);
  return TDM_OK;
}

static tdm_status where_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  TDM_TRY(integers_prepare(request, answer));
  integers_state *state = answer->state;
  convert_from_double(request->outputs[0].dtype,
                      &((const tdm_where_attributes *)request->attributes)->value, &state->value,
                      1);
  return TDM_OK;
}

/* Defines what executes the kernel `name` of that number, of which a part is computed already. */
#define EXECUTE(name, number)                                                                      \
  static tdm_status name##_##number##_execute(const tdm_kernel_call *call) {                       \
    const integers_state *state = call->state;                                                     \
    return tdm_cpu_run_parts(call, name##_##number##_part, state->splits, state->count, GRAIN);    \
  }

/* out = formula of x and y, each of a row or one element. */
#define BINARY(name, number, formula)                                                              \
  static tdm_status name##_##number##_part(const tdm_kernel_call *call, int64_t begin,             \
                                           int64_t end) {                                          \
    const tdm_broadcast *broadcast = &((const integers_state *)call->state)->broadcast;            \
    const int64_t a_step = broadcast_step(broadcast, 0), b_step = broadcast_step(broadcast, 1);    \
    EACH_BROADCAST_ROW(broadcast, 2, begin, end) {                                                 \
      const number *a = (const number *)call->inputs[0] + walk.at[0];                              \
      const number *b = (const number *)call->inputs[1] + walk.at[1];                              \
      number *out = (number *)call->outputs[0] + walk.i;                                           \
      for (int64_t i = 0; i < walk.count; i++) {                                                   \
        const number x = a[i * a_step], y = b[i * b_step];                                         \
        out[i] = formula;                                                                          \
      }                                                                                            \
    }                                                                                              \
    return TDM_OK;                                                                                 \
  }                                                                                                \
  EXECUTE(name, number)

#define WHERE(number)                                                                              \
  static tdm_status where_##number##_part(const tdm_kernel_call *call, int64_t begin,              \
                                          int64_t end) {                                           \
    const integers_state *state = call->state;                                                     \
    const tdm_broadcast *broadcast = &state->broadcast;                                            \
    const number *absent = (const void *)&state->value;                                            \
    const int64_t a_step = broadcast_step(broadcast, 1), b_step = broadcast_step(broadcast, 2);    \
    EACH_BROADCAST_ROW(broadcast, 3, begin, end) {                                                 \
      const uint8_t *condition = (const uint8_t *)call->inputs[0] + walk.at[0];                    \
      const number *a = call->inputs[1] ? (const number *)call->inputs[1] + walk.at[1] : absent;   \
      const number *b = call->inputs[2] ? (const number *)call->inputs[2] + walk.at[2] : absent;   \
      number *out = (number *)call->outputs[0] + walk.i;                                           \
      for (int64_t i = 0; i < walk.count; i++)                                                     \
        out[i] = condition[i * broadcast_step(broadcast, 0)] != 0                                  \
                     ? a[call->inputs[1] ? i * a_step : 0]                                         \
                     : b[call->inputs[2] ? i * b_step : 0];                                        \
    }                                                                                              \
    return TDM_OK;                                                                                 \
  }                                                                                                \
  EXECUTE(where, number)

/* DO(name, sign of the numbers, formula) */
#define OPERATIONS(DO)                                                                             \
  DO(add, u, x + y)                                                                                \
  DO(sub, u, x - y)                                                                                \
  DO(mul, u, x *y)                                                                                 \
  DO(maximum, , x > y ? x : y)                                                                     \
  DO(minimum, , x < y ? x : y)

#define DEFINED(name, sign, formula)                                                               \
  BINARY(name, sign##int32_t, formula)                                                             \
  BINARY(name, sign##int64_t, formula)
OPERATIONS(DEFINED)
WHERE(int32_t)
WHERE(int64_t)

#define LISTED(dtype, name, prepare, number)                                                       \
  KERNEL_OF(dtype, #name, prepare, name##_##number##_execute, name##_##number##_part)
#define BOTH(name, sign, formula)                                                                  \
  LISTED(TDM_INT32, name, integers_prepare, sign##int32_t),                                        \
      LISTED(TDM_INT64, name, integers_prepare, sign##int64_t),

KERNELS(integers, OPERATIONS(BOTH) LISTED(TDM_INT32, where, where_prepare, int32_t),
        LISTED(TDM_INT64, where, where_prepare, int64_t))
