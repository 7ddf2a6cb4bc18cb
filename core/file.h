/* Regular files, opened with messages that say what was wanted and why it failed. */
#ifndef TANDEM_CORE_FILE_H
#define TANDEM_CORE_FILE_H

#include "core/allocate.h"

/* Opens a regular file for reading. UNAVAILABLE: it is not there; IO: anything else. what is how
 * the message begins ("word list french"). */
tdm_status tdm_file_open(const char *what, const char *path, int *out_descriptor,
                         size_t *out_bytes) TDM_WARN_UNUSED;

/* All of a file of at most limit bytes. The caller releases *out_text, *out_bytes + 1 long, with
 * allocator. */
tdm_status tdm_file_read(const tdm_allocator *allocator, const char *what, const char *path,
                         size_t limit_bytes, char **out_text, size_t *out_bytes) TDM_WARN_UNUSED;

#endif
