/* Opens regular files with messages that say what failed and why. Opening never blocks, as it would
 * on a pipe, and refuses everything except regular files. */
#ifndef TANDEM_CORE_FILE_H
#define TANDEM_CORE_FILE_H

#include <time.h>

#include "core/allocate.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_file {
  int descriptor;
  size_t bytes;            /* size when it was opened */
  struct timespec written; /* time of the last write, as of opening */
} tdm_file;

/* Opens a regular file for reading. Fails with UNAVAILABLE if it does not exist, and with IO
 * otherwise. Messages begin with `what` ("word list french"). */
tdm_status tdm_file_open(const char *what, const char *path, tdm_file *out_file) TDM_WARN_UNUSED;
/* Reads `size` bytes from offset `at`. Fails with CORRUPT_DATA if the file ends before, and with IO
 * if it cannot be read. Messages do not name the file. Any thread. */
tdm_status tdm_file_read_at(const tdm_file *file, uint64_t at, void *out_bytes,
                            size_t size) TDM_WARN_UNUSED;
/* Fails with CORRUPT_DATA if the size or the time of the last write differs from that at opening. A
 * file that was replaced by a rename or was removed counts as unchanged. */
tdm_status tdm_file_check_unchanged(const tdm_file *file) TDM_WARN_UNUSED;
void tdm_file_close(tdm_file *file);

/* Reads a whole file of at most `limit` bytes. The caller releases *out_text, which has *out_bytes
 * + 1 bytes, with allocator. */
tdm_status tdm_file_read(const tdm_allocator *allocator, const char *what, const char *path,
                         size_t limit_bytes, char **out_text, size_t *out_bytes) TDM_WARN_UNUSED;

#ifdef __cplusplus
}
#endif
#endif
