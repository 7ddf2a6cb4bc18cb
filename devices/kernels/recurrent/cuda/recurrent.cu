/* One layer of a recurrent network over a sequence: the product with the input over all steps at
 * once, then a product and a pointwise kernel a step. Invariants: h_n and c_n hold the states after
 * the latest step; with `deterministic` a row of the batch depends only on itself. */
#include "devices/kernels/recurrent/cuda/recurrent.h"
#include "devices/kernels/recurrent/recurrent.h"
#include "devices/kernels/recurrent/recurrent_sizes.h"

enum { X, WEIGHT_IH, WEIGHT_HH, BIAS_IH, BIAS_HH, H0, C0, LENGTHS };

template <class real> static __device__ inline real logistic(real x) {
  return 1 / (1 + (real)exp(-x));
}

/* ---- Cells ------------------------------------------------------------------------------------
 */

/* Computes a step of lstm. a: (batch, 4 hidden) before the functions; gates: the same after them,
 * or NULL; cells: (batch, hidden) or NULL; y, h, c: (batch, hidden). */
template <class stored>
static __global__ void lstm_step(const stored *a, stored *gates, stored *cells, stored *y,
                                 stored *h, stored *c, const void *lengths, recurrent_step step) {
  typedef real_of<stored> real;
  const int64_t hidden = step.hidden;
  EACH_ELEMENT(at, step.count) {
    const int64_t row = at / hidden, first = row * 4 * hidden + at % hidden;
    const bool runs = step.t < steps_of_row(step, lengths, row);
    const real i = logistic(a[first]), f = logistic(a[first + hidden]);
    const real g = (real)tanh(a[first + 2 * hidden]), o = logistic(a[first + 3 * hidden]);
    if (runs) {
      c[at] = f * c[at] + i * g;
      h[at] = o * (real)tanh(c[at]);
    }
    y[at] = runs ? (real)h[at] : 0;
    if (cells) cells[at] = runs ? (real)c[at] : 0;
    if (!gates) continue;
    gates[first] = runs ? i : 0;
    gates[first + hidden] = runs ? f : 0;
    gates[first + 2 * hidden] = runs ? g : 0;
    gates[first + 3 * hidden] = runs ? o : 0;
  }
}

/* Computes a step of gru. a, b: (batch, 3 hidden), of the input and of the state; gates: (batch, 4
 * hidden) or NULL; y, h: (batch, hidden). */
template <class stored>
static __global__ void gru_step(const stored *a, const stored *b, stored *gates, stored *y,
                                stored *h, const void *lengths, recurrent_step step) {
  typedef real_of<stored> real;
  const int64_t hidden = step.hidden;
  EACH_ELEMENT(at, step.count) {
    const int64_t row = at / hidden, j = at % hidden, first = row * 3 * hidden + j;
    const bool runs = step.t < steps_of_row(step, lengths, row);
    const real r = logistic(a[first] + b[first]);
    const real z = logistic(a[first + hidden] + b[first + hidden]);
    const real b_n = b[first + 2 * hidden];
    const real n = (real)tanh(a[first + 2 * hidden] + r * b_n);
    if (runs) h[at] = n + z * (h[at] - n);
    y[at] = runs ? (real)h[at] : 0;
    if (!gates) continue;
    stored *kept = gates + row * 4 * hidden + j;
    kept[0] = runs ? r : 0;
    kept[hidden] = runs ? z : 0;
    kept[2 * hidden] = runs ? n : 0;
    kept[3 * hidden] = runs ? b_n : 0;
  }
}

/* Computes a step of a plain cell. y: (batch, hidden), before the function, then after it; h:
 * (batch, hidden). NaN stays NaN. */
template <class stored>
static __global__ void plain_step(stored *y, stored *h, const void *lengths, recurrent_step step) {
  typedef real_of<stored> real;
  EACH_ELEMENT(at, step.count) {
    const real a = y[at];
    const bool runs = step.t < steps_of_row(step, lengths, at / step.hidden);
    if (runs) h[at] = step.cell == TDM_CELL_RELU ? (a < 0 ? 0 : a) : (real)tanh(a);
    y[at] = runs ? (real)h[at] : 0;
  }
}

/* ---- Steps ------------------------------------------------------------------------------------
 */

/* Where a call's steps read and write. */
struct recurrent_run {
  char *a;     /* (length, batch, columns): products with the input; y of rnn */
  char *b;     /* (batch, columns): of gru, with the state */
  char *y;     /* (length, batch, hidden) */
  char *h;     /* (batch, hidden) */
  char *c;     /* (batch, hidden), of lstm */
  char *gates; /* (length, batch, 4 hidden) or NULL */
  char *cells; /* (length, batch, hidden) or NULL */
};

template <class stored> static stored *at_time(char *all, size_t step_bytes, int64_t t) {
  return all ? reinterpret_cast<stored *>(all + (size_t)t * step_bytes) : NULL;
}

template <class stored>
static tdm_status cell(const tdm_kernel_call *call, const recurrent_run *run, int64_t t) {
  const recurrent_state *state = recurrent_of(call);
  const recurrent_step step = recurrent_step_of(state, t);
  const size_t state_bytes = recurrent_bytes(state, 1, state->hidden);
  const int64_t blocks = blocks_for(step.count);
  stored *y = at_time<stored>(run->y, state_bytes, t);
  stored *gates = at_time<stored>(run->gates, recurrent_bytes(state, 1, 4 * state->hidden), t);
  stored *a = at_time<stored>(run->a, recurrent_bytes(state, 1, state->columns), t);
  stored *h = at_time<stored>(run->h, 0, 0);
  const void *lengths = call->inputs[LENGTHS];
  if (state->cell == TDM_CELL_LSTM)
    return kernel_launch(call, "lstm_step", lstm_step<stored>, blocks, BLOCK, a, gates,
                         at_time<stored>(run->cells, state_bytes, t), y, h,
                         at_time<stored>(run->c, 0, 0), lengths, step);
  if (state->cell == TDM_CELL_GRU)
    return kernel_launch(call, "gru_step", gru_step<stored>, blocks, BLOCK, a,
                         at_time<stored>(run->b, 0, 0), gates, y, h, lengths, step);
  return kernel_launch(call, "plain_step", plain_step<stored>, blocks, BLOCK, y, h, lengths, step);
}

