/* Arithmetic of integers, of operands that are broadcast to one shape, and of one value and
 * numbers. Invariant: every operand has a result: sums, differences and products wrap on overflow,
 * as those of unsigned numbers do, and a quotient by 0 is 0. */
#include "core/status.h"
#include "devices/kernels/cpu/family.h"
#include "devices/kernels/elementwise/cpu/broadcast_rows.h"
#include "devices/kernels/elementwise/pointwise.h"

#define GRAIN 4096

typedef struct integers_state {
  tdm_broadcast broadcast;
  int64_t count;
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

/* ---- Of two values --------------------------------------------------------------------------- */

/* Returns x / y, rounded down or toward 0; 0 if y is 0. The least number divided by -1 wraps to
 * itself. */
static inline int64_t quotient(int64_t x, int64_t y, bool rounds_down) {
  if (y == 0) return 0;
  if (y == -1) return (int64_t)(0 - (uint64_t)x);
  const int64_t toward_zero = x / y;
  return toward_zero - (rounds_down && x % y != 0 && (x < 0) != (y < 0));
}

/* Returns x - y times their quotient rounded down, with y's sign; x if y is 0. */
static inline int64_t remainder_of(int64_t x, int64_t y) {
  if (y == 0 || y == -1) return y == 0 ? x : 0;
  const int64_t left = x % y;
  return left != 0 && (left < 0) != (y < 0) ? left + y : left;
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
        out[i] = (number)(formula);                                                                \
      }                                                                                            \
    }                                                                                              \
    return TDM_OK;                                                                                 \
  }                                                                                                \
  static tdm_status name##_##number##_execute(const tdm_kernel_call *call) {                       \
    const integers_state *state = call->state;                                                     \
    return tdm_cpu_run_parts(call, name##_##number##_part, state->splits, state->count, GRAIN);    \
  }

/* DO(name, sign of the numbers, formula) */
#define OPERATIONS(DO)                                                                             \
  DO(add, u, x + y)                                                                                \
  DO(sub, u, x - y)                                                                                \
  DO(mul, u, x *y)                                                                                 \
  DO(maximum, , x > y ? x : y)                                                                     \
  DO(minimum, , x < y ? x : y)                                                                     \
  DO(remainder, , remainder_of(x, y))                                                              \
  DO(div_floor, , quotient(x, y, true))                                                            \
  DO(div_trunc, , quotient(x, y, false))

#define DEFINED(name, sign, formula)                                                               \
  BINARY(name, sign##int32_t, formula)                                                             \
  BINARY(name, sign##int64_t, formula)
OPERATIONS(DEFINED)

/* ---- Of a value and numbers ------------------------------------------------------------------ */

typedef struct affine_state {
  uint64_t scale;
  uint64_t shift;
  int64_t count;
  bool splits;
} affine_state;

static tdm_status affine_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  const tdm_function_attributes *attributes = request->attributes;
  affine_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->scale = (uint64_t)(int64_t)attributes->first;
  state->shift = (uint64_t)(int64_t)attributes->second;
  state->count = count_of(&request->outputs[0]);
  state->splits = answer->splits = tdm_cpu_splits(request, (double)state->count / 2);
  return TDM_OK;
}

#define AFFINE(number)                                                                             \
  static tdm_status affine_##number##_part(const tdm_kernel_call *call, int64_t begin,             \
                                           int64_t end) {                                          \
    const number scale = (number)((const affine_state *)call->state)->scale;                       \
    const number shift = (number)((const affine_state *)call->state)->shift;                       \
    const number *x = call->inputs[0];                                                             \
    number *out = call->outputs[0];                                                                \
    for (int64_t i = begin; i < end; i++)                                                          \
      out[i] = x[i] * scale + shift;                                                               \
    return TDM_OK;                                                                                 \
  }                                                                                                \
  static tdm_status affine_##number##_execute(const tdm_kernel_call *call) {                       \
    const affine_state *state = call->state;                                                       \
    return tdm_cpu_run_parts(call, affine_##number##_part, state->splits, state->count, GRAIN);    \
  }
AFFINE(uint32_t)
AFFINE(uint64_t)

#define LISTED(dtype, name, number)                                                                \
  KERNEL_OF(dtype, #name, integers_prepare, name##_##number##_execute, name##_##number##_part),
#define BOTH(name, sign, formula)                                                                  \
  LISTED(TDM_INT32, name, sign##int32_t) LISTED(TDM_INT64, name, sign##int64_t)
KERNELS(integers,
        OPERATIONS(BOTH) KERNEL_OF(TDM_INT32, TDM_OP_AFFINE, affine_prepare,
                                   affine_uint32_t_execute, affine_uint32_t_part),
        KERNEL_OF(TDM_INT64, TDM_OP_AFFINE, affine_prepare, affine_uint64_t_execute,
                  affine_uint64_t_part))
