/* The sparse gradient of a table: ids are sorted, and for each distinct id the rows at its
 * positions are summed. Invariant: one thread sums a row in the order of positions, whatever the
 * team is. */
#ifndef TANDEM_DEVICES_KERNELS_TABLES_CPU_ROW_SUMS_H
#define TANDEM_DEVICES_KERNELS_TABLES_CPU_ROW_SUMS_H

#include "devices/kernels/cpu/real.h"
#include "devices/kernels/tables/cpu/sorted_ids.h"

/* The contribution of an id at a position to its row: row bags[position] of d, times
 * scales[position]. */
typedef struct row_source {
  const stored *d;     /* (..., dim) */
  const int64_t *bags; /* (count), -1: nothing; NULL: row position itself */
  const real *scales;  /* (count); NULL: 1 */
  int64_t dim;
} row_source;

typedef struct row_sums {
  tdm_cpu_ids ids;
  int64_t padding; /* adds nothing; -1: none */
  tdm_cpu_sorting sorting;
  row_source source;
  stored *rows;     /* (count, dim) */
  int64_t *indices; /* (count): ascending, then -1 */
  int64_t *used;    /* () */
} row_sums;

/* Returns the bytes of workspace for count ids. */
static inline size_t row_sums_bytes(int64_t count) {
  return (size_t)(3 * count + 1) * sizeof(int64_t);
}

/* Returns the estimated time on one thread in ns, which decides about splitting. */
static inline double row_sums_work_ns(int64_t count, int64_t dim) {
  return (double)count * (10.0 + (double)dim / 4.0);
}

/* Writes rows, indices and used; ids are legal. The team may be NULL. */
void row_sums_run(const row_sums *self, void *workspace, tdm_team *team);

#endif
