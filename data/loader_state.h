/* A loader's position as a tensor of a checkpoint. */
#ifndef TANDEM_DATA_LOADER_STATE_H
#define TANDEM_DATA_LOADER_STATE_H

#include "tandem/data/data.h"

/* Adds the position and what the order of batches depends on to list, as "checkpoint/loader". */
tdm_status tdm_loader_save(const tdm_loader *loader, tdm_tensor_list *list) TDM_WARN_UNUSED;

/* Reads the position from list. Fails with INVALID_ARGUMENT unless the saved loader had as many
 * items and batches and the same seed. Changes nothing; tdm_loader_start_at moves the loader. */
tdm_status tdm_loader_saved_position(const tdm_loader *loader, const tdm_tensor_list *list,
                                     uint64_t *out_epoch, int64_t *out_batch) TDM_WARN_UNUSED;

#endif
