/* A file that appears whole or not at all: written under another name in the same folder, flushed
 * to the disk, then renamed. Invariant: until the commit nothing under path changes; without one,
 * nothing is left behind.
 *
 * The other name is ".NAME.tandem-K", K from 00 to 31, and is locked (flock) as long as it is
 * written. A process that is killed in the middle leaves it there, unlocked; whoever writes to the
 * same path next removes it. A file system without locks keeps what was left, and the message of a
 * save that finds all 32 names taken says which they are. */
#ifndef TANDEM_CORE_WHOLE_FILE_H
#define TANDEM_CORE_WHOLE_FILE_H

#include "core/allocate.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_whole_file tdm_whole_file;

/* path must not exist, or be a regular file, whose permissions the new one takes over; through
 * symbolic links the file that they lead to is written, and they stay. Any number of threads and
 * processes may write to one path: the last commit stays. Messages do not name path. */
tdm_status tdm_whole_file_create(const tdm_allocator *allocator, const char *path,
                                 tdm_whole_file **out_file) TDM_WARN_UNUSED;
tdm_status tdm_whole_file_write(tdm_whole_file *file, const char *bytes,
                                size_t size) TDM_WARN_UNUSED;
/* Puts the file in place, on the disk when this returns OK. */
tdm_status tdm_whole_file_commit(tdm_whole_file *file) TDM_WARN_UNUSED;
/* Has a commit put it in place, though it may have failed since to bring that to the disk? */
bool tdm_whole_file_is_in_place(const tdm_whole_file *file);
void tdm_whole_file_destroy(tdm_whole_file *file); /* NULL is legal */

#ifdef __cplusplus
}
#endif
#endif
