/* Softmax and log-softmax along any dimension, and their gradients. A tensor is seen as (outer,
 * size, inner); where rows are taken (by_rows) one is contiguous, else vectors run over inner.
 * Invariant: every row is reduced in one fixed order. */
#include "devices/kernels/normalization/softmax.h"
#include "core/status.h"
#include "devices/kernels/axis_sizes.h"
#include "devices/kernels/cpu/rows.h"

typedef struct softmax_state {
  axis_sizes sizes;
  bool by_rows; /* true: tasks are rows; false: tasks are columns */
  bool splits;
} softmax_state;

static tdm_status softmax_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  const tdm_softmax_attributes *attributes = request->attributes;
  const tdm_spec *spec = &request->outputs[0];
  softmax_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  axis_sizes_read(&state->sizes, spec, attributes->dimension);
  state->by_rows =
      is_row(request, state->sizes.inner, attributes->dimension + 1 >= spec->shape.rank);
  state->splits = answer->splits = tdm_cpu_splits(request, (double)count_of(spec));
  return TDM_OK;
}

/* Tasks are slices of the outer dimension. */
static tdm_status softmax_run(const tdm_kernel_call *call,
                              void (*range)(void *call, int64_t begin, int64_t end)) {
  const softmax_state *state = call->state;
  const int64_t slice = state->sizes.size * state->sizes.inner;
  const int64_t grain = slice > 0 && slice < 1024 ? 1024 / slice : 1;
  tdm_team_run(state->splits ? call->team : NULL, state->sizes.outer, grain, range, (void *)call);
  return TDM_OK;
}

/* ---- One vector of columns: x and out are (size, inner), of which `lanes` columns ------------ */

static void columns_forward(const stored *x, stored *out, int64_t size, int64_t inner,
                            int64_t lanes, bool logarithm) {
  vec most = vec_set((real)-INFINITY);
  vec_sums sums = {{{0}}};
  for (int64_t i = 0; i < size; i++) {
    const vec value = element_load(x + i * inner, lanes);
    most = vec_select(value > most, value, most);
  }
  for (int64_t i = 0; i < size; i++) {
    const vec e = vec_exp(element_load(x + i * inner, lanes) - most);
    vec_sums_add(&sums, i, e);
    if (!logarithm) element_store(out + i * inner, e, lanes);
  }
  vec sum = vec_sums_total(&sums);
  if (logarithm) {
    for (int lane = 0; lane < LANES; lane++)
      sum[lane] = real_log(sum[lane]);
  }
  for (int64_t i = 0; i < size; i++) {
    const vec y = logarithm ? (element_load(x + i * inner, lanes) - most) - sum
                            : element_load(out + i * inner, lanes) / sum;
    element_store(out + i * inner, y, lanes);
  }
}

static void columns_backward(const stored *d_y, const stored *y, stored *d_x, int64_t size,
                             int64_t inner, int64_t lanes, bool logarithm) {
  vec_sums sums = {{{0}}};
  for (int64_t i = 0; i < size; i++) {
    const vec d = element_load(d_y + i * inner, lanes);
    vec_sums_add(&sums, i, logarithm ? d : d * element_load(y + i * inner, lanes));
  }
  const vec sum = vec_sums_total(&sums);
  for (int64_t i = 0; i < size; i++) {
    const vec d = element_load(d_y + i * inner, lanes), out = element_load(y + i * inner, lanes);
    element_store(d_x + i * inner, logarithm ? d - vec_exp(out) * sum : out * (d - sum), lanes);
  }
}

/* ---- One contiguous row ---------------------------------------------------------------------- */

static void row_backward(const stored *d_y, const stored *y, stored *d_x, int64_t size,
                         bool logarithm) {
  vec_sums sums = {{{0}}};
  for (int64_t i = 0; i < size; i += LANES) {
    const vec d = element_load(d_y + i, size - i);
    vec_sums_add(&sums, i / LANES, logarithm ? d : d * element_load(y + i, size - i));
  }
  const real sum = vec_sum(vec_sums_total(&sums));
  for (int64_t i = 0; i < size; i += LANES) {
    const vec d = element_load(d_y + i, size - i), out = element_load(y + i, size - i);
    element_store(d_x + i, logarithm ? d - vec_exp(out) * sum : out * (d - sum), size - i);
  }
}

/* ---- Ranges of the outer dimension ----------------------------------------------------------- */

static void forward(const tdm_kernel_call *call, int64_t begin, int64_t end, bool logarithm) {
  const softmax_state *state = call->state;
  const int64_t size = state->sizes.size, inner = state->sizes.inner;
  for (int64_t i = begin; i < end; i++) {
    const stored *x = (const stored *)call->inputs[0] + i * size * inner; /* (size, inner) */
    stored *out = (stored *)call->outputs[0] + i * size * inner;          /* (size, inner) */
    if (!state->by_rows) {
      for (int64_t j = 0; j < inner; j += LANES)
        columns_forward(x + j, out + j, size, inner, inner - j, logarithm);
    } else if (logarithm) {
      row_log_softmax(x, out, size);
    } else {
      row_softmax(x, out, size);
    }
  }
}

static void backward(const tdm_kernel_call *call, int64_t begin, int64_t end, bool logarithm) {
  const softmax_state *state = call->state;
  const int64_t size = state->sizes.size, inner = state->sizes.inner;
  for (int64_t i = begin; i < end; i++) {
    const stored *d_y = (const stored *)call->inputs[0] + i * size * inner; /* (size, inner) */
    const stored *y = (const stored *)call->inputs[1] + i * size * inner;   /* (size, inner) */
    stored *d_x = (stored *)call->outputs[0] + i * size * inner;            /* (size, inner) */
    if (state->by_rows) {
      row_backward(d_y, y, d_x, size, logarithm);
      continue;
    }
    for (int64_t j = 0; j < inner; j += LANES)
      columns_backward(d_y + j, y + j, d_x + j, size, inner, inner - j, logarithm);
  }
}

static void softmax_range(void *call, int64_t begin, int64_t end) {
  forward(call, begin, end, false);
}

static tdm_status softmax_execute(const tdm_kernel_call *call) {
  return softmax_run(call, softmax_range);
}

static void log_softmax_range(void *call, int64_t begin, int64_t end) {
  forward(call, begin, end, true);
}

static tdm_status log_softmax_execute(const tdm_kernel_call *call) {
  return softmax_run(call, log_softmax_range);
}

static void softmax_gradient_range(void *call, int64_t begin, int64_t end) {
  backward(call, begin, end, false);
}

static tdm_status softmax_gradient_execute(const tdm_kernel_call *call) {
  return softmax_run(call, softmax_gradient_range);
}

static void log_softmax_gradient_range(void *call, int64_t begin, int64_t end) {
  backward(call, begin, end, true);
}

static tdm_status log_softmax_gradient_execute(const tdm_kernel_call *call) {
  return softmax_run(call, log_softmax_gradient_range);
}

KERNELS(softmax, KERNEL(TDM_OP_SOFTMAX, softmax_prepare, softmax_execute),
        KERNEL(TDM_OP_LOG_SOFTMAX, softmax_prepare, log_softmax_execute),
        KERNEL(TDM_OP_SOFTMAX_GRADIENT, softmax_prepare, softmax_gradient_execute),
        KERNEL(TDM_OP_LOG_SOFTMAX_GRADIENT, softmax_prepare, log_softmax_gradient_execute))
