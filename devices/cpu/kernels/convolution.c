/* The convolution: the choice among its ways, and products with columns (Chellapilla, Puri, Simard,
 * "High performance convolutional neural networks for document processing", 2006). Invariant: an
 * element of the result is one sum in one order, whatever the batch and the team are. */
#include "devices/cpu/kernels/convolution.h"

#include "core/status.h"

#define COLUMN_BYTES (192 * 1024) /* of a block of rows: stays in the second cache */

convolution_state *convolution_state_create(const tdm_kernel_request *request,
                                            tdm_kernel_answer *answer, const tdm_shape *x,
                                            const tdm_shape *weight, const tdm_shape *y) {
  const tdm_convolution_attributes *attributes = request->attributes;
  convolution_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return NULL;
  state->images = x->dims[0];
  state->groups = attributes->groups;
  state->in = x->dims[1] / state->groups;
  state->out = weight->dims[0] / state->groups;
  state->direct = true;
  for (int axis = 0; axis < 2; axis++) {
    const int from_last = 2 - axis;
    const bool flat = from_last > x->rank - 2; /* of one dimension: the height is 1 */
    state->size[axis] = flat ? 1 : x->dims[x->rank - from_last];
    state->out_size[axis] = flat ? 1 : y->dims[y->rank - from_last];
    state->kernel[axis] = flat ? 1 : weight->dims[weight->rank - from_last];
    state->stride[axis] = attributes->stride[axis];
    state->padding[axis] = attributes->padding[axis];
    state->dilation[axis] = attributes->dilation[axis];
    state->direct &=
        state->kernel[axis] == 1 && state->stride[axis] == 1 && state->padding[axis] == 0;
  }
  state->k = state->in * state->kernel[0] * state->kernel[1];
  state->pixels = state->out_size[0] * state->out_size[1];
  const int64_t row_bytes = state->k * state->out_size[1] * (int64_t)sizeof(real);
  state->rows = row_bytes > 0 ? COLUMN_BYTES / row_bytes : 1;
  if (state->rows > state->out_size[0]) state->rows = state->out_size[0];
  if (state->rows < 1) state->rows = 1;
  const double operations = (double)state->images * (double)state->groups * (double)state->out *
                            (double)state->pixels * (double)state->k;
  state->splits = answer->splits = tdm_cpu_splits(request, operations / 30.0);
  return state;
}

/* One row of columns, from a row of x. What follows it is written after it. */
ALWAYS_INLINE void columns_row(const convolution_state *state, row_span span, const real *row,
                               real *to) {
  const int64_t stride = state->stride[1];
  if (span.first > 0) row_zero_loose(to, span.first);
  if (stride == 1) {
    row_copy_loose(to + span.first, row + span.first + span.shift, span.end - span.first);
  } else {
    for (int64_t x = span.first; x < span.end; x++)
      to[x] = row[x * stride + span.shift];
  }
  if (span.end < state->out_size[1]) row_zero_loose(to + span.end, state->out_size[1] - span.end);
}

void convolution_columns(const convolution_state *state, const real *x, int64_t first,
                         int64_t count, real *columns) {
  const int64_t width = state->out_size[1];
  real *to = columns;
  for (int64_t channel = 0; channel < state->in; channel++) {
    const real *plane = x + channel * state->size[0] * state->size[1]; /* (h, w) */
    for (int64_t tap = 0; tap < state->kernel[0] * state->kernel[1]; tap++) {
      const int64_t down = tap / state->kernel[1] * state->dilation[0] - state->padding[0];
      const row_span span = span_of(state, tap % state->kernel[1]);
      for (int64_t y = first; y < first + count; y++, to += width) {
        const int64_t row = y * state->stride[0] + down;
        if (row < 0 || row >= state->size[0])
          row_zero_loose(to, width);
        else
          columns_row(state, span, plane + row * state->size[1], to);
      }
    }
  }
}

/* ---- Forward --------------------------------------------------------------------------------- */

static int64_t blocks_of(const convolution_state *state) {
  return chunks_of(state->out_size[0], state->rows);
}

