/* Sums of integers, of operands that are broadcast to one shape. Invariant: they wrap on overflow,
 * as unsigned sums do. */
#include "core/status.h"
#include "devices/broadcast.h"
#include "devices/cpu/kernels/family.h"

#define OPERANDS 2

typedef struct integers_state {
  tdm_broadcast broadcast;
  int64_t rows; /* of the result, along the last dimension of broadcast */
  bool wide;
} integers_state;

static tdm_status add_integers_prepare(const tdm_kernel_request *request,
                                       tdm_kernel_answer *answer) {
  integers_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->broadcast = tdm_broadcast_of(request->inputs, OPERANDS, &request->outputs[0].shape);
  state->wide = request->outputs[0].dtype == TDM_INT64;
  const int64_t width = state->broadcast.sizes[state->broadcast.rank - 1];
  state->rows = width > 0 ? count_of(&request->outputs[0]) / width : 0;
  return TDM_OK;
}

/* out (count) = a + b, each a row or one element. */
#define ADD_ROW(number)                                                                            \
  static void add_row_of_##number(const number *a, int64_t a_step, const number *b,                \
                                  int64_t b_step, number *out, int64_t count) {                    \
    for (int64_t i = 0; i < count; i++)                                                            \
      out[i] = a[i * a_step] + b[i * b_step];                                                      \
  }

ADD_ROW(uint64_t)
ADD_ROW(uint32_t)

static tdm_status add_integers_execute(const tdm_kernel_call *call) {
  const integers_state *state = call->state;
  const tdm_broadcast *broadcast = &state->broadcast;
  const int last = broadcast->rank - 1;
  const int64_t width = broadcast->sizes[last];
  const int64_t a_step = broadcast->steps[0][last], b_step = broadcast->steps[1][last];
  if (state->rows == 0) return TDM_OK;
  tdm_broadcast_place place;
  tdm_broadcast_find_row(broadcast, OPERANDS, 0, &place);
  for (int64_t row = 0; row < state->rows; row++) {
    const int64_t *at = place.at;
    if (state->wide)
      add_row_of_uint64_t((const uint64_t *)call->inputs[0] + at[0], a_step,
                          (const uint64_t *)call->inputs[1] + at[1], b_step,
                          (uint64_t *)call->outputs[0] + row * width, width);
    else
      add_row_of_uint32_t((const uint32_t *)call->inputs[0] + at[0], a_step,
                          (const uint32_t *)call->inputs[1] + at[1], b_step,
                          (uint32_t *)call->outputs[0] + row * width, width);
    tdm_broadcast_next_row(broadcast, OPERANDS, &place);
  }
  return TDM_OK;
}

KERNELS(integers, KERNEL_OF_INTEGERS(TDM_OP_ADD, add_integers_prepare, add_integers_execute))
