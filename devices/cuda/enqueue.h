/* Enqueuing a submission's commands on its queue's stream. Invariant: see queue.h. */
#ifndef TANDEM_DEVICES_CUDA_ENQUEUE_H
#define TANDEM_DEVICES_CUDA_ENQUEUE_H

#include "devices/cuda/stream.h"

/* Goes on with the head as far as it can without blocking. True: something was done. */
bool tdm_cuda_queue_advance(tdm_cuda_queue *queue);
/* Asks, on `bell`, for whatever the head is held up by, and for nothing else. */
void tdm_cuda_queue_ask(tdm_cuda_queue *queue, uint32_t bell);

#endif
