/* The gradient of a recurrent layer: back through time in stretches of some steps. Each goes
 * through its steps in blocks of the batch, as in recurrent.c, and leaves the gradients before the
 * gates' functions (d_a); what these give to the weights is added while they are in the cache
 * (recurrent_weights.c). Invariant: d_h0 and d_c0 hold the adjoints of the states before the
 * earliest step that was gone back through. */
#include "devices/kernels/recurrent/cpu/recurrent_gradient.h"
#include "core/status.h"
#include "devices/kernels/recurrent/recurrent.h"
#include "devices/kernels/recurrent/recurrent_sizes.h"

enum { X, Y, WEIGHT_IH, WEIGHT_HH, D_Y, D_H_N, D_C_N, H0, C0, GATES, CELLS, LENGTHS };

/* The operands and results of one row of a step; (hidden) unless noted. */
typedef struct row_operands {
  const real *d_y; /* gradient of the step's output; NULL: none */
  const real *y;
  const real *gates;  /* (kept) */
  const real *cell;   /* cell state after the step; lstm only */
  const real *before; /* state before the step: c of lstm, h of gru; NULL: zeros */
  real *d_h;          /* input: gradient of h from later steps; output: the same without the
                       * product's share */
  real *d_c;          /* gradient of the cell state; lstm only */
  real *d_a;          /* (columns): gradient of the input's products */
  real *d_b;          /* (columns): gradient of the state's products; gru only */
} row_operands;

/* ---- Cells: some units of one row of a step
 * ------------------------------------------------------------------
 */

ALWAYS_INLINE vec load_or_zero(const real *from, int64_t j, int64_t left) {
  return from ? vec_load_first(from + j, left) : (vec){0};
}

static void lstm_row(unit_range units, int64_t hidden, const row_operands *row) {
  for (int64_t j = units.first; j < units.end; j += LANES) {
    const int64_t left = units.end - j;
    const real *gates = row->gates + j;
    const vec i = vec_load_first(gates, left), f = vec_load_first(gates + hidden, left);
    const vec g = vec_load_first(gates + 2 * hidden, left);
    const vec o = vec_load_first(gates + 3 * hidden, left);
    const vec squashed = vec_tanh(vec_load_first(row->cell + j, left));
    const vec d_h = vec_load_first(row->d_h + j, left) + load_or_zero(row->d_y, j, left);
    const vec d_c = vec_load_first(row->d_c + j, left) + d_h * o * (1 - squashed * squashed);
    real *d_a = row->d_a + j;
    vec_store_first(d_a, d_c * g * i * (1 - i), left);
    vec_store_first(d_a + hidden, d_c * load_or_zero(row->before, j, left) * f * (1 - f), left);
    vec_store_first(d_a + 2 * hidden, d_c * i * (1 - g * g), left);
    vec_store_first(d_a + 3 * hidden, d_h * squashed * o * (1 - o), left);
    vec_store_first(row->d_c + j, d_c * f, left);
    vec_store_first(row->d_h + j, (vec){0}, left);
  }
}

static void gru_row(unit_range units, int64_t hidden, const row_operands *row) {
  for (int64_t j = units.first; j < units.end; j += LANES) {
    const int64_t left = units.end - j;
    const real *gates = row->gates + j;
    const vec r = vec_load_first(gates, left), z = vec_load_first(gates + hidden, left);
    const vec n = vec_load_first(gates + 2 * hidden, left);
    const vec b_n = vec_load_first(gates + 3 * hidden, left);
    const vec d_h = vec_load_first(row->d_h + j, left) + load_or_zero(row->d_y, j, left);
    const vec d_n = d_h * (1 - z) * (1 - n * n);
    const vec d_r = d_n * b_n * r * (1 - r);
    const vec d_z = d_h * (load_or_zero(row->before, j, left) - n) * z * (1 - z);
    real *d_a = row->d_a + j, *d_b = row->d_b + j;
    vec_store_first(d_a, d_r, left);
    vec_store_first(d_a + hidden, d_z, left);
    vec_store_first(d_a + 2 * hidden, d_n, left);
    vec_store_first(d_b, d_r, left);
    vec_store_first(d_b + hidden, d_z, left);
    vec_store_first(d_b + 2 * hidden, d_n * r, left);
    vec_store_first(row->d_h + j, d_h * z, left);
  }
}

/* Computes a row of a plain cell. The slopes of tanh and relu are computed from y; that of relu is
 * 1 for a y that is NaN. */
