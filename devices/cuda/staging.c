/* Copies chunks through staging buffers. Invariant: see staging.h. If CUDA fails, the stream is
 * awaited before buffers are returned, because it may still use them. */
#include "devices/cuda/staging.h"

#include <assert.h>
#include <string.h>

#include "devices/context/context.h"
#include "devices/cuda/library/errors.h"

enum { SPIN_NS = 50000 }; /* longest time to spin before the thread sleeps */

/* ---- Buffers --------------------------------------------------------------------------------- */

/* One buffer is enough to continue. */
static tdm_status take_buffers(tdm_cuda_staging *staging, tdm_device *device, uint32_t wanted) {
  for (uint32_t i = 0; i < wanted; i++) {
    tdm_staging *buffer = NULL;
    const tdm_status status =
        tdm_pool_try_take(staging->pool, device, staging->piece_bytes, &buffer);
    if (!buffer) return i > 0 ? TDM_OK : status;
    staging->buffers[staging->count++] = buffer;
  }
  return TDM_OK;
}

tdm_status tdm_cuda_staging_take(tdm_cuda_queue *queue, size_t bytes,
                                 tdm_cuda_staging *out_staging) {
  tdm_device *device = queue->base.device;
  *out_staging = (tdm_cuda_staging){
      .pool = tdm_context_pool(device->context),
      .piece_bytes = bytes < TDM_CUDA_PIECE_BYTES ? bytes : TDM_CUDA_PIECE_BYTES};
  for (;;) {
    const uint32_t wanted = bytes > out_staging->piece_bytes ? TDM_CUDA_STAGING_BUFFERS : 1;
    const tdm_status status = take_buffers(out_staging, device, wanted);
    if (status != TDM_OUT_OF_MEMORY || out_staging->piece_bytes <= TDM_CUDA_LEAST_PIECE_BYTES)
      return status;
    out_staging->piece_bytes /= 4; /* the pool's cap is low, or others hold most of it */
  }
}

static void give_back(tdm_cuda_staging *staging, tdm_queue *queue, uint64_t sequence) {
  for (uint32_t i = 0; i < staging->count; i++)
    tdm_pool_give_back(staging->pool, staging->buffers[i], queue, sequence);
  staging->count = 0;
}

void tdm_cuda_staging_drop(tdm_cuda_staging *staging) {
  give_back(staging, NULL, 0);
}

/* ---- Chunks ---------------------------------------------------------------------------------- */

/* Enqueues the copy of one piece, and an event after it. */
static tdm_status enqueue_piece(tdm_cuda_queue *queue, uint32_t index, void *to, const void *from,
                                size_t bytes, tdm_cuda_direction direction) {
  const tdm_cuda_api *api = queue->kernel_stream.api;
  const tdm_cuda_stream stream = queue->kernel_stream.stream;
  TDM_TRY(tdm_cuda_check(api, api->copy_async(to, from, bytes, direction, stream),
                         direction == TDM_CUDA_TO_DEVICE ? "an upload" : "a download"));
  return tdm_cuda_check(api, api->event_record(queue->staging_events[index], stream),
                        "recording an event");
}

static tdm_status await_piece(tdm_cuda_queue *queue, uint32_t index) {
  const tdm_cuda_api *api = queue->kernel_stream.api;
  const tdm_cuda_event event = queue->staging_events[index];
  const uint64_t begin_ns = tdm_time_ns();
  tdm_cuda_code code = api->event_query(event);
  while (code == TDM_CUDA_NOT_READY && tdm_time_ns() - begin_ns < SPIN_NS) {
    tdm_spin_pause();
    code = api->event_query(event);
  }
  if (code == TDM_CUDA_NOT_READY) code = api->event_synchronize(event);
  return tdm_cuda_check(api, code, "waiting for a piece of a copy");
}

static size_t piece_length(const tdm_cuda_staging *staging, size_t bytes, size_t offset) {
  return bytes - offset < staging->piece_bytes ? bytes - offset : staging->piece_bytes;
}

static tdm_status upload_pieces(tdm_cuda_queue *queue, const tdm_cuda_staging *staging, char *to,
                                const char *from, size_t bytes) {
  for (size_t offset = 0, piece = 0; offset < bytes; piece++) {
    const uint32_t index = (uint32_t)(piece % staging->count);
    char *buffer = staging->buffers[index]->memory;
    const size_t length = piece_length(staging, bytes, offset);
    if (piece >= staging->count) TDM_TRY(await_piece(queue, index));
    memcpy(buffer, from + offset, length);
    TDM_TRY(enqueue_piece(queue, index, to + offset, buffer, length, TDM_CUDA_TO_DEVICE));
    offset += length;
  }
  return TDM_OK;
}

/* Downloads with as many pieces in flight as there are buffers. */
static tdm_status download_pieces(tdm_cuda_queue *queue, const tdm_cuda_staging *staging, char *to,
                                  const char *from, size_t bytes) {
  assert(staging->count > 0);
  size_t asked = 0; /* bytes */
  for (uint32_t index = 0; index < staging->count && asked < bytes; index++) {
    const size_t length = piece_length(staging, bytes, asked);
    TDM_TRY(enqueue_piece(queue, index, staging->buffers[index]->memory, from + asked, length,
                          TDM_CUDA_TO_HOST));
    asked += length;
  }
  for (size_t offset = 0, piece = 0; offset < bytes; piece++) {
    const uint32_t index = (uint32_t)(piece % staging->count);
    char *buffer = staging->buffers[index]->memory;
    const size_t length = piece_length(staging, bytes, offset);
    TDM_TRY(await_piece(queue, index));
    memcpy(to + offset, buffer, length);
    offset += length;
    if (asked == bytes) continue;
    const size_t next = piece_length(staging, bytes, asked);
    TDM_TRY(enqueue_piece(queue, index, buffer, from + asked, next, TDM_CUDA_TO_HOST));
    asked += next;
  }
  return TDM_OK;
}

tdm_status tdm_cuda_staging_upload(tdm_cuda_queue *queue, tdm_cuda_staging *staging, void *to,
                                   const void *from, size_t bytes, uint64_t sequence) {
  const tdm_status status = upload_pieces(queue, staging, to, from, bytes);
  if (status == TDM_OK) {
    give_back(staging, &queue->base, sequence);
    return TDM_OK;
  }
  (void)queue->kernel_stream.api->stream_synchronize(queue->kernel_stream.stream);
  tdm_cuda_staging_drop(staging);
  return status;
}

tdm_status tdm_cuda_staging_download(tdm_cuda_queue *queue, tdm_cuda_staging *staging, void *to,
                                     const void *from, size_t bytes) {
  const tdm_status status = download_pieces(queue, staging, to, from, bytes);
  if (status != TDM_OK)
    (void)queue->kernel_stream.api->stream_synchronize(queue->kernel_stream.stream);
  tdm_cuda_staging_drop(staging);
  return status;
}
