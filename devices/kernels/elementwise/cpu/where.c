/* The choice between two numbers by a condition, of operands that are broadcast to one shape; words
 * of the numbers' size are moved. Invariant: an element of the result is one of an operand's, or
 * the value that replaces an absent operand. */
#include "core/status.h"
#include "devices/kernels/cpu/family.h"
#include "devices/kernels/elementwise/cpu/broadcast_rows.h"
#include "devices/kernels/elementwise/cpu/convert.h"
#include "devices/kernels/elementwise/pointwise.h"

#define GRAIN 4096
#define OPERANDS 3

typedef struct where_state {
  tdm_broadcast broadcast;
  int64_t count;
  uint64_t value; /* the value that replaces an absent operand, in its first bytes */
  bool splits;
} where_state;

static tdm_status where_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  const tdm_where_attributes *attributes = request->attributes;
  const tdm_dtype dtype = request->outputs[0].dtype;
  where_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->broadcast = tdm_broadcast_of(request->inputs, OPERANDS, &request->outputs[0].shape);
  convert_from_double(dtype, &attributes->value, &state->value, 1);
  state->count = count_of(&request->outputs[0]);
  const double bytes = (double)state->count * OPERANDS * (double)tdm_dtype_bytes(dtype);
  state->splits = answer->splits = tdm_cpu_splits(request, bytes / 10.0);
  return TDM_OK;
}

/* Defines the kernel of numbers of one size. choose: out (count) of a row of each operand, or of
 * one element that is repeated (step 0). */
#define WHERE(word)                                                                                \
  static void choose_##word(const uint8_t *condition, int64_t condition_step, const word *a,       \
                            int64_t a_step, const word *b, int64_t b_step, word *out,              \
                            int64_t count) {                                                       \
    if (condition_step == 1 && a_step == 1 && b_step == 1) {                                       \
      for (int64_t i = 0; i < count; i++)                                                          \
        out[i] = condition[i] != 0 ? a[i] : b[i];                                                  \
      return;                                                                                      \
    }                                                                                              \
    for (int64_t i = 0; i < count; i++)                                                            \
      out[i] = condition[i * condition_step] != 0 ? a[i * a_step] : b[i * b_step];                 \
  }                                                                                                \
  static tdm_status where_##word##_part(const tdm_kernel_call *call, int64_t begin, int64_t end) { \
    const where_state *state = call->state;                                                        \
    const tdm_broadcast *broadcast = &state->broadcast;                                            \
    const word *absent = (const void *)&state->value;                                              \
    const uint8_t *condition = call->inputs[0];                                                    \
    const word *a = call->inputs[1], *b = call->inputs[2]; /* NULL: absent */                      \
    EACH_BROADCAST_ROW(broadcast, OPERANDS, begin, end) {                                          \
      choose_##word(condition + walk.at[0], broadcast_step(broadcast, 0),                          \
                    a ? a + walk.at[1] : absent, broadcast_step(broadcast, 1),                     \
                    b ? b + walk.at[2] : absent, broadcast_step(broadcast, 2),                     \
                    (word *)call->outputs[0] + walk.i, walk.count);                                \
    }                                                                                              \
    return TDM_OK;                                                                                 \
  }                                                                                                \
  static tdm_status where_##word##_execute(const tdm_kernel_call *call) {                          \
    const where_state *state = call->state;                                                        \
    return tdm_cpu_run_parts(call, where_##word##_part, state->splits, state->count, GRAIN);       \
  }
WHERE(uint8_t)
WHERE(uint16_t)
WHERE(uint32_t)
WHERE(uint64_t)

#define LISTED(dtype, word)                                                                        \
  KERNEL_OF(dtype, TDM_OP_WHERE, where_prepare, where_##word##_execute, where_##word##_part)
KERNELS(where, LISTED(TDM_FLOAT32, uint32_t), LISTED(TDM_FLOAT64, uint64_t),
        LISTED(TDM_INT32, uint32_t), LISTED(TDM_INT64, uint64_t), LISTED(TDM_UINT8, uint8_t),
        LISTED(TDM_BOOL, uint8_t), LISTED(TDM_FLOAT16, uint16_t), LISTED(TDM_BFLOAT16, uint16_t))
