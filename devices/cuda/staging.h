/* Copies between pageable host memory and a GPU, through pinned buffers of the pool: while one
 * buffer is copied by the GPU, the other is filled or emptied by the host. Invariant: a buffer goes
 * back to the pool with the point after which nothing uses it. */
#ifndef TANDEM_DEVICES_CUDA_STAGING_H
#define TANDEM_DEVICES_CUDA_STAGING_H

#include "devices/cuda/stream.h"
#include "devices/staging/pool.h"

enum {
  TDM_CUDA_PIECE_BYTES = 4 << 20,
  TDM_CUDA_LEAST_PIECE_BYTES = 64 << 10, /* where the pool has no more to give */
};

typedef struct tdm_cuda_staging {
  tdm_pool *pool;
  tdm_staging *buffers[TDM_CUDA_STAGING_BUFFERS]; /* (count) */
  uint32_t count;                                 /* 0: the pool would have to wait */
  size_t piece_bytes;
} tdm_cuda_staging;

/* Takes buffers for a copy of `bytes` > 0 bytes; never waits, count tells. */
tdm_status tdm_cuda_staging_take(tdm_cuda_queue *queue, size_t bytes,
                                 tdm_cuda_staging *out_staging) TDM_WARN_UNUSED;
/* Gives buffers back that nothing uses. */
void tdm_cuda_staging_drop(tdm_cuda_staging *staging);

/* Both give the buffers back, and are of the queue's thread. to and from: the GPU's pointer and the
 * host's. upload returns once the host's bytes have been read; the last buffers are in use until
 * sequence of queue. download returns once all bytes have arrived. */
tdm_status tdm_cuda_staging_upload(tdm_cuda_queue *queue, tdm_cuda_staging *staging, void *to,
                                   const void *from, size_t bytes,
                                   uint64_t sequence) TDM_WARN_UNUSED;
tdm_status tdm_cuda_staging_download(tdm_cuda_queue *queue, tdm_cuda_staging *staging, void *to,
                                     const void *from, size_t bytes) TDM_WARN_UNUSED;

#endif
