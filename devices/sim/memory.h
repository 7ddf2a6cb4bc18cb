/* Memory that the host cannot reach by its address. Addresses are numbers beyond what any process
 * can map, so they cost nothing; the bytes are mapped a block at a time, and a table, which grows
 * with the addresses in use, tells where each granule's are:
 *
 *   addresses  |  block  |       |  block  |  ...      no memory, whoever reads one is stopped
 *                   |                 |
 *   table      [ granule ... ] [ granule ... ]         a page of it for 2^30 bytes of addresses
 *                   |                 |
 *   bytes      |  block  |       |  block  |           mapped while the block lives
 *
 * Invariant: a granule of addresses belongs to one block at most; a released address is not given
 * out again before the cursor has gone through the whole range. */
#ifndef TANDEM_DEVICES_SIM_MEMORY_H
#define TANDEM_DEVICES_SIM_MEMORY_H

#include <pthread.h>
#include <stdatomic.h>

#include "devices/contract/device.h"

enum {
  TDM_SIM_GRANULE_BITS = 16,
  TDM_SIM_PAGE_BITS = 14, /* granules that a page of the table tells of */
  TDM_SIM_RANGE_BITS = 38,
  TDM_SIM_PAGES = 1 << (TDM_SIM_RANGE_BITS - TDM_SIM_PAGE_BITS - TDM_SIM_GRANULE_BITS)
};

typedef struct tdm_sim_granule {
  _Atomic size_t remain;  /* from the granule's begin to its block's end; 0: free */
  _Atomic(char *) memory; /* of the granule's begin */
} tdm_sim_granule;

typedef struct tdm_sim_memory {
  tdm_address begin;                               /* of 2^TDM_SIM_RANGE_BITS addresses */
  _Atomic(tdm_sim_granule *) pages[TDM_SIM_PAGES]; /* NULL: no address of it was given out yet */
  size_t live[TDM_SIM_PAGES];                      /* granules in use */
  size_t cursor;                                   /* granule where the next search begins */
  pthread_mutex_t mutex; /* of live and cursor, and of giving out granules */
  bool has_mutex;
} tdm_sim_memory;

/* The addresses of the device of this index; devices of one context have different ones. Maps
 * nothing. deinit accepts a zeroed one; no memory of it is out. */
tdm_status tdm_sim_memory_init(tdm_sim_memory *memory, size_t index) TDM_WARN_UNUSED;
void tdm_sim_memory_deinit(tdm_sim_memory *memory);

/* Blocks of zeros. OUT_OF_MEMORY names the device by its name. */
tdm_status tdm_sim_memory_allocate(tdm_sim_memory *memory, const char *name, size_t bytes,
                                   tdm_address *out_address) TDM_WARN_UNUSED;
void tdm_sim_memory_release(tdm_sim_memory *memory, tdm_address address);

/* A pointer to the bytes of [address, address + bytes); NULL, without a message, when that is not
 * inside one live block. Any thread, without a lock. */
static inline void *tdm_sim_memory_translate(const tdm_sim_memory *memory, tdm_address address,
                                             size_t bytes) {
  const size_t offset = address - memory->begin;
  if (offset >> TDM_SIM_RANGE_BITS != 0) return NULL;
  const size_t granule = offset >> TDM_SIM_GRANULE_BITS;
  const size_t inside = offset & (((size_t)1 << TDM_SIM_GRANULE_BITS) - 1);
  const tdm_sim_granule *page =
      atomic_load_explicit(&memory->pages[granule >> TDM_SIM_PAGE_BITS], memory_order_acquire);
  if (!page) return NULL;
  const tdm_sim_granule *entry = &page[granule & (((size_t)1 << TDM_SIM_PAGE_BITS) - 1)];
  const size_t remain = atomic_load_explicit(&entry->remain, memory_order_acquire);
  if (remain == 0 || inside > remain || bytes > remain - inside) return NULL;
  return atomic_load_explicit(&entry->memory, memory_order_relaxed) + inside;
}

#endif
