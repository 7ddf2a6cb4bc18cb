/* Attention, computed by blocks of queries and blocks of their keys. Sums are rescaled when a
 * larger score is found (Milakov, Gimelshein, "Online normalizer calculation for softmax", 2018;
 * Dao et al., "FlashAttention", 2022). Invariant: a query's result depends only on its own row. */
#include "devices/kernels/attention/cpu/attention.h"
#include "devices/kernels/attention/attention.h"

#include "core/status.h"

typedef struct forward_job {
  attention_job of;
  real *y;        /* (batch, queries, heads width) */
  real *log_sums; /* (batch, heads, queries) */
} forward_job;

/* Partial results of a block of queries. */
typedef struct gathered {
  real most[QUERIES];
  real sums[QUERIES]; /* sums of exponentials, relative to `most` */
} gathered;

static void scale_row(real *row, real factor, int64_t count) {
  const vec factors = vec_set(factor);
  for (int64_t j = 0; j < count; j += LANES)
    vec_store_first(row + j, factors * vec_load_first(row + j, count - j), count - j);
}

/* Scores of one row become exponentials; y's row is scaled to their maximum. */
static void take_row(const forward_job *job, const attention_block *block, gathered *so_far,
                     int64_t i, real *scores, real *y) {
  const attention_state *state = job->of.state;
  const real most = row_max(scores, block->columns);
  if (!(most > so_far->most[i])) {
    if (so_far->most[i] == (real)-INFINITY) { /* no key has been read yet */
      for (int64_t j = 0; j < block->columns; j++)
        if (scores[j] != (real)-INFINITY) so_far->sums[i] = scores[j]; /* NaN is no maximum */
      row_zero(scores, block->columns);
      return;
    }
  } else {
    const real factor = so_far->sums[i] > 0 ? (real)exp((double)(so_far->most[i] - most)) : 0;
    so_far->sums[i] *= factor;
    so_far->most[i] = most;
    scale_row(y, factor, state->sizes.width);
  }
  so_far->sums[i] += row_sum_of_exp(scores, so_far->most[i], scores, block->columns);
  if (state->drops) attention_drop(&job->of, block, i, scores);
}

/* Adds exponentials times the block's values to y (rows). */
static void add_values(const forward_job *job, const attention_block *block, const real *scores,
                       real *y) {
  const attention_state *state = job->of.state;
  const int64_t width = state->sizes.width, stride = state->sizes.heads * width;
  const real *v =
      job->of.v + attention_row(state, block, state->sizes.keys, block->first_key, width);
  _Alignas(64) real sums[QUERIES * WIDTHS];
  for (int64_t first = 0; first < width; first += WIDTHS) {
    const int64_t columns = lesser_of(width - first, WIDTHS);
    const matrix values = {v + first, stride, false};
    product_direct(block->rows, block->columns, columns, values, 0, columns, scores, KEYS, NULL,
                   sums, columns);
    for (int64_t i = 0; i < block->rows; i++)
      row_add(y + i * stride + first, sums + i * columns, columns);
  }
}

static void attend(const forward_job *job, attention_block *block) {
  const attention_state *state = job->of.state;
  const int64_t width = state->sizes.width, stride = state->sizes.heads * width;
  real *y = job->y + attention_row(state, block, state->sizes.queries, block->first_query, width);
  real *log_sums = job->log_sums +
                   (block->batch * state->sizes.heads + block->head) * state->sizes.queries +
                   block->first_query; /* (rows) */
  _Alignas(64) real scores[QUERIES * KEYS];
  gathered so_far;
  for (int64_t i = 0; i < block->rows; i++) {
    so_far.most[i] = (real)-INFINITY;
    so_far.sums[i] = 0;
    row_zero(y + i * stride, width);
  }
  const int64_t last = block->first_query + block->rows; /* keys that a causal block attends to */
  const int64_t keys = state->sizes.causal ? lesser_of(last, state->sizes.keys) : state->sizes.keys;
  for (block->first_key = 0; block->first_key < keys; block->first_key += KEYS) {
    block->columns = lesser_of(keys - block->first_key, KEYS);
    attention_scores(&job->of, block, scores);
    for (int64_t i = 0; i < block->rows; i++)
      take_row(job, block, &so_far, i, scores + i * KEYS, y + i * stride);
    add_values(job, block, scores, y);
  }
  /* The result of a query without keys is 0, or NaN if all its scores are minus infinity. */
  const bool hides = state->sizes.causal || job->of.padding || job->of.mask || keys == 0;
  for (int64_t i = 0; i < block->rows; i++) {
    const bool sees = so_far.sums[i] != 0;
    const real none = hides ? 0 : (real)NAN;
    scale_row(y + i * stride, sees ? 1 / so_far.sums[i] : none, width);
    log_sums[i] = sees ? so_far.most[i] + real_log(so_far.sums[i]) : (real)INFINITY + none;
  }
}

/* Computes tasks begin <= i < end. A task is a block of queries of one head. */
static void forward_range(void *user, int64_t begin, int64_t end) {
  const forward_job *job = user;
  const attention_state *state = job->of.state;
  const int64_t blocks = ceil_div(state->sizes.queries, QUERIES);
  for (int64_t task = begin; task < end; task++) {
    attention_block block = {.batch = task / blocks / state->sizes.heads,
                             .head = task / blocks % state->sizes.heads,
                             .first_query = task % blocks * QUERIES};
    block.rows = lesser_of(state->sizes.queries - block.first_query, QUERIES);
    attend(job, &block);
  }
}

static tdm_status attention_prepare_state(const tdm_kernel_request *request,
                                          tdm_kernel_answer *answer, bool drops) {
  attention_state *state = kernel_state_create(answer, sizeof *state);
  if (!state) return TDM_OUT_OF_MEMORY;
  attention_state_read(state, request, &request->inputs[0], &request->inputs[2], 4);
  state->drops = drops && state->sizes.threshold > 0;
  const double products = (double)state->sizes.batch * (double)state->sizes.heads *
                          (double)state->sizes.queries * (double)state->sizes.keys *
                          (double)(state->sizes.dim + state->sizes.width);
  state->splits = answer->splits = tdm_cpu_splits(request, products / 30.0);
  return TDM_OK;
}

static tdm_status execute(const tdm_kernel_call *call) {
  const attention_state *state = call->state;
  forward_job job = {.of = {.state = state,
                            .q = call->inputs[0],
                            .k = call->inputs[1],
                            .v = call->inputs[2],
                            .padding = call->inputs[3],
                            .mask = call->inputs[4],
                            .seed = call->scalars->seed,
                            .step = (uint32_t)call->scalars->step},
                     .y = call->outputs[0],
                     .log_sums = call->outputs[1]};
  const int64_t tasks =
      state->sizes.batch * state->sizes.heads * ceil_div(state->sizes.queries, QUERIES);
  tdm_team_run(state->splits ? call->team : NULL, tasks, 1, forward_range, &job);
  return TDM_OK;
}

static tdm_status attention_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  return attention_prepare_state(request, answer, false);
}

static tdm_status attention_dropout_prepare(const tdm_kernel_request *request,
                                            tdm_kernel_answer *answer) {
  return attention_prepare_state(request, answer, true);
}

KERNELS(attention, KERNEL(TDM_OP_ATTENTION, attention_prepare, execute),
        KERNEL(TDM_OP_ATTENTION_DROPOUT, attention_dropout_prepare, execute))
