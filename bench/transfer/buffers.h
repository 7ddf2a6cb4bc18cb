/* Memory at the two ends of a copy, and what is in it. Invariant: a buffer is filled before it is
 * copied from, and wiped before it is copied to, so that what a comparison finds was copied. */
#ifndef BENCH_TRANSFER_BUFFERS_H
#define BENCH_TRANSFER_BUFFERS_H

#include "devices/context/context.h"
#include "devices/staging/pool.h"

typedef enum host_memory {
  MEMORY_PAGEABLE,   /* memory of the cpu device, as allocated for tensors */
  MEMORY_PINNED,     /* a staging buffer of the context's pool */
  MEMORY_REGISTERED, /* memory of the cpu device that was pinned later for the other device */
  MEMORY_KINDS,
} host_memory;

const char *host_memory_name(host_memory kind);

typedef struct buffer {
  tdm_memory memory; /* memory that is copied; its device is the one that the buffer was created
                      * for */
  tdm_memory owned;  /* allocation that contains `memory`; has no device for MEMORY_PINNED */
  tdm_staging *staging;
  tdm_device *pinned_for; /* MEMORY_REGISTERED */
  int node;               /* NUMA node of the host side; -1: unknown, or no host side */
} buffer;

/* bytes of device's memory. Where device is a cpu device and other is not, of that kind, for copies
 * from or to other. First queries the operating system for available memory, to fail with
 * OUT_OF_MEMORY instead of being killed. On failure *out_buffer is empty. */
tdm_status buffer_create(tdm_context *context, tdm_device *device, tdm_device *other,
                         host_memory kind, size_t bytes, buffer *out_buffer) TDM_WARN_UNUSED;
/* No copy uses it any more. Empty buffers are legal. */
void buffer_release(tdm_context *context, buffer *released);

/* The first bytes become numbers that seed draws, or zeros. Blocks. */
tdm_status buffer_fill(tdm_context *context, const buffer *filled, size_t bytes,
                       uint64_t seed) TDM_WARN_UNUSED;
tdm_status buffer_wipe(tdm_context *context, const buffer *wiped, size_t bytes) TDM_WARN_UNUSED;
/* CORRUPT_DATA, telling where, unless they are what seed draws. */
tdm_status buffer_check(tdm_context *context, const buffer *checked, size_t bytes,
                        uint64_t seed) TDM_WARN_UNUSED;

#endif
