/* One layer of a recurrent network over a sequence: the product with the input, of several steps at
 * once where rows are few, then step by step the product with the state before, and the cell. A
 * task takes a block of the batch through all its steps, so there is no barrier between steps;
 * where rows are too few for that, every step is shared out by units of the state. Invariant: the
 * state and c_n hold what they are after the latest step that a row has had. */
#include "devices/kernels/recurrent/cpu/recurrent.h"
#include "devices/kernels/recurrent/recurrent.h"
#include "devices/kernels/recurrent/recurrent_sizes.h"

#include "core/status.h"

enum { X, WEIGHT_IH, WEIGHT_HH, BIAS_IH, BIAS_HH, H0, C0, LENGTHS };

typedef struct recurrent_job {
  const recurrent_state *state;
  const real *x;       /* (length, batch, in) */
  const real *h0;      /* (batch, hidden) or NULL */
  const real *c0;      /* (batch, hidden) or NULL */
  const void *lengths; /* (batch) or NULL */
  real *y;             /* (length, batch, hidden) */
  real *h_n;           /* (batch, hidden) */
  real *c_n;           /* (batch, hidden) or NULL */
  real *gates;         /* (length, batch, kept); without training of some steps */
  real *cells;         /* (length, batch, hidden) or NULL */
  real *recurrent;     /* (batch, columns), only for gru: the product with the state */
  const real *before;  /* (batch, hidden): state before the step */
  real *after;         /* (batch, hidden): state after the step; equals `before` if one thread
                        * computes all units */
  real *bias;          /* (columns) or NULL: bias of the input's product */
  const real *bias_hh; /* (columns) or NULL: bias of the state's product, only for gru */
  packed_matrix weight_ih;
  packed_matrix weight_hh;
} recurrent_job;

/* A block of the batch. */
typedef struct row_block {
  int64_t row;
  int64_t count;
  int64_t longest; /* steps */
} row_block;

/* ---- Cells: some units of one row of a step
 * ------------------------------------------------------
 */

/* gates (4 hidden): before the functions, then after them; c: the state, moved on; h: its new one.
 */
static void lstm_row(unit_range units, int64_t hidden, real *gates, real *c, real *h) {
  for (int64_t j = units.first; j < units.end; j += LANES) {
    const int64_t left = units.end - j;
    real *at = gates + j;
    const vec i = vec_sigmoid(vec_load_first(at, left));
    const vec f = vec_sigmoid(vec_load_first(at + hidden, left));
    const vec g = vec_tanh(vec_load_first(at + 2 * hidden, left));
    const vec o = vec_sigmoid(vec_load_first(at + 3 * hidden, left));
    const vec cell = f * vec_load_first(c + j, left) + i * g;
    vec_store_first(at, i, left);
    vec_store_first(at + hidden, f, left);
    vec_store_first(at + 2 * hidden, g, left);
    vec_store_first(at + 3 * hidden, o, left);
    vec_store_first(c + j, cell, left);
    vec_store_first(h + j, o * vec_tanh(cell), left);
  }
}

/* gates (4 hidden): three of the input, then r, z, n, b_n; recurrent (3 hidden): of the state; h
 * (hidden): before, may be the same as out. */
static void gru_row(unit_range units, int64_t hidden, real *gates, const real *recurrent,
                    const real *h, real *out) {
  for (int64_t j = units.first; j < units.end; j += LANES) {
    const int64_t left = units.end - j;
    real *at = gates + j;
    const real *b = recurrent + j;
    const vec r = vec_sigmoid(vec_load_first(at, left) + vec_load_first(b, left));
    const vec z = vec_sigmoid(vec_load_first(at + hidden, left) + vec_load_first(b + hidden, left));
    const vec b_n = vec_load_first(b + 2 * hidden, left);
    const vec n = vec_tanh(vec_load_first(at + 2 * hidden, left) + r * b_n);
    const vec before = vec_load_first(h + j, left);
    vec_store_first(at, r, left);
    vec_store_first(at + hidden, z, left);
    vec_store_first(at + 2 * hidden, n, left);
    vec_store_first(at + 3 * hidden, b_n, left);
    vec_store_first(out + j, n + z * (before - n), left);
  }
}

static void plain_row(int32_t cell, unit_range units, const real *gates, real *h) {
  for (int64_t j = units.first; j < units.end; j += LANES) {
    const int64_t left = units.end - j;
    const vec a = vec_load_first(gates + j, left);
    const vec out = cell == TDM_CELL_RELU ? vec_select(a < (vec){0}, (vec){0}, a) : vec_tanh(a);
    vec_store_first(h + j, out, left);
  }
}

/* ---- Steps ------------------------------------------------------------------------------------
 */

