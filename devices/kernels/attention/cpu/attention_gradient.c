/* The gradient of attention: probabilities are made anew from the scores and the logarithms of
 * their sums (Dao et al., "FlashAttention", 2022). With P the probabilities, D those that dropping
 * left, g = d_y v^T dropped likewise and c = d_y . y of each query:
 *   d_v = D^T d_y,  d_s = P (g - c) scale,  d_q = d_s k,  d_k = d_s^T q.
 * Invariant: one thread computes a head, and sums its blocks in one order. */
#include "core/status.h"
#include "devices/kernels/attention/attention.h"
#include "devices/kernels/attention/cpu/attention.h"

typedef struct gradient_job {
  attention_job of;
  const real *d_y;      /* (batch, queries, heads width) */
  const real *y;        /* (batch, queries, heads width) */
  const real *log_sums; /* (batch, heads, queries) */
  real *d_q;            /* (same shape as q) */
  real *d_k;            /* (same shape as k) */
  real *d_v;            /* (same shape as v) */
} gradient_job;

/* One block's matrices, KEYS from row to row. */
typedef struct block_memory {
  _Alignas(64) real probabilities[QUERIES * KEYS];
  real slopes[QUERIES * KEYS]; /* gradients of probabilities, then of scores */
  real dropped[QUERIES * KEYS];
  real sums[QUERIES * WIDTHS];
} block_memory;

static real product_of_rows(const real *a, const real *b, int64_t count) {
  vec sums = {0};
  for (int64_t j = 0; j < count; j += LANES)
    sums += vec_load_first(a + j, count - j) * vec_load_first(b + j, count - j);
  return vec_sum(sums);
}

/* Probabilities, dropped ones, and the slopes of the scores of one block. */
static void make_slopes(const gradient_job *job, const attention_block *block,
                        block_memory *memory) {
  const attention_state *state = job->of.state;
  const int64_t width = state->sizes.width, stride = state->sizes.heads * width,
                columns = block->columns;
  const int64_t first =
      attention_row(state, block, state->sizes.queries, block->first_query, width);
  const real *v =
      job->of.v + attention_row(state, block, state->sizes.keys, block->first_key, width);
  const real *log_sums = job->log_sums +
                         (block->batch * state->sizes.heads + block->head) * state->sizes.queries +
                         block->first_query; /* (rows) */
  const matrix values = {v, stride, true};
  attention_scores(&job->of, block, memory->probabilities);
  product_direct(block->rows, width, columns, values, 0, columns, job->d_y + first, stride, NULL,
                 memory->slopes, KEYS);
  for (int64_t i = 0; i < block->rows; i++) {
    const real *d_y = job->d_y + first + i * stride;
    const real mean = product_of_rows(d_y, job->y + first + i * stride, width);
    real *p = memory->probabilities + i * KEYS; /* (columns) */
    real *slopes = memory->slopes + i * KEYS;   /* (columns) */
    real *dropped = memory->dropped + i * KEYS; /* (columns) */
    (void)row_sum_of_exp(p, log_sums[i], p, columns);
    row_copy(dropped, p, columns);
    if (state->drops) {
      attention_drop(&job->of, block, i, dropped);
      attention_drop(&job->of, block, i, slopes);
    }
    for (int64_t j = 0; j < columns; j += LANES) {
      const vec slope = vec_load_first(slopes + j, columns - j) - mean;
      const vec result = vec_load_first(p + j, columns - j) * slope * state->scale;
      vec_store_first(slopes + j, result, columns - j);
    }
  }
}

/* Adds slopes k to d_q (rows). */
static void add_queries(const gradient_job *job, const attention_block *block,
                        block_memory *memory) {
  const attention_state *state = job->of.state;
  const int64_t dim = state->sizes.dim, stride = state->sizes.heads * dim;
  const real *k = job->of.k + attention_row(state, block, state->sizes.keys, block->first_key, dim);
  real *d_q = job->d_q + attention_row(state, block, state->sizes.queries, block->first_query, dim);
  for (int64_t first = 0; first < dim; first += WIDTHS) {
    const int64_t columns = lesser_of(dim - first, WIDTHS);
    const matrix keys = {k + first, stride, false};
    product_direct(block->rows, block->columns, columns, keys, 0, columns, memory->slopes, KEYS,
                   NULL, memory->sums, columns);
    for (int64_t i = 0; i < block->rows; i++)
      row_add(d_q + i * stride + first, memory->sums + i * columns, columns);
  }
}

