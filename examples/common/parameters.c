/* Loading and saving by name. Invariant: the store's own names stay inside this file. */
#include "examples/common/parameters.h"

#include <stdio.h>
#include <string.h>

#include "examples/common/command_line.h"

enum { NAME_BYTES = 512 };

/* name as PyTorch has it. */
static tdm_status dotted(const char *name, char text[NAME_BYTES]) {
  if ((size_t)snprintf(text, NAME_BYTES, "%s", name) >= NAME_BYTES)
    return tdm_fail(TDM_UNSUPPORTED, "%s is too long a name", name);
  for (char *at = text; (at = strchr(at, '/')) != NULL;)
    *at = '.';
  return TDM_OK;
}

/* Adds to `found` what list has for the session's parameters, under the store's names. */
static tdm_status pick_parameters(const tdm_tensor_list *parameters, const tdm_tensor_list *list,
                                  const char *path, tdm_tensor_list *found) {
  tdm_status status = TDM_OK;
  for (size_t i = 0; status == TDM_OK && i < tdm_tensor_list_count(parameters); i++) {
    const char *name = tdm_tensor_list_name(parameters, i);
    char text[NAME_BYTES];
    status = dotted(name, text);
    tdm_tensor *tensor = status == TDM_OK ? tdm_tensor_list_find(list, text) : NULL;
    if (tensor)
      status = tdm_tensor_list_add(found, name, tensor);
    else if (status == TDM_OK)
      status = tdm_fail(TDM_CORRUPT_DATA, "%s has no %s", path, text);
  }
  return status;
}

tdm_status parameters_take(tdm_context *context, tdm_session *session, const tdm_tensor_list *list,
                           const char *path) {
  tdm_tensor_list *parameters = tdm_store_save(tdm_session_store(session), false);
  tdm_tensor_list *found = parameters ? tdm_tensor_list_create(context) : NULL;
  tdm_status status = check_made(found);
  if (status == TDM_OK) status = pick_parameters(parameters, list, path, found);
  if (status == TDM_OK) {
    status = tdm_store_load(tdm_session_store(session), found);
    if (status != TDM_OK) status = fail_within(status, path);
  }
  tdm_tensor_list_release(found);
  tdm_tensor_list_release(parameters);
  return status;
}

tdm_status parameters_load(tdm_context *context, tdm_session *session, const char *path) {
  tdm_tensor_list *list = tdm_safetensors_load(context, path);
  tdm_status status = check_made(list);
  if (status == TDM_OK) status = parameters_take(context, session, list, path);
  tdm_tensor_list_release(list);
  return status;
}

tdm_tensor_list *parameters_list(tdm_context *context, tdm_session *session) {
  tdm_tensor_list *parameters = tdm_store_save(tdm_session_store(session), false);
  tdm_tensor_list *list = parameters ? tdm_tensor_list_create(context) : NULL;
  tdm_status status = check_made(list);
  for (size_t i = 0; status == TDM_OK && i < tdm_tensor_list_count(parameters); i++) {
    char text[NAME_BYTES];
    status = dotted(tdm_tensor_list_name(parameters, i), text);
    if (status == TDM_OK)
      status = tdm_tensor_list_add(list, text, tdm_tensor_list_tensor(parameters, i));
  }
  tdm_tensor_list_release(parameters);
  if (status == TDM_OK) return list;
  tdm_tensor_list_release(list);
  return NULL;
}

tdm_status parameters_save(tdm_context *context, tdm_session *session, const char *path) {
  tdm_tensor_list *list = parameters_list(context, session);
  tdm_status status = check_made(list);
  if (status == TDM_OK) status = tdm_safetensors_save(list, path);
  tdm_tensor_list_release(list);
  return status;
}
