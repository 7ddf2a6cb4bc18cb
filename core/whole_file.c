/* Writes a temporary file and renames it. Invariant: the temporary file exists exactly while
 * descriptor is open, and only the holder of its lock renames or removes it. */
#define _GNU_SOURCE /* O_CLOEXEC, O_DIRECTORY, flock, realpath */
#include "core/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_COUNT = 32, SUFFIX_BYTES = 16, MOST_LINKS = 40 };

struct tdm_whole_file {
  tdm_allocator allocator;
  int descriptor;           /* -1: closed */
  char path[PATH_MAX];      /* path with symbolic links resolved */
  char temporary[PATH_MAX]; /* path of the file until the commit */
};

static tdm_status fail_io(const char *what) {
  return tdm_fail(errno == ENOMEM ? TDM_OUT_OF_MEMORY : TDM_IO, "cannot %s: %s", what,
                  strerror(errno));
}

/* ---- Paths ----------------------------------------------------------------------------------- */

static tdm_status put_path(char *out_path, const char *folder, size_t folder_bytes,
                           const char *name) {
  const int length = snprintf(out_path, PATH_MAX, "%.*s%s", (int)folder_bytes, folder, name);
  if (length >= 0 && length < PATH_MAX) return TDM_OK;
  return tdm_fail(TDM_IO, "is too long a path: over %d bytes", PATH_MAX - 1);
}

/* Returns the number of bytes of path up to and including its last '/'; 0 for a bare name. */
static size_t folder_bytes_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return !slash ? 0 : (size_t)(slash - path) + 1;
}

/* Resolves symbolic links in the last part of path, so that the links stay and their target is
 * written, whether it exists or not. */
static tdm_status follow_links(const char *path, char *out_path) {
  TDM_TRY(put_path(out_path, "", 0, path));
  for (int i = 0; i < MOST_LINKS; i++) {
    char target[PATH_MAX];
    char from[PATH_MAX];
    const ssize_t length = readlink(out_path, target, sizeof(target) - 1);
    if (length < 0) return TDM_OK; /* the path is not a link, or does not exist */
    target[length] = '\0';
    memcpy(from, out_path, sizeof(from));
    TDM_TRY(put_path(out_path, from, target[0] == '/' ? 0 : folder_bytes_of(from), target));
  }
  return tdm_fail(TDM_IO, "cannot write there: %s", strerror(ELOOP));
}

/* Gets the resolved path and the mode of the file there; *out_mode is 0 if there is none. */
static tdm_status look_at(const char *path, char *out_path, mode_t *out_mode) {
  struct stat about;
  struct stat followed;
  *out_mode = 0;
  if (path[0] == '\0') return tdm_fail(TDM_INVALID_ARGUMENT, "no path was given");
  const bool is_there = stat(path, &about) == 0;
  if (!is_there && errno != ENOENT) return fail_io("write there");
  if (is_there && S_ISDIR(about.st_mode)) return tdm_fail(TDM_IO, "is a directory");
  if (is_there && !S_ISREG(about.st_mode)) return tdm_fail(TDM_IO, "is no regular file");
  TDM_TRY(follow_links(path, out_path));
  if (!is_there) return TDM_OK;
  /* Links of /proc may lead to a file without a name. A different file is legal: others save
   * too. */
  if (stat(out_path, &followed) != 0)
    return tdm_fail(TDM_IO, "is a file without a name, which cannot be replaced");
  *out_mode = about.st_mode & 07777;
  return TDM_OK;
}

/* ---- The temporary file ---------------------------------------------------------------------- */

/* Composes the name with that number, ".NAME.tandem-07", and shortens NAME if it would be too long.
 * Two paths that are shortened to the same name share it, which the locks allow. */
static tdm_status put_temporary(tdm_whole_file *file, int number) {
  const size_t folder_bytes = folder_bytes_of(file->path);
  char name[NAME_MAX + 1];
  (void)snprintf(name, sizeof(name), ".%.*s.tandem-%02d", NAME_MAX - SUFFIX_BYTES,
                 file->path + folder_bytes, number);
  return put_path(file->temporary, file->path, folder_bytes, name);
}

