/* Memory of delivered outputs. A storage returns here with its last reference, so that a steady run
 * allocates nothing. Invariants: the pool outlives every storage that it gave out. Idle ones are in
 * the order of their return. */
#include <string.h>

#include "devices/staging/staged_memory.h"
#include "graph/run/session.h"

#define KEPT 32

struct tdm_output_pool {
  _Atomic uint32_t references; /* one reference of the session, and one per storage in use */
  tdm_context *context;        /* retained */
  const tdm_allocator *allocator;
  pthread_mutex_t lock;
  tdm_storage *idle[KEPT];
  size_t idle_count;
  bool closed;
};

tdm_status tdm_output_pool_create(tdm_context *context, tdm_output_pool **out_pool) {
  *out_pool = NULL;
  const tdm_allocator *allocator = tdm_context_allocator(context);
  tdm_output_pool *pool = tdm_allocate(allocator, sizeof *pool, "output pool");
  if (!pool) return TDM_OUT_OF_MEMORY;
  pool->references = 1;
  pool->context = tdm_context_retain(context);
  pool->allocator = allocator;
  (void)pthread_mutex_init(&pool->lock, NULL);
  *out_pool = pool;
  return TDM_OK;
}

static void let_go(tdm_output_pool *pool) {
  if (atomic_fetch_sub(&pool->references, 1) != 1) return;
  tdm_context *context = pool->context;
  (void)pthread_mutex_destroy(&pool->lock);
  tdm_release(pool->allocator, pool, sizeof *pool);
  tdm_context_release(context);
}

static void free_storage(tdm_output_pool *pool, tdm_storage *storage) {
  tdm_memory_give_back(&storage->memory);
  tdm_release(pool->allocator, storage, sizeof *storage);
}

/* The caller holds the lock. */
static tdm_storage *remove_idle(tdm_output_pool *pool, size_t index) {
  tdm_storage *storage = pool->idle[index];
  pool->idle_count--;
  memmove(&pool->idle[index], &pool->idle[index + 1],
          (pool->idle_count - index) * sizeof *pool->idle);
  return storage;
}

/* Disposes of a storage whose last reference was released. Frees the storage that was returned
 * first in exchange; otherwise sizes that are no longer used would remain permanently. */
static void come_back(tdm_storage *storage) {
  tdm_output_pool *pool = storage->user;
  tdm_storage *leaving = storage;
  (void)pthread_mutex_lock(&pool->lock);
  if (!pool->closed) {
    leaving = pool->idle_count == KEPT ? remove_idle(pool, 0) : NULL;
    pool->idle[pool->idle_count++] = storage;
  }
  (void)pthread_mutex_unlock(&pool->lock);
  if (leaving) free_storage(pool, leaving);
  let_go(pool);
}

void tdm_output_pool_close(tdm_output_pool *pool) {
  if (!pool) return;
  (void)pthread_mutex_lock(&pool->lock);
  pool->closed = true;
  for (size_t i = 0; i < pool->idle_count; i++)
    free_storage(pool, pool->idle[i]);
  pool->idle_count = 0;
  (void)pthread_mutex_unlock(&pool->lock);
  let_go(pool);
}

bool tdm_output_pool_free_idle(tdm_output_pool *pool, const tdm_device *device) {
  tdm_storage *leaving[KEPT];
  size_t count = 0;
  (void)pthread_mutex_lock(&pool->lock);
  for (size_t i = pool->idle_count; i-- > 0;)
    if (pool->idle[i]->memory.device == device) leaving[count++] = remove_idle(pool, i);
  (void)pthread_mutex_unlock(&pool->lock);
  for (size_t i = 0; i < count; i++)
    free_storage(pool, leaving[i]);
  return count > 0;
}

static tdm_storage *find_idle(tdm_output_pool *pool, const tdm_device *device, size_t bytes,
                              bool staged) {
  for (size_t i = pool->idle_count; i-- > 0;) {
    const tdm_storage *storage = pool->idle[i];
    if (storage->memory.device != device) continue;
    if (storage->memory.bytes < bytes || storage->memory.bytes > 2 * bytes + 4096) continue;
    if ((storage->memory.staging != NULL) != staged) continue;
    return remove_idle(pool, i);
  }
  return NULL;
}

static tdm_status make_storage(tdm_output_pool *pool, tdm_device *device, tdm_device *partner,
                               size_t bytes, tdm_storage **out_storage) {
  tdm_storage *storage = tdm_allocate(pool->allocator, sizeof *storage, "output");
  if (!storage) return TDM_OUT_OF_MEMORY;
  const tdm_status status = tdm_memory_take(device, partner, bytes, &storage->memory);
  if (status != TDM_OK) {
    tdm_release(pool->allocator, storage, sizeof *storage);
    return status;
  }
  storage->context = pool->context; /* the pool's reference */
  storage->dispose = come_back;
  storage->user = pool;
  *out_storage = storage;
  return TDM_OK;
}

tdm_status tdm_output_pool_take(tdm_output_pool *pool, tdm_device *device, tdm_device *partner,
                                size_t bytes, tdm_storage **out_storage) {
  (void)pthread_mutex_lock(&pool->lock);
  *out_storage = find_idle(pool, device, bytes, partner != NULL);
  (void)pthread_mutex_unlock(&pool->lock);
  if (!*out_storage) TDM_TRY(make_storage(pool, device, partner, bytes ? bytes : 1, out_storage));
  atomic_store_explicit(&(*out_storage)->references, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&pool->references, 1, memory_order_relaxed);
  return TDM_OK;
}
