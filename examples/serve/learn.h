/* Training before serving. */
#ifndef EXAMPLES_SERVE_LEARN_H
#define EXAMPLES_SERVE_LEARN_H

#include "examples/distributed_model/options.h"

/* Trains the model of given, from the start or from a file. Returns its parameters and tables of
 * words as tensors of context `to`. Training has a context and a loop of its own, because the
 * caller's loop does not run yet, and completions of steps require a running loop. */
tdm_status learn(const options *given, tdm_log_function log, tdm_context *to,
                 tdm_tensor_list **out_list);

#endif
