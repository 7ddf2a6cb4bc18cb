/* Copies by strides (devices/kernels/moves/strided.h): slices, permutations, repetitions, and
 * padding. Invariant: elements are only moved; what goes across the rows of both sides goes in
 * blocks that stay in the first cache. */
#include <string.h>

#include "core/status.h"
#include "devices/kernels/cpu/family.h"
#include "devices/kernels/elementwise/cpu/convert.h"
#include "devices/kernels/moves/moves.h"
#include "devices/kernels/moves/strided.h"

#define BLOCK_ROWS 16      /* rows of a block of both sides, which stays in the first-level cache */
#define TASK_ELEMENTS 2048 /* the least number of elements of a task if rows are short */
#define FILL_GRAIN 16384

/* The last two dimensions are a plane; a task is some of a plane's rows. */
typedef struct strided_state {
  tdm_strided copy; /* has at least rank 2 */
  int64_t task_rows;
  int64_t plane_tasks;
  int64_t tasks;
  size_t element_bytes;
  bool splits;
  int64_t filled; /* elements of the padded result; 0: there is no padding */
  uint64_t filling;
} strided_state;

/* ---- Preparing ------------------------------------------------------------------------------- */

/* Puts dimension d right before the last. */
static void move_before_last(tdm_strided *copy, int d) {
  const int64_t size = copy->sizes[d], from = copy->from[d], to = copy->to[d];
  for (; d < copy->rank - 2; d++) {
    copy->sizes[d] = copy->sizes[d + 1];
    copy->from[d] = copy->from[d + 1];
    copy->to[d] = copy->to[d + 1];
  }
  copy->sizes[d] = size;
  copy->from[d] = from;
  copy->to[d] = to;
}

/* Chooses the dimensions of the plane. If the elements of a row are not contiguous on a side, a
 * dimension that is contiguous there becomes the plane's other one. */
static void choose_plane(tdm_strided *copy) {
  const int last = copy->rank - 1;
  for (int d = 0; d < last; d++) {
    if (copy->from[last] != 1 ? copy->from[d] != 1 : copy->to[last] == 1 || copy->to[d] != 1)
      continue;
    move_before_last(copy, d);
    return;
  }
}

static tdm_status prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                          tdm_strided copy) {
  strided_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  if (copy.rank == 1) {
    copy.sizes[1] = copy.sizes[0];
    copy.from[1] = copy.from[0];
    copy.to[1] = copy.to[0];
    copy.sizes[0] = 1;
    copy.rank = 2;
  }
  choose_plane(&copy);
  const int64_t rows = copy.sizes[copy.rank - 2], columns = copy.sizes[copy.rank - 1];
  const int64_t enough = columns > 0 ? TASK_ELEMENTS / columns : 1;
  state->copy = copy;
  state->task_rows = enough > BLOCK_ROWS ? enough : BLOCK_ROWS;
  state->plane_tasks = ceil_div(rows, state->task_rows);
  state->tasks = copy.count > 0 ? copy.count / (rows * columns) * state->plane_tasks : 0;
  state->element_bytes = tdm_dtype_bytes(request->outputs[0].dtype);
  const double bytes = (double)count_of(&request->outputs[0]) * (double)state->element_bytes;
  state->splits = answer->splits = tdm_cpu_splits(request, bytes / 8);
  return TDM_OK;
}

static tdm_status strided_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return prepare(request, answer, tdm_strided_of_copy(request));
}

static tdm_status pad_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  TDM_TRY(prepare(request, answer, tdm_strided_of_pad(request)));
  strided_state *state = answer->state;
  const double value = ((const tdm_pad_attributes *)request->attributes)->value;
  state->filled = count_of(&request->outputs[0]);
  convert_from_double(request->outputs[0].dtype, &value, &state->filling, 1);
  return TDM_OK;
}

/* ---- Copying --------------------------------------------------------------------------------- */

/* Some rows of a plane, each side with its steps to the next row and the next column. */
#define COPY_PLANE(word)                                                                           \
  static void copy_plane_of_##word(const word *from, int64_t from_row, int64_t from_column,        \
                                   word *to, int64_t to_row, int64_t to_column, int64_t rows,      \
                                   int64_t columns) {                                              \
    if (from_column == 1 && to_column == 1) {                                                      \
      for (int64_t i = 0; i < rows; i++)                                                           \
        memcpy(to + i * to_row, from + i * from_row, (size_t)columns * sizeof(word));              \
    } else if (from_row == 1 || to_row == 1) {                                                     \
      for (int64_t j = 0; j < columns; j++)                                                        \
        for (int64_t i = 0; i < rows; i++)                                                         \
          to[i * to_row + j * to_column] = from[i * from_row + j * from_column];                   \
    } else {                                                                                       \
      for (int64_t i = 0; i < rows; i++)                                                           \
        for (int64_t j = 0; j < columns; j++)                                                      \
          to[i * to_row + j * to_column] = from[i * from_row + j * from_column];                   \
    }                                                                                              \
  }
