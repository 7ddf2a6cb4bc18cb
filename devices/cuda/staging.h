/* Copies between pageable host memory and a GPU through pinned buffers of the pool. While the GPU
 * copies one buffer, the host fills or empties the other. Invariant: a buffer is returned to the
 * pool together with the point after which it is unused. */
#ifndef TANDEM_DEVICES_CUDA_STAGING_H
#define TANDEM_DEVICES_CUDA_STAGING_H

#include "devices/cuda/stream.h"
#include "devices/staging/pool.h"

enum {
  TDM_CUDA_PIECE_BYTES = 4 << 20,
  TDM_CUDA_LEAST_PIECE_BYTES = 64 << 10, /* smallest piece, used if the pool has no larger one */
};

typedef struct tdm_cuda_staging {
  tdm_pool *pool;
  tdm_staging *buffers[TDM_CUDA_STAGING_BUFFERS]; /* (count) */
  uint32_t count;                                 /* 0: the pool would have to wait */
  size_t piece_bytes;
} tdm_cuda_staging;

/* Takes buffers for a copy of `bytes` > 0 bytes. Never waits; count is the number of buffers. */
tdm_status tdm_cuda_staging_take(tdm_cuda_queue *queue, size_t bytes,
                                 tdm_cuda_staging *out_staging) TDM_WARN_UNUSED;
/* Gives unused buffers back to the pool. */
void tdm_cuda_staging_drop(tdm_cuda_staging *staging);

/* Both return the buffers, and run on the queue's thread. Parameters `to` and `from` are the GPU's
 * pointer and the host's. An upload returns after the host's bytes have been read; the last buffers
 * are in use until sequence of queue. A download returns after all bytes have arrived. */
tdm_status tdm_cuda_staging_upload(tdm_cuda_queue *queue, tdm_cuda_staging *staging, void *to,
                                   const void *from, size_t bytes,
                                   uint64_t sequence) TDM_WARN_UNUSED;
tdm_status tdm_cuda_staging_download(tdm_cuda_queue *queue, tdm_cuda_staging *staging, void *to,
                                     const void *from, size_t bytes) TDM_WARN_UNUSED;

#endif
