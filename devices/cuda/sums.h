/* Sums over GPUs of several ranks, and what these send to one another, by NCCL on one stream of
 * each; below both are called sums. Invariant: a GPU takes part in all that its groups do, in the
 * order of its commands, whatever has failed before; where it cannot, the job is over for all.
 * Between joining and leaving a communicator is the feeder's thread's. */
#ifndef TANDEM_DEVICES_CUDA_SUMS_H
#define TANDEM_DEVICES_CUDA_SUMS_H

#include "devices/contract/engine.h"
#include "devices/cuda/stream.h"

/* Fills the device's engine, its name, or why there is none. allowed: nobody has switched it off. A
 * job of one rank has no use for it, and then NCCL is not opened. */
void tdm_cuda_engine_find(tdm_device *device, bool allowed);

/* Enqueues a sum, or goes on with one that is in progress. False: it is still. On the queue's
 * thread, as what follows. */
bool tdm_cuda_sum_enqueue(tdm_cuda_queue *queue, const tdm_submission *submission,
                          const tdm_command *command);
/* Looks after the queue's sums that are under way: those that will never end, since a rank is lost
 * or NCCL has failed, are ended and fail. True: that was so. */
bool tdm_cuda_sums_look(tdm_cuda_queue *queue);

#endif