/* Returns true if the name refers to this open file. */
static bool is_named(int descriptor, const char *name) {
  struct stat open_file;
  struct stat named;
  return fstat(descriptor, &open_file) == 0 && lstat(name, &named) == 0 &&
         open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

/* Takes the lock without blocking. Returns false if another process holds it. */
static bool is_locked_now(int descriptor) {
  while (flock(descriptor, LOCK_EX | LOCK_NB) != 0)
    if (errno != EINTR) return false;
  return true;
}

/* Unlocks first, because a child that was forked meanwhile has the descriptor too. */
static void unlock_and_close(int descriptor) {
  (void)flock(descriptor, LOCK_UN);
  (void)close(descriptor);
}

/* Removes what a process that no longer exists has left under the name. */
static void remove_stale(const char *name) {
  const int descriptor = open(name, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return;
  if (!is_locked_now(descriptor)) {
    (void)close(descriptor);
    return;
  }
  if (is_named(descriptor, name)) (void)unlink(name);
  unlock_and_close(descriptor);
}

/* Creates the file if the name is free; otherwise *out_descriptor is -1. */
static tdm_status take_name(const char *name, int *out_descriptor) {
  *out_descriptor = -1;
  const int descriptor = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0)
    return errno == EEXIST || errno == EINTR ? TDM_OK : fail_io("create a file next to it");
  const bool has_lock = is_locked_now(descriptor);
  /* another process removes the file as stale */
  const bool has_other = !has_lock && errno == EWOULDBLOCK;
  if (!has_other && is_named(descriptor, name)) {
    *out_descriptor = descriptor;
    return TDM_OK;
  }
  unlock_and_close(descriptor);
  return TDM_OK;
}

/* Takes the first free name and removes all files that other processes have left. */
static tdm_status open_temporary(tdm_whole_file *file) {
  int chosen = -1;
  for (int number = 0; number < NAME_COUNT; number++) {
    TDM_TRY(put_temporary(file, number));
    remove_stale(file->temporary);
    if (file->descriptor >= 0) continue;
    TDM_TRY(take_name(file->temporary, &file->descriptor));
    if (file->descriptor >= 0) chosen = number;
  }
  if (chosen >= 0) return put_temporary(file, chosen);
  return tdm_fail(TDM_IO,
                  "cannot create a file next to it: all %d names up to %s are taken, by others who "
                  "write there or, where the file system has no locks, by saves that were killed",
                  NAME_COUNT, file->temporary);
}

tdm_status tdm_whole_file_create(const tdm_allocator *allocator, const char *path,
                                 tdm_whole_file **out_file) {
  *out_file = NULL;
  tdm_whole_file *file = tdm_allocate(allocator, sizeof *file, "a file to write");
  if (!file) return TDM_OUT_OF_MEMORY;
  file->allocator = *allocator;
  file->descriptor = -1;
  mode_t mode = 0;
  tdm_status status = look_at(path, file->path, &mode);
  if (status == TDM_OK) status = open_temporary(file);
  if (status == TDM_OK && mode != 0 && fchmod(file->descriptor, mode) != 0)
    status = fail_io("give it its permissions");
  if (status != TDM_OK) {
    tdm_whole_file_destroy(file);
    return status;
  }
  *out_file = file;
  return TDM_OK;
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

/* Flushes the folder's new entry to the disk. Some file systems cannot and return EINVAL. */
static tdm_status flush_folder(tdm_whole_file *file) {
  char folder[PATH_MAX];
  const size_t bytes = folder_bytes_of(file->path);
  TDM_TRY(put_path(folder, file->path, bytes, bytes == 0 ? "." : ""));
  const int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return errno == EACCES ? TDM_OK : fail_io("open its folder");
  const tdm_status status =
      fsync(descriptor) != 0 && errno != EINVAL ? fail_io("flush its folder") : TDM_OK;
  (void)close(descriptor);
  return status;
}

tdm_status tdm_whole_file_commit(tdm_whole_file *file) {
  if (fsync(file->descriptor) != 0) return fail_io("flush");
  if (rename(file->temporary, file->path) != 0) return fail_io("rename");
  unlock_and_close(file->descriptor); /* already flushed: nothing can fail any more */
  file->descriptor = -1;
  return flush_folder(file);
}

bool tdm_whole_file_is_in_place(const tdm_whole_file *file) {
  return file->descriptor < 0;
}

void tdm_whole_file_destroy(tdm_whole_file *file) {
  if (!file) return;
  const tdm_allocator allocator = file->allocator;
  if (file->descriptor >= 0) {
    (void)unlink(file->temporary);
    unlock_and_close(file->descriptor);
  }
  tdm_release(&allocator, file, sizeof *file);
}
