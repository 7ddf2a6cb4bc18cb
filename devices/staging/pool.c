/* Takes staging buffers and returns them. Invariant: see pool.h. Memory is allocated, verified and
 * freed without the mutex. Its bytes are counted from before the allocation until after the
 * release, so that the cap holds at every moment. */
#include "devices/staging/pool.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/allocate.h"
#include "core/settings.h"
#include "devices/staging/pool_state.h"
#include "devices/topology/topology.h"

static const char cap_variable[] = "TANDEM_STAGING_BYTES";

/* ---- Life ------------------------------------------------------------------------------------ */

/* Returns a quarter of the memory of the smallest node that is near a device. */
static size_t default_cap(const tdm_context *context) {
  const tdm_topology *topology = tdm_context_topology(context);
  uint64_t least = 0;
  for (size_t i = 0; i < tdm_device_count(context); i++) {
    const tdm_device *device = tdm_context_device((tdm_context *)context, i);
    const uint64_t bytes = tdm_topology_node_bytes(topology, device->node);
    if (bytes > 0 && (least == 0 || bytes < least)) least = bytes;
  }
  if (least == 0) least = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
  return (size_t)(least / 4);
}

static tdm_status read_cap(const tdm_context *context, size_t asked, size_t *out_cap) {
  *out_cap = asked;
  if (asked > 0) return TDM_OK;
  const char *text = getenv(cap_variable);
  uint64_t bytes = 0;
  if (text && text[0] != '\0')
    TDM_TRY(tdm_setting_integer(cap_variable, "the cap", text, 1, PTRDIFF_MAX, &bytes));
  *out_cap = bytes > 0 ? (size_t)bytes : default_cap(context);
  return TDM_OK;
}

tdm_status tdm_pool_create(tdm_context *context, const tdm_staging_pool_options *options,
                           tdm_pool **out_pool) {
  *out_pool = NULL;
  const tdm_staging_pool_options defaults = {0};
  if (!options) options = &defaults;
  size_t cap_bytes = 0;
  TDM_TRY(read_cap(context, options->cap_bytes, &cap_bytes));
  const tdm_allocator *allocator = tdm_context_allocator(context);
  tdm_pool *pool = tdm_allocate(allocator, sizeof *pool, "the staging pool");
  if (!pool) return TDM_OUT_OF_MEMORY;
  if (pthread_mutex_init(&pool->mutex, NULL) != 0) {
    tdm_release(allocator, pool, sizeof *pool);
    return tdm_fail(TDM_OUT_OF_MEMORY, "no mutex for the staging pool");
  }
  pool->context = context;
  pool->system = options->system ? *options->system : tdm_pool_machine(context);
  pool->exact = options->exact;
  pool->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
  pool->counters.cap_bytes = cap_bytes;
  *out_pool = pool;
  return TDM_OK;
}

void tdm_pool_destroy(tdm_pool *pool) {
  if (!pool) return;
  const tdm_allocator *allocator = tdm_context_allocator(pool->context);
  for (size_t i = 0; i < pool->count; i++) {
    tdm_pool_buffer_free(pool, pool->buffers[i]);
    tdm_release(allocator, pool->buffers[i], sizeof(tdm_pool_buffer));
  }
  tdm_release(allocator, pool->buffers, pool->capacity * sizeof(tdm_pool_buffer *));
  (void)pthread_mutex_destroy(&pool->mutex);
  tdm_release(allocator, pool, sizeof *pool);
}

/* ---- The list; all under the mutex ----------------------------------------------------------- */

static bool is_ready(const tdm_pool_buffer *buffer) {
  if (buffer->state != TDM_BUFFER_GIVEN) return false;
  return !buffer->queue || tdm_queue_reached(buffer->queue, buffer->sequence);
}

/* Returns a buffer that is ready; device NULL: of any device and size. */
static tdm_pool_buffer *find_ready(const tdm_pool *pool, const tdm_device *device, size_t bytes) {
  for (size_t i = 0; i < pool->count; i++) {
    tdm_pool_buffer *buffer = pool->buffers[i];
    if (device && (buffer->device != device || buffer->staging.bytes != bytes)) continue;
    if (is_ready(buffer)) return buffer;
  }
  return NULL;
}

static size_t out_bytes(const tdm_pool *pool) {
  size_t bytes = 0;
  for (size_t i = 0; i < pool->count; i++) {
    const tdm_pool_buffer *buffer = pool->buffers[i];
    const bool out = buffer->state == TDM_BUFFER_OUT || buffer->state == TDM_BUFFER_MAKING;
    if (out) bytes += buffer->staging.bytes;
  }
  return bytes;
}

static void tell_waiters(tdm_pool *pool) {
  for (tdm_pool_waiter *waiter = pool->waiters; waiter != NULL; waiter = waiter->next)
    tdm_doorbell_ring(tdm_context_bell(pool->context, waiter->bell));
}

