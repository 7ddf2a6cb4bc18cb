/* Sums over GPUs, of one rank or several, and what GPUs of two ranks send one another, by NCCL on
 * one stream of each; below both are called sums. Invariant: a GPU takes part in all that its
 * groups do, in the order of its commands, whatever has failed before; where it cannot, the job is
 * over for all. Between joining and leaving a communicator is the feeder's thread's. */
#ifndef TANDEM_DEVICES_CUDA_SUMS_H
#define TANDEM_DEVICES_CUDA_SUMS_H

#include "devices/contract/engine.h"
#include "devices/cuda/stream.h"

/* Fills the device's engine, its name, or why there is none, which opens NCCL. allowed: nobody has
 * switched it off. */
void tdm_cuda_engine_find(tdm_device *device, bool allowed);

/* Enqueues a sum, or goes on with one that is in progress. False: it is still. On the queue's
 * thread, as what follows. */
bool tdm_cuda_sum_enqueue(tdm_cuda_queue *queue, const tdm_submission *submission,
                          const tdm_command *command);
/* Looks after the queue's sums that are under way: those that will never end, since a rank is lost
 * or NCCL has failed, are ended and fail. True: that was so. */
bool tdm_cuda_sums_look(tdm_cuda_queue *queue);

#endif
