/* Memory that the host cannot reach by its address. Every address lies in a range that is never
 * mapped readable; the bytes lie a constant distance away, which only translate knows:
 *
 *   addresses  |  block  |       |  block  |  ...      PROT_NONE for good
 *                  | + distance
 *   backing    |  bytes  |       |  bytes  |  ...      readable while the block lives
 *
 * Invariant: a granule of addresses belongs to one block at most; a released address is not given
 * out again before the cursor has gone through the whole range. */
#ifndef TANDEM_DEVICES_SIM_MEMORY_H
#define TANDEM_DEVICES_SIM_MEMORY_H

#include <pthread.h>
#include <stdatomic.h>

#include "devices/device.h"

typedef struct tdm_sim_memory {
  tdm_address begin;      /* of the addresses */
  size_t range_bytes;     /* of addresses, and of backing */
  char *backing;          /* of address `begin` */
  _Atomic size_t *remain; /* (granules): bytes from a granule's begin to its block's end; 0: free */
  size_t granule_count;
  size_t cursor;         /* granule where the next search begins */
  pthread_mutex_t mutex; /* of cursor, and of giving out granules */
  bool has_mutex;
} tdm_sim_memory;

/* Reserves the ranges. deinit accepts a zeroed or half-built one. */
tdm_status tdm_sim_memory_init(tdm_sim_memory *memory, size_t range_bytes) TDM_WARN_UNUSED;
void tdm_sim_memory_deinit(tdm_sim_memory *memory);

tdm_status tdm_sim_memory_allocate(tdm_sim_memory *memory, size_t bytes,
                                   tdm_address *out_address) TDM_WARN_UNUSED;
void tdm_sim_memory_release(tdm_sim_memory *memory, tdm_address address);

/* A pointer to the bytes of [address, address + bytes); NULL, without a message, when that is not
 * inside one live block. Any thread, without a lock. */
static inline void *tdm_sim_memory_translate(const tdm_sim_memory *memory, tdm_address address,
                                             size_t bytes);

enum { TDM_SIM_GRANULE_BITS = 16 };

static inline void *tdm_sim_memory_translate(const tdm_sim_memory *memory, tdm_address address,
                                             size_t bytes) {
  const size_t offset = address - memory->begin;
  if (offset >= memory->range_bytes) return NULL;
  const size_t granule = offset >> TDM_SIM_GRANULE_BITS;
  const size_t inside = offset & (((size_t)1 << TDM_SIM_GRANULE_BITS) - 1);
  const size_t remain = atomic_load_explicit(&memory->remain[granule], memory_order_acquire);
  if (inside > remain || bytes > remain - inside) return NULL;
  return memory->backing + offset;
}

#endif
