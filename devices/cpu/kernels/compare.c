/* Comparisons of numbers of any dtype, of operands that are broadcast to one shape. Invariant: an
 * element of the result, 0 or 1, depends on one element of each operand alone. */
#include "core/status.h"
#include "devices/broadcast.h"
#include "devices/cpu/kernels/convert.h"
#include "devices/cpu/kernels/family.h"
#include "devices/cpu/kernels/operations.h"

#define TYPED(name) TDM_PASTE(name, any, TDM_ISA)
#define OPERANDS 2
#define GRAIN_ELEMENTS 4096

/* out (count) of a and b, each a row (step 1) or one element (step 0). */
typedef void (*row_function)(const void *a, int64_t a_step, const void *b, int64_t b_step,
                             uint8_t *out, int64_t count);

typedef struct compare_state {
  tdm_broadcast broadcast;
  row_function row;
  int64_t rows; /* of the result, along the last dimension of broadcast */
  size_t element_bytes;
  unsigned char value[8]; /* what stands for b, in a's dtype */
  bool splits;
} compare_state;

#define COMPARE_ROW(number, name, sign)                                                            \
  static void number##_##name(const void *first, int64_t a_step, const void *second,               \
                              int64_t b_step, uint8_t *out, int64_t count) {                       \
    const number *a = first, *b = second;                                                          \
    for (int64_t i = 0; i < count; i++)                                                            \
      out[i] = a[i * a_step] sign b[i * b_step];                                                   \
  }
#define COMPARE_ROWS(number)                                                                       \
  COMPARE_ROW(number, less, <)                                                                     \
  COMPARE_ROW(number, less_equal, <=)                                                              \
  COMPARE_ROW(number, greater, >)                                                                  \
  COMPARE_ROW(number, greater_equal, >=)                                                           \
  COMPARE_ROW(number, equal, ==)                                                                   \
  COMPARE_ROW(number, not_equal, !=)
/* In the order of tdm_comparison. */
#define ROW_FUNCTIONS(number)                                                                      \
  {                                                                                                \
    number##_less, number##_less_equal, number##_greater, number##_greater_equal, number##_equal,  \
        number##_not_equal                                                                         \
  }

COMPARE_ROWS(float)
COMPARE_ROWS(double)
COMPARE_ROWS(int32_t)
COMPARE_ROWS(int64_t)

static row_function find_row(tdm_dtype dtype, int64_t comparison) {
  static const row_function functions[4][6] = {ROW_FUNCTIONS(float), ROW_FUNCTIONS(double),
                                               ROW_FUNCTIONS(int32_t), ROW_FUNCTIONS(int64_t)};
  const int type = dtype == TDM_FLOAT32 ? 0 : dtype == TDM_FLOAT64 ? 1 : dtype == TDM_INT32 ? 2 : 3;
  return functions[type][comparison];
}

tdm_status TYPED(tdm_compare_prepare)(const tdm_kernel_request *request,
                                      tdm_kernel_answer *answer) {
  const tdm_compare_attributes *attributes = request->attributes;
  compare_state *state = tdm_cpu_state_create(answer, sizeof *state);
  if (state == NULL) return TDM_OUT_OF_MEMORY;
  const int64_t count = tdm_cpu_count(&request->outputs[0]);
  state->broadcast = tdm_broadcast_of(request->inputs, OPERANDS, &request->outputs[0].shape);
  state->row = find_row(request->inputs[0].dtype, attributes->comparison);
  const int64_t width = state->broadcast.sizes[state->broadcast.rank - 1];
  state->rows = width > 0 ? count / width : 0;
  state->element_bytes = tdm_dtype_bytes(request->inputs[0].dtype);
  convert_from_double(request->inputs[0].dtype, &attributes->value, state->value, 1);
  state->splits = answer->splits = tdm_cpu_splits(request, (double)count / 2);
  return TDM_OK;
}

static void compare_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const compare_state *state = call->state;
  const tdm_broadcast *broadcast = &state->broadcast;
  const int last = broadcast->rank - 1;
  const int64_t width = broadcast->sizes[last];
  const char *a = call->inputs[0];
  const char *b =
      call->inputs[1] != NULL ? (const char *)call->inputs[1] : (const char *)state->value;
  tdm_broadcast_place place;
  tdm_broadcast_find_row(broadcast, OPERANDS, begin, &place);
  for (int64_t row = begin; row < end; row++) {
    state->row(a + (size_t)place.at[0] * state->element_bytes, broadcast->steps[0][last],
               b + (size_t)place.at[1] * state->element_bytes, broadcast->steps[1][last],
               (uint8_t *)call->outputs[0] + row * width, width);
    tdm_broadcast_next_row(broadcast, OPERANDS, &place);
  }
}

tdm_status TYPED(tdm_compare_execute)(const tdm_kernel_call *call) {
  const compare_state *state = call->state;
  const int64_t width = state->broadcast.sizes[state->broadcast.rank - 1];
  const int64_t grain = width > 0 && width < GRAIN_ELEMENTS ? GRAIN_ELEMENTS / width : 1;
  tdm_team_run(state->splits ? call->team : NULL, state->rows, grain, compare_range, (void *)call);
  return TDM_OK;
}
