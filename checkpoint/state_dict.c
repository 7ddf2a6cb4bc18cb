/* Parameters by PyTorch's names in safetensors files. Invariant: nothing is changed unless all of
 * the file fits. */
#include "tandem/checkpoint/checkpoint.h"

#include "core/status.h"
#include "data/safetensors.h"

static tdm_status check_arguments(const char *function, const tdm_session *session,
                                  const char *path) {
  if (session && path) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s: no %s", function, session ? "path" : "session");
}

tdm_status tdm_state_dict_save(tdm_session *session, const char *path,
                               const tdm_state_dict_options *options) {
  TDM_TRY(check_arguments("tdm_state_dict_save", session, path));
  tdm_tensor_list *list;
  TDM_TRY(tdm_session_state_dict(session, options, &list));
  const tdm_status status = tdm_safetensors_save(list, path);
  tdm_tensor_list_release(list);
  return status;
}

tdm_status tdm_state_dict_load(tdm_session *session, const char *path,
                               const tdm_state_dict_options *options) {
  TDM_TRY(check_arguments("tdm_state_dict_load", session, path));
  tdm_tensor_list *list;
  TDM_TRY(tdm_safetensors_read(tdm_session_context(session), path, &list));
  const tdm_status status = tdm_session_load_state_dict(session, list, options);
  tdm_tensor_list_release(list);
  return status == TDM_OK ? TDM_OK : tdm_fail_within(status, "%s", path);
}