static void plain_row(int32_t cell, unit_range units, const row_operands *row) {
  for (int64_t j = units.first; j < units.end; j += LANES) {
    const int64_t left = units.end - j;
    const vec y = vec_load_first(row->y + j, left);
    const vec d = vec_load_first(row->d_h + j, left) + load_or_zero(row->d_y, j, left);
    const vec d_a =
        cell == TDM_CELL_RELU ? vec_select(y <= (vec){0}, (vec){0}, d) : d * (1 - y * y);
    vec_store_first(row->d_a + j, d_a, left);
    vec_store_first(row->d_h + j, (vec){0}, left);
  }
}

/* ---- Back through time -------------------------------------------------------------------------
 */

/* Returns the state that the cell of a row read at time t: from the states of all steps (length,
 * batch, hidden), or from the initial state (batch, hidden), which may be NULL. */
static const real *state_before(const gradient_job *job, const real *all, const real *first,
                                int64_t t, int64_t row, int64_t steps) {
  const recurrent_state *state = job->state;
  if (recurrent_is_first(state, t, steps)) return first ? first + row * state->sizes.hidden : NULL;
  const int64_t before = state->sizes.reverse ? t + 1 : t - 1;
  return all + (before * state->sizes.batch + row) * state->sizes.hidden;
}

/* Copies the units' columns of every gate from `from`, or zeros if it is NULL. */
static void copy_gates(const recurrent_state *state, unit_range units, real *to, const real *from) {
  for (int64_t j = units.first; j < state->sizes.columns; j += state->sizes.hidden) {
    if (from)
      row_copy(to + j, from + j, units.end - units.first);
    else
      row_zero(to + j, units.end - units.first);
  }
}

static void row_back(const gradient_job *job, int64_t t, int64_t row, unit_range units) {
  const recurrent_state *state = job->state;
  const int64_t hidden = state->sizes.hidden, columns = state->sizes.columns;
  const int64_t place = t * state->sizes.batch + row, at_hand = stretch_row(job, t) + row;
  const int64_t steps = recurrent_steps(state, job->lengths, row);
  row_operands at = {.y = job->y + place * hidden,
                     .gates = job->gates ? job->gates + place * state->kept : NULL,
                     .d_h = job->d_h0 + row * hidden,
                     .d_a = job->d_a + at_hand * job->stride,
                     .d_b = job->d_b + at_hand * job->stride};
  if (t >= steps) {
    copy_gates(state, units, at.d_a, NULL);
    if (at.d_b != at.d_a) copy_gates(state, units, at.d_b, NULL);
    return;
  }
  if (job->d_y) at.d_y = job->d_y + place * hidden;
  switch (state->sizes.cell) {
  case TDM_CELL_LSTM:
    at.cell = job->cells + place * hidden;
    at.d_c = job->d_c0 + row * hidden;
    at.before = state_before(job, job->cells, job->c0, t, row, steps);
    lstm_row(units, hidden, &at);
    break;
  case TDM_CELL_GRU:
    at.before = state_before(job, job->y, job->h0, t, row, steps);
    gru_row(units, hidden, &at);
    break;
  default:
    plain_row(state->sizes.cell, units, &at);
    break;
  }
  if (recurrent_is_first(state, t, steps))
    copy_gates(state, units, job->d_first + row * columns, at.d_b);
}

/* Columns first <= j < end of d_x of `count` rows from `row` on, at the stretch's times. */
static void input_back(const gradient_job *job, int64_t row, int64_t count, int64_t first,
                       int64_t end) {
  const recurrent_state *state = job->state;
  const int64_t together = recurrent_steps_at_once(state), low = stretch_low(job);
  for (int64_t t = low; t < low + job->steps; t += together) {
    const int64_t rows = lesser_of(together, low + job->steps - t) * count;
    product_packed(rows, job->weight_ih, first, end,
                   job->d_a + (stretch_row(job, t) + row) * job->stride, job->stride, NULL,
                   PRODUCT_SET, job->d_x + (t * state->sizes.batch + row) * state->sizes.in,
                   state->sizes.in);
  }
}

/* Computes the gradients of the state before step t, for the units. */
static void state_back(const gradient_job *job, int64_t t, int64_t row, int64_t count,
                       unit_range units) {
  const int64_t hidden = job->state->sizes.hidden;
  product_packed(count, job->weight_hh, units.first, units.end,
                 job->d_b + (stretch_row(job, t) + row) * job->stride, job->stride, NULL,
                 PRODUCT_ADD, job->d_h0 + row * hidden, hidden);
}

