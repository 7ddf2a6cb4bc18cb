/* The gradient of a recurrent layer: back through time with a pointwise kernel and a product a
 * step, which leaves the gradients before the gates' functions of all steps; then the products over
 * all of them at once. Invariant: d_h0 and d_c0 hold the adjoints of the states before the earliest
 * step that was gone back through. */
#include "devices/kernels/cuda/column_sums.h"
#include "devices/kernels/recurrent/cuda/recurrent.h"
#include "devices/kernels/recurrent/recurrent.h"
#include "devices/kernels/recurrent/recurrent_sizes.h"

enum { X, Y, WEIGHT_IH, WEIGHT_HH, D_Y, D_H_N, D_C_N, H0, C0, GATES, CELLS, LENGTHS };

static __device__ inline bool is_first_step(const recurrent_step &step, int64_t steps) {
  return step.t == (step.reverse ? steps - 1 : 0);
}

/* ---- Cells ------------------------------------------------------------------------------------
 */

/* gates, d_a: (batch, 4 hidden); cells, d_y (or NULL), d_h, d_c: (batch, hidden); before: cells of
 * the step before, (batch, hidden), or NULL where this is the first of all rows; c0: (batch,
 * hidden) or NULL; d_first: (batch, 4 hidden). */
template <class stored>
static __global__ void lstm_back(const stored *gates, const stored *cells, const stored *before,
                                 const stored *c0, const stored *d_y, stored *d_h, stored *d_c,
                                 stored *d_a, stored *d_first, const void *lengths,
                                 recurrent_step step) {
  typedef real_of<stored> real;
  const int64_t hidden = step.hidden;
  EACH_ELEMENT(at, step.count) {
    const int64_t row = at / hidden, first = row * 4 * hidden + at % hidden;
    const int64_t steps = steps_of_row(step, lengths, row);
    const bool runs = step.t < steps, starts = runs && is_first_step(step, steps);
    real d[4] = {0, 0, 0, 0};
    if (runs) {
      const real i = gates[first], f = gates[first + hidden];
      const real g = gates[first + 2 * hidden], o = gates[first + 3 * hidden];
      const real squashed = (real)tanh(cells[at]);
      const real from = !starts ? (real)before[at] : c0 ? (real)c0[at] : 0;
      const real d_out = d_h[at] + (d_y ? (real)d_y[at] : 0);
      const real d_cell = d_c[at] + d_out * o * (1 - squashed * squashed);
      d[0] = d_cell * g * i * (1 - i);
      d[1] = d_cell * from * f * (1 - f);
      d[2] = d_cell * i * (1 - g * g);
      d[3] = d_out * squashed * o * (1 - o);
      d_c[at] = d_cell * f;
      d_h[at] = 0;
    }
    for (int gate = 0; gate < 4; gate++) {
      d_a[first + gate * hidden] = d[gate];
      if (starts) d_first[first + gate * hidden] = d[gate];
    }
  }
}

/* gates: (batch, 4 hidden); before: y of the step before, as in lstm_back; h0, d_y: (batch, hidden)
 * or NULL; d_h: (batch, hidden); d_a, d_b, d_first: (batch, 3 hidden). */
template <class stored>
static __global__ void gru_back(const stored *gates, const stored *before, const stored *h0,
                                const stored *d_y, stored *d_h, stored *d_a, stored *d_b,
                                stored *d_first, const void *lengths, recurrent_step step) {
  typedef real_of<stored> real;
  const int64_t hidden = step.hidden;
  EACH_ELEMENT(at, step.count) {
    const int64_t row = at / hidden, j = at % hidden, first = row * 3 * hidden + j;
    const int64_t steps = steps_of_row(step, lengths, row);
    const bool runs = step.t < steps, starts = runs && is_first_step(step, steps);
    real d[4] = {0, 0, 0, 0}; /* gradients of r, z, n and b_n */
    if (runs) {
      const stored *kept = gates + row * 4 * hidden + j;
      const real r = kept[0], z = kept[hidden], n = kept[2 * hidden], b_n = kept[3 * hidden];
      const real from = !starts ? (real)before[at] : h0 ? (real)h0[at] : 0;
      const real d_out = d_h[at] + (d_y ? (real)d_y[at] : 0);
      d[2] = d_out * (1 - z) * (1 - n * n);
      d[0] = d[2] * b_n * r * (1 - r);
      d[1] = d_out * (from - n) * z * (1 - z);
      d[3] = d[2] * r;
      d_h[at] = d_out * z;
    }
    for (int gate = 0; gate < 3; gate++) {
      const int64_t place = first + gate * hidden;
      const real of_state = gate < 2 ? d[gate] : d[3];
      d_a[place] = d[gate];
      d_b[place] = of_state;
      if (starts) d_first[place] = of_state;
    }
  }
}

