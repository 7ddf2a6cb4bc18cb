/* Maximum and average pooling, adaptive too. Invariant: of equal elements the first in its plane
 * is the maximum, and a NaN is larger than any. */
#include "devices/kernels/convolution/cpu/pool.h"
#include "devices/kernels/convolution/images.h"

#include <math.h>

#include "core/status.h"
#include "devices/kernels/cpu/vector.h"

/* ---- Maximum --------------------------------------------------------------------------------- */

/* Computes the maximum of one window and its position. */
static void max_window(const pool_state *state, const stored *x, pool_window rows,
                       pool_window columns, stored *y, int32_t *index) {
  const int64_t width = state->sizes.size[1];
  real most = (real)-INFINITY;
  int64_t place = rows.begin * width + columns.begin;
  for (int64_t row = rows.begin; row < rows.end; row += rows.step) {
    for (int64_t column = columns.begin; column < columns.end; column += columns.step) {
      const real value = widened(x[row * width + column]);
      if (!(value > most || value != value)) continue;
      most = value;
      place = row * width + column;
    }
  }
  *y = narrowed(most);
  *index = (int32_t)place;
}

/* Elements 0, stride (1 or 2), ... of the `count` that are there, zeros beyond. */
ALWAYS_INLINE vec load_apart(const stored *from, int64_t stride, int64_t count) {
  const vec first = element_load(from, count);
  if (stride == 1) return first;
  const vec second = count > LANES ? element_load(from + LANES, count - LANES) : (vec){0};
#if defined(__clang__)
  vec even;
  for (int i = 0; i < LANES; i++)
    even[i] = 2 * i < LANES ? first[2 * i] : second[2 * i - LANES];
  return even;
#else
  vec_bits index;
  for (int i = 0; i < LANES; i++)
    index[i] = 2 * i;
  return __builtin_shuffle(first, second, index);
#endif
}

/* Windows that a vector reads; its fields are constants where they are known at compile time. */
typedef struct window_shape {
  int64_t stride;
  int64_t rows;
  int64_t row_step;
  int64_t taps; /* taps of a row */
  int64_t tap_step;
} window_shape;

/* `lanes` neighbouring windows, the first of which begins at `row` and `column`; all lie inside x.
 */
ALWAYS_INLINE void max_windows(const window_shape shape, const stored *x, int64_t width,
                               int64_t row, int64_t column, int64_t lanes, stored *y,
                               int32_t *indices) {
  vec most = vec_set((real)-INFINITY);
  vec_bits steps;
  for (int i = 0; i < LANES; i++)
    steps[i] = i * (real_bits)shape.stride;
  vec_bits places = steps + (real_bits)(row * width + column);
  for (int64_t i = 0; i < shape.rows; i++, row += shape.row_step) {
    for (int64_t tap = 0; tap < shape.taps; tap++) {
      const int64_t at = column + tap * shape.tap_step;
      const vec value = load_apart(x + row * width + at, shape.stride, width - at);
      const vec_bits larger = (value > most) | (value != value);
      most = vec_select(larger, value, most);
      places = (larger & (steps + (real_bits)(row * width + at))) | (~larger & places);
    }
  }
  element_store(y, most, lanes);
#if TDM_REAL_BITS == 32
  /* the bits of the integers, not converted */
  element_store((stored *)indices, (vec)places, lanes);
#else
  for (int i = 0; i < LANES && i < lanes; i++)
    indices[i] = (int32_t)places[i];
#endif
}

/* Does the same, with constant fields for the usual shapes. */
static void max_windows_of(window_shape shape, const stored *x, int64_t width, int64_t row,
                           int64_t column, int64_t lanes, stored *y, int32_t *indices) {
  const bool square = shape.rows == 2 && shape.taps == 2 && shape.row_step == 1 &&
                      shape.tap_step == 1 && shape.stride == 2;
  if (square)
    max_windows((window_shape){2, 2, 1, 2, 1}, x, width, row, column, lanes, y, indices);
  else if (shape.stride == 1)
    max_windows((window_shape){1, shape.rows, shape.row_step, shape.taps, shape.tap_step}, x, width,
                row, column, lanes, y, indices);
  else
    max_windows((window_shape){2, shape.rows, shape.row_step, shape.taps, shape.tap_step}, x, width,
                row, column, lanes, y, indices);
}

