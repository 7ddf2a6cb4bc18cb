/* Training before serving. */
#ifndef EXAMPLES_SERVE_LEARN_H
#define EXAMPLES_SERVE_LEARN_H

#include "examples/distributed_model/options.h"

/* Trains the model of given, from the start or from a file, and answers its parameters and tables
 * of words as tensors of context `to`. It happens in a context of its own, with a loop of its own:
 * the caller's does not run yet, and completions of steps need one that does. */
tdm_status learn(const options *given, tdm_log_function log, tdm_context *to,
                 tdm_tensor_list **out_list);

#endif
