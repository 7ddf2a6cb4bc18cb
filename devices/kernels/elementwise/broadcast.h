/* NumPy's broadcasting for operands of several shapes. Shapes are aligned at the last dimension,
 * and a dimension that is 1 or missing is repeated. Shared by the kernels of every device kind.
 * Invariant: neighbouring dimensions that every operand handles the same way are merged into one,
 * and no dimension has size 1. So operands of one shape have a single dimension. */
#ifndef TANDEM_DEVICES_KERNELS_ELEMENTWISE_BROADCAST_H
#define TANDEM_DEVICES_KERNELS_ELEMENTWISE_BROADCAST_H

#include <string.h>

#include "tandem/core/core.h"
#include "tandem/devices/kernel.h"

#define TDM_BROADCAST_OPERANDS 3

typedef struct tdm_broadcast {
  int rank; /* number of dimensions, at least 1 */
  int64_t sizes[TDM_MAX_RANK];
  /* Distance between neighbours of a dimension, in elements; 0: repeated. */
  int64_t steps[TDM_BROADCAST_OPERANDS][TDM_MAX_RANK];
} tdm_broadcast;

/* Returns which operands (bit k: operand k) repeat dimension i of the result. */
static inline unsigned tdm_broadcast_repeats(const tdm_spec *operands, size_t count,
                                             const tdm_shape *result, int i) {
  unsigned repeats = 0;
  for (size_t k = 0; k < count; k++) {
    const tdm_shape *shape = &operands[k].shape;
    const int at = i - (result->rank - shape->rank);
    if (at < 0 || shape->dims[at] == 1) repeats |= 1U << k;
  }
  return repeats;
}

/* operands: at most TDM_BROADCAST_OPERANDS, whose shapes can be broadcast to that of the result. */
static inline tdm_broadcast tdm_broadcast_of(const tdm_spec *operands, size_t count,
                                             const tdm_shape *result) {
  int64_t sizes[TDM_MAX_RANK] = {1}; /* the last dimension first */
  unsigned repeats[TDM_MAX_RANK] = {0};
  int rank = 0;
  for (int i = result->rank - 1; i >= 0; i--) {
    if (result->dims[i] == 1) continue;
    const unsigned found = tdm_broadcast_repeats(operands, count, result, i);
    if (rank > 0 && repeats[rank - 1] == found) {
      sizes[rank - 1] *= result->dims[i];
    } else {
      repeats[rank] = found;
      sizes[rank++] = result->dims[i];
    }
  }
  if (rank == 0) rank = 1;
  tdm_broadcast made;
  memset(&made, 0, sizeof made);
  made.rank = rank;
  int64_t step[TDM_BROADCAST_OPERANDS] = {1, 1, 1};
  for (int d = 0; d < rank; d++) {
    const int at = rank - 1 - d;
    made.sizes[at] = sizes[d];
    for (size_t k = 0; k < count; k++) {
      const bool repeated = (repeats[d] >> k & 1) != 0;
      made.steps[k][at] = repeated ? 0 : step[k];
      if (!repeated) step[k] *= sizes[d];
    }
  }
  return made;
}

/* A position in the result, and where each operand is read. */
typedef struct tdm_broadcast_place {
  int64_t index[TDM_MAX_RANK]; /* index of every dimension except the last */
  int64_t at[TDM_BROADCAST_OPERANDS];
} tdm_broadcast_place;

/* Finds the beginning of row `row`. A row spans the last dimension. */
static inline void tdm_broadcast_find_row(const tdm_broadcast *broadcast, size_t count, int64_t row,
                                          tdm_broadcast_place *out_place) {
  memset(out_place, 0, sizeof *out_place);
  for (int d = broadcast->rank - 2; d >= 0; d--) {
    out_place->index[d] = row % broadcast->sizes[d];
    row /= broadcast->sizes[d];
    for (size_t k = 0; k < count; k++)
      out_place->at[k] += out_place->index[d] * broadcast->steps[k][d];
  }
}

static inline void tdm_broadcast_next_row(const tdm_broadcast *broadcast, size_t count,
                                          tdm_broadcast_place *place) {
  for (int d = broadcast->rank - 2; d >= 0; d--) {
    const bool goes_on = ++place->index[d] < broadcast->sizes[d];
    if (!goes_on) place->index[d] = 0;
    for (size_t k = 0; k < count; k++)
      place->at[k] += broadcast->steps[k][d] * (goes_on ? 1 : 1 - broadcast->sizes[d]);
    if (goes_on) return;
  }
}

#endif