static void max_row(const pool_state *state, const stored *x, pool_window rows, stored *y,
                    int32_t *indices) {
  const tdm_pool_attributes *of = &state->sizes.attributes;
  const int64_t stride = of->stride[1], reach = (of->kernel[1] - 1) * of->dilation[1];
  const bool plain = of->adaptive == 0 && (stride == 1 || stride == 2);
  const window_shape shape = {
      .stride = stride,
      .rows = rows.step == 1 ? rows.end - rows.begin : ceil_div(rows.end - rows.begin, rows.step),
      .row_step = rows.step,
      .taps = of->kernel[1],
      .tap_step = of->dilation[1],
  };
  for (int64_t j = 0; j < state->sizes.out_size[1];) {
    const int64_t column = j * stride - of->padding[1];
    const int64_t room = state->sizes.size[1] - 1 - reach - column;
    if (!plain || column < 0 || room < 0) {
      max_window(state, x, rows, pool_window_at(&state->sizes, 1, j), y + j, indices + j);
      j++;
      continue;
    }
    const int64_t inside =
        lesser_of((stride == 2 ? room / 2 : room) + 1, state->sizes.out_size[1] - j);
    const int64_t lanes = lesser_of(inside, LANES);
    max_windows_of(shape, x, state->sizes.size[1], rows.begin, column, lanes, y + j, indices + j);
    j += lanes;
  }
}

static void max_plane(const tdm_kernel_call *call, int64_t x_first, int64_t y_first) {
  const pool_state *state = call->state;
  const stored *x = (const stored *)call->inputs[0] + x_first; /* (h, w) */
  stored *y = (stored *)call->outputs[0] + y_first;            /* (h', w') */
  int32_t *indices = (int32_t *)call->outputs[1] + y_first;    /* (h', w') */
  for (int64_t i = 0; i < state->sizes.out_size[0]; i++) {
    max_row(state, x, pool_window_at(&state->sizes, 0, i), y, indices);
    y += state->sizes.out_size[1];
    indices += state->sizes.out_size[1];
  }
}

static tdm_status prepare_forward(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return pool_prepare(request, answer, &request->inputs[0], &request->outputs[0]);
}

static tdm_status max_pool_execute(const tdm_kernel_call *call) {
  return pool_run(call, max_plane);
}

/* ---- Average --------------------------------------------------------------------------------- */

static void average_plane(const tdm_kernel_call *call, int64_t x_first, int64_t y_first) {
  const pool_state *state = call->state;
  const stored *x = (const stored *)call->inputs[0] + x_first; /* (h, w) */
  stored *y = (stored *)call->outputs[0] + y_first;            /* (h', w') */
  const int64_t width = state->sizes.size[1];
  for (int64_t i = 0; i < state->sizes.out_size[0]; i++) {
    const pool_window rows = pool_window_at(&state->sizes, 0, i);
    for (int64_t j = 0; j < state->sizes.out_size[1]; j++) {
      const pool_window columns = pool_window_at(&state->sizes, 1, j);
      real sum = 0;
      for (int64_t row = rows.begin; row < rows.end; row++)
        for (int64_t column = columns.begin; column < columns.end; column++)
          sum += widened(x[row * width + column]);
      *y++ = narrowed(sum / (real)pool_divisor(&state->sizes, rows, columns));
    }
  }
}

static tdm_status average_pool_execute(const tdm_kernel_call *call) {
  return pool_run(call, average_plane);
}

KERNELS(pool, KERNEL(TDM_OP_MAX_POOL, prepare_forward, max_pool_execute),
        KERNEL(TDM_OP_AVERAGE_POOL, prepare_forward, average_pool_execute))
