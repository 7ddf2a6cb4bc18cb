/* `tandem inspect FILE`: the tensors of a safetensors file. */
#ifndef TOOLS_INSPECT_INSPECT_H
#define TOOLS_INSPECT_INSPECT_H

#include "tools/tool.h"

extern const tool inspect_tool;

#endif
