/* Virtual time: what a set of tasks on queues and links would take, found by simulating events, not
 * by executing anything. Invariant: the same tasks give the same times, to the bit. */
#ifndef TANDEM_GRAPH_FORECAST_VIRTUAL_TIME_H
#define TANDEM_GRAPH_FORECAST_VIRTUAL_TIME_H

#include "graph/forecast/virtual_schedule.h"

/* Runs all tasks and fills what virtual_schedule.h marks. INTERNAL when tasks wait for each other
 * in a circle. May be called again. */
tdm_status tdm_virtual_run(tdm_virtual_schedule *schedule) TDM_WARN_UNUSED;

#endif
