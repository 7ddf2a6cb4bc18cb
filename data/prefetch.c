/* The prefetching thread and its queue. Invariant: everything except the batch in progress is
 * accessed under the lock. While paused, no batch is in progress and none is ready. */
#include "data/prefetch.h"

#include <pthread.h>
#include <string.h>

#include "core/thread.h"
#include "devices/context/context.h"

typedef struct ready_batch {
  tdm_tensor *fields[TDM_DATASET_MAX_FIELDS];
} ready_batch;

struct tdm_prefetch {
  tdm_context *context; /* borrowed: the loader's dataset keeps it */
  const tdm_allocator *allocator;
  size_t field_count;
  tdm_prefetch_maker maker;
  void *user;
  atomic_bool abandon; /* the batch in progress is not needed any more */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  pthread_t thread;
  bool stopping;
  bool paused;
  bool busy; /* a batch is in progress */
  int64_t next_batch;
  int64_t batch_count;
  tdm_status failure; /* failure of batch next_batch - 1 */
  char message[TDM_MESSAGE_BYTES];
  ready_batch *ready; /* (depth), a ring */
  size_t depth;
  size_t ready_first;
  size_t ready_count;
};

static bool has_work(const tdm_prefetch *prefetch) {
  return !prefetch->paused && prefetch->failure == TDM_OK &&
         prefetch->next_batch < prefetch->batch_count && prefetch->ready_count < prefetch->depth;
}

/* Makes one batch. The caller holds the lock, which is released meanwhile. */
static void make_one(tdm_prefetch *prefetch) {
  const int64_t batch = prefetch->next_batch++;
  ready_batch made = {{NULL}};
  prefetch->busy = true;
  (void)pthread_mutex_unlock(&prefetch->lock);
  const tdm_status status = prefetch->maker(prefetch->user, batch, &prefetch->abandon, made.fields);
  (void)pthread_mutex_lock(&prefetch->lock);
  prefetch->busy = false;
  if (prefetch->paused || prefetch->stopping) {
    tdm_batch_release(made.fields, prefetch->field_count);
  } else if (status != TDM_OK) {
    prefetch->failure = status;
    memcpy(prefetch->message, tdm_last_message(), strlen(tdm_last_message()) + 1);
  } else {
    prefetch->ready[(prefetch->ready_first + prefetch->ready_count) % prefetch->depth] = made;
    prefetch->ready_count++;
  }
  (void)pthread_cond_broadcast(&prefetch->changed);
}

static void *run_thread(void *user) {
  tdm_prefetch *prefetch = user;
  tdm_context_use_all_cores(prefetch->context);
  (void)pthread_mutex_lock(&prefetch->lock);
  while (!prefetch->stopping) {
    if (has_work(prefetch)) {
      make_one(prefetch);
    } else {
      (void)pthread_cond_wait(&prefetch->changed, &prefetch->lock);
    }
  }
  (void)pthread_mutex_unlock(&prefetch->lock);
  return NULL;
}

static void free_prefetch(tdm_prefetch *prefetch) {
  const tdm_allocator *allocator = prefetch->allocator;
  (void)pthread_cond_destroy(&prefetch->changed);
  (void)pthread_mutex_destroy(&prefetch->lock);
  tdm_release(allocator, prefetch->ready, prefetch->depth * sizeof *prefetch->ready);
  tdm_release(allocator, prefetch, sizeof *prefetch);
}

tdm_status tdm_prefetch_create(tdm_context *context, size_t depth, size_t field_count,
                               tdm_prefetch_maker maker, void *user, tdm_prefetch **out_prefetch) {
  *out_prefetch = NULL;
  const tdm_allocator *allocator = tdm_context_allocator(context);
  tdm_prefetch *prefetch = tdm_allocate(allocator, sizeof *prefetch, "a loader's thread");
  if (!prefetch) return TDM_OUT_OF_MEMORY;
  prefetch->context = context;
  prefetch->allocator = allocator;
  prefetch->field_count = field_count;
  prefetch->maker = maker;
  prefetch->user = user;
  prefetch->depth = depth;
  prefetch->paused = true;
  (void)pthread_mutex_init(&prefetch->lock, NULL);
  (void)pthread_cond_init(&prefetch->changed, NULL);
  tdm_status status = TDM_OUT_OF_MEMORY;
  prefetch->ready =
      tdm_allocate(allocator, depth * sizeof *prefetch->ready, "a loader's queue of batches");
  if (!prefetch->ready) goto fail;
  status = tdm_thread_start(&prefetch->thread, "tdm-loader", run_thread, prefetch);
  if (status != TDM_OK) goto fail;
  *out_prefetch = prefetch;
  return TDM_OK;
fail:
  free_prefetch(prefetch);
  return status;
}

void tdm_prefetch_pause(tdm_prefetch *prefetch) {
  atomic_store(&prefetch->abandon, true);
  (void)pthread_mutex_lock(&prefetch->lock);
  prefetch->paused = true;
  while (prefetch->busy)
    (void)pthread_cond_wait(&prefetch->changed, &prefetch->lock);
  while (prefetch->ready_count > 0) {
    ready_batch *batch = &prefetch->ready[prefetch->ready_first];
    tdm_batch_release(batch->fields, prefetch->field_count);
    prefetch->ready_first = (prefetch->ready_first + 1) % prefetch->depth;
    prefetch->ready_count--;
  }
  (void)pthread_mutex_unlock(&prefetch->lock);
}

void tdm_prefetch_destroy(tdm_prefetch *prefetch) {
  if (!prefetch) return;
  tdm_prefetch_pause(prefetch);
  (void)pthread_mutex_lock(&prefetch->lock);
  prefetch->stopping = true;
  (void)pthread_cond_broadcast(&prefetch->changed);
  (void)pthread_mutex_unlock(&prefetch->lock);
  (void)pthread_join(prefetch->thread, NULL);
  free_prefetch(prefetch);
}

void tdm_prefetch_begin(tdm_prefetch *prefetch, int64_t first, int64_t batch_count) {
  (void)pthread_mutex_lock(&prefetch->lock);
  atomic_store(&prefetch->abandon, false);
  prefetch->next_batch = first;
  prefetch->batch_count = batch_count;
  prefetch->failure = TDM_OK;
  prefetch->paused = false;
  (void)pthread_cond_broadcast(&prefetch->changed);
  (void)pthread_mutex_unlock(&prefetch->lock);
}

tdm_status tdm_prefetch_take(tdm_prefetch *prefetch, tdm_tensor **out_fields) {
  (void)pthread_mutex_lock(&prefetch->lock);
  while (prefetch->ready_count == 0 && prefetch->failure == TDM_OK)
    (void)pthread_cond_wait(&prefetch->changed, &prefetch->lock);
  tdm_status status = TDM_OK;
  if (prefetch->ready_count > 0) {
    memcpy(out_fields, prefetch->ready[prefetch->ready_first].fields,
           prefetch->field_count * sizeof(tdm_tensor *));
    prefetch->ready_first = (prefetch->ready_first + 1) % prefetch->depth;
    prefetch->ready_count--;
    (void)pthread_cond_broadcast(&prefetch->changed);
  } else {
    status = tdm_fail(prefetch->failure, "%s", prefetch->message);
  }
  (void)pthread_mutex_unlock(&prefetch->lock);
  return status;
}
