/* A thread that makes batches ahead and keeps them in a bounded queue. Invariant: batches come out
 * in order, and the first failure comes out where its batch would have; nothing is made after it.
 */
#ifndef TANDEM_DATA_PREFETCH_H
#define TANDEM_DATA_PREFETCH_H

#include "data/dataset.h"

typedef struct tdm_prefetch tdm_prefetch;

/* Makes batch number `batch`; called on the thread, never while it is paused. */
typedef tdm_status (*tdm_prefetch_maker)(void *user, int64_t batch, const atomic_bool *abandon,
                                         tdm_tensor **out_fields);

/* The thread starts paused. depth: how many batches may lie ready, at least 1. */
tdm_status tdm_prefetch_create(tdm_context *context, size_t depth, size_t field_count,
                               tdm_prefetch_maker maker, void *user,
                               tdm_prefetch **out_prefetch) TDM_WARN_UNUSED;
/* Abandons the batch being made and joins the thread; NULL is legal. */
void tdm_prefetch_destroy(tdm_prefetch *prefetch);
/* Abandons what is being made, drops what is ready; when it returns the thread rests. */
void tdm_prefetch_pause(tdm_prefetch *prefetch);
/* Begins to make batches first to batch_count - 1. Only while paused. */
void tdm_prefetch_begin(tdm_prefetch *prefetch, int64_t first, int64_t batch_count);
/* The next batch, waiting for it. Asked at most once for each batch of a begin. */
tdm_status tdm_prefetch_take(tdm_prefetch *prefetch, tdm_tensor **out_fields) TDM_WARN_UNUSED;

#endif
