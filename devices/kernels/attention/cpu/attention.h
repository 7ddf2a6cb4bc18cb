/* Code that attention and its gradient share: sizes, the positions of a head's rows, and the scores
 * of a block of queries and keys, which are recomputed wherever they are needed. Invariants: no
 * (queries, keys) matrix is stored; a score, dropped or not, depends only on its own query and key.
 */
#ifndef TANDEM_DEVICES_KERNELS_ATTENTION_CPU_ATTENTION_H
#define TANDEM_DEVICES_KERNELS_ATTENTION_CPU_ATTENTION_H

#include "core/philox.h"
#include "devices/kernels/attention/attention_sizes.h"
#include "devices/kernels/cpu/rows.h"
#include "devices/kernels/products/cpu/product.h"

#define QUERIES 32 /* queries in a block */
#define KEYS 128   /* keys in a block; at most PRODUCT_ROWS */
#define WIDTHS 256 /* columns of values that are computed at once */

typedef struct attention_state {
  attention_sizes sizes;
  real scale;
  bool drops;
  real kept_scale;
  bool splits;
} attention_state;

typedef struct attention_job {
  const attention_state *state;
  const real *q;          /* (batch, queries, heads dim) */
  const real *k;          /* (batch, keys, heads dim) */
  const real *v;          /* (batch, keys, heads width) */
  const uint8_t *padding; /* (batch, keys) or NULL */
  const void *mask;       /* (queries, keys) or (batch, heads, queries, keys), or NULL */
  uint64_t seed;
  uint32_t step;
} attention_job;

/* A block of one head's scores: queries first_query.. (rows), keys first_key.. (columns). */
typedef struct attention_block {
  int64_t batch;
  int64_t head;
  int64_t first_query;
  int64_t rows;
  int64_t first_key;
  int64_t columns;
} attention_block;

/* Reads the state. mask: index of the mask's operand. */
static inline void attention_state_read(attention_state *state, const tdm_kernel_request *request,
                                        const tdm_spec *q, const tdm_spec *v, size_t mask) {
  attention_sizes_read(&state->sizes, request, q, v, mask, true);
  state->scale = (real)state->sizes.scale;
  state->kept_scale = (real)state->sizes.kept_scale;
}

/* Rows of q, k, v or what is like them: of a batch's head, from row `first` on. */
ALWAYS_INLINE int64_t attention_row(const attention_state *state, const attention_block *block,
                                    int64_t rows, int64_t first, int64_t size) {
  return ((block->batch * rows + first) * state->sizes.heads + block->head) * size;
}

/* Adds the mask to row (columns), the scores of the block's query i. */
ALWAYS_INLINE void attention_mask(const attention_job *job, const attention_block *block, int64_t i,
                                  real *row) {
  const attention_state *state = job->state;
  const int64_t plane =
      state->sizes.mask_each ? block->batch * state->sizes.heads + block->head : 0;
  const int64_t first =
      (plane * state->sizes.queries + block->first_query + i) * state->sizes.keys +
      block->first_key;
  if (state->sizes.mask_hides) {
    const uint8_t *mask = (const uint8_t *)job->mask + first;
    for (int64_t j = 0; j < block->columns; j++)
      if (mask[j]) row[j] = (real)-INFINITY;
  } else {
    const real *mask = (const real *)job->mask + first;
    for (int64_t j = 0; j < block->columns; j++)
      row[j] += mask[j];
  }
}

/* Computes scores = scale q k^T + mask, whose rows are KEYS apart; -infinity where a query does not
 * attend to a key. */
ALWAYS_INLINE void attention_scores(const attention_job *job, const attention_block *block,
                                    real *scores) {
  const attention_state *state = job->state;
  const int64_t dim = state->sizes.dim, stride = state->sizes.heads * dim;
  const real *q =
      job->q + attention_row(state, block, state->sizes.queries, block->first_query, dim);
  const real *k = job->k + attention_row(state, block, state->sizes.keys, block->first_key, dim);
  const matrix keys = {k, stride, true};
  product_direct(block->rows, dim, block->columns, keys, 0, block->columns, q, stride, NULL, scores,
                 KEYS);
  const uint8_t *padding =
      job->padding ? job->padding + block->batch * state->sizes.keys + block->first_key : NULL;
  for (int64_t i = 0; i < block->rows; i++) {
    real *row = scores + i * KEYS; /* (columns) */
    const int64_t seen =
        state->sizes.causal ? block->first_query + i + 1 - block->first_key : block->columns;
    for (int64_t j = 0; j < block->columns; j++) {
      const bool sees = j < seen && !(padding && padding[j]);
      row[j] = sees ? row[j] * state->scale : (real)-INFINITY;
    }
    if (job->mask) attention_mask(job, block, i, row);
  }
}

/* Drops elements of row (columns) as their places in (batch, heads, queries, keys) say. */
ALWAYS_INLINE void attention_drop(const attention_job *job, const attention_block *block, int64_t i,
                                  real *row) {
  const attention_state *state = job->state;
  const int64_t before =
      ((state->sizes.first_batch + block->batch) * state->sizes.heads + block->head) *
          state->sizes.queries +
      block->first_query + i;
  uint64_t place = (uint64_t)(before * state->sizes.keys + block->first_key);
  uint32_t words[4];
  for (int64_t j = 0; j < block->columns; j++, place++) {
    if (j == 0 || place % 4 == 0)
      tdm_philox_block(job->seed, state->sizes.stream, job->step, place / 4, words);
    row[j] *= words[place % 4] >> 8 < state->sizes.threshold ? 0 : state->kept_scale;
  }
}

#endif
