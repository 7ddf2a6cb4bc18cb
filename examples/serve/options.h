/* The command line of serve: its own options, and those of distributed_model, which say what model
 * is trained or loaded. Invariant: strings point into argv. */
#ifndef EXAMPLES_SERVE_OPTIONS_H
#define EXAMPLES_SERVE_OPTIONS_H

#include "examples/distributed_model/options.h"

typedef struct serve_options {
  options model; /* options of distributed_model */
  const char *address;
  int64_t port;
  int64_t max_batch;
  int64_t depth;
  int64_t connections;
  int64_t queue;
  int64_t timeout_ms;
} serve_options;

extern const option_table serve_table;

/* Fills out from the arguments. Fails naming the argument. */
tdm_status serve_options_read(int argc, char **argv, serve_options *out);

#endif
