/* Memory that the host cannot access by its address. Addresses are numbers beyond what any process
 * can map, so they cost nothing. Bytes are mapped one block at a time. A table, which grows with
 * the addresses in use, contains the place of each granule's bytes:
 *
 *   addresses  |  block  |       |  block  |  ...      no memory, reading one is a fault
 *                   |                 |
 *   table      [ granule ... ] [ granule ... ]         a page of it for 2^30 bytes of addresses
 *                   |                 |
 *   bytes      |  block  |       |  block  |           mapped while the block lives
 *
 * Invariant: a granule of addresses belongs to at most one block. A released address is not used
 * again before the cursor has passed through the whole range. */
#ifndef TANDEM_DEVICES_SIM_MEMORY_H
#define TANDEM_DEVICES_SIM_MEMORY_H

#include <pthread.h>
#include <stdatomic.h>

#include "devices/contract/device.h"

enum {
  TDM_SIM_GRANULE_BITS = 16,
  TDM_SIM_PAGE_BITS = 14, /* granules per page of the table */
  TDM_SIM_RANGE_BITS = 38,
  TDM_SIM_PAGES = 1 << (TDM_SIM_RANGE_BITS - TDM_SIM_PAGE_BITS - TDM_SIM_GRANULE_BITS)
};

typedef struct tdm_sim_granule {
  _Atomic size_t remain;  /* bytes from the granule's begin to its block's end; 0: free */
  _Atomic(char *) memory; /* address of the granule's begin */
} tdm_sim_granule;

typedef struct tdm_sim_memory {
  tdm_address begin;                               /* first of 2^TDM_SIM_RANGE_BITS addresses */
  _Atomic(tdm_sim_granule *) pages[TDM_SIM_PAGES]; /* NULL: no address of the page was allocated
                                                    * yet */
  size_t live[TDM_SIM_PAGES];                      /* granules in use */
  size_t cursor;                                   /* granule where the next search begins */
  pthread_mutex_t mutex; /* protects live, cursor, and the allocation of granules */
  bool has_mutex;
} tdm_sim_memory;

/* Reserves the addresses of the device with this index, distinct from those of the context's other
 * devices. Maps nothing. deinit accepts a zeroed struct; no memory is allocated then. */
tdm_status tdm_sim_memory_init(tdm_sim_memory *memory, size_t index) TDM_WARN_UNUSED;
void tdm_sim_memory_deinit(tdm_sim_memory *memory);

/* Allocates blocks of zeros. OUT_OF_MEMORY names the device `name`. */
tdm_status tdm_sim_memory_allocate(tdm_sim_memory *memory, const char *name, size_t bytes,
                                   tdm_address *out_address) TDM_WARN_UNUSED;
void tdm_sim_memory_release(tdm_sim_memory *memory, tdm_address address);

/* Returns a pointer to the bytes of [address, address + bytes), or NULL, without a message, if that
 * is not inside one live block. Any thread, without a lock. */
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
