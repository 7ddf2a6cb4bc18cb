/* Sums over GPUs, of one rank or several, and transfers between GPUs of two ranks, by NCCL on one
 * stream of each GPU. Below both are called sums. Invariant: a GPU takes part in all operations of
 * its groups, in the order of its commands, whatever has failed before. If it cannot, the job ends
 * for all ranks. Between joining and leaving, a communicator belongs to the feeder's thread. */
#ifndef TANDEM_DEVICES_CUDA_SUMS_H
#define TANDEM_DEVICES_CUDA_SUMS_H

#include "devices/contract/engine.h"
#include "devices/cuda/stream.h"

/* Sets the device's engine and its name, or the reason why there is none. It opens NCCL. allowed is
 * false if NCCL was switched off. */
void tdm_cuda_engine_find(tdm_device *device, bool allowed);

/* Enqueues a sum, or continues one that is in progress. Returns false while it is in progress. This
 * and the next run on the queue's thread. */
bool tdm_cuda_sum_enqueue(tdm_cuda_queue *queue, const tdm_submission *submission,
                          const tdm_command *command);
/* Monitors the queue's sums in progress: ends and fails those that will never complete, because a
 * rank is lost or NCCL has failed. Returns true if there were any. */
bool tdm_cuda_sums_look(tdm_cuda_queue *queue);

#endif
