/* Elements picked along a dimension by indices, and added where indices say; ids as rows of zeros
 * and a one; arguments that are checked. x is seen as (outer, size, inner). Invariant: nothing is
 * computed unless every index names an element; sums are made in the order of indices, each by one
 * thread. */
#include <inttypes.h>
#include <string.h>

#include "core/status.h"
#include "devices/kernels/cpu/family.h"
#include "devices/kernels/moves/gather_sizes.h"
#include "devices/kernels/moves/moves.h"

#define COLUMNS 64 /* columns of `inner` in a task of sums */

/* ---- gather ---------------------------------------------------------------------------------- */

typedef struct gather_state {
  gather_sizes sizes;
  int64_t index_count;
  size_t element_bytes;
  bool splits;
} gather_state;

static tdm_cpu_ids ids_of(const gather_state *state, const void *index) {
  return (tdm_cpu_ids){.data = index, .count = state->index_count, .wide = state->sizes.wide};
}

static tdm_status gather_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  gather_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  gather_sizes_read(&state->sizes, request, &request->inputs[0], &request->inputs[1]);
  state->index_count = count_of(&request->inputs[1]);
  state->element_bytes = tdm_dtype_bytes(request->outputs[0].dtype);
  state->splits = answer->splits =
      tdm_cpu_splits(request, (double)count_of(&request->outputs[0]) * 2);
  return TDM_OK;
}

/* Rows of the result, (outer, picked) in all, of inner elements. */
#define GATHER_ROW(word)                                                                           \
  static void gather_row_of_##word(const gather_state *state, const tdm_cpu_ids *ids,              \
                                   const word *x, word *y, int64_t row) {                          \
    const int64_t inner = state->sizes.inner;                                                      \
    for (int64_t i = 0; i < inner; i++)                                                            \
      y[i] = x[tdm_cpu_id(ids, row * inner + i) * inner + i];                                      \
  }
GATHER_ROW(uint8_t)
GATHER_ROW(uint16_t)
GATHER_ROW(uint32_t)
GATHER_ROW(uint64_t)

static void gather_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const gather_state *state = call->state;
  const gather_sizes *sizes = &state->sizes;
  const tdm_cpu_ids ids = ids_of(state, call->inputs[1]);
  const size_t row_bytes = (size_t)sizes->inner * state->element_bytes;
  for (int64_t row = begin; row < end; row++) {
    const int64_t outer = row / sizes->picked;
    const char *x = (const char *)call->inputs[0] + (size_t)(outer * sizes->size) * row_bytes;
    char *y = (char *)call->outputs[0] + (size_t)row * row_bytes;
    if (sizes->whole_rows)
      memcpy(y, x + (size_t)tdm_cpu_id(&ids, row % sizes->picked) * row_bytes, row_bytes);
    else if (state->element_bytes == sizeof(uint32_t))
      gather_row_of_uint32_t(state, &ids, (const void *)x, (void *)y, row);
    else if (state->element_bytes == sizeof(uint64_t))
      gather_row_of_uint64_t(state, &ids, (const void *)x, (void *)y, row);
    else if (state->element_bytes == sizeof(uint16_t))
      gather_row_of_uint16_t(state, &ids, (const void *)x, (void *)y, row);
    else
      gather_row_of_uint8_t(state, &ids, (const void *)x, (void *)y, row);
  }
}

static tdm_status gather_execute(const tdm_kernel_call *call) {
  const gather_state *state = call->state;
  const gather_sizes *sizes = &state->sizes;
  const tdm_cpu_ids ids = ids_of(state, call->inputs[1]);
  TDM_TRY(tdm_cpu_indices_check(&ids, sizes->size));
  if (sizes->inner == 0) return TDM_OK;
  tdm_team_run(state->splits ? call->team : NULL, sizes->outer * sizes->picked,
               ceil_div(1024, sizes->inner), gather_range, (void *)call);
  return TDM_OK;
}

/* ---- scatter_add ----------------------------------------------------------------------------- */

typedef struct scatter_state {
  gather_state picks;   /* the sizes of y are in the fields for x */
  int64_t column_tasks; /* tasks for the columns of one outer index */
} scatter_state;

static tdm_status scatter_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  scatter_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  gather_sizes_read(&state->picks.sizes, request, &request->outputs[0], &request->inputs[0]);
  state->picks.index_count = count_of(&request->inputs[0]);
  state->picks.element_bytes = tdm_dtype_bytes(request->outputs[0].dtype);
  state->column_tasks = ceil_div(state->picks.sizes.inner, COLUMNS);
  const double elements =
      (double)count_of(&request->outputs[0]) + 2 * (double)count_of(&request->inputs[1]);
  state->picks.splits = answer->splits = tdm_cpu_splits(request, elements);
  return TDM_OK;
}

/* A task is a block of columns of one outer: y (size, columns) = x or zeros, and then source
 * (picked, columns). */
