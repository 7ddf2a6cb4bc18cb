/* Prefetches rows of a table before they are read. A row of a table larger than the caches arrives
 * after some hundred instructions, so many rows have to be requested at once. Invariant: a prefetch
 * reads nothing, so an id that is not checked yet does no harm. */
#ifndef TANDEM_DEVICES_KERNELS_CPU_FETCH_H
#define TANDEM_DEVICES_KERNELS_CPU_FETCH_H

#include "devices/kernels/cpu/vector.h"

enum {
  TDM_LINE_BYTES = 64, /* bytes of a cache line */
  TDM_LINES_AHEAD = 128
};

static inline int64_t row_lines(int64_t dim) {
  return (dim * (int64_t)sizeof(stored) + TDM_LINE_BYTES - 1) / TDM_LINE_BYTES;
}

/* Returns how many rows of dim elements to prefetch ahead if each is copied or added. Measured with
 * 1,000,000 rows of 16, 64 and 128 float32: 128, 32 and 16. A larger distance evicts the written
 * rows from the first cache. */
static inline int64_t row_fetch_ahead(int64_t dim) {
  const int64_t ahead = TDM_LINES_AHEAD / (row_lines(dim) + (dim == 0));
  return ahead < 16 ? 16 : ahead;
}

/* Prefetches row `index` of a table (rows, dim). */
ALWAYS_INLINE void row_fetch(const stored *table, int64_t index, int64_t dim) {
  const uintptr_t row = (uintptr_t)table + (uint64_t)index * (uint64_t)dim * sizeof(stored);
  for (uintptr_t at = 0; at < (uintptr_t)dim * sizeof(stored); at += TDM_LINE_BYTES)
    __builtin_prefetch((const void *)(row + at));
}

/* Prefetches the row that indices (count) name at a position, if the position is below count. */
ALWAYS_INLINE void row_fetch_at(const stored *table, const int64_t *indices, int64_t position,
                                int64_t count, int64_t dim) {
  if (position < count) row_fetch(table, indices[position], dim);
}

#endif
