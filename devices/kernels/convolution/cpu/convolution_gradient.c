/* The gradients of the convolution. Invariant: the assignment of images to partial sums of the
 * weight's gradient depends only on the number of images, and these are added in order, so results
 * do not depend on the team. */
#include "core/status.h"
#include "devices/kernels/convolution/cpu/convolution.h"
#include "devices/kernels/convolution/images.h"
#include "devices/kernels/cpu/rows.h"

#define PARTS 8                        /* partial sums of the weight's gradient, at most */
#define PARTS_BYTES (64 * 1024 * 1024) /* maximum bytes of all parts together */

/* ---- Gradient of x --------------------------------------------------------------------------- */

static void prepare_columns(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                            convolution_state *state) {
  convolution_share_items(state, answer, state->sizes.images * state->sizes.groups,
                          convolution_wanted_tasks(state, request), 0, columns_bytes(state));
}

/* row (w) of d_x += one row of columns. */
ALWAYS_INLINE void add_columns_row(const convolution_state *state, row_span span, const real *from,
                                   real *row) {
  const int64_t stride = state->sizes.stride[1];
  if (stride == 1) {
    row_add(row + span.first + span.shift, from + span.first, span.end - span.first);
    return;
  }
  for (int64_t x = span.first; x < span.end; x++)
    row[x * stride + span.shift] += from[x];
}

/* Adds columns (k, count x width) to d_x (in, h, w), the reverse of convolution_columns. */
static void add_columns(const convolution_state *state, real *d_x, int64_t first, int64_t count,
                        const real *columns) {
  const int64_t width = state->sizes.out_size[1];
  const real *from = columns;
  for (int64_t channel = 0; channel < state->sizes.in; channel++) {
    real *plane = d_x + channel * state->sizes.size[0] * state->sizes.size[1]; /* (h, w) */
    for (int64_t tap = 0; tap < state->sizes.kernel[0] * state->sizes.kernel[1]; tap++) {
      const int64_t down =
          tap / state->sizes.kernel[1] * state->sizes.dilation[0] - state->sizes.padding[0];
      const row_span span = span_of(state, tap % state->sizes.kernel[1]);
      for (int64_t y = first; y < first + count; y++, from += width) {
        const int64_t row = y * state->sizes.stride[0] + down;
        if (row < 0 || row >= state->sizes.size[0]) continue;
        add_columns_row(state, span, from, plane + row * state->sizes.size[1]);
      }
    }
  }
}

/* Computes one item: (image, group). */
static void input_item(const void *job, int64_t item, char *memory) {
  const tdm_kernel_call *call = job;
  real *columns = (real *)memory;
  const convolution_state *state = call->state;
  const int64_t plane = state->sizes.size[0] * state->sizes.size[1],
                width = state->sizes.out_size[1];
  const real *d_y =
      (const real *)call->inputs[0] + item * state->sizes.out * state->pixels; /* (out, pixels) */
  const real *weight = (const real *)call->inputs[1] +
                       item % state->sizes.groups * state->sizes.out * state->k; /* (out, k) */
  real *d_x = (real *)call->outputs[0] + item * state->sizes.in * plane;         /* (in, h, w) */
  row_zero(d_x, state->sizes.in * plane);
  for (int64_t first = 0; first < state->sizes.out_size[0]; first += state->rows) {
    const int64_t rows = lesser_of(state->sizes.out_size[0] - first, state->rows);
    const int64_t count = rows * width;
    for (int64_t i = 0; i < state->k; i += PRODUCT_ROWS) {
      product_of_transposed(lesser_of(state->k - i, PRODUCT_ROWS), count, state->sizes.out,
                            weight + i, state->k, d_y + first * width, state->pixels, PRODUCT_SET,
                            columns + i * count, count);
    }
    add_columns(state, d_x, first, rows, columns);
  }
}

static void execute_columns(const tdm_kernel_call *call) {
  convolution_run_items(call, input_item, call);
}

static const convolution_steps algorithms_back[] = {
    [CONVOLUTION_COLUMNS] = {prepare_columns, execute_columns},
    [CONVOLUTION_SLIDES] = {convolution_slide_back_prepare, convolution_slide_back_execute},
    [CONVOLUTION_CHANNELS] = {convolution_channels_back_prepare, convolution_channels_back_execute},
    [CONVOLUTION_ONE_TAP] = {convolution_one_tap_back_prepare, convolution_one_tap_back_execute}};

static tdm_status convolution_input_gradient_prepare(const tdm_kernel_request *request,
                                                     tdm_kernel_answer *answer) {
  convolution_state *state = convolution_state_create(request, answer, &request->outputs[0],
                                                      &request->inputs[1], &request->inputs[0]);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->algorithm = convolution_algorithm_back(state);
  algorithms_back[state->algorithm].prepare(request, answer, state);
  return TDM_OK;
}

static tdm_status convolution_input_gradient_execute(const tdm_kernel_call *call) {
  algorithms_back[((const convolution_state *)call->state)->algorithm].execute(call);
  return TDM_OK;
}

/* ---- Gradients of weight and bias ------------------------------------------------------------ */

static int64_t weight_count(const convolution_state *state) {
  return state->sizes.groups * state->sizes.out * state->k;
}

static size_t part_bytes(const convolution_state *state) {
  return aligned_bytes((size_t)weight_count(state) * sizeof(real));
}