/* Returns the gates of the block at time t, the i-th of the steps that are computed together. */
static real *gates_of(const recurrent_job *job, row_block block, int64_t t, int64_t i) {
  const recurrent_state *state = job->state;
  const int64_t row = t * state->sizes.batch + block.row;
  if (state->sizes.cell < TDM_CELL_LSTM) return job->y + row * state->sizes.hidden;
  if (state->trains) return job->gates + row * state->kept;
  return job->gates + (block.row + i * block.count) * state->kept;
}

/* Writes row `row` at a time t without a step: copies its state and sets its outputs to zero. */
static void row_clear(const recurrent_job *job, int64_t t, int64_t row, unit_range units) {
  const recurrent_state *state = job->state;
  const int64_t place = t * state->sizes.batch + row, count = units.end - units.first;
  const int64_t at = row * state->sizes.hidden + units.first;
  if (job->after != job->before) row_copy(job->after + at, job->before + at, count);
  row_zero(job->y + place * state->sizes.hidden + units.first, count);
  for (int64_t gate = 0; gate < 4 && state->trains; gate++)
    row_zero(job->gates + place * state->kept + gate * state->sizes.hidden + units.first, count);
  if (job->cells) row_zero(job->cells + place * state->sizes.hidden + units.first, count);
}

/* Computes the cell of one row at t: updates its states, and stores the values that the gradient
 * needs. */
static void row_step(const recurrent_job *job, int64_t t, int64_t row, unit_range units,
                     real *gates) {
  const recurrent_state *state = job->state;
  const int64_t hidden = state->sizes.hidden,
                place = (t * state->sizes.batch + row) * hidden + units.first;
  const int64_t count = units.end - units.first;
  real *h = job->after + row * hidden; /* (hidden) */
  switch (state->sizes.cell) {
  case TDM_CELL_LSTM:
    lstm_row(units, hidden, gates, job->c_n + row * hidden, h);
    if (job->cells) row_copy(job->cells + place, job->c_n + row * hidden + units.first, count);
    break;
  case TDM_CELL_GRU:
    gru_row(units, hidden, gates, job->recurrent + row * state->sizes.columns,
            job->before + row * hidden, h);
    break;
  default:
    plain_row(state->sizes.cell, units, gates, h);
    break;
  }
  row_copy(job->y + place, h + units.first, count);
}

/* Computes the product with the state before, for the units' gates. */
static void state_product(const recurrent_job *job, row_block block, unit_range units,
                          const real *bias, product_start start, real *to, int64_t stride) {
  const int64_t hidden = job->state->sizes.hidden, columns = job->state->sizes.columns;
  const real *h = job->before + block.row * hidden;
  if (units.end - units.first == hidden) {
    product_packed(block.count, job->weight_hh, 0, columns, h, hidden, bias, start, to, stride);
    return;
  }
  for (int64_t gate = 0; gate < columns; gate += hidden)
    product_packed(block.count, job->weight_hh, gate + units.first, gate + units.end, h, hidden,
                   bias, start, to, stride);
}

/* Computes one step of a block, after `done` others; gates (count, kept): the products with the
 * input. */
static void step(const recurrent_job *job, row_block block, unit_range units, int64_t t,
                 int64_t done, real *gates) {
  const recurrent_state *state = job->state;
  if (state->sizes.cell == TDM_CELL_GRU) {
    state_product(job, block, units, job->bias_hh, PRODUCT_SET,
                  job->recurrent + block.row * state->sizes.columns, state->sizes.columns);
  } else if (done > 0 || job->h0) {
    state_product(job, block, units, NULL, PRODUCT_ADD, gates, state->kept);
  }
  for (int64_t i = 0; i < block.count; i++) {
    const int64_t row = block.row + i;
    if (t < recurrent_steps(state, job->lengths, row))
      row_step(job, t, row, units, gates + i * state->kept);
    else
      row_clear(job, t, row, units);
  }
}

/* Columns first <= j < end of the products with the input at `count` times, the earliest `low`. */
static void input_product(const recurrent_job *job, row_block block, int64_t low, int64_t count,
                          int64_t first, int64_t end) {
  const recurrent_state *state = job->state;
  product_packed(count * block.count, job->weight_ih, first, end,
                 job->x + (low * state->sizes.batch + block.row) * state->sizes.in, state->sizes.in,
                 job->bias, PRODUCT_SET, gates_of(job, block, low, 0), state->kept);
}

/* Returns the earliest time of the steps done <= i < done + count. */
static int64_t earliest(const recurrent_state *state, int64_t done, int64_t count) {
  return state->sizes.reverse ? state->sizes.length - done - count : done;
}

