/* Sums over whole tensors in one fixed order: blocks of a fixed size, each in vectors, then block
 * after block in double. Invariant: the order does not depend on the team. */
#ifndef TANDEM_DEVICES_KERNELS_CPU_SUMS_H
#define TANDEM_DEVICES_KERNELS_CPU_SUMS_H

#include <math.h>

#include "devices/kernels/cpu/vector.h"

#define SUM_BLOCK 8192

static inline size_t sum_workspace_bytes(int64_t count) {
  return (size_t)ceil_div(count, SUM_BLOCK) * sizeof(double);
}

/* Computes the same in double, for squares outside the range of `real`. */
static __attribute__((noinline, cold, unused)) double
block_sum_of_wide_squares(const stored *x, const stored *y, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++) {
    const double d = (double)widened(x[i]) - (y ? (double)widened(y[i]) : 0);
    sum += d * d;
  }
  return sum;
}

/* Returns the sum of squares of x - y over one block; y NULL: of x. */
static inline double block_sum_of_squares(const stored *x, const stored *y, int64_t count) {
  vec sums[4] = {{0}, {0}, {0}, {0}};
  int64_t i = 0;
  for (; i + 4 * LANES <= count; i += 4 * LANES) {
    for (int v = 0; v < 4; v++) {
      vec d = element_load_whole(x + i + v * LANES);
      if (y) d -= element_load_whole(y + i + v * LANES);
      sums[v] += d * d;
    }
  }
  for (; i < count; i += LANES) {
    vec d = element_load(x + i, count - i);
    if (y) d -= element_load(y + i, count - i);
    sums[0] += d * d;
  }
  const real sum = vec_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
  return isfinite(sum) ? (double)sum : block_sum_of_wide_squares(x, y, count);
}

typedef struct sum_job {
  const stored *x;
  const stored *y; /* the second operand of a product; NULL: none */
  int64_t count;
  double *blocks; /* one sum for each block */
} sum_job;

static inline void sum_blocks(void *user, int64_t begin, int64_t end) {
  const sum_job *job = user;
  for (int64_t block = begin; block < end; block++) {
    const int64_t first = block * SUM_BLOCK;
    job->blocks[block] = block_sum_of_squares(job->x + first, job->y ? job->y + first : NULL,
                                              lesser_of(job->count - first, SUM_BLOCK));
  }
}

/* Returns the sum of squares of x - y (count), or of x if y is NULL. workspace:
 * sum_workspace_bytes. */
static inline double sum_of_squares(const stored *x, const stored *y, int64_t count,
                                    void *workspace, tdm_team *team) {
  sum_job job = {.x = x, .y = y, .count = count, .blocks = workspace};
  const int64_t blocks = ceil_div(count, SUM_BLOCK);
  tdm_team_run(team, blocks, 1, sum_blocks, &job);
  double sum = 0;
  for (int64_t block = 0; block < blocks; block++)
    sum += job.blocks[block];
  return sum;
}

#endif
