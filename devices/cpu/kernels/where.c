/* The choice between two numbers by a condition, of operands that are broadcast to one shape.
 * Invariant: an element of the result is one of an operand's, or the value that stands for one
 * that is absent. */
#include "core/status.h"
#include "devices/broadcast.h"
#include "devices/cpu/kernels/vector.h"

#define GRAIN 4096
#define OPERANDS 3

typedef struct where_state {
  tdm_broadcast broadcast;
  int64_t count;
  real value; /* of an absent operand */
  bool splits;
} where_state;

static tdm_status where_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  where_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->broadcast = tdm_broadcast_of(request->inputs, OPERANDS, &request->outputs[0].shape);
  state->value = (real)((const tdm_where_attributes *)request->attributes)->value;
  state->count = count_of(&request->outputs[0]);
  const double bytes = (double)state->count * OPERANDS * sizeof(real);
  state->splits = answer->splits = tdm_cpu_splits(request, bytes / 10.0);
  return TDM_OK;
}

/* out (count) of a row of each operand, or of one element that is repeated (step 0). */
static void choose_row(const uint8_t *condition, int64_t condition_step, const real *a,
                       int64_t a_step, const real *b, int64_t b_step, real *out, int64_t count) {
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
  const int last = broadcast->rank - 1;
  const int64_t width = broadcast->sizes[last];
  const uint8_t *condition = call->inputs[0];
  const real *a = call->inputs[1], *b = call->inputs[2]; /* NULL: absent */
  const int64_t steps[OPERANDS] = {broadcast->steps[0][last], broadcast->steps[1][last],
                                   broadcast->steps[2][last]};
  int64_t column = begin % width;
  tdm_broadcast_place place;
  tdm_broadcast_find_row(broadcast, OPERANDS, begin / width, &place);
  for (int64_t i = begin; i < end;) {
    const int64_t count = lesser_of(width - column, end - i);
    const int64_t *at = place.at;
    choose_row(condition + at[0] + column * steps[0], steps[0],
               a ? a + at[1] + column * steps[1] : &state->value, steps[1],
               b ? b + at[2] + column * steps[2] : &state->value, steps[2],
               (real *)call->outputs[0] + i, count);
    i += count;
    column = 0;
    tdm_broadcast_next_row(broadcast, OPERANDS, &place);
  }
  return TDM_OK;
}

static tdm_status where_execute(const tdm_kernel_call *call) {
  const where_state *state = call->state;
  return tdm_cpu_run_parts(call, where_part, state->splits, state->count, GRAIN);
}

KERNELS(where, ELEMENT_KERNEL(TDM_OP_WHERE, where_prepare, where_execute, where_part))
