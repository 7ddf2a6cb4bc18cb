/* Files of a job of several ranks: rank 0 reads and writes them, and sends the others what it has
 * read. Invariant: ranks exchange the same data whatever fails on one of them, and all ranks return
 * the same failure. */
#ifndef TANDEM_CHECKPOINT_RANKS_H
#define TANDEM_CHECKPOINT_RANKS_H

#include "tandem/devices/devices.h"

/* The rank whose list of a session is written to a file. */
enum { FILE_RANK = 0 };

/* Reads path on rank 0. Every rank gets the list, in host memory. */
tdm_status tdm_ranks_read(tdm_context *context, const char *path,
                          tdm_tensor_list **out_list) TDM_WARN_UNUSED;
/* Writes list to path on rank 0 and distributes the result to all ranks. status is the result of
 * creating the list on this rank; the file is written only if it is TDM_OK. All of the list's ranks
 * call it. */
tdm_status tdm_ranks_write(tdm_context *context, tdm_status status, const tdm_tensor_list *list,
                           const char *path) TDM_WARN_UNUSED;

#endif
