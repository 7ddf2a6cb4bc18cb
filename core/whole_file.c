/* Writing beside and renaming. Invariant: the temporary file exists exactly while descriptor is
 * open; messages say what failed, callers say for which path. */
#define _GNU_SOURCE /* O_CLOEXEC, O_DIRECTORY */
#include "core/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/hash.h"
#include "core/park.h"

#define MAX_NAMES_TRIED 100
#define SUFFIX_BYTES 32

struct tdm_whole_file {
  tdm_allocator allocator;
  char *path;
  char *temporary_path;
  size_t temporary_capacity;
  int descriptor; /* -1: closed */
};

static tdm_status fail_io(const char *what) {
  return tdm_fail(errno == ENOMEM ? TDM_OUT_OF_MEMORY : TDM_IO, "cannot %s: %s", what,
                  strerror(errno));
}

/* What stands at path; *out_mode 0: nothing. */
static tdm_status look_at(const char *path, mode_t *out_mode) {
  struct stat about;
  *out_mode = 0;
  if (stat(path, &about) != 0) return errno == ENOENT ? TDM_OK : fail_io("write there");
  if (S_ISDIR(about.st_mode)) return tdm_fail(TDM_IO, "is a directory");
  if (!S_ISREG(about.st_mode)) return tdm_fail(TDM_IO, "is no regular file");
  *out_mode = about.st_mode & 07777;
  return TDM_OK;
}

/* Opens a file of a new name beside path. */
static tdm_status open_temporary(tdm_whole_file *file) {
  for (uint64_t i = 0; i < MAX_NAMES_TRIED; i++) {
    const uint64_t tag = tdm_hash_mix(tdm_hash_mix((uint64_t)getpid(), tdm_time_ns()), i);
    (void)snprintf(file->temporary_path, file->temporary_capacity, "%s.tmp-%016llx", file->path,
                   (unsigned long long)tag);
    file->descriptor = open(file->temporary_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file->descriptor >= 0) return TDM_OK;
    if (errno != EEXIST && errno != EINTR) break;
  }
  return fail_io("create a file beside it");
}

tdm_status tdm_whole_file_create(const tdm_allocator *allocator, const char *path,
                                 tdm_whole_file **out_file) {
  *out_file = NULL;
  mode_t mode = 0;
  TDM_TRY(look_at(path, &mode));
  tdm_whole_file *file = tdm_allocate(allocator, sizeof(*file), "a file to write");
  if (file == NULL) return TDM_OUT_OF_MEMORY;
  tdm_status status = TDM_OUT_OF_MEMORY;
  file->allocator = *allocator;
  file->descriptor = -1;
  file->temporary_capacity = strlen(path) + SUFFIX_BYTES;
  file->path = tdm_string_copy(allocator, path);
  file->temporary_path = tdm_allocate(allocator, file->temporary_capacity, "a file's name");
  if (file->path == NULL || file->temporary_path == NULL) goto fail;
  status = open_temporary(file);
  if (status != TDM_OK) goto fail;
  if (mode != 0 && fchmod(file->descriptor, mode) != 0) {
    status = fail_io("give it its permissions");
    goto fail;
  }
  *out_file = file;
  return TDM_OK;
fail:
  tdm_whole_file_destroy(file);
  return status;
}

tdm_status tdm_whole_file_write(tdm_whole_file *file, const char *bytes, size_t size) {
  while (size > 0) {
    const ssize_t written = write(file->descriptor, bytes, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail_io("write");
    bytes += written;
    size -= (size_t)written;
  }
  return TDM_OK;
}

/* Brings the folder's new entry to the disk. Some file systems cannot, and say EINVAL. */
static tdm_status flush_folder(tdm_whole_file *file) {
  char *slash = strrchr(file->path, '/');
  const char *folder = slash == NULL ? "." : slash == file->path ? "/" : file->path;
  if (slash != NULL && slash != file->path) *slash = '\0';
  tdm_status status = TDM_OK;
  const int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (slash != NULL) *slash = '/';
  if (descriptor < 0) return errno == EACCES ? TDM_OK : fail_io("open its folder");
  if (fsync(descriptor) != 0 && errno != EINVAL) status = fail_io("flush its folder");
  (void)close(descriptor);
  return status;
}

tdm_status tdm_whole_file_commit(tdm_whole_file *file) {
  if (fsync(file->descriptor) != 0) return fail_io("flush");
  if (rename(file->temporary_path, file->path) != 0) return fail_io("rename");
  (void)close(file->descriptor); /* flushed already: nothing is left that could fail */
  file->descriptor = -1;
  return flush_folder(file);
}

void tdm_whole_file_destroy(tdm_whole_file *file) {
  if (file == NULL) return;
  const tdm_allocator allocator = file->allocator;
  if (file->descriptor >= 0) {
    (void)close(file->descriptor);
    (void)unlink(file->temporary_path);
  }
  tdm_release(&allocator, file->temporary_path, file->temporary_capacity);
  tdm_string_release(&allocator, file->path);
  tdm_release(&allocator, file, sizeof(*file));
}
