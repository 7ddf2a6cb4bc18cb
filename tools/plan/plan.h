/* `tandem plan FILE`: a plan that was saved as JSON, as text, as a picture, as a page. */
#ifndef TOOLS_PLAN_PLAN_H
#define TOOLS_PLAN_PLAN_H

#include "tools/tool.h"

extern const tool plan_tool;

#endif
