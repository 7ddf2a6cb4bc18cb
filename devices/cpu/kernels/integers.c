/* Sums of integers, of operands that are broadcast to one shape. Invariant: they wrap on overflow,
 * as unsigned sums do. */
#include "core/status.h"
#include "devices/cpu/kernels/broadcast_rows.h"
#include "devices/cpu/kernels/family.h"

#define OPERANDS 2
#define GRAIN 4096

typedef struct integers_state {
  tdm_broadcast broadcast;
  int64_t count;
  bool splits;
} integers_state;

static tdm_status add_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  integers_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->broadcast = tdm_broadcast_of(request->inputs, OPERANDS, &request->outputs[0].shape);
  state->count = count_of(&request->outputs[0]);
  state->splits = answer->splits = tdm_cpu_splits(request, (double)state->count / 2);
  return TDM_OK;
}

/* out = a + b, each a row or one element. */
#define ADD(number)                                                                                \
  static tdm_status add_##number##_part(const tdm_kernel_call *call, int64_t begin, int64_t end) { \
    const tdm_broadcast *broadcast = &((const integers_state *)call->state)->broadcast;            \
    const int64_t a_step = broadcast_step(broadcast, 0), b_step = broadcast_step(broadcast, 1);    \
    EACH_BROADCAST_ROW(broadcast, OPERANDS, begin, end) {                                          \
      const number *a = (const number *)call->inputs[0] + walk.at[0];                              \
      const number *b = (const number *)call->inputs[1] + walk.at[1];                              \
      number *out = (number *)call->outputs[0] + walk.i;                                           \
      for (int64_t i = 0; i < walk.count; i++)                                                     \
        out[i] = a[i * a_step] + b[i * b_step];                                                    \
    }                                                                                              \
    return TDM_OK;                                                                                 \
  }                                                                                                \
  static tdm_status add_##number##_execute(const tdm_kernel_call *call) {                          \
    const integers_state *state = call->state;                                                     \
    return tdm_cpu_run_parts(call, add_##number##_part, state->splits, state->count, GRAIN);       \
  }

ADD(uint32_t)
ADD(uint64_t)

#define LISTED(dtype, number)                                                                      \
  KERNEL_OF(dtype, TDM_OP_ADD, add_prepare, add_##number##_execute, add_##number##_part)

KERNELS(integers, LISTED(TDM_INT32, uint32_t), LISTED(TDM_INT64, uint64_t))
