/* A thread that makes batches ahead and keeps them in a bounded queue. Invariant: batches are
 * delivered in order, and the first failure is delivered in place of its batch. No batch is made
 * after it. */
#ifndef TANDEM_DATA_PREFETCH_H
#define TANDEM_DATA_PREFETCH_H

#include "data/dataset.h"

typedef struct tdm_prefetch tdm_prefetch;

/* Makes batch number `batch`. It is called on the thread, never while it is paused. */
typedef tdm_status (*tdm_prefetch_maker)(void *user, int64_t batch, const atomic_bool *abandon,
                                         tdm_tensor **out_fields);

/* Creates the thread, paused. depth is the maximum number of ready batches, at least 1. */
tdm_status tdm_prefetch_create(tdm_context *context, size_t depth, size_t field_count,
                               tdm_prefetch_maker maker, void *user,
                               tdm_prefetch **out_prefetch) TDM_WARN_UNUSED;
/* Abandons the batch in progress and joins the thread. NULL is legal. */
void tdm_prefetch_destroy(tdm_prefetch *prefetch);
/* Abandons the batch in progress and drops the ready ones. The thread is idle when it returns. */
void tdm_prefetch_pause(tdm_prefetch *prefetch);
/* Starts making batches first to batch_count - 1. Call it only while paused. */
void tdm_prefetch_begin(tdm_prefetch *prefetch, int64_t first, int64_t batch_count);
/* Waits for the next batch and returns it. Call it at most once for each batch of a begin. */
tdm_status tdm_prefetch_take(tdm_prefetch *prefetch, tdm_tensor **out_fields) TDM_WARN_UNUSED;

#endif
