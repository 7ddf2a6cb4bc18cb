/* In which order an epoch visits the items of a dataset, and where its batches begin and end.
 * Invariant: the order is a pure function of (length, options, epoch), on every machine. */
#ifndef TANDEM_DATA_ORDER_H
#define TANDEM_DATA_ORDER_H

#include "core/allocate.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_batch_range {
  int64_t begin; /* in items */
  int64_t rows;
} tdm_batch_range;

/* Items whose order among themselves is free. */
typedef struct tdm_order_segment {
  int64_t begin;
  int64_t end;
} tdm_order_segment;

typedef struct tdm_order {
  const tdm_allocator *allocator;
  int64_t length;
  int64_t *sorted; /* (length) item numbers by group, then number; NULL: one group */
  int64_t *items;  /* (length) this epoch's order */
  tdm_order_segment *segments;
  size_t segment_count;
  size_t segment_capacity;
  tdm_batch_range *batches; /* this epoch's */
  int64_t batch_count;
  int64_t batch_size;
  bool drop_last;
} tdm_order;

/* groups: (length), borrowed for the call; NULL: one group. On failure order may be deinited. */
tdm_status tdm_order_init(tdm_order *order, const tdm_allocator *allocator, int64_t length,
                          int64_t batch_size, bool drop_last,
                          const int32_t *groups) TDM_WARN_UNUSED;
void tdm_order_deinit(tdm_order *order);
/* Items by number and batches in order; then, with shuffle, items within groups and, where there is
 * more than one group, batches too, keyed by (seed, epoch). */
void tdm_order_start(tdm_order *order, bool shuffle, uint64_t seed, uint64_t epoch);

/* Fisher and Yates' shuffle, in place; element i's draw is number first + i of random, whose stream
 * is used two words at a time. */
void tdm_shuffle(int64_t *items, int64_t count, const tdm_random *random, int64_t first);

#ifdef __cplusplus
}
#endif
#endif
