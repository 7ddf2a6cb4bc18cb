/* `tandem forecast`: what a training step would take on a machine that is described. */
#ifndef TOOLS_FORECAST_FORECAST_H
#define TOOLS_FORECAST_FORECAST_H

#include "tools/tool.h"

extern const tool forecast_tool;

#endif