/* Computes the gradient of a step of a plain cell. All arrays are (batch, hidden); d_y may be
 * NULL. */
template <class stored>
static __global__ void plain_back(const stored *y, const stored *d_y, stored *d_h, stored *d_a,
                                  stored *d_first, const void *lengths, recurrent_step step) {
  typedef real_of<stored> real;
  EACH_ELEMENT(at, step.count) {
    const int64_t steps = steps_of_row(step, lengths, at / step.hidden);
    const bool runs = step.t < steps;
    real d = 0;
    if (runs) {
      const real d_out = d_h[at] + (d_y ? (real)d_y[at] : 0);
      d = step.cell == TDM_CELL_RELU ? (y[at] <= 0 ? 0 : d_out) : d_out * (1 - y[at] * y[at]);
      d_h[at] = 0;
    }
    d_a[at] = d;
    if (runs && is_first_step(step, steps)) d_first[at] = d;
  }
}

/* ---- Back through time -------------------------------------------------------------------------
 */

struct gradient_run {
  char *d_h;     /* (batch, hidden) */
  char *d_c;     /* (batch, hidden), of lstm */
  char *d_x;     /* (length, batch, in) or NULL */
  char *d_a;     /* (length, batch, columns) */
  char *d_b;     /* (length, batch, columns); is d_a except for gru */
  char *d_first; /* (batch, columns): d_b of each row's first step */
  char *sums;    /* column_sums_bytes */
};

/* Returns the part of an operand at time t; NULL if there is no operand or no such time. */
template <class stored>
static const stored *part(const tdm_kernel_call *call, int operand, int64_t t, int64_t columns) {
  const recurrent_state *state = recurrent_of(call);
  if (!call->inputs[operand] || t < 0 || t >= state->length) return NULL;
  return input_of<stored>(call, (size_t)operand) + t * state->batch * columns;
}

template <class stored>
static tdm_status cell_back(const tdm_kernel_call *call, const gradient_run *run, int64_t t) {
  const recurrent_state *state = recurrent_of(call);
  const recurrent_step step = recurrent_step_of(state, t);
  const int64_t hidden = state->hidden, blocks = blocks_for(step.count);
  const int64_t before = state->reverse ? t + 1 : t - 1;
  const size_t place = (size_t)t * recurrent_bytes(state, 1, state->columns);
  const void *lengths = call->inputs[LENGTHS];
  const stored *d_y = part<stored>(call, D_Y, t, hidden);
  const stored *gates = part<stored>(call, GATES, t, 4 * hidden);
  stored *d_h = reinterpret_cast<stored *>(run->d_h), *d_c = reinterpret_cast<stored *>(run->d_c);
  stored *d_a = reinterpret_cast<stored *>(run->d_a + place);
  stored *d_first = reinterpret_cast<stored *>(run->d_first);
  if (state->cell == TDM_CELL_LSTM)
    return kernel_launch(call, "lstm_back", lstm_back<stored>, blocks, BLOCK, gates,
                         part<stored>(call, CELLS, t, hidden),
                         part<stored>(call, CELLS, before, hidden), input_of<stored>(call, C0), d_y,
                         d_h, d_c, d_a, d_first, lengths, step);
  if (state->cell == TDM_CELL_GRU)
    return kernel_launch(call, "gru_back", gru_back<stored>, blocks, BLOCK, gates,
                         part<stored>(call, Y, before, hidden), input_of<stored>(call, H0), d_y,
                         d_h, d_a, reinterpret_cast<stored *>(run->d_b + place), d_first, lengths,
                         step);
  return kernel_launch(call, "plain_back", plain_back<stored>, blocks, BLOCK,
                       part<stored>(call, Y, t, hidden), d_y, d_h, d_a, d_first, lengths, step);
}

template <class stored>
static tdm_status step_back(const tdm_kernel_call *call, const gradient_run *run, int64_t t) {
  const recurrent_state *state = recurrent_of(call);
  TDM_TRY(cell_back<stored>(call, run, t));
  const char *d_b = run->d_b + (size_t)t * recurrent_bytes(state, 1, state->columns);
  const tdm_cuda_product product = product_with<stored>(
      d_b, call->inputs[WEIGHT_HH], run->d_h, state->batch, state->hidden, state->columns, 1);
  return product_run<stored>(call, &product, state->alone);
}

/* ---- Over all steps ----------------------------------------------------------------------------
 */

/* Computes d_weight_hh = d_b^T times the states before each step: y of the step before, zeros if a
 * row has none, and h0. */
