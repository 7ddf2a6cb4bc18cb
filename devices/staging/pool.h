/* Staging buffers for copies: host memory on the NUMA node nearest to a device, and pinned for it.
 * Invariant: memory is bound before it is touched, and touched before it is pinned. Its node is
 * verified when it is allocated and whenever it is reused. Memory on another node than the system
 * granted is not pinned, so that it counts only as pageable. A buffer is reused only after the last
 * copy that uses it is reached. All buffers together stay below the cap.
 *
 *   take -> fill, copy ... -> give_back(queue, sequence) -> [waits for that point] -> take */
#ifndef TANDEM_DEVICES_STAGING_POOL_H
#define TANDEM_DEVICES_STAGING_POOL_H

#include "devices/contract/device.h"

typedef struct tdm_pool tdm_pool;

typedef struct tdm_staging {
  void *memory; /* aligned to a page; contents undefined */
  size_t bytes; /* size, at least the requested one */
  int node;     /* os index of its NUMA node; negative: unknown */
  bool pinned;  /* false: the device's driver refused, or the memory is on another node than was
                 * granted, which was logged; or the device is the host, which needs no pinning */
} tdm_staging;

/* The pool's system calls; any thread. Tests replace them. */
typedef struct tdm_pool_system {
  /* Maps whole pages without touching them. *out_bound: they will come from node (negative: any).
   * Returns NULL if memory is short. */
  void *(*map)(void *user, size_t bytes, int node, bool *out_bound);
  void (*unmap)(void *user, void *memory, size_t bytes);
  /* Returns the memory's node: TDM_NODE_SEVERAL, TDM_NODE_UNKNOWN, or the node's os index. */
  int (*node_of)(void *user, const void *memory, size_t bytes);
  void *user;
} tdm_pool_system;

typedef struct tdm_staging_pool_options {
  size_t cap_bytes; /* total of all buffers; 0: TANDEM_STAGING_BYTES or a quarter of a node */
  bool exact;       /* sizes are rounded to a page, not to a class (at most a quarter above) */
  const tdm_pool_system *system; /* system calls; copied; NULL: the machine's */
} tdm_staging_pool_options;

typedef struct tdm_pool_counters {
  uint64_t taken, reused, made, released;
  uint64_t refused_pins;  /* buffers that are not pinned although their device requires it */
  uint64_t refused_binds; /* buffers for which the node was not granted */
  uint64_t misplaced; /* number of buffers whose memory was on another node than the granted one */
  uint64_t waited;        /* takes that had to wait for a copy to end because of the cap */
  size_t bytes, peak_bytes, cap_bytes;
} tdm_pool_counters;

/* options NULL: all defaults. Fails with INVALID_ARGUMENT if TANDEM_STAGING_BYTES is not a size. */
tdm_status tdm_pool_create(tdm_context *context, const tdm_staging_pool_options *options,
                           tdm_pool **out_pool) TDM_WARN_UNUSED;
/* Every copy has ended; the devices still exist. NULL is legal. */
void tdm_pool_destroy(tdm_pool *pool);

/* Takes a buffer of at least `bytes` bytes near `device` and pinned for it (device->ops->pin). If
 * the cap would be exceeded, it frees unused buffers. Then it waits for returned ones whose copies
 * are in progress. Then it fails with OUT_OF_MEMORY, with the cap in the message. It never waits
 * for a buffer in use, because the caller may hold it. If the system repeatedly places memory on
 * another node than it granted, the buffer is returned unpinned, and that is logged once. Any
 * thread except one that executes a queue. */
tdm_status tdm_pool_take(tdm_pool *pool, tdm_device *device, size_t bytes,
                         tdm_staging **out_staging) TDM_WARN_UNUSED;
/* Like tdm_pool_take, but waits for no copy: *out_staging is NULL, with OK, if it would have to
 * wait. Any thread; creating a buffer may still take a driver's time. */
tdm_status tdm_pool_try_take(tdm_pool *pool, tdm_device *device, size_t bytes,
                             tdm_staging **out_staging) TDM_WARN_UNUSED;
/* Gives a buffer back, whose last use is the point (queue, sequence); queue NULL: it is over. Any
 * thread. */
void tdm_pool_give_back(tdm_pool *pool, tdm_staging *staging, tdm_queue *queue, uint64_t sequence);

/* Returns true if [memory, memory + bytes) is inside one buffer of the pool, in use or returned,
 * that is pinned for a device of this one's kind. Any thread. */
bool tdm_pool_is_pinned(tdm_pool *pool, const tdm_device *device, const void *memory, size_t bytes);
void tdm_pool_counters_read(tdm_pool *pool, tdm_pool_counters *out_counters);

#endif