static void prepare_columns(const tdm_kernel_request *request, tdm_kernel_answer *answer,
                            convolution_state *state) {
  const int64_t items = state->images * state->groups * blocks_of(state);
  const int64_t wanted = state->splits ? 4 * (int64_t)request->team_size : 1;
  state->slots = lesser_of(items, wanted);
  state->slot_bytes = (int64_t)(columns_bytes(state) +
                                product_packed_bytes(state->k, state->rows * state->out_size[1]));
  answer->workspace_bytes = (size_t)(state->slots * state->slot_bytes);
}

/* y (out, pixels) = bias, for count columns from `first` on. */
static void begin_with_bias(const convolution_state *state, const real *bias, real *y,
                            int64_t count) {
  for (int64_t o = 0; o < state->out; o++) {
    const vec value = vec_set(bias ? bias[o] : 0);
    real *row = y + o * state->pixels;
    for (int64_t i = 0; i < count; i += LANES)
      vec_store_first(row + i, value, count - i);
  }
}

/* Item: (image, group, block of rows). */
static void forward_item(const tdm_kernel_call *call, int64_t item, char *memory) {
  const convolution_state *state = call->state;
  const int64_t block = item % blocks_of(state), pair = item / blocks_of(state);
  const int64_t group = pair % state->groups;
  const int64_t first = block * state->rows, plane = state->size[0] * state->size[1];
  const int64_t rows = lesser_of(state->out_size[0] - first, state->rows);
  const int64_t count = rows * state->out_size[1], from = first * state->out_size[1];
  const real *x = (const real *)call->inputs[0] + pair * state->in * plane; /* (in, h, w) */
  const real *weight = (const real *)call->inputs[1] + group * state->out * state->k; /* (out, k) */
  const real *bias =
      call->inputs[2] ? (const real *)call->inputs[2] + group * state->out : NULL; /* (out) */
  real *y = (real *)call->outputs[0] + pair * state->out * state->pixels + from; /* (out, pixels) */
  const matrix columns = {(const real *)memory, count, false};                   /* (k, count) */
  convolution_columns(state, x, first, rows, (real *)memory);
  const packed_matrix packed = {(real *)(memory + columns_bytes(state)), state->k, count};
  product_pack(packed, 0, count, columns);
  begin_with_bias(state, bias, y, count);
  product_packed(state->out, packed, 0, count, weight, state->k, NULL, PRODUCT_ADD, y,
                 state->pixels);
}

static void forward_slots(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const convolution_state *state = call->state;
  const int64_t items = state->images * state->groups * blocks_of(state);
  for (int64_t slot = begin; slot < end; slot++) {
    int64_t last;
    for (int64_t item = slot_items(state, slot, items, &last); item < last; item++)
      forward_item(call, item, (char *)call->workspace + slot * state->slot_bytes);
  }
}

static void execute_columns(const tdm_kernel_call *call) {
  const convolution_state *state = call->state;
  tdm_team_run(state->splits ? call->team : NULL, state->slots, 1, forward_slots, (void *)call);
}

static const convolution_steps ways_forward[] = {
    [CONVOLUTION_COLUMNS] = {prepare_columns, execute_columns},
    [CONVOLUTION_SLIDES] = {convolution_slide_prepare, convolution_slide_execute},
    [CONVOLUTION_CHANNELS] = {convolution_channels_prepare, convolution_channels_execute},
    [CONVOLUTION_POINTWISE] = {convolution_pointwise_prepare, convolution_pointwise_execute}};

static tdm_status convolution_prepare(const tdm_kernel_request *request,
                                      tdm_kernel_answer *answer) {
  convolution_state *state =
      convolution_state_create(request, answer, &request->inputs[0].shape,
                               &request->inputs[1].shape, &request->outputs[0].shape);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->way = convolution_way_forward(state);
  ways_forward[state->way].prepare(request, answer, state);
  return TDM_OK;
}

static tdm_status convolution_execute(const tdm_kernel_call *call) {
  ways_forward[((const convolution_state *)call->state)->way].execute(call);
  return TDM_OK;
}

KERNELS(convolution, KERNEL(TDM_OP_CONVOLUTION, convolution_prepare, convolution_execute))
