/* `tandem launch`: starts a program as a job of several ranks, by the MPI that is there. Its exit
 * status is the launcher's. */
#ifndef TOOLS_LAUNCH_LAUNCH_H
#define TOOLS_LAUNCH_LAUNCH_H

#include "tools/tool.h"

extern const tool launch_tool;

#endif
