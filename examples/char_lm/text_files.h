/* Files with the parameters of a model that reads a text, and with the characters of its numbers.
 */
#ifndef EXAMPLES_CHAR_LM_TEXT_FILES_H
#define EXAMPLES_CHAR_LM_TEXT_FILES_H

#include "examples/char_lm/text.h"

/* Adds the text's characters to what is saved, or kept in checkpoints. */
tdm_status text_add_characters(const text *of, tdm_context *context, tdm_tensor_list *list);
/* Saves the characters and the session's parameters, by PyTorch's names. All ranks call it. */
tdm_status text_save(const text *of, tdm_session *session, const char *path);
/* Loads parameters from a file or checkpoint. Its characters, if listed, must be the text's. */
tdm_status text_load(const text *of, tdm_session *session, const char *path);

#endif