static void block_run(const recurrent_job *job, row_block block) {
  const recurrent_state *state = job->state;
  const unit_range all = {0, state->sizes.hidden};
  const int64_t together = recurrent_steps_at_once(state);
  for (int64_t done = 0; done < state->sizes.length; done += together) {
    const int64_t count = lesser_of(together, state->sizes.length - done);
    const int64_t low = earliest(state, done, count);
    if (low < block.longest) input_product(job, block, low, count, 0, state->sizes.columns);
    for (int64_t i = 0; i < count; i++) {
      const int64_t t = recurrent_time(&state->sizes, done + i);
      if (t < block.longest) {
        step(job, block, all, t, done + i, gates_of(job, block, t, t - low));
      } else {
        for (int64_t row = 0; row < block.count; row++)
          row_clear(job, t, block.row + row, all);
      }
    }
  }
}

/* Writes the states before the first step. */
static void block_begin(const recurrent_job *job, row_block block) {
  const int64_t first = block.row * job->state->sizes.hidden,
                count = block.count * job->state->sizes.hidden;
  if (job->h0)
    row_copy(job->h_n + first, job->h0 + first, count);
  else
    row_zero(job->h_n + first, count);
  if (!job->c_n) return;
  if (job->c0)
    row_copy(job->c_n + first, job->c0 + first, count);
  else
    row_zero(job->c_n + first, count);
}

/* Returns the block of that many rows from `row` on. */
static row_block block_of(const recurrent_job *job, int64_t row, int64_t count) {
  row_block block = {.row = row, .count = count};
  for (int64_t i = 0; i < count; i++) {
    const int64_t steps = recurrent_steps(job->state, job->lengths, row + i);
    if (steps > block.longest) block.longest = steps;
  }
  return block;
}

static void batch_tasks(void *user, int64_t begin, int64_t end) {
  const recurrent_job *job = user;
  const recurrent_state *state = job->state;
  for (int64_t task = begin; task < end; task++) {
    const int64_t row = task * state->rows_per_task;
    const row_block block =
        block_of(job, row, lesser_of(state->sizes.batch - row, state->rows_per_task));
    block_begin(job, block);
    block_run(job, block);
  }
}

/* ---- All rows, shared out by units
 * ---------------------------------------------------------------
 */

/* Some steps of all rows, the first of them after `done` others. */
typedef struct unit_job {
  const recurrent_job *job;
  row_block block;
  int64_t done;
  int64_t count; /* number of steps */
  int64_t low;   /* the earliest time */
} unit_job;

static void input_tasks(void *user, int64_t begin, int64_t end) {
  const unit_job *unit = user;
  input_product(unit->job, unit->block, unit->low, unit->count, begin * PRODUCT_WIDTH,
                lesser_of(unit->job->state->sizes.columns, end * PRODUCT_WIDTH));
}

/* Computes units begin to end of the step at unit->done. */
static void unit_tasks(void *user, int64_t begin, int64_t end) {
  const unit_job *unit = user;
  const recurrent_job *job = unit->job;
  const int64_t t = recurrent_time(&job->state->sizes, unit->done);
  const unit_range units = {begin * PRODUCT_WIDTH,
                            lesser_of(job->state->sizes.hidden, end * PRODUCT_WIDTH)};
  step(job, unit->block, units, t, unit->done, gates_of(job, unit->block, t, t - unit->low));
}

/* Computes all steps with units divided among threads. spare (batch, hidden): the states before and
 * after a step alternate between it and h_n. */
static void run_by_units(recurrent_job *job, real *spare, tdm_team *team) {
  const recurrent_state *state = job->state;
  const int64_t grain = state->unit_panels, together = recurrent_steps_at_once(state);
  unit_job unit = {.job = job, .block = block_of(job, 0, state->sizes.batch)};
  block_begin(job, unit.block);
  job->after = spare;
  for (int64_t done = 0; done < state->sizes.length; done += together) {
    unit.count = lesser_of(together, state->sizes.length - done);
    unit.low = earliest(state, done, unit.count);
    tdm_team_run(team, ceil_div(state->sizes.columns, PRODUCT_WIDTH), grain, input_tasks, &unit);
    for (int64_t i = 0; i < unit.count; i++) {
      unit.done = done + i;
      tdm_team_run(team, ceil_div(state->sizes.hidden, PRODUCT_WIDTH), grain, unit_tasks, &unit);
      real *made = job->after;
      job->after = made == spare ? job->h_n : spare;
      job->before = made;
    }
  }
  if (job->before != job->h_n)
    row_copy(job->h_n, job->before, state->sizes.batch * state->sizes.hidden);
}

/* ---- The kernel --------------------------------------------------------------------------------
 */

