/* A small model with nested scopes, whose state dicts tests save, change and load. */
#ifndef TANDEM_TESTS_CHECKPOINT_DICT_MODEL_H
#define TANDEM_TESTS_CHECKPOINT_DICT_MODEL_H

#include "tandem/tandem.h"

/* first: the name of the first layer, "block/fc"; width: the size of its output. */
tdm_session *dict_session(tdm_context *context, const char *first, int64_t width, uint64_t seed);
/* Trains one step. */
void dict_train(tdm_session *session);
/* Returns the session's state dict; the test fails if there is none. */
tdm_tensor_list *dict_of(tdm_session *session, const tdm_state_dict_options *options);
void assert_same_parameters(tdm_session *a, tdm_session *b);

#endif
