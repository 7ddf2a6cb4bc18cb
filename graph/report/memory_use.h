/* The memory that a plan uses on a device. */
#ifndef TANDEM_GRAPH_REPORT_MEMORY_USE_H
#define TANDEM_GRAPH_REPORT_MEMORY_USE_H

#include "graph/plan/plan.h"

/* Gets the memory use of a plan with steps. */
void tdm_plan_memory_use(const tdm_plan *plan, const tdm_device *device, tdm_memory_use *out_use);

#endif
