/* Memory of a GPU behind addresses of our own. As with sim, an address lies in a range that the
 * host can never read; what stands behind it is a piece of an arena of the GPU's:
 *
 *   addresses  |  block  |       |  block  |  ...      PROT_NONE for good
 *                  | table: a granule's pointer and what remains of its block
 *   arenas     [ block | block |        ] [ big block ]     cudaMalloc
 *
 * Invariant: a granule of addresses belongs to one block at most; a released address is not given
 * out again before the cursor has gone through the whole range. */
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
  _Atomic(char *) memory; /* of the GPU, at the granule's begin */
} tdm_cuda_granule;

typedef struct tdm_cuda_arena tdm_cuda_arena;

typedef struct tdm_cuda_memory {
  tdm_cuda_gpu *gpu;
  tdm_red_zones red_zones; /* if any, every block is an arena, as long as was asked for */
  const tdm_allocator *allocator;
  tdm_address begin;
  size_t range_bytes;
  tdm_cuda_granule *granules; /* (granule_count) */
  size_t granule_count;
  size_t cursor; /* granule where the next search begins */
  tdm_cuda_arena *arenas;
  pthread_mutex_t mutex; /* of cursor, arenas, and of giving out granules */
  bool has_mutex;
} tdm_cuda_memory;

/* Reserves addresses for a GPU of that much memory; asks nothing of it. deinit accepts a zeroed or
 * half-built one. */
tdm_status tdm_cuda_memory_init(tdm_cuda_memory *memory, tdm_cuda_gpu *gpu, size_t gpu_bytes,
                                tdm_red_zones red_zones,
                                const tdm_allocator *allocator) TDM_WARN_UNUSED;
/* Gives the arenas back; nothing is out. */
void tdm_cuda_memory_deinit(tdm_cuda_memory *memory);

/* Any thread, whose current device stays what it is. */
tdm_status tdm_cuda_memory_allocate(tdm_cuda_memory *memory, size_t bytes,
                                    tdm_address *out_address) TDM_WARN_UNUSED;
void tdm_cuda_memory_release(tdm_cuda_memory *memory, tdm_address address);

/* The GPU's pointer to [address, address + bytes); NULL, without a message, when that is not inside
 * one live block. Any thread, without a lock. */
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
