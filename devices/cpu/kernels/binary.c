/* Functions of two numbers, element by element, of operands that are broadcast to one shape.
 * Invariant: an element of the result depends on one element of each operand alone; operands of one
 * shape are one row. */
#include "core/status.h"
#include "devices/broadcast.h"
#include "devices/cpu/kernels/vector.h"

#define GRAIN 4096
#define OPERANDS 2

typedef struct binary_state {
  tdm_broadcast broadcast;
  int64_t count;
  bool splits;
} binary_state;

/* Elements of a row of the result: each operand's are (count), or one that is repeated. */
typedef void (*row_function)(const real *a, bool a_repeats, const real *b, bool b_repeats,
                             real *out, int64_t count);

static tdm_status prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  binary_state *state = tdm_cpu_state_create(answer, sizeof *state);
  if (state == NULL) return TDM_OUT_OF_MEMORY;
  state->broadcast = tdm_broadcast_of(request->inputs, OPERANDS, &request->outputs[0].shape);
  state->count = tdm_cpu_count(&request->outputs[0]);
  const double bytes = (double)state->count * (OPERANDS + 1) * sizeof(real);
  state->splits = answer->splits = tdm_cpu_splits(request, bytes / 20.0);
  return TDM_OK;
}

/* Elements begin <= i < end of the result, row by row. */
ALWAYS_INLINE void run_range(const tdm_kernel_call *call, int64_t begin, int64_t end,
                             row_function row) {
  const tdm_broadcast *broadcast = &((const binary_state *)call->state)->broadcast;
  const real *a = call->inputs[0], *b = call->inputs[1];
  real *out = call->outputs[0]; /* (count) */
  const int last = broadcast->rank - 1;
  const int64_t width = broadcast->sizes[last];
  const int64_t a_step = broadcast->steps[0][last], b_step = broadcast->steps[1][last];
  if (last == 0) { /* one row */
    row(a + begin * a_step, a_step == 0, b + begin * b_step, b_step == 0, out + begin, end - begin);
    return;
  }
  int64_t column = begin % width;
  tdm_broadcast_place place;
  tdm_broadcast_find_row(broadcast, OPERANDS, begin / width, &place);
  for (int64_t i = begin; i < end;) {
    const int64_t count = tdm_cpu_min(width - column, end - i);
    row(a + place.at[0] + column * a_step, a_step == 0, b + place.at[1] + column * b_step,
        b_step == 0, out + i, count);
    i += count;
    column = 0;
    tdm_broadcast_next_row(broadcast, OPERANDS, &place);
  }
}

static tdm_status run(const tdm_kernel_call *call,
                      void (*range)(void *call, int64_t begin, int64_t end)) {
  const binary_state *state = call->state;
  tdm_team_run(state->splits ? call->team : NULL, state->count, GRAIN, range, (void *)call);
  return TDM_OK;
}

/* Of a row, x and y being vectors of its operands' elements at i. */
#define EACH_VECTOR(load_x, load_y, expression)                                                    \
  for (int64_t i = 0; i < count; i += LANES) {                                                     \
    const vec x = load_x, y = load_y;                                                              \
    vec_store_first(out + i, expression, count - i);                                               \
  }

/* Defines the kernel `name` whose result is expression, in x (of a) and y (of b). */
#define BINARY(name, expression)                                                                   \
  static void name##_row(const real *a, bool a_repeats, const real *b, bool b_repeats, real *out,  \
                         int64_t count) {                                                          \
    const vec all_a = vec_set(*a), all_b = vec_set(*b);                                            \
    if (!a_repeats && !b_repeats) {                                                                \
      EACH_VECTOR(vec_load_first(a + i, count - i), vec_load_first(b + i, count - i), expression)  \
    } else if (!a_repeats) {                                                                       \
      EACH_VECTOR(vec_load_first(a + i, count - i), all_b, expression)                             \
    } else {                                                                                       \
      EACH_VECTOR(all_a, vec_load_first(b + i, count - i), expression)                             \
    }                                                                                              \
  }                                                                                                \
  static void name##_range(void *call, int64_t begin, int64_t end) {                               \
    run_range(call, begin, end, name##_row);                                                       \
  }                                                                                                \
  tdm_status TDM_NAME(tdm_##name##_prepare)(const tdm_kernel_request *request,                     \
                                            tdm_kernel_answer *answer) {                           \
    return prepare(request, answer);                                                               \
  }                                                                                                \
  tdm_status TDM_NAME(tdm_##name##_execute)(const tdm_kernel_call *call) {                         \
    return run(call, name##_range);                                                                \
  }

BINARY(add, x + y)
BINARY(sub, x - y)
BINARY(mul, x *y)
BINARY(div, x / y)
/* A NaN of either operand is the result. */
BINARY(maximum, vec_select((x > y) | (x != x), x, y))
BINARY(minimum, vec_select((x < y) | (x != x), x, y))
BINARY(maximum_share,
       vec_select(x < y, (vec){0}, vec_select(x == y, vec_set((real)0.5), vec_set(1))))

/* Operands with as many elements as the result are read at the elements of the part alone. */
ELEMENT_PART(add)
ELEMENT_PART(mul)
