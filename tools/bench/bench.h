/* `tandem bench transfer` and `tandem bench overhead`: the cost of copies on this machine, and the
 * cost of a run without its arithmetic. */
#ifndef TOOLS_BENCH_BENCH_H
#define TOOLS_BENCH_BENCH_H

#include "tools/tool.h"

extern const tool bench_overhead_tool;
extern const tool bench_transfer_tool;

#endif
