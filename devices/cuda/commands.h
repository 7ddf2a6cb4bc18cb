/* Enqueues one command's kernel or copy on its queue's stream. */
#ifndef TANDEM_DEVICES_CUDA_COMMANDS_H
#define TANDEM_DEVICES_CUDA_COMMANDS_H

#include "devices/cuda/stream.h"

/* Enqueues an EXECUTE or a COPY, skips it if its flight requires that, or fails it. Returns false
 * if it is blocked and nothing has happened yet. On the queue's thread. */
bool tdm_cuda_command_enqueue(tdm_cuda_queue *queue, const tdm_submission *submission,
                              const tdm_command *command);

/* Copies the bytes at once, on this thread, whose device is an end of the copy. */
tdm_status tdm_cuda_copy_now(const tdm_cuda_api *api, const tdm_copy *copy, tdm_address from,
                             tdm_address to) TDM_WARN_UNUSED;

#endif
