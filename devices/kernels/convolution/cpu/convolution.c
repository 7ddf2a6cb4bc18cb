/* The convolution: the choice among its algorithms, and products with columns (Chellapilla, Puri,
 * Simard, "High performance convolutional neural networks for document processing", 2006).
 * Invariant: an element of the result is one sum in one order, whatever the batch and the team are.
 */
#include "devices/kernels/convolution/cpu/convolution.h"
#include "devices/kernels/convolution/image_sizes.h"
#include "devices/kernels/convolution/images.h"

#include "core/status.h"

#define COLUMN_BYTES (192 * 1024) /* bytes of a block's columns, which stay in the L2 cache */

convolution_state *convolution_state_create(const tdm_kernel_request *request,
                                            tdm_kernel_answer *answer, const tdm_spec *x,
                                            const tdm_spec *weight, const tdm_spec *y) {
  convolution_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return NULL;
  convolution_sizes_read(&state->sizes, request, x, weight, y);
  state->direct = true;
  for (int axis = 0; axis < 2; axis++)
    state->direct &= state->sizes.kernel[axis] == 1 && state->sizes.stride[axis] == 1 &&
                     state->sizes.padding[axis] == 0;
  state->k = state->sizes.in * state->sizes.kernel[0] * state->sizes.kernel[1];
  state->pixels = state->sizes.out_size[0] * state->sizes.out_size[1];
  const int64_t row_bytes = state->k * state->sizes.out_size[1] * (int64_t)sizeof(real);
  state->rows = row_bytes > 0 ? COLUMN_BYTES / row_bytes : 1;
  if (state->rows > state->sizes.out_size[0]) state->rows = state->sizes.out_size[0];
  if (state->rows < 1) state->rows = 1;
  const double operations = (double)state->sizes.images * (double)state->sizes.groups *
                            (double)state->sizes.out * (double)state->pixels * (double)state->k;
  state->splits = answer->splits = tdm_cpu_splits(request, operations / 30.0);
  return state;
}

/* ---- Items, shared out to tasks -------------------------------------------------------------- */

void convolution_share_items(convolution_state *state, tdm_kernel_answer *answer, int64_t items,
                             int64_t wanted, size_t shared_bytes, size_t task_bytes) {
  state->items = items;
  state->tasks = lesser_of(items, wanted);
  state->task_bytes = (int64_t)task_bytes;
  state->shared_bytes = shared_bytes;
  answer->workspace_bytes = shared_bytes + (size_t)state->tasks * task_bytes;
}

typedef struct items_job {
  const tdm_kernel_call *call;
  convolution_item item;
  const void *job;
} items_job;

static void items_range(void *user, int64_t begin, int64_t end) {
  const items_job *self = user;
  const convolution_state *state = self->call->state;
  for (int64_t task = begin; task < end; task++) {
    char *memory = (char *)self->call->workspace + state->shared_bytes + task * state->task_bytes;
    const int64_t last = (task + 1) * state->items / state->tasks;
    for (int64_t item = task * state->items / state->tasks; item < last; item++)
      self->item(self->job, item, memory);
  }
}

void convolution_run_items(const tdm_kernel_call *call, convolution_item item, const void *job) {
  const convolution_state *state = call->state;
  items_job self = {call, item, job};
  tdm_team_run(state->splits ? call->team : NULL, state->tasks, 1, items_range, &self);
}

/* ---- Columns --------------------------------------------------------------------------------- */

/* Writes one row of columns from a row of x. May overwrite elements after the row, which are
 * written later. */
ALWAYS_INLINE void columns_row(const convolution_state *state, row_span span, const real *row,
                               real *to) {
  const int64_t stride = state->sizes.stride[1];
  if (span.first > 0) row_zero_loose(to, span.first);
  if (stride == 1) {
    row_copy_loose(to + span.first, row + span.first + span.shift, span.end - span.first);
  } else {
    for (int64_t x = span.first; x < span.end; x++)
      to[x] = row[x * stride + span.shift];
  }
  if (span.end < state->sizes.out_size[1])
    row_zero_loose(to + span.end, state->sizes.out_size[1] - span.end);
}

