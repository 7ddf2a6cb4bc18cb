/* Enqueuing a submission's commands on its queue's stream. Invariant: see queue.h. */
#ifndef TANDEM_DEVICES_CUDA_ENQUEUE_H
#define TANDEM_DEVICES_CUDA_ENQUEUE_H

#include "devices/cuda/stream.h"

/* Advances the head without blocking. Returns true if anything was done. */
bool tdm_cuda_queue_advance(tdm_cuda_queue *queue);
/* Requests a ring of `bell` for the event that blocks the head, and for nothing else. */
void tdm_cuda_queue_ask(tdm_cuda_queue *queue, uint32_t bell);

#endif
