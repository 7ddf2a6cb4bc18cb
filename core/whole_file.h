/* A file that appears whole or not at all: it is written under another name in the same folder,
 * flushed to the disk, then renamed. Invariant: until the commit the file at `path` is unchanged.
 * Without a commit, no temporary file remains.
 *
 * The other name is ".NAME.tandem-K", K from 00 to 31, and is locked (flock) while it is written. A
 * process that is killed meanwhile leaves it unlocked; the next writer to the same path removes it.
 * A file system without locks keeps such files. A save that finds all 32 names taken lists them in
 * its message. */
#ifndef TANDEM_CORE_WHOLE_FILE_H
#define TANDEM_CORE_WHOLE_FILE_H

#include "core/allocate.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_whole_file tdm_whole_file;

/* Creates the temporary file. path must not exist or be a regular file, whose permissions are kept.
 * If it is a symbolic link, the link stays and its target is written. Any number of threads and
 * processes may write to one path: the last commit wins. Messages do not name path. */
tdm_status tdm_whole_file_create(const tdm_allocator *allocator, const char *path,
                                 tdm_whole_file **out_file) TDM_WARN_UNUSED;
tdm_status tdm_whole_file_write(tdm_whole_file *file, const char *bytes,
                                size_t size) TDM_WARN_UNUSED;
/* Moves the file to its path. It is on the disk when this returns OK. */
tdm_status tdm_whole_file_commit(tdm_whole_file *file) TDM_WARN_UNUSED;
/* Returns true if a commit has moved the file to its path, even if flushing it failed
 * afterwards. */
bool tdm_whole_file_is_in_place(const tdm_whole_file *file);
void tdm_whole_file_destroy(tdm_whole_file *file); /* NULL is legal */

#ifdef __cplusplus
}
#endif
#endif
