/* Flows over shared links, for virtual_time.c. Invariant: after share, no link carries more than
 * its bandwidth. No flow could be faster without slowing down another one that is at most as
 * fast. */
#ifndef TANDEM_GRAPH_FORECAST_VIRTUAL_LINKS_H
#define TANDEM_GRAPH_FORECAST_VIRTUAL_LINKS_H

#include "graph/forecast/virtual_schedule.h"

typedef struct tdm_virtual_flows {
  tdm_virtual_schedule *schedule;
  uint32_t *tasks; /* tasks whose bytes flow now */
  size_t count;
  bool *settled;   /* per flow: its rate is determined */
  uint32_t *flows; /* per link: number of flows that are not settled */
  double *left;    /* per link: remaining bytes per ns */
  uint32_t *used;  /* links with flows; set by share */
  size_t used_count;
  bool *is_used; /* per link */
} tdm_virtual_flows;

/* Allocates, in the region, for one flowing task per queue. */
tdm_status tdm_virtual_flows_init(tdm_virtual_flows *flows, tdm_virtual_schedule *schedule,
                                  tdm_region *region) TDM_WARN_UNUSED;
void tdm_virtual_flows_clear(tdm_virtual_flows *flows);
/* Adds a flow. flowing: its latency is over. Before that, it occupies its links and takes no
 * bandwidth. */
void tdm_virtual_flows_add(tdm_virtual_flows *flows, uint32_t task, bool flowing);
/* Sets each flow's rate, in bytes per ns, in its task's element of `rate`. */
void tdm_virtual_flows_share(tdm_virtual_flows *flows, double *rate);
/* Advances time at these rates: the links in use were busy. */
void tdm_virtual_flows_pass(tdm_virtual_flows *flows, double ns);
/* Counts the bytes of a copy that has ended on its links. */
void tdm_virtual_flows_count(tdm_virtual_flows *flows, const tdm_virtual_task *task);

#endif
