/* Files of models that read a text. Invariant: parameters are not loaded if the file lists other
 * characters than those of the text. */
#include "examples/char_lm/text_files.h"

#include <string.h>

#include "examples/common/written.h"
#include "tools/options/command_line.h"

#define CHARACTERS_NAME "text.characters"

tdm_status text_add_characters(const text *of, tdm_context *context, tdm_tensor_list *list) {
  tdm_tensor *characters = text_characters(of, context);
  tdm_status status = check_made(characters);
  if (status == TDM_OK) status = tdm_tensor_list_add(list, CHARACTERS_NAME, characters);
  tdm_tensor_release(characters);
  return status;
}

tdm_status text_save(const text *of, tdm_session *session, const char *path) {
  tdm_context *context = tdm_session_context(session);
  tdm_tensor_list *list;
  tdm_status status = tdm_session_state_dict(session, NULL, &list);
  if (status == TDM_OK) status = text_add_characters(of, context, list);
  status = write_list(context, status, list, path);
  tdm_tensor_list_release(list);
  return status;
}

static tdm_status check_characters(const text *of, tdm_context *context,
                                   const tdm_tensor_list *list) {
  const tdm_tensor *theirs = tdm_tensor_list_find(list, CHARACTERS_NAME);
  if (!theirs) theirs = tdm_tensor_list_find(list, TDM_CHECKPOINT_PREFIX "own/" CHARACTERS_NAME);
  if (!theirs) return TDM_OK;
  tdm_tensor *ours = text_characters(of, context);
  tdm_status status = check_made(ours);
  if (status == TDM_OK &&
      (tdm_tensor_bytes(ours) != tdm_tensor_bytes(theirs) ||
       memcmp(tdm_tensor_data(ours), tdm_tensor_data(theirs), tdm_tensor_bytes(ours)) != 0))
    status = tdm_fail(TDM_INVALID_ARGUMENT, "it was trained on a text of other characters");
  tdm_tensor_release(ours);
  return status;
}

tdm_status text_load(const text *of, tdm_session *session, const char *path) {
  tdm_context *context = tdm_session_context(session);
  tdm_tensor_list *list = tdm_safetensors_load(context, path);
  if (!list) return check_made(list);
  const tdm_name_rule rule = {NULL, CHARACTERS_NAME};
  tdm_state_dict_options wanted = tdm_state_dict_options_default();
  wanted.rules = &rule;
  wanted.rule_count = 1;
  tdm_status status = check_characters(of, context, list);
  if (status == TDM_OK) status = tdm_session_load_state_dict(session, list, &wanted);
  tdm_tensor_list_release(list);
  return status == TDM_OK ? TDM_OK : fail_within(status, path);
}
