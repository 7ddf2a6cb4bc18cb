/* Opens and reads files. Invariant: descriptors are not inherited by other programs, and opening
 * never blocks (as it would on a pipe). */
#define _GNU_SOURCE /* O_CLOEXEC, pread */
#include "core/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static tdm_status check_regular(const char *what, const char *path, const struct stat *about) {
  if (S_ISREG(about->st_mode)) return TDM_OK;
  return tdm_fail(TDM_IO, "%s: %s is %s, not a file", what, path,
                  S_ISDIR(about->st_mode) ? "a directory" : "a device or pipe");
}

tdm_status tdm_file_open(const char *what, const char *path, tdm_file *out_file) {
  *out_file = (tdm_file){.descriptor = -1};
  if (!path || path[0] == '\0')
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s: no path was given", what);
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) {
    const bool is_missing = errno == ENOENT || errno == ENOTDIR;
    return tdm_fail(is_missing ? TDM_UNAVAILABLE : TDM_IO, "%s: cannot open %s: %s", what, path,
                    strerror(errno));
  }
  struct stat about;
  const tdm_status status =
      fstat(descriptor, &about) == 0
          ? check_regular(what, path, &about)
          : tdm_fail(TDM_IO, "%s: cannot look at %s: %s", what, path, strerror(errno));
  if (status != TDM_OK) {
    (void)close(descriptor);
    return status;
  }
  *out_file = (tdm_file){descriptor, (size_t)about.st_size, about.st_mtim};
  return TDM_OK;
}

tdm_status tdm_file_read_at(const tdm_file *file, uint64_t at, void *out_bytes, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t got =
        pread(file->descriptor, (char *)out_bytes + done, size - done, (off_t)(at + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return tdm_fail(TDM_IO, "cannot be read: %s", strerror(errno));
    if (got == 0) {
      return tdm_fail(TDM_CORRUPT_DATA, "ends after %llu bytes, of %zu when it was opened",
                      (unsigned long long)(at + done), file->bytes);
    }
    done += (size_t)got;
  }
  return TDM_OK;
}

tdm_status tdm_file_check_unchanged(const tdm_file *file) {
  struct stat about;
  if (fstat(file->descriptor, &about) != 0)
    return tdm_fail(TDM_IO, "cannot be looked at: %s", strerror(errno));
  if ((size_t)about.st_size == file->bytes && about.st_mtim.tv_sec == file->written.tv_sec &&
      about.st_mtim.tv_nsec == file->written.tv_nsec) {
    return TDM_OK;
  }
  return tdm_fail(TDM_CORRUPT_DATA, "was written to while it was read");
}

void tdm_file_close(tdm_file *file) {
  if (file->descriptor >= 0) (void)close(file->descriptor);
  file->descriptor = -1;
}

tdm_status tdm_file_read(const tdm_allocator *allocator, const char *what, const char *path,
                         size_t limit_bytes, char **out_text, size_t *out_bytes) {
  *out_text = NULL;
  *out_bytes = 0;
  tdm_file file;
  char *text = NULL;
  TDM_TRY(tdm_file_open(what, path, &file));
  tdm_status status = TDM_OK;
  if (file.bytes > limit_bytes) {
    status =
        tdm_fail(TDM_IO, "%s: %s has %zu bytes, over %zu", what, path, file.bytes, limit_bytes);
    goto done;
  }
  text = tdm_allocate(allocator, file.bytes + 1, "a file's text");
  if (!text) {
    status = TDM_OUT_OF_MEMORY;
    goto done;
  }
  status = tdm_file_read_at(&file, 0, text, file.bytes);
  if (status == TDM_OK) status = tdm_file_check_unchanged(&file);
  if (status != TDM_OK) (void)tdm_fail_within(status, "%s: %s", what, path);
done:
  tdm_file_close(&file);
  if (status != TDM_OK) {
    tdm_release(allocator, text, file.bytes + 1);
    return status;
  }
  *out_text = text;
  *out_bytes = file.bytes;
  return TDM_OK;
}
