/* See written.h. */
#include "examples/common/written.h"

#include <limits.h>
#include <stdio.h>

#include "tools/options/output_file.h"

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
