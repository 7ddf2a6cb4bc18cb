/* Public part of graph/: a session's parameters and model states (running statistics; no states of
 * optimizers) by PyTorch's names, as its state_dict and load_state_dict.
 *
 *   name of ours            in files
 *   block2/fc.weight        block2.fc.weight        every '/' is a '.'
 *
 * With a rule {"block2.", "encoder.layer.2."} it is encoder.layer.2.fc.weight: of the rules, the
 * first whose prefix begins the name. A tied parameter (tdm_tie) is saved once, under the first of
 * its names in the order of the graph that files have. PyTorch's strict load_state_dict of a model
 * whose modules share a parameter expects every name: every_tied_name saves it under each. Loading
 * accepts any one of its names, or several whose values are equal, as safetensors' load_model and
 * PyTorch's strict load_state_dict together. Two parameters that would have one name in files are
 * an error that names them. */
#ifndef TANDEM_GRAPH_STATE_DICT_H
#define TANDEM_GRAPH_STATE_DICT_H

#include "tandem/graph/sessions.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Names that begin with `model` here begin with `file` in files. Without `file`: parameters that
 * files do not have; they are not saved and keep their values. Without `model`: tensors of files
 * that are nobody's parameters, and are passed over. */
typedef struct tdm_name_rule {
  const char *model;
  const char *file;
} tdm_name_rule;

typedef struct tdm_state_dict_options {
  size_t struct_size;
  const tdm_name_rule *rules; /* (rule_count) */
  size_t rule_count;
  bool allow_missing;    /* parameters that the list does not have keep their values */
  bool allow_unexpected; /* tensors that are nobody's parameters are passed over */
  /* Loading converts a tensor of another floating dtype (float64, float32, float16, bfloat16) to
   * that of its parameter: rounded to the nearest, beyond the largest to infinity, as PyTorch's
   * copy_ does. false: another dtype is an error. Other dtypes are never converted. */
  bool convert_dtypes;
  /* Saving writes a tied parameter under each of its names: for PyTorch's strict load_state_dict
   * into a model that has the parameter in several modules. false: under its first name. */
  bool every_tied_name;
} tdm_state_dict_options;
static inline tdm_state_dict_options tdm_state_dict_options_default(void) {
  tdm_state_dict_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_state_dict_options);
  return options;
}

/* Copies of the session's parameters and model states as host tensors, in the order of the graph;
 * the caller releases the list. Waits for runs in flight. options may be NULL. On failure *out_list
 * is NULL. Any thread. */
TDM_API tdm_status tdm_session_state_dict(tdm_session *session,
                                          const tdm_state_dict_options *options,
                                          tdm_tensor_list **out_list) TDM_WARN_UNUSED;

/* Sets them from list. Besides the names in files it knows the session's own (those with '/'), as
 * tdm_store_save and checkpoints have them; "module." before a name, or a part of it, is passed
 * over where nothing has that name; so are names that begin with "optimizer/" or "checkpoint/". All
 * that is missing, unexpected, or of another shape or dtype is INVALID_ARGUMENT in one message, up
 * to what it holds, and changes nothing. Waits for runs in flight. tdm_state_dict_load and
 * tdm_state_dict_save (checkpoint/checkpoint.h) do the same with files. Any thread. */
TDM_API tdm_status tdm_session_load_state_dict(tdm_session *session, const tdm_tensor_list *list,
                                               const tdm_state_dict_options *options)
    TDM_WARN_UNUSED;

#ifdef __cplusplus
}
#endif
#endif
