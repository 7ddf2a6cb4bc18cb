/* Writing files. Invariant: see output_file.h. */
#include "tools/options/output_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

tdm_status output_begin(const char *option, const char *path, output_file *out) {
  out->option = option;
  struct stat about; /* renaming would replace a device or a pipe */
  if (stat(path, &about) == 0 && !S_ISREG(about.st_mode))
    return tdm_fail(TDM_IO, "%s %s: no regular file", option, path);
  /* A symbolic link stays, and the file that it names is replaced. */
  const bool is_link = lstat(path, &about) == 0 && S_ISLNK(about.st_mode);
  if (is_link && !realpath(path, out->path))
    return tdm_fail(TDM_IO, "%s %s: %s", option, path, strerror(errno));
  if (!is_link && snprintf(out->path, sizeof out->path, "%s", path) >= (int)sizeof out->path)
    return tdm_fail(TDM_IO, "%s: the path is longer than %d bytes", option, PATH_MAX - 1);
  (void)snprintf(out->partial, sizeof out->partial, "%s.partial", out->path);
  out->stream = fopen(out->partial, "w");
  if (out->stream) return TDM_OK;
  return tdm_fail(TDM_IO, "%s %s: %s", option, out->partial, strerror(errno));
}

tdm_status output_end(output_file *out, tdm_status status) {
  const bool failed = ferror(out->stream) != 0;
  const bool written = fclose(out->stream) == 0 && !failed;
  if (status == TDM_OK && (!written || rename(out->partial, out->path) != 0))
    status = tdm_fail(TDM_IO, "%s %s: %s", out->option, out->path, strerror(errno));
  if (status != TDM_OK) (void)remove(out->partial);
  return status;
}