/* Elements of gates that no output has. */
static int64_t scratch_count(const recurrent_state *state) {
  if (state->sizes.cell < TDM_CELL_LSTM || state->trains) return 0;
  return state->sizes.batch * recurrent_steps_at_once(state) * state->kept;
}

static tdm_status recurrent_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  recurrent_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  recurrent_state_init(state, request, &request->inputs[X], &request->outputs[0],
                       &request->inputs[LENGTHS]);
  const size_t states = state->sizes.cell == TDM_CELL_LSTM ? 2 : 1;
  state->trains = request->output_count > 1 + states;
  state->splits = answer->splits = tdm_cpu_splits(request, recurrent_operations(state) / 30.0);
  answer->workspace_bytes =
      product_packed_bytes(state->sizes.in, state->sizes.columns) +
      product_packed_bytes(state->sizes.hidden, state->sizes.columns) +
      aligned_bytes((size_t)state->sizes.columns * sizeof(real)) +
      aligned_bytes((size_t)scratch_count(state) * sizeof(real)) +
      aligned_bytes((size_t)(state->sizes.batch * state->sizes.columns) * sizeof(real)) +
      aligned_bytes((size_t)(state->sizes.batch * state->sizes.hidden) * sizeof(real));
  return TDM_OK;
}

/* Takes the biases: in gru each product has its own; otherwise the product with the input has the
 * sum of both. */
static void take_biases(recurrent_job *job, const real *bias_ih, const real *bias_hh, real *sum) {
  const int64_t columns = job->state->sizes.columns;
  job->bias = bias_ih || bias_hh ? sum : NULL;
  if (!job->bias) return;
  row_zero(sum, columns);
  if (bias_ih) row_add(sum, bias_ih, columns);
  if (!bias_hh) return;
  if (job->state->sizes.cell == TDM_CELL_GRU)
    job->bias_hh = bias_hh;
  else
    row_add(sum, bias_hh, columns);
}

static tdm_status recurrent_execute(const tdm_kernel_call *call) {
  const recurrent_state *state = call->state;
  const bool has_cells = state->sizes.cell == TDM_CELL_LSTM;
  char *workspace = call->workspace;
  recurrent_job job = {.state = state,
                       .x = call->inputs[X],
                       .h0 = call->inputs[H0],
                       .c0 = call->inputs[C0],
                       .lengths = call->inputs[LENGTHS],
                       .y = call->outputs[0],
                       .h_n = call->outputs[1],
                       .before = call->outputs[1],
                       .after = call->outputs[1],
                       .c_n = has_cells ? call->outputs[2] : NULL,
                       .cells = has_cells && state->trains ? call->outputs[4] : NULL};
  TDM_TRY(recurrent_lengths_check(state, job.lengths));
  job.weight_ih = (packed_matrix){(real *)workspace, state->sizes.in, state->sizes.columns};
  workspace += product_packed_bytes(state->sizes.in, state->sizes.columns);
  job.weight_hh = (packed_matrix){(real *)workspace, state->sizes.hidden, state->sizes.columns};
  workspace += product_packed_bytes(state->sizes.hidden, state->sizes.columns);
  take_biases(&job, call->inputs[BIAS_IH], call->inputs[BIAS_HH],
              recurrent_take(&workspace, state->sizes.columns));
  real *scratch = recurrent_take(&workspace, scratch_count(state));
  job.gates = state->trains ? call->outputs[has_cells ? 3 : 2] : scratch;
  job.recurrent = recurrent_take(&workspace, state->sizes.batch * state->sizes.columns);

  tdm_team *team = state->splits ? call->team : NULL;
  recurrent_pack(job.weight_ih, (matrix){call->inputs[WEIGHT_IH], state->sizes.in, true}, team);
  recurrent_pack(job.weight_hh, (matrix){call->inputs[WEIGHT_HH], state->sizes.hidden, true}, team);
  if (team && state->unit_panels > 0)
    run_by_units(&job, recurrent_take(&workspace, state->sizes.batch * state->sizes.hidden), team);
  else
    tdm_team_run(team, ceil_div(state->sizes.batch, state->rows_per_task), 1, batch_tasks, &job);
  return TDM_OK;
}

KERNELS(recurrent, KERNEL(TDM_OP_RNN, recurrent_prepare, recurrent_execute),
        KERNEL(TDM_OP_LSTM, recurrent_prepare, recurrent_execute),
        KERNEL(TDM_OP_LSTM_TRAINING, recurrent_prepare, recurrent_execute),
        KERNEL(TDM_OP_GRU, recurrent_prepare, recurrent_execute),
        KERNEL(TDM_OP_GRU_TRAINING, recurrent_prepare, recurrent_execute))
