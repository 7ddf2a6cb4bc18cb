/* The gradients of a recurrent layer's weights: the summands of one range of steps, in blocks of
 * their rows. The tasks of the backward pass pack x and the states before once a range; every block
 * reads them. Invariant: an element is summed over rows of (length batch) in blocks whose bounds
 * depend only on the batch. */
#include "devices/kernels/recurrent/cpu/recurrent_gradient.h"

/* ---- Operands ---------------------------------------------------------------------------------
 */

static int64_t stretch_rows(const gradient_job *job) {
  return job->steps * job->state->sizes.batch;
}

size_t recurrent_operands_bytes(const recurrent_state *state) {
  const int64_t rows = stretch_steps(state) * state->sizes.batch;
  return product_packed_bytes(rows, state->sizes.in) +
         product_packed_bytes(rows, state->sizes.hidden);
}

void recurrent_operands_begin(gradient_job *job, char *workspace) {
  const recurrent_state *state = job->state;
  const int64_t rows = stretch_rows(job), first = job->done == 0 ? state->sizes.batch : 0;
  job->inputs = (packed_matrix){(real *)workspace, rows, state->sizes.in};
  workspace += product_packed_bytes(rows, state->sizes.in);
  job->befores =
      (packed_matrix){(real *)workspace, rows > first ? rows - first : 0, state->sizes.hidden};
  job->befores_from = state->sizes.reverse ? 0 : first;
}

/* Panels begin <= panel < end of a packed matrix. */
static void pack_panels(packed_matrix to, int64_t begin, int64_t end, const real *from) {
  product_pack(to, begin * PRODUCT_WIDTH, lesser_of(to.n, end * PRODUCT_WIDTH),
               (matrix){from, to.n, false});
}

void recurrent_operands_pack(const gradient_job *job, int64_t share, int64_t shares) {
  const recurrent_state *state = job->state;
  const int64_t low = stretch_low(job) * state->sizes.batch;
  const int64_t of_inputs = ceil_div(state->sizes.in, PRODUCT_WIDTH);
  const int64_t all = of_inputs + ceil_div(state->sizes.hidden, PRODUCT_WIDTH);
  const int64_t begin = all * share / shares, end = all * (share + 1) / shares;
  if (begin < of_inputs)
    pack_panels(job->inputs, begin, lesser_of(end, of_inputs), job->x + low * state->sizes.in);
  if (end <= of_inputs || job->befores.k == 0) return;
  const int64_t before =
      low + job->befores_from + (state->sizes.reverse ? state->sizes.batch : -state->sizes.batch);
  pack_panels(job->befores, begin > of_inputs ? begin - of_inputs : 0, end - of_inputs,
              job->y + before * state->sizes.hidden);
}

/* ---- Blocks of rows of the weights ------------------------------------------------------------
 */

/* A block of rows of both weights' gradients and of the biases', and the strips of d_a or d_b that
 * are at hand for it. */
typedef struct weight_block {
  int64_t first;
  int64_t count;
  const real *held; /* address that the strips were copied from */
  int64_t depth;
  _Alignas(64) real strips[PRODUCT_DEPTH * PRODUCT_ROWS]; /* packed copy of (depth, count) */
} weight_block;

/* Takes the block's columns of `depth` rows of d, the first of which is at `row`. */
static void take_strips(const gradient_job *job, weight_block *block, const real *d, int64_t row,
                        int64_t depth) {
  const real *from = d + row * job->stride + block->first;
  if (from == block->held && depth == block->depth) return;
  block->held = from;
  block->depth = depth;
  product_strips(block->count, depth, from, job->stride, block->strips);
}

static void bias_add(const gradient_job *job, const weight_block *block, const real *d, int64_t row,
                     int64_t depth, product_start start, real *bias) {
  real sums[PRODUCT_ROWS];
  column_sums(depth, block->count, d + row * job->stride + block->first, job->stride, sums);
  if (start == PRODUCT_SET)
    row_copy(bias + block->first, sums, block->count);
  else
    row_add(bias + block->first, sums, block->count);
}

/* Adds the summands of PRODUCT_DEPTH rows of the range, from `row` on. */
static void rows_add(const gradient_job *job, weight_block *block, int64_t row,
                     product_start start) {
  const recurrent_state *state = job->state;
  const int64_t depth = lesser_of(PRODUCT_DEPTH, stretch_rows(job) - row);
  bias_add(job, block, job->d_a, row, depth, start, job->d_bias_ih);
  if (job->d_b != job->d_a) bias_add(job, block, job->d_b, row, depth, start, job->d_bias_hh);
  take_strips(job, block, job->d_a, row, depth);
  product_of_strips(block->count, job->inputs, row, block->strips, start,
                    job->d_weight_ih + block->first * state->sizes.in, state->sizes.in);
  const int64_t left = job->befores.k - row;
  if (left <= 0 && start == PRODUCT_ADD) return;
  take_strips(job, block, job->d_b, row + job->befores_from,
              left > 0 ? lesser_of(PRODUCT_DEPTH, left) : 0);
  product_of_strips(block->count, job->befores, row, block->strips, start,
                    job->d_weight_hh + block->first * state->sizes.hidden, state->sizes.hidden);
}

static void block_weights(const gradient_job *job, weight_block *block) {
  const recurrent_state *state = job->state;
  const int64_t rows = stretch_rows(job);
  const bool sets = job->done + job->steps == state->sizes.length, is_last = job->done == 0;
  int64_t row = 0;
  do { /* runs once even if there are no rows */
    rows_add(job, block, row, sets && row == 0 ? PRODUCT_SET : PRODUCT_ADD);
    row += PRODUCT_DEPTH;
  } while (row < rows);
  if (!is_last) return;
  if (job->d_b == job->d_a)
    row_copy(job->d_bias_hh + block->first, job->d_bias_ih + block->first, block->count);
  if (job->h0)
    product_of_transposed(
        block->count, state->sizes.hidden, state->sizes.batch, job->d_first + block->first,
        state->sizes.columns, job->h0, state->sizes.hidden, PRODUCT_ADD,
        job->d_weight_hh + block->first * state->sizes.hidden, state->sizes.hidden);
}

static void weight_tasks(void *user, int64_t begin, int64_t end) {
  const gradient_job *job = user;
  const recurrent_state *state = job->state;
  for (int64_t task = begin; task < end; task++) {
    weight_block block;
    block.first = task * state->weight_rows;
    block.count = lesser_of(state->sizes.columns - block.first, state->weight_rows);
    block.held = NULL;
    block_weights(job, &block);
  }
}

void recurrent_weights_add(gradient_job *job, tdm_team *team) {
  const recurrent_state *state = job->state;
  tdm_team_run(team, ceil_div(state->sizes.columns, state->weight_rows), 1, weight_tasks, job);
}
