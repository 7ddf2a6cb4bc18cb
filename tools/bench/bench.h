/* `tandem bench transfer` and `tandem bench overhead`: what copies cost here, and what a run costs
 * beside its arithmetic. */
#ifndef TOOLS_BENCH_BENCH_H
#define TOOLS_BENCH_BENCH_H

#include "tools/tool.h"

extern const tool bench_overhead_tool;
extern const tool bench_transfer_tool;

#endif
