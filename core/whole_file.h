/* A file that appears whole or not at all: written under another name in the same folder, flushed
 * to the disk, then renamed. Invariant: until the commit nothing under path changes; without one,
 * nothing is left behind. */
#ifndef TANDEM_CORE_WHOLE_FILE_H
#define TANDEM_CORE_WHOLE_FILE_H

#include "core/allocate.h"

typedef struct tdm_whole_file tdm_whole_file;

/* path must not exist, or be a regular file, whose permissions the new one takes over. */
tdm_status tdm_whole_file_create(const tdm_allocator *allocator, const char *path,
                                 tdm_whole_file **out_file) TDM_WARN_UNUSED;
tdm_status tdm_whole_file_write(tdm_whole_file *file, const char *bytes,
                                size_t size) TDM_WARN_UNUSED;
/* Puts the file in place. */
tdm_status tdm_whole_file_commit(tdm_whole_file *file) TDM_WARN_UNUSED;
void tdm_whole_file_destroy(tdm_whole_file *file); /* NULL is legal */

#endif
