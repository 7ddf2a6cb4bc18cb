/* Public part of checkpoint/: training with a loader, and checkpoints, from which training
 * continues as if it had not been interrupted.
 *
 * A checkpoint is one safetensors file. It contains parameters and states under the names that they
 * have in the store. Under "checkpoint/" it contains the number of training steps, the seed, the
 * learning rate, the name of the optimizer, and the position of the loader. The random numbers of
 * dropout depend on the first two only. The last tensor is "checkpoint/checksums", with one
 * checksum per tensor. If several sessions train with the store, these numbers of each session are
 * also under "checkpoint/sessions/" (tdm_store_create). Other programs can read the parameters as
 * from any safetensors file.
 *
 * In a job of several ranks all of them call these functions. Only rank 0 reads and writes the
 * file: it receives what the other ranks store, and sends them what it has read. So the file is
 * that of a single process, and any number of ranks can load it. A failure on one rank fails on
 * all, with its message, and leaves the previous file in place. */
#ifndef TANDEM_CHECKPOINT_CHECKPOINT_H
#define TANDEM_CHECKPOINT_CHECKPOINT_H

#include "tandem/data/data.h"
#include "tandem/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Trains for one epoch: one training step for each batch of loader, from the first batch of that
 * epoch on. Blocks until the epoch is done. It stops at the first step that fails, and returns its
 * status. Programs that carry states from step to step, or keep several steps in flight, call
 * tdm_loader_next and tdm_submit instead.
 * @param inputs (count): names of the inputs to which fields 0, 1, ... of a batch are fed.
 * @param count number of inputs; further fields are not fed.
 * @param epoch number of the epoch, from 0.
 * @param out_loss receives the mean of the steps' losses, weighted by their numbers of rows; may be
 *     NULL. */
TDM_API tdm_status tdm_train_epoch(tdm_session *session, tdm_loader *loader,
                                   const char *const *inputs, size_t count, uint64_t epoch,
                                   double *out_loss) TDM_WARN_UNUSED;

/* Writes a checkpoint of a session and a loader to a file. Waits for runs in flight. path has
 * either the old or the complete new contents, as with tdm_safetensors_save.
 * @param loader NULL: none. It must not be used by another thread meanwhile. Batches that were
 *     prepared but not delivered count as not begun. */
TDM_API tdm_status tdm_checkpoint_save(tdm_session *session, const tdm_loader *loader,
                                       const char *path) TDM_WARN_UNUSED;

/* Restores a session and a loader from a checkpoint. The steps that follow give bitwise the results
 * that they would have given without interruption, on the same devices and with the same options.
 * It can be called before the session's first step or later. If the file is damaged (CORRUPT_DATA)
 * or does not fit (INVALID_ARGUMENT), nothing is changed, and the message names the tensor.
 * tdm_loader_position and tdm_session_step report where to continue.
 * @code
 * tdm_status status = tdm_checkpoint_load(session, loader, "model.checkpoint");
 * @endcode
 * @param session created as the one that was saved.
 * @param loader created as the one that was saved; NULL: none. */
TDM_API tdm_status tdm_checkpoint_load(tdm_session *session, tdm_loader *loader,
                                       const char *path) TDM_WARN_UNUSED;

/* Writes a checkpoint with tensors of the program's own, which future steps depend on, such as a
 * recurrent state or the sums of an epoch. Otherwise as tdm_checkpoint_save.
 * @param own tensors, on any devices; the file contains them as "checkpoint/own/NAME". NULL: none.
 */
TDM_API tdm_status tdm_checkpoint_save_with(tdm_session *session, const tdm_loader *loader,
                                            const tdm_tensor_list *own,
                                            const char *path) TDM_WARN_UNUSED;

/* Restores a checkpoint and returns the program's own tensors. Otherwise as tdm_checkpoint_load.
 * @param out_own receives the tensors on cpu:0; an empty list if there are none. */
TDM_API tdm_status tdm_checkpoint_load_with(tdm_session *session, tdm_loader *loader,
                                            const char *path,
                                            tdm_tensor_list **out_own) TDM_WARN_UNUSED;

/* Writes a session's parameters and model states to a safetensors file, under PyTorch's names
 * (tdm_session_state_dict). Messages begin with path.
 * @param options NULL: all defaults. */
TDM_API tdm_status tdm_state_dict_save(tdm_session *session, const char *path,
                                       const tdm_state_dict_options *options) TDM_WARN_UNUSED;

/* Sets a session's parameters and model states from a safetensors file
 * (tdm_session_load_state_dict). It reads state dicts that PyTorch programs have saved, files of
 * tdm_state_dict_save and tdm_safetensors_save, and checkpoints. Messages begin with path.
 * @param options NULL: all defaults. */
TDM_API tdm_status tdm_state_dict_load(tdm_session *session, const char *path,
                                       const tdm_state_dict_options *options) TDM_WARN_UNUSED;

#ifdef __cplusplus
}
#endif
#endif
