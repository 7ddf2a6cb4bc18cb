/* Files of a job of several ranks: rank 0 reads and writes them, and the others get what it read.
 * Invariant: ranks exchange equally much whatever fails on one, and all fail alike. */
#ifndef TANDEM_CHECKPOINT_RANKS_H
#define TANDEM_CHECKPOINT_RANKS_H

#include "tandem/devices/devices.h"

/* Whose list of a session is written to a file. */
enum { FILE_RANK = 0 };

/* Reads path on rank 0; every rank gets the list, in host memory. */
tdm_status tdm_ranks_read(tdm_context *context, const char *path,
                          tdm_tensor_list **out_list) TDM_WARN_UNUSED;
/* Writes list to path on rank 0 if status, how making it went on this rank, is TDM_OK, and tells
 * all ranks how it went. All of the list's ranks call it. */
tdm_status tdm_ranks_write(tdm_context *context, tdm_status status, const tdm_tensor_list *list,
                           const char *path) TDM_WARN_UNUSED;

#endif
