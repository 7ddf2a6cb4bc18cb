/* The choice between two numbers by a condition, of operands that are broadcast to one shape.
 * Invariant: an element of the result is one of an operand's, or the value that stands for one
 * that is absent. */
#include "core/status.h"
#include "devices/cpu/kernels/broadcast_rows.h"
#include "devices/cpu/kernels/vector.h"
#include "devices/operations/pointwise.h"

#define GRAIN 4096
#define OPERANDS 3

typedef struct where_state {
  tdm_broadcast broadcast;
  int64_t count;
  stored value; /* of an absent operand */
  bool splits;
} where_state;

static tdm_status where_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  where_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->broadcast = tdm_broadcast_of(request->inputs, OPERANDS, &request->outputs[0].shape);
  state->value = narrowed((real)((const tdm_where_attributes *)request->attributes)->value);
  state->count = count_of(&request->outputs[0]);
  const double bytes = (double)state->count * OPERANDS * sizeof(stored);
  state->splits = answer->splits = tdm_cpu_splits(request, bytes / 10.0);
  return TDM_OK;
}

/* out (count) of a row of each operand, or of one element that is repeated (step 0). */
static void choose_row(const uint8_t *condition, int64_t condition_step, const stored *a,
                       int64_t a_step, const stored *b, int64_t b_step, stored *out,
                       int64_t count) {
  if (condition_step == 1 && a_step == 1 && b_step == 1) {
    for (int64_t i = 0; i < count; i++)
      out[i] = condition[i] != 0 ? a[i] : b[i];
    return;
  }
  for (int64_t i = 0; i < count; i++)
    out[i] = condition[i * condition_step] != 0 ? a[i * a_step] : b[i * b_step];
}

static tdm_status where_part(const tdm_kernel_call *call, int64_t begin, int64_t end) {
  const where_state *state = call->state;
  const tdm_broadcast *broadcast = &state->broadcast;
  const uint8_t *condition = call->inputs[0];
  const stored *a = call->inputs[1], *b = call->inputs[2]; /* NULL: absent */
  EACH_BROADCAST_ROW(broadcast, OPERANDS, begin, end) {
    choose_row(condition + walk.at[0], broadcast_step(broadcast, 0),
               a ? a + walk.at[1] : &state->value, broadcast_step(broadcast, 1),
               b ? b + walk.at[2] : &state->value, broadcast_step(broadcast, 2),
               (stored *)call->outputs[0] + walk.i, walk.count);
  }
  return TDM_OK;
}

static tdm_status where_execute(const tdm_kernel_call *call) {
  const where_state *state = call->state;
  return tdm_cpu_run_parts(call, where_part, state->splits, state->count, GRAIN);
}

KERNELS(where, ELEMENT_KERNEL(TDM_OP_WHERE, where_prepare, where_execute, where_part))
