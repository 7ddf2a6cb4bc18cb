/* Comparisons of numbers of any dtype, of operands that are broadcast to one shape. Invariant: an
 * element of the result, 0 or 1, depends only on one element of each operand. */
#include "core/status.h"
#include "devices/kernels/cpu/family.h"
#include "devices/kernels/elementwise/cpu/broadcast_rows.h"
#include "devices/kernels/elementwise/cpu/convert.h"
#include "devices/kernels/elementwise/pointwise.h"

#define OPERANDS 2
#define GRAIN 4096

/* out (count) of a and b, each a row (step 1) or one element (step 0). */
typedef void (*row_function)(const void *a, int64_t a_step, const void *b, int64_t b_step,
                             uint8_t *out, int64_t count);

typedef struct compare_state {
  tdm_broadcast broadcast;
  row_function row;
  int64_t count;
  size_t element_bytes;
  unsigned char value[8]; /* the value that replaces b, in a's dtype */
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
COMPARE_ROWS(uint8_t)

static row_function find_row(tdm_dtype dtype, int64_t comparison) {
  static const row_function functions[TDM_DTYPE_COUNT][6] = {
      [TDM_FLOAT32] = ROW_FUNCTIONS(float), [TDM_FLOAT64] = ROW_FUNCTIONS(double),
      [TDM_INT32] = ROW_FUNCTIONS(int32_t), [TDM_INT64] = ROW_FUNCTIONS(int64_t),
      [TDM_UINT8] = ROW_FUNCTIONS(uint8_t), [TDM_BOOL] = ROW_FUNCTIONS(uint8_t),
  };
  return functions[dtype][comparison];
}

static tdm_status compare_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  const tdm_compare_attributes *attributes = request->attributes;
  compare_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->count = count_of(&request->outputs[0]);
  state->broadcast = tdm_broadcast_of(request->inputs, OPERANDS, &request->outputs[0].shape);
  state->row = find_row(request->inputs[0].dtype, attributes->comparison);
  state->element_bytes = tdm_dtype_bytes(request->inputs[0].dtype);
  convert_from_double(request->inputs[0].dtype, &attributes->value, state->value, 1);
  state->splits = answer->splits = tdm_cpu_splits(request, (double)state->count / 2);
  return TDM_OK;
}

static tdm_status compare_part(const tdm_kernel_call *call, int64_t begin, int64_t end) {
  const compare_state *state = call->state;
  const tdm_broadcast *broadcast = &state->broadcast;
  const char *a = call->inputs[0];
  const char *b = call->inputs[1] ? call->inputs[1] : (const void *)state->value;
  const int64_t bytes = (int64_t)state->element_bytes;
  EACH_BROADCAST_ROW(broadcast, OPERANDS, begin, end) {
    state->row(a + walk.at[0] * bytes, broadcast_step(broadcast, 0), b + walk.at[1] * bytes,
               broadcast_step(broadcast, 1), (uint8_t *)call->outputs[0] + walk.i, walk.count);
  }
  return TDM_OK;
}

static tdm_status compare_execute(const tdm_kernel_call *call) {
  const compare_state *state = call->state;
  return tdm_cpu_run_parts(call, compare_part, state->splits, state->count, GRAIN);
}

KERNELS(compare,
        KERNEL_OF(TDM_BOOL, TDM_OP_COMPARE, compare_prepare, compare_execute, compare_part))
