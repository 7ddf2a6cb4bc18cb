/* `tandem curves FILE...`: prints or plots training curves. */
#ifndef TOOLS_CURVES_CURVES_H
#define TOOLS_CURVES_CURVES_H

#include "tools/tool.h"

extern const tool curves_tool;

#endif
