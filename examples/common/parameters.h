/* A session's parameters in files, under the names that PyTorch gives them: where a path has '/',
 * these have '.'. */
#ifndef EXAMPLES_COMMON_PARAMETERS_H
#define EXAMPLES_COMMON_PARAMETERS_H

#include "tandem.h"

/* Takes every parameter of the session from list, which may have more; path is for messages.
 * Nothing is changed where one is missing or does not fit. */
tdm_status parameters_take(tdm_context *context, tdm_session *session, const tdm_tensor_list *list,
                           const char *path);
/* The same from a safetensors file. */
tdm_status parameters_load(tdm_context *context, tdm_session *session, const char *path);
/* The session's parameters under PyTorch's names; the caller releases them. NULL: the message says
 * why. */
tdm_tensor_list *parameters_list(tdm_context *context, tdm_session *session);
tdm_status parameters_save(tdm_context *context, tdm_session *session, const char *path);

#endif
