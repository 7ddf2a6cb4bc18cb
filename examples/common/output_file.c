/* Writing files. Invariant: see output_file.h. */
#include "examples/common/output_file.h"

#include <errno.h>
#include <limits.h>
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
  snprintf(out->partial, sizeof out->partial, "%s.partial", out->path);
  out->stream = fopen(out->partial, "w");
  if (out->stream) return TDM_OK;
  return tdm_fail(TDM_IO, "%s %s: %s", option, out->partial, strerror(errno));
}

tdm_status output_end(output_file *out, tdm_status status) {
  const bool failed = ferror(out->stream) != 0;
  const bool written = fclose(out->stream) == 0 && !failed;
  if (status == TDM_OK && (!written || rename(out->partial, out->path) != 0))
    status = tdm_fail(TDM_IO, "%s %s: %s", out->option, out->path, strerror(errno));
  if (status != TDM_OK) remove(out->partial);
  return status;
}

tdm_status write_list(tdm_context *context, tdm_status status, const tdm_tensor_list *list,
                      const char *path) {
  if (status == TDM_OK && tdm_context_rank(context) == 0) status = tdm_safetensors_save(list, path);
  return tdm_context_agree(context, status);
}

tdm_status write_trace(tdm_session *session, const char *option, const char *path) {
  output_file file;
  char own[PATH_MAX];
  const int rank = tdm_context_rank(tdm_session_context(session));
  if (rank > 0) {
    if (snprintf(own, sizeof own, "%s.%d", path, rank) >= (int)sizeof own)
      return tdm_fail(TDM_IO, "%s: the path is longer than %d bytes", option, PATH_MAX - 1);
    path = own;
  }
  tdm_status status = output_begin(option, path, &file);
  if (status != TDM_OK) return status;
  status = output_end(&file, tdm_session_trace(session, TDM_TRACE_CHROME, file.stream));
  if (status != TDM_OK) return status;
  printf("timeline written to %s\n", path);
  return tdm_session_trace(session, TDM_TRACE_SUMMARY, stdout);
}

tdm_status write_report(tdm_session *session, const char *option, const char *path) {
  output_file file;
  if (tdm_context_rank(tdm_session_context(session)) > 0) return TDM_OK;
  tdm_status status = output_begin(option, path, &file);
  if (status != TDM_OK) return status;
  status = output_end(&file, tdm_session_report(session, file.stream));
  if (status == TDM_OK) printf("report written to %s\n", path);
  return status;
}