static tdm_status add_buffer(tdm_pool *pool, tdm_device *device, size_t bytes,
                             tdm_pool_buffer **out_buffer) {
  const tdm_allocator *allocator = tdm_context_allocator(pool->context);
  *out_buffer = NULL;
  TDM_TRY(tdm_array_reserve(allocator, (void **)&pool->buffers, &pool->capacity, pool->count + 1,
                            sizeof(tdm_pool_buffer *), "the list of staging buffers"));
  tdm_pool_buffer *buffer = tdm_allocate(allocator, sizeof *buffer, "a staging buffer's record");
  if (!buffer) return TDM_OUT_OF_MEMORY;
  buffer->device = device;
  buffer->staging.bytes = bytes;
  buffer->state = TDM_BUFFER_MAKING;
  pool->buffers[pool->count++] = buffer;
  pool->counters.bytes += bytes;
  if (pool->counters.bytes > pool->counters.peak_bytes)
    pool->counters.peak_bytes = pool->counters.bytes;
  *out_buffer = buffer;
  return TDM_OK;
}

/* Takes the mutex and frees a buffer, which belongs to the caller, with its memory. */
static void remove_buffer(tdm_pool *pool, tdm_pool_buffer *buffer) {
  const bool had_memory = buffer->staging.memory != NULL;
  tdm_pool_buffer_free(pool, buffer);
  (void)pthread_mutex_lock(&pool->mutex);
  for (size_t i = 0; i < pool->count; i++) {
    if (pool->buffers[i] != buffer) continue;
    pool->buffers[i] = pool->buffers[--pool->count];
    break;
  }
  pool->counters.bytes -= buffer->staging.bytes;
  if (had_memory) pool->counters.released++;
  tell_waiters(pool);
  (void)pthread_mutex_unlock(&pool->mutex);
  tdm_release(tdm_context_allocator(pool->context), buffer, sizeof *buffer);
}

/* ---- Taking a buffer ------------------------------------------------------------------------- */

typedef enum take_step { TAKE_REUSE, TAKE_MAKE, TAKE_EVICT, TAKE_WAIT, TAKE_FAIL } take_step;

/* Determines the next step of a take, and the buffer for it, which then belongs to the caller. The
 * caller holds the mutex. */
static take_step next_step(tdm_pool *pool, tdm_device *device, size_t bytes,
                           tdm_pool_buffer **out_buffer, tdm_status *out_status) {
  const size_t cap = pool->counters.cap_bytes;
  *out_buffer = find_ready(pool, device, bytes);
  if (*out_buffer) {
    (*out_buffer)->state = TDM_BUFFER_OUT;
    return TAKE_REUSE;
  }
  if (bytes <= cap && pool->counters.bytes <= cap - bytes) {
    *out_status = add_buffer(pool, device, bytes, out_buffer);
    return *out_status == TDM_OK ? TAKE_MAKE : TAKE_FAIL;
  }
  const size_t out = out_bytes(pool);
  if (bytes > cap || out > cap - bytes) {
    *out_status = tdm_fail(TDM_OUT_OF_MEMORY,
                           "out of memory: %zu bytes for a staging buffer of %s, where the cap is "
                           "%zu bytes and %zu are in use",
                           bytes, device->name, cap, out);
    return TAKE_FAIL;
  }
  *out_buffer = find_ready(pool, NULL, 0);
  if (!*out_buffer) return TAKE_WAIT;
  (*out_buffer)->state = TDM_BUFFER_LEAVING;
  return TAKE_EVICT;
}

/* Requests a ring from every queue whose point a buffer waits for. Returns false if one is already
 * reached. Called under the mutex, after the bell was read. */
static bool ask_queues(const tdm_pool *pool, uint32_t bell) {
  for (size_t i = 0; i < pool->count; i++) {
    const tdm_pool_buffer *buffer = pool->buffers[i];
    if (buffer->state != TDM_BUFFER_GIVEN) continue;
    if (buffer->queue) tdm_queue_ask(buffer->queue, bell);
    if (is_ready(buffer)) return false;
  }
  return true;
}

/* Waits until some buffer may have become ready or been freed. The mutex is held on entry and
 * exit. */
static void wait_for_change(tdm_pool *pool, uint32_t bell) {
  tdm_doorbell *doorbell = tdm_context_bell(pool->context, bell);
  tdm_pool_waiter waiter = {.next = pool->waiters, .bell = bell};
  const uint32_t seen = tdm_doorbell_read(doorbell);
  if (!ask_queues(pool, bell)) return;
  pool->waiters = &waiter;
  (void)pthread_mutex_unlock(&pool->mutex);
  tdm_doorbell_park(doorbell, seen, -1);
  (void)pthread_mutex_lock(&pool->mutex);
  tdm_pool_waiter **link = &pool->waiters;
  while (*link != &waiter)
    link = &(*link)->next;
  *link = waiter.next;
}