void convolution_columns(const convolution_state *state, const real *x, int64_t first,
                         int64_t count, real *columns) {
  const int64_t width = state->sizes.out_size[1];
  real *to = columns;
  for (int64_t channel = 0; channel < state->sizes.in; channel++) {
    const real *plane = x + channel * state->sizes.size[0] * state->sizes.size[1]; /* (h, w) */
    for (int64_t tap = 0; tap < state->sizes.kernel[0] * state->sizes.kernel[1]; tap++) {
      const int64_t down =
          tap / state->sizes.kernel[1] * state->sizes.dilation[0] - state->sizes.padding[0];
      const row_span span = span_of(state, tap % state->sizes.kernel[1]);
      for (int64_t y = first; y < first + count; y++, to += width) {
        const int64_t row = y * state->sizes.stride[0] + down;
        if (row < 0 || row >= state->sizes.size[0])
          row_zero_loose(to, width);
        else
          columns_row(state, span, plane + row * state->sizes.size[1], to);
      }
    }
  }
}

/* ---- Forward --------------------------------------------------------------------------------- */

static int64_t blocks_of(const convolution_state *state) {
  return ceil_div(state->sizes.out_size[0], state->rows);
}

static void prepare_columns(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                            convolution_state *state) {
  const int64_t items = state->sizes.images * state->sizes.groups * blocks_of(state);
  convolution_share_items(
      state, answer, items, convolution_wanted_tasks(state, request), 0,
      columns_bytes(state) +
          product_packed_bytes(state->k, state->rows * state->sizes.out_size[1]));
}

/* Sets `count` columns of y (out, pixels), from `first` on, to bias. */
static void begin_with_bias(const convolution_state *state, const real *bias, real *y,
                            int64_t count) {
  for (int64_t o = 0; o < state->sizes.out; o++) {
    const vec value = vec_set(bias ? bias[o] : 0);
    real *row = y + o * state->pixels;
    for (int64_t i = 0; i < count; i += LANES)
      vec_store_first(row + i, value, count - i);
  }
}

/* Computes one item: (image, group, block of rows). */
static void forward_item(const void *job, int64_t item, char *memory) {
  const tdm_kernel_call *call = job;
  const convolution_state *state = call->state;
  const int64_t block = item % blocks_of(state), pair = item / blocks_of(state);
  const int64_t group = pair % state->sizes.groups;
  const int64_t first = block * state->rows, plane = state->sizes.size[0] * state->sizes.size[1];
  const int64_t rows = lesser_of(state->sizes.out_size[0] - first, state->rows);
  const int64_t count = rows * state->sizes.out_size[1], from = first * state->sizes.out_size[1];
  const real *x = (const real *)call->inputs[0] + pair * state->sizes.in * plane; /* (in, h, w) */
  const real *weight =
      (const real *)call->inputs[1] + group * state->sizes.out * state->k; /* (out, k) */
  const real *bias =
      call->inputs[2] ? (const real *)call->inputs[2] + group * state->sizes.out : NULL; /* (out) */
  real *y =
      (real *)call->outputs[0] + pair * state->sizes.out * state->pixels + from; /* (out, pixels) */
  const matrix columns = {(const real *)memory, count, false};                   /* (k, count) */
  convolution_columns(state, x, first, rows, (real *)memory);
  const packed_matrix packed = {(real *)(memory + columns_bytes(state)), state->k, count};
  product_pack(packed, 0, count, columns);
  begin_with_bias(state, bias, y, count);
  product_packed(state->sizes.out, packed, 0, count, weight, state->k, NULL, PRODUCT_ADD, y,
                 state->pixels);
}

static void execute_columns(const tdm_kernel_call *call) {
  convolution_run_items(call, forward_item, call);
}

static const convolution_steps algorithms_forward[] = {
    [CONVOLUTION_COLUMNS] = {prepare_columns, execute_columns},
    [CONVOLUTION_SLIDES] = {convolution_slide_prepare, convolution_slide_execute},
    [CONVOLUTION_CHANNELS] = {convolution_channels_prepare, convolution_channels_execute},
    [CONVOLUTION_ONE_TAP] = {convolution_one_tap_prepare, convolution_one_tap_execute}};

static tdm_status convolution_prepare(const tdm_kernel_request *request,
                                      tdm_kernel_answer *answer) {
  convolution_state *state = convolution_state_create(request, answer, &request->inputs[0],
                                                      &request->inputs[1], &request->outputs[0]);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->algorithm = convolution_algorithm_forward(state);
  algorithms_forward[state->algorithm].prepare(request, answer, state);
  return TDM_OK;
}

static tdm_status convolution_execute(const tdm_kernel_call *call) {
  algorithms_forward[((const convolution_state *)call->state)->algorithm].execute(call);
  return TDM_OK;
}

KERNELS(convolution, KERNEL(TDM_OP_CONVOLUTION, convolution_prepare, convolution_execute))
