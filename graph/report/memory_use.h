/* What a plan needs of a device's memory. */
#ifndef TANDEM_GRAPH_REPORT_MEMORY_USE_H
#define TANDEM_GRAPH_REPORT_MEMORY_USE_H

#include "graph/plan/plan.h"

/* Of a plan with steps. */
void tdm_plan_memory_use(const tdm_plan *plan, const tdm_device *device, tdm_memory_use *out_use);

#endif
