/* Opening and reading files. Invariant: descriptors are not inherited by other programs, and
 * opening never blocks (as it would on a pipe). */
#define _GNU_SOURCE /* O_CLOEXEC */
#include "core/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

tdm_status tdm_file_open(const char *what, const char *path, int *out_descriptor,
                         size_t *out_bytes) {
  *out_descriptor = -1;
  *out_bytes = 0;
  if (path == NULL || path[0] == '\0') {
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s: no path was given", what);
  }
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    const bool is_missing = errno == ENOENT || errno == ENOTDIR;
    return tdm_fail(is_missing ? TDM_UNAVAILABLE : TDM_IO, "%s: cannot open %s: %s", what, path,
                    strerror(errno));
  }
  tdm_status status = TDM_OK;
  struct stat about;
  if (fstat(descriptor, &about) != 0) {
    status = tdm_fail(TDM_IO, "%s: cannot look at %s: %s", what, path, strerror(errno));
  } else if (!S_ISREG(about.st_mode)) {
    status = tdm_fail(TDM_IO, "%s: %s is %s, not a file", what, path,
                      S_ISDIR(about.st_mode) ? "a directory" : "a device or pipe");
  }
  if (status != TDM_OK) {
    (void)close(descriptor);
    return status;
  }
  *out_descriptor = descriptor;
  *out_bytes = (size_t)about.st_size;
  return TDM_OK;
}

tdm_status tdm_file_read(const tdm_allocator *allocator, const char *what, const char *path,
                         size_t limit_bytes, char **out_text, size_t *out_bytes) {
  *out_text = NULL;
  *out_bytes = 0;
  int descriptor = -1;
  size_t bytes = 0;
  char *text = NULL;
  TDM_TRY(tdm_file_open(what, path, &descriptor, &bytes));
  tdm_status status = TDM_OK;
  if (bytes > limit_bytes) {
    status = tdm_fail(TDM_IO, "%s: %s has %zu bytes, over %zu", what, path, bytes, limit_bytes);
    goto done;
  }
  text = tdm_allocate(allocator, bytes + 1, "a file's text");
  if (text == NULL) {
    status = TDM_OUT_OF_MEMORY;
    goto done;
  }
  for (size_t at = 0; at < bytes && status == TDM_OK;) {
    const ssize_t got = read(descriptor, text + at, bytes - at);
    if (got > 0) {
      at += (size_t)got;
    } else if (got == 0) {
      status = tdm_fail(TDM_IO, "%s: %s became shorter while it was read", what, path);
    } else if (errno != EINTR) {
      status = tdm_fail(TDM_IO, "%s: cannot read %s: %s", what, path, strerror(errno));
    }
  }
done:
  (void)close(descriptor);
  if (status != TDM_OK) {
    tdm_release(allocator, text, bytes + 1);
    return status;
  }
  *out_text = text;
  *out_bytes = bytes;
  return TDM_OK;
}
