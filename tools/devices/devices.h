/* `tandem devices`: what is here to compute with, and what copies between it cost. */
#ifndef TOOLS_DEVICES_DEVICES_H
#define TOOLS_DEVICES_DEVICES_H

#include "tools/tool.h"

extern const tool devices_tool;

#endif