static void copy_or_zero(real *to, const real *from, int64_t first, int64_t count) {
  if (from)
    row_copy(to + first, from + first, count);
  else
    row_zero(to + first, count);
}

/* Sets the adjoints after the last step. */
static void block_begin(const gradient_job *job, int64_t row, int64_t count) {
  const int64_t hidden = job->state->sizes.hidden, columns = job->state->sizes.columns;
  copy_or_zero(job->d_h0, job->d_h_n, row * hidden, count * hidden);
  if (job->d_c0) copy_or_zero(job->d_c0, job->d_c_n, row * hidden, count * hidden);
  row_zero(job->d_first + row * columns, count * columns);
}

static bool is_latest(const gradient_job *job) {
  return job->done + job->steps == job->state->sizes.length;
}

static void block_back(const gradient_job *job, int64_t row, int64_t count) {
  const recurrent_state *state = job->state;
  const unit_range all = {0, state->sizes.hidden};
  if (is_latest(job)) block_begin(job, row, count);
  for (int64_t i = job->steps - 1; i >= 0; i--) {
    const int64_t t = recurrent_time(&state->sizes, job->done + i);
    for (int64_t k = 0; k < count; k++)
      row_back(job, t, row + k, all);
    state_back(job, t, row, count, all);
  }
  if (job->d_x) input_back(job, row, count, 0, state->sizes.in);
}

static void batch_tasks(void *user, int64_t begin, int64_t end) {
  const gradient_job *job = user;
  const recurrent_state *state = job->state;
  const int64_t tasks = ceil_div(state->sizes.batch, state->rows_per_task);
  for (int64_t task = begin; task < end; task++) {
    const int64_t row = task * state->rows_per_task;
    block_back(job, row, lesser_of(state->sizes.batch - row, state->rows_per_task));
    recurrent_operands_pack(job, task, tasks);
  }
}

/* ---- All rows, shared out by units
 * ---------------------------------------------------------------
 */

enum { PACK_SHARES = 16 };

typedef struct unit_job {
  const gradient_job *job;
  int64_t step; /* step within the range; -1: only the gradient of the state before the first one */
} unit_job;

/* Computes the gradients that the next step contributes to the units, then the cells. */
static void unit_tasks(void *user, int64_t begin, int64_t end) {
  const unit_job *unit = user;
  const gradient_job *job = unit->job;
  const recurrent_state *state = job->state;
  const unit_range units = {begin * PRODUCT_WIDTH,
                            lesser_of(state->sizes.hidden, end * PRODUCT_WIDTH)};
  const int64_t done = job->done + unit->step;
  if (unit->step + 1 < job->steps)
    state_back(job, recurrent_time(&state->sizes, done + 1), 0, state->sizes.batch, units);
  for (int64_t row = 0; row < state->sizes.batch && unit->step >= 0; row++)
    row_back(job, recurrent_time(&state->sizes, done), row, units);
}

static void input_tasks(void *user, int64_t begin, int64_t end) {
  const gradient_job *job = user;
  const recurrent_state *state = job->state;
  input_back(job, 0, state->sizes.batch, begin * PRODUCT_WIDTH,
             lesser_of(state->sizes.in, end * PRODUCT_WIDTH));
}

static void pack_tasks(void *user, int64_t begin, int64_t end) {
  for (int64_t share = begin; share < end; share++)
    recurrent_operands_pack(user, share, PACK_SHARES);
}

/* Processes the current range of steps. */
static void back_by_units(gradient_job *job, tdm_team *team) {
  const recurrent_state *state = job->state;
  const int64_t panels = ceil_div(state->sizes.hidden, PRODUCT_WIDTH);
  if (is_latest(job)) block_begin(job, 0, state->sizes.batch);
  for (int64_t i = job->steps - 1; i >= -1; i--) {
    unit_job unit = {job, i};
    tdm_team_run(team, panels, state->unit_panels, unit_tasks, &unit);
  }
  if (job->d_x) tdm_team_run(team, ceil_div(state->sizes.in, PRODUCT_WIDTH), 1, input_tasks, job);
  tdm_team_run(team, PACK_SHARES, 1, pack_tasks, job);
}

/* ---- The kernel --------------------------------------------------------------------------------
 */

/* Returns the stride of rows of d_a, which is no power of two. A tile of a product reads a line of
 * each row at a time, and these lines must not all fall into one set of the cache. */
static int64_t stride_of(const recurrent_state *state) {
  return (state->sizes.columns + LANES - 1) / LANES * LANES + LANES;
}

