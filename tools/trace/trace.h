/* `tandem trace FILE`: what a timeline that was saved amounts to. */
#ifndef TOOLS_TRACE_TRACE_H
#define TOOLS_TRACE_TRACE_H

#include "tools/tool.h"

extern const tool trace_tool;

#endif
