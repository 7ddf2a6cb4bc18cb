/* In which order an epoch visits the items of a dataset, and where its batches begin and end.
 * Invariant: the order is a pure function of (length, options, epoch), on every machine.
 *
 * With replicas, as torch.utils.data.DistributedSampler has them, sample k of replica r is item
 * k * replicas + r of the order, which begins again where there is none left; a batch holds the
 * samples of replica 0, then those of replica 1, equally many of each. */
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
  int64_t *sorted;  /* (length) item numbers by group, then number; NULL: one group */
  int64_t *items;   /* (visited) this epoch's order */
  int64_t *dealt;   /* (length) the order that replicas take theirs of; NULL: no replicas */
  int64_t visited;  /* length, but for what replicas are padded with or drop */
  int64_t replicas; /* 0: none */
  tdm_order_segment *segments;
  size_t segment_count;
  size_t segment_capacity;
  tdm_batch_range *batches; /* this epoch's */
  int64_t batch_count;
  int64_t batch_size;
  bool drop_last;
} tdm_order;

typedef struct tdm_order_options {
  int64_t batch_size;    /* at least 1; of all replicas, so a multiple of their number */
  int64_t replicas;      /* 0: none */
  const int32_t *groups; /* (length), borrowed for the call; NULL: one group, as with replicas */
  bool drop_last;        /* a short batch; with replicas also items, where they would be padded */
} tdm_order_options;
/* On failure order may be deinited. */
tdm_status tdm_order_init(tdm_order *order, const tdm_allocator *allocator, int64_t length,
                          const tdm_order_options *options) TDM_WARN_UNUSED;
void tdm_order_deinit(tdm_order *order);
/* Items by number and batches in order; then, with shuffle, items within groups and, where there is
 * more than one group, batches too, keyed by (seed, epoch). */
void tdm_order_start(tdm_order *order, bool shuffle, uint64_t seed, uint64_t epoch);
/* How many rows of an epoch are items that it had before, and how many items it leaves out. */
void tdm_order_counts(const tdm_order *order, int64_t *out_padded, int64_t *out_dropped);

/* Fisher and Yates' shuffle, in place; element i's draw is number first + i of random, whose stream
 * is used two words at a time. */
void tdm_shuffle(int64_t *items, int64_t count, const tdm_random *random, int64_t first);

#ifdef __cplusplus
}
#endif
#endif
