/* Memory of a GPU under addresses chosen by the library. As with sim, an address is in a range that
 * the host can never read. It is mapped to a piece of an arena on the GPU:
 *
 *   addresses  |  block  |       |  block  |  ...      always PROT_NONE
 *                  | table: a granule's pointer, and the rest of its block
 *   arenas     [ block | block |        ] [ big block ]     cudaMalloc
 *
 * Invariant: a granule of addresses belongs to at most one block. A released address is not used
 * again before the cursor has passed through the whole range. */
#ifndef TANDEM_DEVICES_CUDA_MEMORY_H
#define TANDEM_DEVICES_CUDA_MEMORY_H

#include <pthread.h>
#include <stdatomic.h>

#include "devices/contract/device.h"
#include "devices/contract/red_zones.h"
#include "devices/cuda/gpu.h"

enum { TDM_CUDA_GRANULE_BITS = 16 };

typedef struct tdm_cuda_granule {
  _Atomic size_t remain;  /* bytes from the granule's begin to its block's end; 0: free */
  _Atomic(char *) memory; /* address of the granule's begin on the GPU */
} tdm_cuda_granule;

typedef struct tdm_cuda_arena tdm_cuda_arena;

typedef struct tdm_cuda_memory {
  tdm_cuda_gpu *gpu;
  tdm_red_zones red_zones; /* red zones; if set, every block is an arena of exactly the requested
                            * size */
  const tdm_allocator *allocator;
  tdm_address begin;
  size_t range_bytes;
  tdm_cuda_granule *granules; /* (granule_count) */
  size_t granule_count;
  size_t cursor; /* granule where the next search begins */
  tdm_cuda_arena *arenas;
  pthread_mutex_t mutex; /* protects cursor, arenas, and the allocation of granules */
  bool has_mutex;
} tdm_cuda_memory;

/* Reserves addresses for a GPU with that much memory, without calling it. deinit accepts a zeroed
 * or half-built struct. */
tdm_status tdm_cuda_memory_init(tdm_cuda_memory *memory, tdm_cuda_gpu *gpu, size_t gpu_bytes,
                                tdm_red_zones red_zones,
                                const tdm_allocator *allocator) TDM_WARN_UNUSED;
/* Frees the arenas; no block is allocated. */
void tdm_cuda_memory_deinit(tdm_cuda_memory *memory);

/* Any thread, whose current device does not change. */
tdm_status tdm_cuda_memory_allocate(tdm_cuda_memory *memory, size_t bytes,
                                    tdm_address *out_address) TDM_WARN_UNUSED;
void tdm_cuda_memory_release(tdm_cuda_memory *memory, tdm_address address);

/* Returns the GPU's pointer to [address, address + bytes), or NULL, without a message, if that is
 * not inside one live block. Any thread, without a lock. */
static inline void *tdm_cuda_memory_translate(const tdm_cuda_memory *memory, tdm_address address,
                                              size_t bytes) {
  const size_t offset = address - memory->begin;
  if (offset >= memory->range_bytes) return NULL;
  tdm_cuda_granule *granule = &memory->granules[offset >> TDM_CUDA_GRANULE_BITS];
  const size_t inside = offset & (((size_t)1 << TDM_CUDA_GRANULE_BITS) - 1);
  const size_t remain = atomic_load_explicit(&granule->remain, memory_order_acquire);
  if (inside > remain || bytes > remain - inside) return NULL;
  char *begin = atomic_load_explicit(&granule->memory, memory_order_relaxed);
  return !begin ? NULL : begin + inside;
}

#endif