static tdm_status recurrent_gradient_prepare(const tdm_kernel_request *request,
                                             tdm_kernel_answer *answer) {
  const tdm_recurrent_attributes *attributes = request->attributes;
  recurrent_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  recurrent_state_init(state, request, &request->inputs[X], &request->inputs[Y],
                       &request->inputs[LENGTHS]);
  state->trains = attributes->input_gradient != 0;
  state->splits = answer->splits = tdm_cpu_splits(request, recurrent_operations(state) / 15.0);
  const int64_t rows = stretch_steps(state) * state->sizes.batch;
  const size_t buffers = state->sizes.cell == TDM_CELL_GRU ? 2 : 1;
  answer->workspace_bytes =
      (state->trains ? product_packed_bytes(state->sizes.columns, state->sizes.in) : 0) +
      product_packed_bytes(state->sizes.columns, state->sizes.hidden) +
      buffers * aligned_bytes((size_t)(rows * stride_of(state)) * sizeof(real)) +
      aligned_bytes((size_t)(state->sizes.batch * state->sizes.columns) * sizeof(real)) +
      recurrent_operands_bytes(state);
  return TDM_OK;
}

static gradient_job job_of(const tdm_kernel_call *call) {
  const recurrent_state *state = call->state;
  const bool has_cells = state->sizes.cell == TDM_CELL_LSTM;
  return (gradient_job){.state = state,
                        .x = call->inputs[X],
                        .y = call->inputs[Y],
                        .d_y = call->inputs[D_Y],
                        .d_h_n = call->inputs[D_H_N],
                        .d_c_n = call->inputs[D_C_N],
                        .h0 = call->inputs[H0],
                        .c0 = call->inputs[C0],
                        .gates = call->inputs[GATES],
                        .cells = call->inputs[CELLS],
                        .lengths = call->inputs[LENGTHS],
                        .stride = stride_of(state),
                        .d_weight_ih = call->outputs[0],
                        .d_weight_hh = call->outputs[1],
                        .d_bias_ih = call->outputs[2],
                        .d_bias_hh = call->outputs[3],
                        .d_h0 = call->outputs[4],
                        .d_c0 = has_cells ? call->outputs[5] : NULL,
                        .d_x = state->trains ? call->outputs[has_cells ? 6 : 5] : NULL};
}

static tdm_status recurrent_gradient_execute(const tdm_kernel_call *call) {
  const recurrent_state *state = call->state;
  gradient_job job = job_of(call);
  const int64_t together = stretch_steps(state), count = together * state->sizes.batch * job.stride;
  TDM_TRY(recurrent_lengths_check(state, job.lengths));
  char *workspace = call->workspace;
  tdm_team *team = state->splits ? call->team : NULL;
  if (state->trains) {
    job.weight_ih = (packed_matrix){(real *)workspace, state->sizes.columns, state->sizes.in};
    workspace += product_packed_bytes(state->sizes.columns, state->sizes.in);
    recurrent_pack(job.weight_ih, (matrix){call->inputs[WEIGHT_IH], state->sizes.in, false}, team);
  }
  job.weight_hh = (packed_matrix){(real *)workspace, state->sizes.columns, state->sizes.hidden};
  workspace += product_packed_bytes(state->sizes.columns, state->sizes.hidden);
  recurrent_pack(job.weight_hh, (matrix){call->inputs[WEIGHT_HH], state->sizes.hidden, false},
                 team);
  job.d_a = recurrent_take(&workspace, count);
  job.d_b = state->sizes.cell == TDM_CELL_GRU ? recurrent_take(&workspace, count) : job.d_a;
  job.d_first = recurrent_take(&workspace, state->sizes.batch * state->sizes.columns);

  job.done = state->sizes.length;
  do { /* runs once even if there are no steps */
    job.steps = lesser_of(together, job.done);
    job.done -= job.steps;
    recurrent_operands_begin(&job, workspace);
    if (team && state->unit_panels > 0)
      back_by_units(&job, team);
    else
      tdm_team_run(team, ceil_div(state->sizes.batch, state->rows_per_task), 1, batch_tasks, &job);
    recurrent_weights_add(&job, team);
  } while (job.done > 0);
  return TDM_OK;
}

KERNELS(recurrent_gradient,
        KERNEL(TDM_OP_RNN_GRADIENT, recurrent_gradient_prepare, recurrent_gradient_execute),
        KERNEL(TDM_OP_LSTM_GRADIENT, recurrent_gradient_prepare, recurrent_gradient_execute),
        KERNEL(TDM_OP_GRU_GRADIENT, recurrent_gradient_prepare, recurrent_gradient_execute))
