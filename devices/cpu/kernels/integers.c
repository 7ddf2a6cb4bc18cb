/* Arithmetic of integers, of operands that are broadcast to one shape. Invariant: sums, differences
 * and products wrap on overflow, as those of unsigned numbers do. */
#include "core/status.h"
#include "devices/cpu/kernels/broadcast_rows.h"
#include "devices/cpu/kernels/family.h"
#include "devices/operations/pointwise.h"

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
  DO(minimum, , x < y ? x : y)

#define DEFINED(name, sign, formula)                                                               \
  BINARY(name, sign##int32_t, formula)                                                             \
  BINARY(name, sign##int64_t, formula)
OPERATIONS(DEFINED)

#define LISTED(dtype, name, number)                                                                \
  KERNEL_OF(dtype, #name, integers_prepare, name##_##number##_execute, name##_##number##_part),
#define BOTH(name, sign, formula)                                                                  \
  LISTED(TDM_INT32, name, sign##int32_t) LISTED(TDM_INT64, name, sign##int64_t)
KERNELS(integers, OPERATIONS(BOTH))
