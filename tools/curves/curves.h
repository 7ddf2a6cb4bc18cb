/* `tandem curves FILE...`: what trainings came to on their way, told or drawn. */
#ifndef TOOLS_CURVES_CURVES_H
#define TOOLS_CURVES_CURVES_H

#include "tools/tool.h"

extern const tool curves_tool;

#endif