static tdm_status convolution_parameter_gradient_prepare(const tdm_kernel_request *request,
                                                         tdm_kernel_answer *answer) {
  convolution_state *state = convolution_state_create(request, answer, &request->inputs[1],
                                                      &request->outputs[0], &request->inputs[0]);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->algorithm = convolution_algorithm_parameter(state);
  if (state->algorithm == CONVOLUTION_CHANNELS) {
    convolution_channels_parameter_prepare(request, answer, state);
    return TDM_OK;
  }
  int64_t parts = lesser_of(state->sizes.images, PARTS);
  while (parts > 1 && (size_t)parts * part_bytes(state) > PARTS_BYTES)
    parts /= 2;
  const size_t rest =
      state->algorithm == CONVOLUTION_SLIDES
          ? convolution_slide_parameter_bytes(state)
          : columns_bytes(state) +
                product_packed_bytes(state->rows * state->sizes.out_size[1], state->k);
  convolution_share_items(state, answer, state->sizes.images, parts, 0, part_bytes(state) + rest);
  return TDM_OK;
}

/* Adds d_y (out, count) times the transposed columns (k, count) to part (out, k). */
static void add_product(const convolution_state *state, const real *d_y, matrix columns,
                        int64_t count, real *memory, real *part) {
  const packed_matrix packed = {memory, count, state->k};
  product_pack(packed, 0, state->k, columns);
  product_packed(state->sizes.out, packed, 0, state->k, d_y, state->pixels, NULL, PRODUCT_ADD, part,
                 state->k);
}

/* Does the same for all blocks of rows of one image and group: x (in, h, w). */
static void add_products(const convolution_state *state, const real *d_y, const real *x,
                         char *memory, real *part) {
  for (int64_t first = 0; first < state->sizes.out_size[0]; first += state->rows) {
    const int64_t rows = lesser_of(state->sizes.out_size[0] - first, state->rows);
    const int64_t count = rows * state->sizes.out_size[1], from = first * state->sizes.out_size[1];
    matrix columns = {x + from, state->pixels, true};
    if (!state->direct) {
      columns = (matrix){(const real *)memory, count, true};
      convolution_columns(state, x, first, rows, (real *)memory);
    }
    add_product(state, d_y + from, columns, count, (real *)(memory + columns_bytes(state)), part);
  }
}

/* Adds the contribution of images first <= image < end to part (groups, out, k). */
static void add_images(const tdm_kernel_call *call, int64_t first, int64_t end, char *memory,
                       real *part) {
  const convolution_state *state = call->state;
  const int64_t x_step = state->sizes.in * state->sizes.size[0] * state->sizes.size[1];
  const int64_t y_step = state->sizes.out * state->pixels;
  for (int64_t group = 0; group < state->sizes.groups; group++) {
    const int64_t pair = first * state->sizes.groups + group;
    const real *d_y = (const real *)call->inputs[0] + pair * y_step;
    const real *x = (const real *)call->inputs[1] + pair * x_step;
    real *d_weight = part + group * state->sizes.out * state->k;
    if (state->algorithm == CONVOLUTION_SLIDES) {
      convolution_slide_parameter(state, d_y, x, end - first, memory, d_weight);
      continue;
    }
    for (int64_t image = first; image < end; image++) {
      add_products(state, d_y, x, memory, d_weight);
      d_y += state->sizes.groups * y_step;
      x += state->sizes.groups * x_step;
    }
  }
}

static void parameter_tasks(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const convolution_state *state = call->state;
  for (int64_t task = begin; task < end; task++) {
    char *memory = (char *)call->workspace + task * state->task_bytes;
    real *part = (real *)memory; /* (groups, out, k) */
    row_zero(part, weight_count(state));
    const int64_t first = task * state->items / state->tasks;
    const int64_t last = (task + 1) * state->items / state->tasks;
    add_images(call, first, last, memory + part_bytes(state), part);
  }
}

/* Sums the parts of rows begin <= row < end of the weight's gradient (groups x out, k). */
static void sum_parts(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const convolution_state *state = call->state;
  for (int64_t row = begin; row < end; row++) {
    real *d_weight = (real *)call->outputs[0] + row * state->k; /* (k) */
    row_zero(d_weight, state->k);
    for (int64_t task = 0; task < state->tasks; task++) {
      const char *part = (const char *)call->workspace + task * state->task_bytes;
      row_add(d_weight, (const real *)part + row * state->k, state->k);
    }
  }
}

static void bias_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const convolution_state *state = call->state;
  const int64_t channels = state->sizes.groups * state->sizes.out;
  const real *d_y = call->inputs[0]; /* (images, channels, pixels) */
  real *d_bias = call->outputs[1];   /* (channels) */
  for (int64_t channel = begin; channel < end; channel++) {
    double sum = 0;
    for (int64_t image = 0; image < state->sizes.images; image++)
      sum += row_sum(d_y + (image * channels + channel) * state->pixels, state->pixels);
    d_bias[channel] = (real)sum;
  }
}

static tdm_status convolution_parameter_gradient_execute(const tdm_kernel_call *call) {
  const convolution_state *state = call->state;
  tdm_team *team = state->splits ? call->team : NULL;
  if (state->algorithm == CONVOLUTION_CHANNELS) {
    convolution_channels_parameter_execute(call);
  } else {
    tdm_team_run(team, state->tasks, 1, parameter_tasks, (void *)call);
    tdm_team_run(team, state->sizes.groups * state->sizes.out, 4, sum_parts, (void *)call);
  }
  tdm_team_run(team, state->sizes.groups * state->sizes.out, 4, bias_range, (void *)call);
  return TDM_OK;
}

KERNELS(convolution_gradient,
        KERNEL(TDM_OP_CONVOLUTION_INPUT_GRADIENT, convolution_input_gradient_prepare,
               convolution_input_gradient_execute),
        KERNEL(TDM_OP_CONVOLUTION_PARAMETER_GRADIENT, convolution_parameter_gradient_prepare,
               convolution_parameter_gradient_execute))
