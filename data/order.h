/* The order in which an epoch visits the items of a dataset, and the bounds of its batches.
 * Invariant: the order is a pure function of (length, options, epoch), on every machine.
 *
 * Replicas work as in torch.utils.data.DistributedSampler: sample k of replica r is item k *
 * replicas + r of the order, which starts over at its end. A batch holds the samples of replica 0,
 * then those of replica 1, equally many of each. */
#ifndef TANDEM_DATA_ORDER_H
#define TANDEM_DATA_ORDER_H

#include "core/allocate.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_batch_range {
  int64_t begin; /* position of the first item */
  int64_t rows;
} tdm_batch_range;

/* A group of items whose order within the group is free. */
typedef struct tdm_order_segment {
  int64_t begin;
  int64_t end;
} tdm_order_segment;

typedef struct tdm_order {
  const tdm_allocator *allocator;
  int64_t length;
  int64_t *sorted;  /* (length) item numbers by group, then number; NULL: one group */
  int64_t *items;   /* (visited) this epoch's order */
  int64_t *dealt;   /* (length) the order before its distribution to replicas; NULL: no replicas */
  int64_t visited;  /* length, plus the padding of replicas or minus the items that they drop */
  int64_t replicas; /* 0: none */
  tdm_order_segment *segments;
  size_t segment_count;
  size_t segment_capacity;
  tdm_batch_range *batches; /* batches of this epoch */
  int64_t batch_count;
  int64_t batch_size;
  bool drop_last;
} tdm_order;

typedef struct tdm_order_options {
  int64_t batch_size;    /* items of a batch of all replicas together, at least 1 and a multiple of
                          * replicas */
  int64_t replicas;      /* number of replicas; 0: none */
  const int32_t *groups; /* (length), borrowed for the call; NULL (required with replicas): one
                          * group */
  bool drop_last;        /* drop a short batch; with replicas also drop items instead of padding */
} tdm_order_options;
/* Initializes an order. On failure it may be passed to deinit. */
tdm_status tdm_order_init(tdm_order *order, const tdm_allocator *allocator, int64_t length,
                          const tdm_order_options *options) TDM_WARN_UNUSED;
void tdm_order_deinit(tdm_order *order);
/* Starts an epoch: items by number, and batches in order. With shuffle, permutes items within
 * groups and, if there is more than one group, also batches; the permutation depends on (seed,
 * epoch). */
void tdm_order_start(tdm_order *order, bool shuffle, uint64_t seed, uint64_t epoch);
/* Gets how many rows of an epoch repeat an earlier item, and how many items it leaves out. */
void tdm_order_counts(const tdm_order *order, int64_t *out_padded, int64_t *out_dropped);

/* Shuffles in place (Fisher and Yates). Element i uses draw first + i of random, whose stream is
 * used two words at a time. */
void tdm_shuffle(int64_t *items, int64_t count, const tdm_random *random, int64_t first);

#ifdef __cplusplus
}
#endif
#endif