/* Waits with a bell of the context. The mutex is held on entry, and released. */
static void wait_a_turn(tdm_pool *pool, bool first) {
  const uint32_t bell = tdm_context_bell_acquire(pool->context);
  if (first) pool->counters.waited++;
  wait_for_change(pool, bell);
  (void)pthread_mutex_unlock(&pool->mutex);
  tdm_context_bell_release(pool->context, bell);
}

/* Passes the buffer to the user, or frees it. The caller does not hold the mutex. */
static tdm_status finish_take(tdm_pool *pool, tdm_pool_buffer *buffer, bool reused,
                              tdm_staging **out_staging) {
  const tdm_status status = reused ? TDM_OK : tdm_pool_buffer_make(pool, buffer);
  const bool usable = status == TDM_OK && (!reused || tdm_pool_buffer_check(pool, buffer));
  (void)pthread_mutex_lock(&pool->mutex);
  buffer->state = usable ? TDM_BUFFER_OUT : TDM_BUFFER_LEAVING;
  if (!usable) {
    (void)pthread_mutex_unlock(&pool->mutex);
    remove_buffer(pool, buffer);
    return status;
  }
  pool->counters.taken++;
  ++*(reused ? &pool->counters.reused : &pool->counters.made);
  (void)pthread_mutex_unlock(&pool->mutex);
  *out_staging = &buffer->staging;
  return TDM_OK;
}

static tdm_status take_buffer(tdm_pool *pool, tdm_device *device, size_t asked, bool may_wait,
                              tdm_staging **out_staging) {
  *out_staging = NULL;
  const size_t bytes = tdm_pool_size(pool, asked);
  if (bytes == 0) return tdm_fail_memory(asked, "a staging buffer");
  tdm_status status = TDM_OK;
  bool waited = false;
  while (!*out_staging && status == TDM_OK) {
    tdm_pool_buffer *buffer = NULL;
    (void)pthread_mutex_lock(&pool->mutex);
    const take_step step = next_step(pool, device, bytes, &buffer, &status);
    if (step == TAKE_WAIT && may_wait) {
      wait_a_turn(pool, !waited);
      waited = true;
      continue;
    }
    (void)pthread_mutex_unlock(&pool->mutex);
    if (step == TAKE_WAIT) return TDM_OK;
    if (step == TAKE_EVICT) remove_buffer(pool, buffer);
    if (step == TAKE_REUSE || step == TAKE_MAKE)
      status = finish_take(pool, buffer, step == TAKE_REUSE, out_staging);
  }
  return status;
}

tdm_status tdm_pool_take(tdm_pool *pool, tdm_device *device, size_t bytes,
                         tdm_staging **out_staging) {
  return take_buffer(pool, device, bytes, true, out_staging);
}

tdm_status tdm_pool_try_take(tdm_pool *pool, tdm_device *device, size_t bytes,
                             tdm_staging **out_staging) {
  return take_buffer(pool, device, bytes, false, out_staging);
}

void tdm_pool_give_back(tdm_pool *pool, tdm_staging *staging, tdm_queue *queue, uint64_t sequence) {
  tdm_pool_buffer *buffer = (tdm_pool_buffer *)staging;
  (void)pthread_mutex_lock(&pool->mutex);
  buffer->queue = queue;
  buffer->sequence = sequence;
  buffer->state = TDM_BUFFER_GIVEN;
  tell_waiters(pool);
  (void)pthread_mutex_unlock(&pool->mutex);
}

/* ---- Queries --------------------------------------------------------------------------------- */

bool tdm_pool_is_pinned(tdm_pool *pool, const tdm_device *device, const void *memory,
                        size_t bytes) {
  const uintptr_t begin = (uintptr_t)memory;
  bool inside = false;
  (void)pthread_mutex_lock(&pool->mutex);
  for (size_t i = 0; i < pool->count && !inside; i++) {
    const tdm_pool_buffer *buffer = pool->buffers[i];
    if (buffer->state == TDM_BUFFER_MAKING || buffer->state == TDM_BUFFER_LEAVING) continue;
    const uintptr_t offset = begin - (uintptr_t)buffer->staging.memory;
    inside = buffer->staging.pinned && tdm_device_same_kind(buffer->device, device) &&
             offset <= buffer->staging.bytes && bytes <= buffer->staging.bytes - offset;
  }
  (void)pthread_mutex_unlock(&pool->mutex);
  return inside;
}

void tdm_pool_counters_read(tdm_pool *pool, tdm_pool_counters *out_counters) {
  (void)pthread_mutex_lock(&pool->mutex);
  *out_counters = pool->counters;
  (void)pthread_mutex_unlock(&pool->mutex);
}