/* Computes out (rows, columns) = x (rows, inner) weight^T + a + b; a, b: (columns) or NULL. */
template <class stored>
static tdm_status affine(const tdm_kernel_call *call, const void *x, int64_t rows, int64_t inner,
                         const void *weight, const void *a, const void *b, void *out) {
  const recurrent_state *state = recurrent_of(call);
  const bool biased = a || b;
  if (biased) TDM_TRY(rows_fill<stored>(call, a ? a : b, a ? b : NULL, out, rows, state->columns));
  const tdm_cuda_product product =
      product_with_transposed<stored>(x, weight, out, rows, state->columns, inner, biased ? 1 : 0);
  return product_run<stored>(call, &product, state->alone);
}

template <class stored>
static tdm_status forward_step(const tdm_kernel_call *call, const recurrent_run *run,
                               int64_t done) {
  const recurrent_state *state = recurrent_of(call);
  const int64_t t = recurrent_time(state, done);
  if (state->cell == TDM_CELL_GRU) {
    TDM_TRY(affine<stored>(call, run->h, state->batch, state->hidden, call->inputs[WEIGHT_HH],
                           call->inputs[BIAS_HH], NULL, run->b));
  } else if (done > 0 || call->inputs[H0]) {
    char *a = run->a + (size_t)t * recurrent_bytes(state, 1, state->columns);
    const tdm_cuda_product product = product_with_transposed<stored>(
        run->h, call->inputs[WEIGHT_HH], a, state->batch, state->columns, state->hidden, 1);
    TDM_TRY(product_run<stored>(call, &product, state->alone));
  }
  return cell<stored>(call, run, t);
}

/* ---- The kernel --------------------------------------------------------------------------------
 */

/* Returns the bytes of products with the input that do not fit in an output. */
static size_t input_bytes(const recurrent_state *state) {
  if (state->cell < TDM_CELL_LSTM || (state->cell == TDM_CELL_LSTM && state->trains)) return 0;
  return aligned_bytes(recurrent_bytes(state, state->length, state->columns));
}

static tdm_status recurrent_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  recurrent_state *state = recurrent_state_create(request, answer, &request->inputs[X],
                                                  &request->outputs[0], &request->inputs[LENGTHS]);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->trains = request->output_count > (state->cell == TDM_CELL_LSTM ? 3 : 2);
  answer->workspace_bytes +=
      input_bytes(state) + aligned_bytes(recurrent_bytes(state, 1, state->columns));
  return TDM_OK;
}

static recurrent_run run_of(const tdm_kernel_call *call, char *workspace) {
  const recurrent_state *state = recurrent_of(call);
  const bool has_cells = state->cell == TDM_CELL_LSTM;
  recurrent_run run = {};
  run.y = output_of<char>(call, 0);
  run.h = output_of<char>(call, 1);
  run.c = has_cells ? output_of<char>(call, 2) : NULL;
  run.gates = state->trains ? output_of<char>(call, has_cells ? 3 : 2) : NULL;
  run.cells = state->trains && has_cells ? output_of<char>(call, 4) : NULL;
  char *scratch = recurrent_take(&workspace, input_bytes(state));
  run.a = state->cell < TDM_CELL_LSTM ? run.y : input_bytes(state) == 0 ? run.gates : scratch;
  run.b = workspace;
  return run;
}

template <class stored> static tdm_status recurrent_execute(const tdm_kernel_call *call) {
  const recurrent_state *state = recurrent_of(call);
  const size_t state_bytes = recurrent_bytes(state, 1, state->hidden);
  char *workspace = static_cast<char *>(call->workspace);
  TDM_TRY(recurrent_lengths_check(call, call->inputs[LENGTHS], &workspace));
  const recurrent_run run = run_of(call, workspace);
  TDM_TRY(recurrent_copy(call, run.h, call->inputs[H0], state_bytes));
  if (run.c) TDM_TRY(recurrent_copy(call, run.c, call->inputs[C0], state_bytes));
  TDM_TRY(affine<stored>(call, call->inputs[X], state->length * state->batch, state->in,
                         call->inputs[WEIGHT_IH], call->inputs[BIAS_IH],
                         state->cell == TDM_CELL_GRU ? NULL : call->inputs[BIAS_HH], run.a));
  for (int64_t done = 0; done < state->length; done++)
    TDM_TRY(forward_step<stored>(call, &run, done));
  return TDM_OK;
}

KERNELS(recurrent, KERNEL(TDM_OP_RNN, recurrent_prepare, recurrent_execute<stored>),
        KERNEL(TDM_OP_LSTM, recurrent_prepare, recurrent_execute<stored>),
        KERNEL(TDM_OP_LSTM_TRAINING, recurrent_prepare, recurrent_execute<stored>),
        KERNEL(TDM_OP_GRU, recurrent_prepare, recurrent_execute<stored>),
        KERNEL(TDM_OP_GRU_TRAINING, recurrent_prepare, recurrent_execute<stored>))
