/* Public part of graph/: a session's parameters and model states (running statistics, but no states
 * of optimizers) under PyTorch's names, as its state_dict and load_state_dict.
 *
 * In files every '/' of a path is a '.': the parameter "block2/fc.weight" is "block2.fc.weight".
 * With a rule {"block2.", "encoder.layer.2."} it is "encoder.layer.2.fc.weight": the first rule
 * whose prefix matches the name is applied. Two parameters with the same name in files are an
 * error; the message names them.
 *
 * A tied parameter (tdm_tie) is saved once, under the first of its names that files have, in the
 * order of the graph. PyTorch's strict load_state_dict expects every name if several modules share
 * a parameter; every_tied_name saves it under each. Loading accepts any one of its names, or
 * several with equal values: what PyTorch's strict load_state_dict and safetensors' load_model
 * accept together. */
#ifndef TANDEM_GRAPH_STATE_DICT_H
#define TANDEM_GRAPH_STATE_DICT_H

#include "tandem/graph/sessions.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Renames parameters between a session and files. */
typedef struct tdm_name_rule {
  /* Prefix of names in the session. NULL: tensors of files with the prefix `file` are ignored,
   * because they are no parameters. */
  const char *model;
  /* Prefix of names in files. NULL: parameters with the prefix `model` are not in files: they are
   * not saved, and keep their values. */
  const char *file;
} tdm_name_rule;

/* Options of saving and loading a state dict. */
typedef struct tdm_state_dict_options {
  size_t struct_size;
  const tdm_name_rule *rules; /* (rule_count): rules for names. Default NULL: none. */
  size_t rule_count;          /* Number of rules. Default 0. */
  /* true: parameters that the list lacks keep their values. false: they are an error. Default
   * false. */
  bool allow_missing;
  /* true: tensors that are no parameters are ignored. false: they are an error. Default false. */
  bool allow_unexpected;
  /* For loading: true: a tensor of another floating dtype (float64, float32, float16 or bfloat16)
   * is converted to that of its parameter. It is rounded to the nearest number, or to infinity
   * beyond the largest, as by PyTorch's copy_. false: another dtype is an error. Other dtypes are
   * never converted. Default false. */
  bool convert_dtypes;
  /* For saving: true: a tied parameter is saved under each of its names. false: under the first
   * one. Default false. */
  bool every_tied_name;
} tdm_state_dict_options;
static inline tdm_state_dict_options tdm_state_dict_options_default(void) {
  tdm_state_dict_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_state_dict_options);
  return options;
}

/* Returns copies of the session's parameters and model states as host tensors, in the order of the
 * graph. Waits for runs in flight.
 * @param options NULL: all defaults.
 * @param out_list receives the list. */
TDM_API tdm_status tdm_session_state_dict(tdm_session *session,
                                          const tdm_state_dict_options *options,
                                          tdm_tensor_list **out_list) TDM_WARN_UNUSED;

/* Sets the session's parameters and model states from a list. Waits for runs in flight.
 * tdm_state_dict_load and tdm_state_dict_save (checkpoint/checkpoint.h) work with files.
 * @code
 * const tdm_name_rule rules[] = {{"block2.", "encoder.layer.2."}};
 * tdm_state_dict_options options = tdm_state_dict_options_default();
 * options.rules = rules;
 * options.rule_count = 1;
 * tdm_status status = tdm_session_load_state_dict(session, list, &options);
 * @endcode
 *
 * - Names may be those of files, or the session's own with '/', as in tdm_store_save and
 *   checkpoints.
 * - If no parameter has a given name, the prefix "module." of the name or of one of its parts is
 *   ignored.
 * - Names that begin with "optimizer/" or "checkpoint/" are ignored.
 * - If anything is missing, unexpected, or of another shape or dtype, nothing is changed. The call
 *   fails with INVALID_ARGUMENT, and one message names as many of these as it can contain.
 * @param list the tensors.
 * @param options NULL: all defaults. */
TDM_API tdm_status tdm_session_load_state_dict(tdm_session *session, const tdm_tensor_list *list,
                                               const tdm_state_dict_options *options)
    TDM_WARN_UNUSED;

#ifdef __cplusplus
}
#endif
#endif
