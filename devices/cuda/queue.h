/* Queues of a GPU: one stream each, fed by threads of the host. Compute and peer queues share a
 * thread; the upload and the download queue have one each, since those also move bytes between
 * pageable memory and staging buffers. Invariant: a command's place on the stream is fixed by its
 * queue's thread alone, in the order of submission; a point is published once the event behind it
 * is seen and the reports of the commands before it are read.
 *
 *   submit -> inbox -> enqueued on the stream ... event -> mark retired: failures, publish, settle
 *
 * A WAIT for a queue of a GPU becomes a wait of the stream; one for a queue of the host holds the
 * rest of the program until the host's point is reached. What a kernel reports (a bad id) is known
 * only when its point is observed: dependents enqueued on GPUs have executed by then and count as
 * failed all the same, and what they wrote is void. A GATE therefore waits until every point before
 * it has been observed; persistent memory is written behind gates. */
#ifndef TANDEM_DEVICES_CUDA_QUEUE_H
#define TANDEM_DEVICES_CUDA_QUEUE_H

#include "devices/contract/device.h"
#include "devices/cuda/library/api.h"

/* Some queues of one device, and their thread. */
typedef struct tdm_cuda_feeder tdm_cuda_feeder;

/* Makes the queues of roles (bit i: role i) and puts them into device->queues. tf32: for products.
 * No stream and no thread yet. */
tdm_status tdm_cuda_feeder_create(tdm_device *device, const tdm_cuda_api *api, int ordinal,
                                  unsigned roles, bool tf32,
                                  tdm_cuda_feeder **out_feeder) TDM_WARN_UNUSED;
/* Stopped, or never started. NULL is legal. */
void tdm_cuda_feeder_destroy(tdm_cuda_feeder *feeder);

/* Starts the thread. It makes streams, events and pinned reports when it is first given something,
 * so that a GPU that nobody uses is not opened; where the GPU refuses, every command fails with its
 * words. */
tdm_status tdm_cuda_feeder_start(tdm_cuda_feeder *feeder) TDM_WARN_UNUSED;
/* Lets what is queued end and joins the thread, which frees what it made. Legal twice, or without a
 * start. NULL is legal. */
void tdm_cuda_feeder_stop(tdm_cuda_feeder *feeder);

/* tdm_device_ops.submit. */
void tdm_cuda_feeder_submit(tdm_queue *queue, tdm_submission *submission);

#endif
