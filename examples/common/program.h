/* How an example begins and ends: its command line, its context, its exit code. */
#ifndef EXAMPLES_COMMON_PROGRAM_H
#define EXAMPLES_COMMON_PROGRAM_H

#include "examples/common/common_options.h"

/* Reads the command line into options, then makes a context whose warnings go to stderr. Where help
 * is asked for it is printed instead, and *out_context is NULL with TDM_OK. In a job of several
 * ranks rank 0 alone reports: what the others print to stdout goes nowhere. */
tdm_status program_open(const option_table *table, int argc, char **argv, void *options,
                        tdm_context **out_context);
/* Prints why the program has failed, if it has, or that its output could not be written, and
 * answers its exit code. */
int program_end(const option_table *table, const void *options, tdm_status status);

#endif
