/* Public part of checkpoint/: training over a loader, and files from which it goes on as if it had
 * never stopped. Stands on graph/ and data/.
 *
 * A checkpoint is one safetensors file: parameters and states under the names they have in the
 * store, and under "checkpoint/" the count of training steps, the seed (with the steps all that
 * dropout's numbers depend on), the learning rate, the optimizer's name, the loader's position, and
 * last "checkpoint/checksums", one a tensor. If several sessions train with the store, these
 * numbers of each are under "checkpoint/sessions/" too (graph/sessions.h). Other programs read the
 * parameters from it as from any such file.
 *
 * In a job of several ranks all of them call these functions. Rank 0 alone reads and writes the
 * file: it gets what lives on the others, and they get what it has read. So the file is that of one
 * process, and any number of ranks loads it. What fails on one rank fails on all, with its message,
 * and leaves what stood under path. */
#ifndef TANDEM_CHECKPOINT_CHECKPOINT_H
#define TANDEM_CHECKPOINT_CHECKPOINT_H

#include "tandem/data/data.h"
#include "tandem/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One pass over loader, from the first batch of that epoch: a training step a batch, whose field i
 * is fed as inputs[i], as far as there are `count` names. *out_loss (may be NULL): the mean of the
 * steps' losses, each counted by its rows. Blocks; at the first step that fails it ends with that
 * step's status. What carries states from step to step, or keeps several steps in flight, calls
 * tdm_loader_next and tdm_submit itself. */
TDM_API tdm_status tdm_train_epoch(tdm_session *session, tdm_loader *loader,
                                   const char *const *inputs, size_t count, uint64_t epoch,
                                   double *out_loss) TDM_WARN_UNUSED;

/* Writes a checkpoint of session, and of loader unless it is NULL, to path: whole, or path stays
 * untouched, as tdm_safetensors_save. Waits for runs in flight. Between two calls of
 * tdm_loader_next; batches made ahead but not delivered count as not begun. */
TDM_API tdm_status tdm_checkpoint_save(tdm_session *session, const tdm_loader *loader,
                                       const char *path) TDM_WARN_UNUSED;

/* Takes session, and loader unless it is NULL, to where path's were: the steps that follow, on the
 * same devices and with the same options, give bitwise what they would have given there. For a
 * session and a loader made as those were; before a session's first step as well as later. A file
 * that is damaged (CORRUPT_DATA) or does not fit (INVALID_ARGUMENT) changes nothing; the message
 * names the tensor. tdm_loader_position and tdm_session_step tell where to go on. */
TDM_API tdm_status tdm_checkpoint_load(tdm_session *session, tdm_loader *loader,
                                       const char *path) TDM_WARN_UNUSED;

/* The same with tensors of the caller's, what else the steps to come depend on: what one step
 * leaves for the next, sums of an epoch. The file has them as "checkpoint/own/NAME". own may be
 * NULL, and its tensors on any device; *out_own, which the caller releases, has them on cpu:0, is
 * empty where there are none, and NULL on failure. */
TDM_API tdm_status tdm_checkpoint_save_with(tdm_session *session, const tdm_loader *loader,
                                            const tdm_tensor_list *own,
                                            const char *path) TDM_WARN_UNUSED;
TDM_API tdm_status tdm_checkpoint_load_with(tdm_session *session, tdm_loader *loader,
                                            const char *path,
                                            tdm_tensor_list **out_own) TDM_WARN_UNUSED;

/* A session's parameters and model states in a safetensors file, by PyTorch's names
 * (graph/state_dict.h): tdm_session_state_dict and tdm_session_load_state_dict with a file. Reads
 * what PyTorch's users save of a state_dict, what tdm_state_dict_save and tdm_safetensors_save
 * wrote, and checkpoints. Messages begin with path. options may be NULL. */
TDM_API tdm_status tdm_state_dict_save(tdm_session *session, const char *path,
                                       const tdm_state_dict_options *options) TDM_WARN_UNUSED;
TDM_API tdm_status tdm_state_dict_load(tdm_session *session, const char *path,
                                       const tdm_state_dict_options *options) TDM_WARN_UNUSED;

#ifdef __cplusplus
}
#endif
#endif
