/* Parameters of a model that reads a text, in files, which tell the characters that its numbers
 * stand for. */
#ifndef EXAMPLES_CHAR_LM_TEXT_FILES_H
#define EXAMPLES_CHAR_LM_TEXT_FILES_H

#include "examples/char_lm/text.h"

/* Adds the text's characters to what is saved, or kept in checkpoints. */
tdm_status text_add_characters(const text *of, tdm_context *context, tdm_tensor_list *list);
/* The session's parameters, by PyTorch's names, and the characters; all ranks call it. */
tdm_status text_save(const text *of, tdm_session *session, const char *path);
/* Parameters from a file or checkpoint; where it tells its characters, they must be the text's. */
tdm_status text_load(const text *of, tdm_session *session, const char *path);

#endif
