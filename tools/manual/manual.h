/* The manual page and the completion of `tandem`, made of the tables that --help prints. */
#ifndef TOOLS_MANUAL_MANUAL_H
#define TOOLS_MANUAL_MANUAL_H

#include <stdio.h>

#include "tools/tool.h"

/* tandem(1), for man. */
void manual_print(const tool *const *tools, int tool_count, FILE *out);
/* A script for bash: commands, then the options of the command, else files. */
void completion_print(const tool *const *tools, int tool_count, FILE *out);

#endif