COPY_PLANE(uint8_t)
COPY_PLANE(uint16_t)
COPY_PLANE(uint32_t)
COPY_PLANE(uint64_t)

static void copy_task(const tdm_kernel_call *call, int64_t task) {
  const strided_state *state = call->state;
  const tdm_strided *copy = &state->copy;
  const int row = copy->rank - 2, column = copy->rank - 1;
  const int64_t first = task % state->plane_tasks * state->task_rows;
  int64_t plane = task / state->plane_tasks;
  int64_t from = copy->from_begin + first * copy->from[row];
  int64_t to = copy->to_begin + first * copy->to[row];
  for (int d = row - 1; d >= 0; d--) {
    from += plane % copy->sizes[d] * copy->from[d];
    to += plane % copy->sizes[d] * copy->to[d];
    plane /= copy->sizes[d];
  }
  const int64_t rows = lesser_of(copy->sizes[row] - first, state->task_rows);
#define COPY(word)                                                                                 \
  copy_plane_of_##word((const word *)call->inputs[0] + from, copy->from[row], copy->from[column],  \
                       (word *)call->outputs[0] + to, copy->to[row], copy->to[column], rows,       \
                       copy->sizes[column])
  if (state->element_bytes == sizeof(uint32_t))
    COPY(uint32_t);
  else if (state->element_bytes == sizeof(uint64_t))
    COPY(uint64_t);
  else if (state->element_bytes == sizeof(uint16_t))
    COPY(uint16_t);
  else
    COPY(uint8_t);
#undef COPY
}

static void copy_range(void *user, int64_t begin, int64_t end) {
  for (int64_t task = begin; task < end; task++)
    copy_task(user, task);
}

static tdm_status strided_execute(const tdm_kernel_call *call) {
  const strided_state *state = call->state;
  tdm_team_run(state->splits ? call->team : NULL, state->tasks, 1, copy_range, (void *)call);
  return TDM_OK;
}

/* ---- Padding --------------------------------------------------------------------------------- */

static tdm_status fill_part(const tdm_kernel_call *call, int64_t begin, int64_t end) {
  const strided_state *state = call->state;
  const size_t size = state->element_bytes, bytes = (size_t)(end - begin) * size;
  char *out = (char *)call->outputs[0] + (size_t)begin * size;
  memcpy(out, &state->filling, size);
  for (size_t done = size; done < bytes;) { /* doubles what is filled */
    const size_t more = done < bytes - done ? done : bytes - done;
    memcpy(out + done, out, more);
    done += more;
  }
  return TDM_OK;
}

static tdm_status pad_execute(const tdm_kernel_call *call) {
  const strided_state *state = call->state;
  TDM_TRY(tdm_cpu_run_parts(call, fill_part, state->splits, state->filled, FILL_GRAIN));
  return strided_execute(call);
}

/* ---- Numbers in a row ------------------------------------------------------------------------ */

typedef struct arange_state {
  int64_t count;
  double start;
  double step;
  tdm_dtype dtype;
} arange_state;

static tdm_status arange_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  const tdm_arange_attributes *attributes = request->attributes;
  arange_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->count = count_of(&request->outputs[0]);
  state->start = attributes->start;
  state->step = attributes->step;
  state->dtype = request->outputs[0].dtype;
  return TDM_OK;
}

static tdm_status arange_execute(const tdm_kernel_call *call) {
  const arange_state *state = call->state;
  const size_t size = tdm_dtype_bytes(state->dtype);
  for (int64_t i = 0; i < state->count; i++) {
    char *out = (char *)call->outputs[0] + (size_t)i * size;
    if (tdm_dtype_is_floating(state->dtype)) {
      const double value = state->start + (double)i * state->step;
      convert_from_double(state->dtype, &value, out, 1);
    } else {
      const int64_t value = (int64_t)state->start + i * (int64_t)state->step;
      convert_from_int64(state->dtype, &value, out, 1);
    }
  }
  return TDM_OK;
}

KERNELS(strided, KERNEL_OF_EVERY(TDM_OP_STRIDED, strided_prepare, strided_execute, NULL),
        KERNEL_OF_EVERY(TDM_OP_PAD, pad_prepare, pad_execute, NULL),
        KERNEL_OF_NUMBERS(TDM_OP_ARANGE, arange_prepare, arange_execute))