#define SCATTER(real)                                                                              \
  static void scatter_##real##_range(void *user, int64_t begin, int64_t end) {                     \
    const tdm_kernel_call *call = user;                                                            \
    const scatter_state *state = call->state;                                                      \
    const gather_sizes *sizes = &state->picks.sizes;                                               \
    const tdm_cpu_ids ids = ids_of(&state->picks, call->inputs[0]);                                \
    const int64_t inner = sizes->inner, picked = sizes->picked;                                    \
    for (int64_t task = begin; task < end; task++) {                                               \
      const int64_t outer = task / state->column_tasks;                                            \
      const int64_t column = task % state->column_tasks * COLUMNS;                                 \
      const int64_t columns = lesser_of(inner - column, COLUMNS);                                  \
      const int64_t first = outer * sizes->size * inner + column;                                  \
      const real *x = call->inputs[2] ? (const real *)call->inputs[2] + first : NULL;              \
      const real *source = (const real *)call->inputs[1] + outer * picked * inner + column;        \
      real *y = (real *)call->outputs[0] + first;                                                  \
      for (int64_t i = 0; i < sizes->size; i++)                                                    \
        for (int64_t j = 0; j < columns; j++)                                                      \
          y[i * inner + j] = x ? x[i * inner + j] : 0;                                             \
      for (int64_t i = 0; i < picked; i++) {                                                       \
        const int64_t row = (outer * picked + i) * inner + column;                                 \
        for (int64_t j = 0; j < columns; j++) {                                                    \
          const int64_t id = tdm_cpu_id(&ids, sizes->whole_rows ? i : row + j);                    \
          y[id * inner + j] += source[i * inner + j];                                              \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
  }                                                                                                \
  static tdm_status scatter_##real##_execute(const tdm_kernel_call *call) {                        \
    const scatter_state *state = call->state;                                                      \
    const tdm_cpu_ids ids = ids_of(&state->picks, call->inputs[0]);                                \
    TDM_TRY(tdm_cpu_indices_check(&ids, state->picks.sizes.size));                                 \
    tdm_team_run(state->picks.splits ? call->team : NULL,                                          \
                 state->picks.sizes.outer * state->column_tasks, 1, scatter_##real##_range,        \
                 (void *)call);                                                                    \
    return TDM_OK;                                                                                 \
  }
SCATTER(float)
SCATTER(double)
SCATTER(uint32_t) /* integers wrap */
SCATTER(uint64_t)

/* ---- one_hot --------------------------------------------------------------------------------- */

typedef struct one_hot_state {
  int64_t count; /* ids */
  int64_t classes;
  bool wide;
  bool splits;
} one_hot_state;

static tdm_status one_hot_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  one_hot_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->count = count_of(&request->inputs[0]);
  state->classes = last_dim_of(&request->outputs[0]);
  state->wide = request->inputs[0].dtype == TDM_INT64;
  state->splits = answer->splits = tdm_cpu_splits(request, (double)count_of(&request->outputs[0]));
  return TDM_OK;
}

static void one_hot_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const one_hot_state *state = call->state;
  const tdm_cpu_ids ids = {call->inputs[0], state->count, state->wide};
  int64_t *out = (int64_t *)call->outputs[0] + begin * state->classes;
  memset(out, 0, (size_t)((end - begin) * state->classes) * sizeof *out);
  for (int64_t i = begin; i < end; i++, out += state->classes)
    out[tdm_cpu_id(&ids, i)] = 1;
}

static tdm_status one_hot_execute(const tdm_kernel_call *call) {
  const one_hot_state *state = call->state;
  const tdm_cpu_ids ids = {call->inputs[0], state->count, state->wide};
  TDM_TRY(tdm_cpu_ids_check(&ids, state->classes));
  tdm_team_run(state->splits ? call->team : NULL, state->count, ceil_div(4096, state->classes),
               one_hot_range, (void *)call);
  return TDM_OK;
}

/* ---- check_argument -------------------------------------------------------------------------- */

typedef struct check_state {
  int64_t count;
  int64_t least, most;
  bool has_ignored;
  int64_t ignored;
  bool wide;
} check_state;

static tdm_status check_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  const tdm_check_attributes *attributes = request->attributes;
  check_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  *state = (check_state){.count = count_of(&request->inputs[0]),
                         .least = attributes->least,
                         .most = attributes->most,
                         .has_ignored = attributes->has_ignored != 0,
                         .ignored = attributes->ignored,
                         .wide = request->inputs[0].dtype == TDM_INT64};
  if (request->inputs[1].dtype != TDM_DTYPE_NONE)
    state->most += request->inputs[1].shape.dims[attributes->dimension];
  return TDM_OK;
}

static tdm_status check_execute(const tdm_kernel_call *call) {
  const check_state *state = call->state;
  const tdm_cpu_ids ids = {call->inputs[0], state->count, state->wide};
  for (int64_t i = 0; i < state->count; i++) {
    const int64_t value = tdm_cpu_id(&ids, i);
    if ((value >= state->least && value <= state->most) ||
        (state->has_ignored && value == state->ignored))
      continue;
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "%" PRId64 " at position %" PRId64 " is outside %" PRId64 " to %" PRId64, value,
                    i, state->least, state->most);
  }
  const size_t bytes = state->wide ? sizeof(int64_t) : sizeof(int32_t);
  if (state->count > 0) memcpy(call->outputs[0], call->inputs[0], (size_t)state->count * bytes);
  return TDM_OK;
}

KERNELS(gather, KERNEL_OF_EVERY(TDM_OP_GATHER, gather_prepare, gather_execute, NULL),
        KERNEL_OF(TDM_FLOAT32, TDM_OP_SCATTER_ADD, scatter_prepare, scatter_float_execute, NULL),
        KERNEL_OF(TDM_FLOAT64, TDM_OP_SCATTER_ADD, scatter_prepare, scatter_double_execute, NULL),
        KERNEL_OF(TDM_INT32, TDM_OP_SCATTER_ADD, scatter_prepare, scatter_uint32_t_execute, NULL),
        KERNEL_OF(TDM_INT64, TDM_OP_SCATTER_ADD, scatter_prepare, scatter_uint64_t_execute, NULL),
        KERNEL_OF(TDM_INT64, TDM_OP_ONE_HOT, one_hot_prepare, one_hot_execute, NULL),
        KERNEL_OF_INTEGERS(TDM_OP_CHECK, check_prepare, check_execute))
