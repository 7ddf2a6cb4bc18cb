/* Staging buffers: host memory that lies on the NUMA node nearest to a device, pinned for it, that
 * copies go through. Invariant: memory is bound before it is touched, and touched before it is
 * pinned; where the system says it lies is checked when it is made and whenever it is taken again,
 * and what lies elsewhere than was granted is not pinned, so that nothing calls it more than
 * pageable;
 * a buffer is taken again only after the last copy that uses it is reached; all buffers together
 * stay below the cap.
 *
 *   take -> fill, copy ... -> give_back(queue, sequence) -> [waits for that point] -> take
 */
#ifndef TANDEM_DEVICES_STAGING_POOL_H
#define TANDEM_DEVICES_STAGING_POOL_H

#include "devices/contract/device.h"

typedef struct tdm_pool tdm_pool;

typedef struct tdm_staging {
  void *memory; /* aligned to a page; contents undefined */
  size_t bytes; /* at least what was asked for */
  int node;     /* os index of the NUMA node it lies on; negative: the system does not tell */
  bool pinned;  /* false: the device's driver refused, or the memory lies on another node than was
                   granted, and the pool has said so; or the device is the host itself, which needs
                   none */
} tdm_staging;

/* How the pool asks the system; any thread. Tests put doubles here. */
typedef struct tdm_pool_system {
  /* Whole pages, not touched; *out_bound: they will come from node (negative: any). NULL: memory is
   * short. */
  void *(*map)(void *user, size_t bytes, int node, bool *out_bound);
  void (*unmap)(void *user, void *memory, size_t bytes);
  /* Where it lies: TDM_NODE_SEVERAL, TDM_NODE_UNKNOWN, or the node's os index. */
  int (*node_of)(void *user, const void *memory, size_t bytes);
  void *user;
} tdm_pool_system;

typedef struct tdm_staging_pool_options {
  size_t cap_bytes; /* of all buffers; 0: TANDEM_STAGING_BYTES, else a quarter of a node's memory */
  bool exact;       /* sizes are rounded to a page, not to a class (a quarter above at most) */
  const tdm_pool_system *system; /* copied; NULL: the machine's */
} tdm_staging_pool_options;

typedef struct tdm_pool_counters {
  uint64_t taken, reused, made, released;
  uint64_t refused_pins;  /* buffers that are not pinned, for devices that want it */
  uint64_t refused_binds; /* buffers whose node was not granted */
  uint64_t misplaced;     /* found on another node than was granted */
  uint64_t waited;        /* takes that waited for a copy to end because of the cap */
  size_t bytes, peak_bytes, cap_bytes;
} tdm_pool_counters;

/* options NULL: all defaults. INVALID_ARGUMENT where TANDEM_STAGING_BYTES is no size. */
tdm_status tdm_pool_create(tdm_context *context, const tdm_staging_pool_options *options,
                           tdm_pool **out_pool) TDM_WARN_UNUSED;
/* Every copy has ended; the devices are still there. NULL is legal. */
void tdm_pool_destroy(tdm_pool *pool);

/* A buffer of at least `bytes` bytes near `device` and pinned for it (device->ops->pin). When the
 * cap would be passed: kept buffers are freed first, then it waits for given-back ones whose copies
 * are under way, then OUT_OF_MEMORY, telling the cap: it never waits for one that is out, which the
 * caller itself may hold. Where the system keeps placing memory on another node than it granted,
 * the buffer is what it is, on that node and not pinned, and the log is told once. Any thread but
 * one that executes a queue. */
tdm_status tdm_pool_take(tdm_pool *pool, tdm_device *device, size_t bytes,
                         tdm_staging **out_staging) TDM_WARN_UNUSED;
/* As take, but waits for no copy: *out_staging is NULL, with OK, where it would have to. Any
 * thread; making a buffer may still take a driver's time. */
tdm_status tdm_pool_try_take(tdm_pool *pool, tdm_device *device, size_t bytes,
                             tdm_staging **out_staging) TDM_WARN_UNUSED;
/* The buffer's last use is the point (queue, sequence); queue NULL: it is over. Any thread. */
void tdm_pool_give_back(tdm_pool *pool, tdm_staging *staging, tdm_queue *queue, uint64_t sequence);

/* Is [memory, memory + bytes) inside one buffer of the pool, out or given back, that is pinned for
 * a device of this one's kind? Any thread. */
bool tdm_pool_is_pinned(tdm_pool *pool, const tdm_device *device, const void *memory, size_t bytes);
void tdm_pool_counters_read(tdm_pool *pool, tdm_pool_counters *out_counters);

#endif
