/* Rows with ids brought together: (id, position) pairs are sorted, equal ids make a segment, and
 * the rows of a segment are summed in the order of their positions.
 *
 *   keys     id 2 pos 1 | id 2 pos 4 | id 7 pos 0 | id 7 pos 3 | none ...   ascending
 *   ranks         0     |     -1     |      1     |     -1     | -1 ...     of a segment's first
 *
 * Invariant: keys are distinct, so every sort gives the same order, and results are the same bits
 * in every run. */
#ifndef TANDEM_DEVICES_KERNELS_TABLES_CUDA_SEGMENTS_H
#define TANDEM_DEVICES_KERNELS_TABLES_CUDA_SEGMENTS_H

#include "devices/kernels/cuda/kernel.h"

static const uint64_t NO_KEY = UINT64_MAX; /* sorted after all others */

/* Sizes, which prepare decides. */
struct segments_plan {
  int64_t count;    /* number of (key, position) pairs */
  int64_t capacity; /* number of key slots, a power of two */
  int64_t tiles;    /* tiles of keys, for computing ranks */
  int shift;        /* a key is id << shift | position */
};

/* Memory of an execution, from the workspace. */
struct segments {
  uint64_t *keys;    /* (capacity) */
  int64_t *ranks;    /* (count) */
  int64_t *of_tiles; /* (tiles) */
};

segments_plan tdm_cuda_segments_plan(int64_t count);
size_t tdm_cuda_segments_bytes(const segments_plan *plan);
segments tdm_cuda_segments_at(const segments_plan *plan, void *workspace);

/* Enqueues the sort of keys, which the caller has written up to capacity. */
tdm_status tdm_cuda_segments_sort(const tdm_kernel_call *call, const segments_plan *plan,
                                  const segments *self);
/* Enqueues ranks; indices (count, its ids in the first *out_count) and out_count () are written
 * where they are not NULL. */
tdm_status tdm_cuda_segments_rank(const tdm_kernel_call *call, const segments_plan *plan,
                                  const segments *self, int64_t *indices, int64_t *out_count);

/* Enqueues the beginning of a sparse gradient, outputs rows (count, ...) of row_bytes, indices
 * (count) and count (): zeros, -1, and the ranks and ids of the segments. */
tdm_status tdm_cuda_segments_begin_rows(const tdm_kernel_call *call, const segments_plan *plan,
                                        const segments *self, size_t row_bytes);

/* Returns true if keys[i] is the first of a segment. */
static __device__ inline bool begins_segment(const uint64_t *keys, int64_t i, int shift) {
  return keys[i] != NO_KEY && (i == 0 || keys[i] >> shift != keys[i - 1] >> shift);
}

#endif
