/* Queues of a GPU: one stream each, fed by threads of the host. Compute and peer queues share a
 * thread. The upload and the download queue have one each, because those threads also move bytes
 * between pageable memory and staging buffers. Invariant: only its queue's thread enqueues a
 * command, in the order of submission. A point is published after the event that follows it was
 * seen and the reports of the preceding commands were read.
 *
 *   submit -> inbox -> enqueued on the stream ... event -> mark retired: failures, publish, settle
 *
 * A WAIT for a queue of a GPU becomes a wait of the stream. One for a queue of the host blocks the
 * rest of the program until the host's point is reached. A kernel's report (a bad id) is known only
 * when its point is observed. Dependents on GPUs have executed by then; they count as failed, and
 * their results are void. Therefore a GATE waits until every point before it has been observed, and
 * persistent memory is written after gates. */
#ifndef TANDEM_DEVICES_CUDA_QUEUE_H
#define TANDEM_DEVICES_CUDA_QUEUE_H

#include "devices/contract/device.h"
#include "devices/cuda/library/api.h"

/* Some queues of one device, and their thread. */
typedef struct tdm_cuda_feeder tdm_cuda_feeder;

/* Creates the queues of roles (bit i: role i) and stores them in device->queues, without streams or
 * a thread. tf32 applies to products. */
tdm_status tdm_cuda_feeder_create(tdm_device *device, const tdm_cuda_api *api, int ordinal,
                                  unsigned roles, bool tf32,
                                  tdm_cuda_feeder **out_feeder) TDM_WARN_UNUSED;
/* The feeder is stopped, or was never started. NULL is legal. */
void tdm_cuda_feeder_destroy(tdm_cuda_feeder *feeder);

/* Starts the thread. It creates streams, events and pinned reports at its first submission, so that
 * an unused GPU is not opened. If the GPU refuses, every command fails with its message. */
tdm_status tdm_cuda_feeder_start(tdm_cuda_feeder *feeder) TDM_WARN_UNUSED;
/* Completes queued work and joins the thread, which frees what it created. Legal twice, or without
 * a start. NULL is legal. */
void tdm_cuda_feeder_stop(tdm_cuda_feeder *feeder);

/* Implements tdm_device_ops.submit. */
void tdm_cuda_feeder_submit(tdm_queue *queue, tdm_submission *submission);

#endif
