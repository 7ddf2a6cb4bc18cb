/* Parameters by PyTorch's names in safetensors files. Invariant: nothing is changed unless the
 * whole file fits. */
#include "tandem/checkpoint/checkpoint.h"

#include "checkpoint/ranks.h"
#include "core/status.h"
#include "graph/run/session.h"

static tdm_status check_arguments(const char *function, const tdm_session *session,
                                  const char *path) {
  if (session && path) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s: no %s", function, session ? "path" : "session");
}

tdm_status tdm_state_dict_save(tdm_session *session, const char *path,
                               const tdm_state_dict_options *options) {
  TDM_TRY(check_arguments("tdm_state_dict_save", session, path));
  tdm_tensor_list *list;
  TDM_TRY(tdm_session_state_dict_for(session, options, FILE_RANK, &list));
  const tdm_status status = tdm_ranks_write(tdm_session_context(session), TDM_OK, list, path);
  tdm_tensor_list_release(list);
  return status;
}

tdm_status tdm_state_dict_load(tdm_session *session, const char *path,
                               const tdm_state_dict_options *options) {
  TDM_TRY(check_arguments("tdm_state_dict_load", session, path));
  tdm_tensor_list *list;
  tdm_context *context = tdm_session_context(session);
  TDM_TRY(tdm_ranks_read(context, path, &list));
  tdm_status status = tdm_session_load_state_dict(session, list, options);
  status = tdm_context_agree(context, status);
  tdm_tensor_list_release(list);
  return status == TDM_OK ? TDM_OK : tdm_fail_within(status, "%s", path);
}
