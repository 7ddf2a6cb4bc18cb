/* Regular files, opened with messages that say what was wanted and why it failed. Opening never
 * waits, as it would on a pipe, and refuses what is no regular file. */
#ifndef TANDEM_CORE_FILE_H
#define TANDEM_CORE_FILE_H

#include <time.h>

#include "core/allocate.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_file {
  int descriptor;
  size_t bytes;            /* when it was opened */
  struct timespec written; /* likewise: when it was last written to */
} tdm_file;

/* Opens a regular file for reading. UNAVAILABLE: it is not there; IO: anything else. what is how
 * the message begins ("word list french"). */
tdm_status tdm_file_open(const char *what, const char *path, tdm_file *out_file) TDM_WARN_UNUSED;
/* size bytes from the place `at` on. CORRUPT_DATA: the file ends before; IO: it cannot be read.
 * Messages do not name the file. Any thread. */
tdm_status tdm_file_read_at(const tdm_file *file, uint64_t at, void *out_bytes,
                            size_t size) TDM_WARN_UNUSED;
/* CORRUPT_DATA where the file's size, or the time when it was last written to, is not what it was
 * when it was opened. A file that was renamed over, or removed, is unchanged. */
tdm_status tdm_file_check_unchanged(const tdm_file *file) TDM_WARN_UNUSED;
void tdm_file_close(tdm_file *file);

/* All of a file of at most limit bytes. The caller releases *out_text, *out_bytes + 1 long, with
 * allocator. */
tdm_status tdm_file_read(const tdm_allocator *allocator, const char *what, const char *path,
                         size_t limit_bytes, char **out_text, size_t *out_bytes) TDM_WARN_UNUSED;

#ifdef __cplusplus
}
#endif
#endif
