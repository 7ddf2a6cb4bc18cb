/* A walk through elements of a result whose operands are broadcast, a row or a part of one at a
 * time. Invariant: a walk never goes beyond its end, and rows are as long as the operands allow:
 * where all are of one shape there is a single one. */
#ifndef TANDEM_DEVICES_KERNELS_ELEMENTWISE_CPU_BROADCAST_ROWS_H
#define TANDEM_DEVICES_KERNELS_ELEMENTWISE_CPU_BROADCAST_ROWS_H

#include "devices/kernels/elementwise/broadcast.h"
#include "devices/kernels/kernel_state.h"

typedef struct broadcast_walk {
  const tdm_broadcast *broadcast;
  size_t operands;
  tdm_broadcast_place place; /* place of the current row; unused if there is only one */
  int64_t end;
  /* The next range: `count` elements of the result from element i on, none after the last. Its
   * first element is computed from elements at[k] of the operands. */
  int64_t i;
  int64_t count;
  int64_t at[TDM_BROADCAST_OPERANDS];
} broadcast_walk;

/* Elements begin <= i < end, at least one. */
static inline void broadcast_walk_begin(broadcast_walk *walk, const tdm_broadcast *broadcast,
                                        size_t operands, int64_t begin, int64_t end) {
  const int last = broadcast->rank - 1;
  const int64_t width = broadcast->sizes[last];
  walk->broadcast = broadcast;
  walk->operands = operands;
  walk->end = end;
  walk->i = begin;
  walk->count = end - begin;
  for (size_t k = 0; k < operands; k++)
    walk->at[k] = begin * broadcast->steps[k][last];
  if (last == 0) return;
  const int64_t column = begin % width;
  walk->count = lesser_of(width - column, end - begin);
  tdm_broadcast_find_row(broadcast, operands, begin / width, &walk->place);
  for (size_t k = 0; k < operands; k++)
    walk->at[k] = walk->place.at[k] + column * broadcast->steps[k][last];
}

static inline void broadcast_walk_next(broadcast_walk *walk) {
  walk->i += walk->count;
  walk->count = lesser_of(walk->broadcast->sizes[walk->broadcast->rank - 1], walk->end - walk->i);
  if (walk->count == 0) return;
  tdm_broadcast_next_row(walk->broadcast, walk->operands, &walk->place);
  for (size_t k = 0; k < walk->operands; k++)
    walk->at[k] = walk->place.at[k];
}

/* Returns the distance between neighbouring elements of a row of operand k: 1, or 0 if it is
 * repeated. */
static inline int64_t broadcast_step(const tdm_broadcast *broadcast, size_t k) {
  return broadcast->steps[k][broadcast->rank - 1];
}

/* Does what follows for each stretch of such a walk, which is called `walk`. */
#define EACH_BROADCAST_ROW(broadcast, operands, begin, end)                                        \
  broadcast_walk walk;                                                                             \
  for (broadcast_walk_begin(&walk, broadcast, operands, begin, end); walk.count > 0;               \
       broadcast_walk_next(&walk))

#endif