template <class stored>
static tdm_status recurrent_weight(const tdm_kernel_call *call, const gradient_run *run) {
  const recurrent_state *state = recurrent_of(call);
  const int64_t steps = state->length > 0 ? state->length - 1 : 0;
  const char *y = input_of<char>(call, Y), *d_b = run->d_b;
  if (state->reverse)
    y += recurrent_bytes(state, 1, state->hidden);
  else
    d_b += recurrent_bytes(state, 1, state->columns);
  const tdm_cuda_product later = product_of_transposed<stored>(
      d_b, y, call->outputs[1], state->columns, state->hidden, steps * state->batch, 0);
  TDM_TRY(product_run<stored>(call, &later, false));
  if (!call->inputs[H0]) return TDM_OK;
  const tdm_cuda_product first =
      product_of_transposed<stored>(run->d_first, call->inputs[H0], call->outputs[1],
                                    state->columns, state->hidden, state->batch, 1);
  return product_run<stored>(call, &first, false);
}

template <class stored>
static tdm_status all_steps(const tdm_kernel_call *call, const gradient_run *run) {
  const recurrent_state *state = recurrent_of(call);
  const int64_t rows = state->length * state->batch, in = state->in, columns = state->columns;
  const tdm_cuda_product d_weight_ih = product_of_transposed<stored>(
      run->d_a, call->inputs[X], call->outputs[0], columns, in, rows, 0);
  TDM_TRY(product_run<stored>(call, &d_weight_ih, false));
  TDM_TRY(recurrent_weight<stored>(call, run));
  TDM_TRY(column_sums<stored>(call, reinterpret_cast<const stored *>(run->d_a),
                              output_of<stored>(call, 2), rows, columns, run->sums));
  TDM_TRY(column_sums<stored>(call, reinterpret_cast<const stored *>(run->d_b),
                              output_of<stored>(call, 3), rows, columns, run->sums));
  if (!run->d_x) return TDM_OK;
  const tdm_cuda_product d_x =
      product_with<stored>(run->d_a, call->inputs[WEIGHT_IH], run->d_x, rows, in, columns, 0);
  return product_run<stored>(call, &d_x, state->alone);
}

/* ---- The kernel --------------------------------------------------------------------------------
 */

static tdm_status recurrent_gradient_prepare(const tdm_kernel_request *request,
                                             tdm_kernel_answer *answer) {
  const tdm_recurrent_attributes *attributes = attributes_of<tdm_recurrent_attributes>(request);
  recurrent_state *state = recurrent_state_create(request, answer, &request->inputs[X],
                                                  &request->inputs[Y], &request->inputs[LENGTHS]);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->trains = attributes->input_gradient != 0;
  const size_t buffers = state->cell == TDM_CELL_GRU ? 2 : 1;
  answer->workspace_bytes +=
      buffers * aligned_bytes(recurrent_bytes(state, state->length, state->columns)) +
      aligned_bytes(recurrent_bytes(state, 1, state->columns)) +
      column_sums_bytes(state->length * state->batch, state->columns, state->element_bytes);
  return TDM_OK;
}

template <class stored> static tdm_status recurrent_gradient_execute(const tdm_kernel_call *call) {
  const recurrent_state *state = recurrent_of(call);
  const bool has_cells = state->cell == TDM_CELL_LSTM;
  const size_t state_bytes = recurrent_bytes(state, 1, state->hidden);
  const size_t all_bytes = recurrent_bytes(state, state->length, state->columns);
  const size_t first_bytes = recurrent_bytes(state, 1, state->columns);
  char *workspace = static_cast<char *>(call->workspace);
  TDM_TRY(recurrent_lengths_check(call, call->inputs[LENGTHS], &workspace));
  gradient_run run = {};
  run.d_h = output_of<char>(call, 4);
  run.d_c = has_cells ? output_of<char>(call, 5) : NULL;
  run.d_x = state->trains ? output_of<char>(call, has_cells ? 6 : 5) : NULL;
  run.d_a = recurrent_take(&workspace, all_bytes);
  run.d_b = state->cell == TDM_CELL_GRU ? recurrent_take(&workspace, all_bytes) : run.d_a;
  run.d_first = recurrent_take(&workspace, first_bytes);
  run.sums = workspace;
  TDM_TRY(recurrent_copy(call, run.d_h, call->inputs[D_H_N], state_bytes));
  if (has_cells) TDM_TRY(recurrent_copy(call, run.d_c, call->inputs[D_C_N], state_bytes));
  TDM_TRY(recurrent_copy(call, run.d_first, NULL, first_bytes));
  for (int64_t done = state->length - 1; done >= 0; done--)
    TDM_TRY(step_back<stored>(call, &run, recurrent_time(state, done)));
  return all_steps<stored>(call, &run);
}

KERNELS(recurrent_gradient,
        KERNEL(TDM_OP_RNN_GRADIENT, recurrent_gradient_prepare, recurrent_gradient_execute<stored>),
        KERNEL(TDM_OP_LSTM_GRADIENT, recurrent_gradient_prepare,
               recurrent_gradient_execute<stored>),
        KERNEL(TDM_OP_GRU_GRADIENT, recurrent_gradient_prepare, recurrent_gradient_execute<stored>))
