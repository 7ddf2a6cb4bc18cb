/* Virtual time: simulates events to find the duration of a set of tasks on queues and links,
 * without executing anything. Invariant: the same tasks give exactly the same times. */
#ifndef TANDEM_GRAPH_FORECAST_VIRTUAL_TIME_H
#define TANDEM_GRAPH_FORECAST_VIRTUAL_TIME_H

#include "graph/forecast/virtual_schedule.h"

/* Runs all tasks and fills the members marked in virtual_schedule.h. Fails with INTERNAL if tasks
 * wait for each other in a cycle. May be called again. */
tdm_status tdm_virtual_run(tdm_virtual_schedule *schedule) TDM_WARN_UNUSED;

#endif
