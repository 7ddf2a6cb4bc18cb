/* How an example begins and ends: its command line, its context, its exit code. */
#ifndef EXAMPLES_COMMON_PROGRAM_H
#define EXAMPLES_COMMON_PROGRAM_H

#include "examples/common/common_options.h"

/* Reads the command line into options, then creates a context that prints warnings to stderr. With
 * --help it prints the help instead, and *out_context is NULL with TDM_OK. In a job of several
 * ranks only rank 0 reports: stdout of the others is discarded. */
tdm_status program_open(const option_table *table, int argc, char **argv, void *options,
                        tdm_context **out_context);
/* Prints the message if the program has failed or its output could not be written, and returns its
 * exit code. */
int program_end(const option_table *table, const void *options, tdm_status status);

#endif