static void take_block(const gradient_job *job, const attention_block *block,
                       block_memory *memory) {
  const attention_state *state = job->of.state;
  const int64_t dim = state->sizes.dim, width = state->sizes.width, heads = state->sizes.heads;
  const int64_t q_row = attention_row(state, block, state->sizes.queries, block->first_query, dim);
  const int64_t y_row =
      attention_row(state, block, state->sizes.queries, block->first_query, width);
  const int64_t k_row = attention_row(state, block, state->sizes.keys, block->first_key, dim);
  const int64_t v_row = attention_row(state, block, state->sizes.keys, block->first_key, width);
  make_slopes(job, block, memory);
  add_queries(job, block, memory);
  product_of_transposed(block->columns, dim, block->rows, memory->slopes, KEYS, job->of.q + q_row,
                        heads * dim, PRODUCT_ADD, job->d_k + k_row, heads * dim);
  product_of_transposed(block->columns, width, block->rows, memory->dropped, KEYS, job->d_y + y_row,
                        heads * width, PRODUCT_ADD, job->d_v + v_row, heads * width);
}

static void zero_rows(real *rows, int64_t count, int64_t stride, int64_t size) {
  for (int64_t i = 0; i < count; i++)
    row_zero(rows + i * stride, size);
}

/* Computes tasks begin <= i < end. A task is a head of one batch. */
static void gradient_range(void *user, int64_t begin, int64_t end) {
  const gradient_job *job = user;
  const attention_state *state = job->of.state;
  const int64_t heads = state->sizes.heads, dim = state->sizes.dim, width = state->sizes.width;
  block_memory memory;
  for (int64_t task = begin; task < end; task++) {
    attention_block block = {.batch = task / heads, .head = task % heads};
    zero_rows(job->d_q + attention_row(state, &block, state->sizes.queries, 0, dim),
              state->sizes.queries, heads * dim, dim);
    zero_rows(job->d_k + attention_row(state, &block, state->sizes.keys, 0, dim), state->sizes.keys,
              heads * dim, dim);
    zero_rows(job->d_v + attention_row(state, &block, state->sizes.keys, 0, width),
              state->sizes.keys, heads * width, width);
    for (; block.first_key < state->sizes.keys; block.first_key += KEYS) {
      block.columns = lesser_of(state->sizes.keys - block.first_key, KEYS);
      block.first_query = state->sizes.causal ? block.first_key / QUERIES * QUERIES : 0;
      for (; block.first_query < state->sizes.queries; block.first_query += QUERIES) {
        block.rows = lesser_of(state->sizes.queries - block.first_query, QUERIES);
        take_block(job, &block, &memory);
      }
    }
  }
}

static tdm_status attention_gradient_prepare(const tdm_kernel_request *request,
                                             tdm_kernel_answer *answer) {
  attention_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  attention_state_read(state, request, &request->inputs[1], &request->inputs[3], 7);
  state->drops = state->sizes.threshold > 0;
  const double products = (double)state->sizes.batch * (double)state->sizes.heads *
                          (double)state->sizes.queries * (double)state->sizes.keys *
                          (double)(state->sizes.dim + state->sizes.width);
  state->splits = answer->splits = tdm_cpu_splits(request, products / 12.0);
  return TDM_OK;
}

static tdm_status attention_gradient_execute(const tdm_kernel_call *call) {
  const attention_state *state = call->state;
  gradient_job job = {.of = {.state = state,
                             .q = call->inputs[1],
                             .k = call->inputs[2],
                             .v = call->inputs[3],
                             .padding = call->inputs[6],
                             .mask = call->inputs[7],
                             .seed = call->scalars->seed,
                             .step = (uint32_t)call->scalars->step},
                      .d_y = call->inputs[0],
                      .y = call->inputs[4],
                      .log_sums = call->inputs[5],
                      .d_q = call->outputs[0],
                      .d_k = call->outputs[1],
                      .d_v = call->outputs[2]};
  tdm_team_run(state->splits ? call->team : NULL, state->sizes.batch * state->sizes.heads, 1,
               gradient_range, &job);
  return TDM_OK;
}

KERNELS(attention_gradient,
        KERNEL(TDM_OP_ATTENTION_GRADIENT, attention_gradient_prepare, attention_gradient_execute))
