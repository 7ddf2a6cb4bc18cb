/* One staging buffer's memory: mapped, bound, touched, verified, pinned. Invariant: memory that the
 * system placed on another node than it granted is counted and tried once more. If the second try
 * is wrong too, it is logged and not pinned. */
#include <stdint.h>
#include <sys/mman.h>

#include "core/allocate.h"
#include "devices/staging/pool_state.h"
#include "devices/topology/topology.h"

enum { TRIES = 2, SAMPLED_PAGES = 8, CLASSES_A_DOUBLING = 4 };
enum { HUGE_PAGE_BYTES = 2 << 20 };

/* ---- The machine ----------------------------------------------------------------------------- */

/* Returns an address that is a multiple of the huge page, so that as much as possible is in huge
 * pages. */
static char *map_aligned(size_t bytes) {
  const size_t reserved = bytes + HUGE_PAGE_BYTES;
  char *begin = mmap(NULL, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (begin == MAP_FAILED) return NULL;
  const size_t before = (HUGE_PAGE_BYTES - (uintptr_t)begin % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES;
  if (before > 0) (void)munmap(begin, before);
  if (reserved - bytes > before) (void)munmap(begin + before + bytes, reserved - bytes - before);
  return begin + before;
}

static void *machine_map(void *user, size_t bytes, int node, bool *out_bound) {
  const tdm_topology *topology = tdm_context_topology(user);
  *out_bound = false;
  void *memory;
  if (bytes >= HUGE_PAGE_BYTES) {
    memory = map_aligned(bytes);
  } else {
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) memory = NULL;
  }
  if (!memory) return NULL;
  *out_bound = tdm_topology_bind_memory_to(topology, node, memory, bytes);
  /* Requests huge pages; if the system refuses, it provides ordinary ones. */
  if (bytes >= HUGE_PAGE_BYTES) (void)madvise(memory, bytes, MADV_HUGEPAGE);
  return memory;
}

static void machine_unmap(void *user, void *memory, size_t bytes) {
  (void)user;
  (void)munmap(memory, bytes);
}

static int machine_node_of(void *user, const void *memory, size_t bytes) {
  return tdm_topology_memory_node(tdm_context_topology(user), memory, bytes);
}

tdm_pool_system tdm_pool_machine(tdm_context *context) {
  return (tdm_pool_system){
      .map = machine_map, .unmap = machine_unmap, .node_of = machine_node_of, .user = context};
}

/* ---- Sizes ----------------------------------------------------------------------------------- */

size_t tdm_pool_size(const tdm_pool *pool, size_t bytes) {
  if (bytes > PTRDIFF_MAX / 2) return 0;
  size_t unit = pool->page_bytes;
  if (!pool->exact) {
    size_t power = unit;
    while (power * 2 <= bytes)
      power *= 2;
    if (power / CLASSES_A_DOUBLING > unit) unit = power / CLASSES_A_DOUBLING;
  }
  return bytes == 0 ? unit : (bytes + unit - 1) / unit * unit;
}

/* ---- Allocation ------------------------------------------------------------------------------ */

static void touch(const tdm_pool *pool, char *memory, size_t bytes) {
  for (size_t i = 0; i < bytes; i += pool->page_bytes)
    ((volatile char *)memory)[i] = 0;
}

static void count(tdm_pool *pool, uint64_t *counter) {
  (void)pthread_mutex_lock(&pool->mutex);
  ++*counter;
  (void)pthread_mutex_unlock(&pool->mutex);
}

/* Counts a refusal. Returns true if it should be logged. */
static bool count_refusal(tdm_pool *pool, uint64_t *counter, bool *told) {
  (void)pthread_mutex_lock(&pool->mutex);
  ++*counter;
  const bool first = !*told;
  *told = true;
  (void)pthread_mutex_unlock(&pool->mutex);
  return first;
}

static void tell_misplaced(tdm_pool *pool, const tdm_pool_buffer *buffer) {
  (void)pthread_mutex_lock(&pool->mutex);
  const bool told = pool->told_misplaced;
  pool->told_misplaced = true;
  (void)pthread_mutex_unlock(&pool->mutex);
  if (told) return;
  const int wanted = buffer->device->node;
  const bool several = buffer->staging.node == TDM_NODE_SEVERAL;
  tdm_context_log(pool->context, TDM_LOG_WARNING,
                  "staging memory for %s is pageable: it was granted on NUMA node %d and lies on "
                  "%s%d",
                  buffer->device->name, wanted, several ? "several, not " : "",
                  several ? wanted : buffer->staging.node);
}

/* Allocates memory on the device's node. Memory on a wrong node is kept until the second try, so
 * that the system does not return the same pages again. */
static tdm_status place(tdm_pool *pool, tdm_pool_buffer *buffer) {
  const tdm_pool_system *system = &pool->system;
  tdm_staging *staging = &buffer->staging;
  const int wanted = buffer->device->node;
  for (size_t tries = 0; tries < TRIES; tries++) {
    void *memory = system->map(system->user, staging->bytes, wanted, &buffer->bound);
    if (!memory && staging->memory) break; /* the first one has to suffice */
    if (!memory) return tdm_fail_memory(staging->bytes, "a staging buffer");
    if (staging->memory) system->unmap(system->user, staging->memory, staging->bytes);
    staging->memory = memory;
    touch(pool, staging->memory, staging->bytes);
    staging->node = system->node_of(system->user, staging->memory, staging->bytes);
    buffer->misplaced =
        buffer->bound && staging->node != wanted && staging->node != TDM_NODE_UNKNOWN;
    if (!buffer->misplaced) return TDM_OK;
    count(pool, &pool->counters.misplaced);
  }
  buffer->bound = false;
  tell_misplaced(pool, buffer);
  return TDM_OK;
}

static void pin(tdm_pool *pool, tdm_pool_buffer *buffer) {
  tdm_device *device = buffer->device;
  if (device->host_addressable || buffer->misplaced) return;
  const tdm_status status = device->ops->pin(device, buffer->staging.memory, buffer->staging.bytes);
  buffer->staging.pinned = status == TDM_OK;
  if (status == TDM_OK) return;
  if (!count_refusal(pool, &pool->counters.refused_pins, &pool->told_pin)) return;
  tdm_context_log(pool->context, TDM_LOG_WARNING,
                  "staging memory for %s is pageable, pinning it was refused: %s", device->name,
                  tdm_last_message());
}

tdm_status tdm_pool_buffer_make(tdm_pool *pool, tdm_pool_buffer *buffer) {
  TDM_TRY(place(pool, buffer));
  const int wanted = buffer->device->node;
  if (!buffer->bound && !buffer->misplaced && wanted >= 0 &&
      count_refusal(pool, &pool->counters.refused_binds, &pool->told_bind)) {
    tdm_context_log(pool->context, TDM_LOG_WARNING,
                    "staging memory for %s is not bound to NUMA node %d, the system refused",
                    buffer->device->name, wanted);
  }
  pin(pool, buffer);
  return TDM_OK;
}

/* ---- Reuse and release ----------------------------------------------------------------------- */

bool tdm_pool_buffer_check(tdm_pool *pool, tdm_pool_buffer *buffer) {
  const tdm_staging *staging = &buffer->staging;
  const size_t pages = staging->bytes / pool->page_bytes;
  const size_t samples = pages < SAMPLED_PAGES ? pages : SAMPLED_PAGES;
  int found = TDM_NODE_UNKNOWN;
  for (size_t i = 0; i < samples; i++) {
    const size_t page = samples == 1 ? 0 : i * (pages - 1) / (samples - 1);
    const int node = pool->system.node_of(pool->system.user,
                                          (const char *)staging->memory + page * pool->page_bytes,
                                          pool->page_bytes);
    if (i > 0 && node != found) found = TDM_NODE_SEVERAL;
    if (i == 0) found = node;
  }
  if (buffer->bound && found != buffer->device->node && found != TDM_NODE_UNKNOWN) {
    count(pool, &pool->counters.misplaced);
    return false;
  }
  buffer->staging.node = found;
  return true;
}

void tdm_pool_buffer_free(tdm_pool *pool, tdm_pool_buffer *buffer) {
  tdm_staging *staging = &buffer->staging;
  if (!staging->memory) return;
  tdm_device *device = buffer->device;
  if (staging->pinned && device->ops->unpin(device, staging->memory, staging->bytes) != TDM_OK) {
    tdm_context_log(pool->context, TDM_LOG_WARNING, "staging memory of %s cannot be unpinned: %s",
                    device->name, tdm_last_message());
  }
  pool->system.unmap(pool->system.user, staging->memory, staging->bytes);
  staging->memory = NULL;
}
