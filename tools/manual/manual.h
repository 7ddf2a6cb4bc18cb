/* The manual page and the completion of `tandem`, made of the tables that --help prints. */
#ifndef TOOLS_MANUAL_MANUAL_H
#define TOOLS_MANUAL_MANUAL_H

#include <stdio.h>

#include "tools/tool.h"

/* Prints the manual page tandem(1). */
void manual_print(const tool *const *tools, int tool_count, FILE *out);
/* Prints a bash script that completes commands, then the options of a command, else files. */
void completion_print(const tool *const *tools, int tool_count, FILE *out);

#endif
