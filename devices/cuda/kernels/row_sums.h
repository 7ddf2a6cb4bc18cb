/* The gradient of a table by sorted ids: a key for every id that adds something, and for each
 * distinct id the sum of what stands at its positions. Invariant: a row is summed in the order of
 * positions. */
#ifndef TANDEM_DEVICES_CUDA_KERNELS_ROW_SUMS_H
#define TANDEM_DEVICES_CUDA_KERNELS_ROW_SUMS_H

#include "devices/cuda/kernels/report.h"
#include "devices/cuda/kernels/segments.h"

/* ids: (count), bags: (count) or NULL, keys: (capacity); padding, strays, ids in no bag (-1) and
 * what is beyond count are no keys. */
static __global__ void make_keys(const void *ids, bool wide, const int64_t *bags, int64_t count,
                                 int64_t rows, int64_t padding, int shift, uint64_t *keys,
                                 int64_t capacity) {
  EACH_ELEMENT(i, capacity) {
    const int64_t id = i < count ? id_at(ids, wide, i) : -1;
    const bool counts = is_inside(id, rows) && id != padding && (!bags || bags[i] >= 0);
    keys[i] = counts ? (uint64_t)id << shift | (uint64_t)i : NO_KEY;
  }
}

/* A block sums the segment that begins at its key, if one does, and writes row `rank` of out, or
 * row `id` where ranks is NULL. A position adds its row of d, or that of its bag, times its scale;
 * of a maximum only what it won. keys, ranks, bags, scales: (count); d, winners, out: (..., dim);
 * all but keys, d and out may be NULL. */
template <class stored>
static __global__ void sum_segments(const stored *d, const int64_t *bags, const stored *scales,
                                    const int64_t *winners, const uint64_t *keys, int64_t count,
                                    int shift, const int64_t *ranks, int64_t dim, stored *out) {
  typedef real_of<stored> real;
  const uint64_t places = ((uint64_t)1 << shift) - 1;
  EACH_OF_GRID(first, count) {
    if (!begins_segment(keys, first, shift)) continue;
    const uint64_t id = keys[first] >> shift;
    stored *row = out + (ranks ? ranks[first] : (int64_t)id) * dim;
    EACH_OF_BLOCK(j, dim) {
      real sum = 0;
      for (int64_t i = first; i < count && keys[i] != NO_KEY && keys[i] >> shift == id; i++) {
        const int64_t position = (int64_t)(keys[i] & places);
        const int64_t at = (bags ? bags[position] : position) * dim + j;
        if (winners && winners[at] != position) continue;
        sum += scales ? scales[position] * d[at] : (real)d[at];
      }
      row[j] = sum;
    }
  }
}

#endif
