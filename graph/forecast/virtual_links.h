/* Flows over links that share them, for virtual_time.c. Invariant: after share, no link carries
 * more than its bandwidth, and no flow could go faster without another as slow as it going slower.
 */
#ifndef TANDEM_GRAPH_FORECAST_VIRTUAL_LINKS_H
#define TANDEM_GRAPH_FORECAST_VIRTUAL_LINKS_H

#include "graph/forecast/virtual_schedule.h"

typedef struct tdm_virtual_flows {
  tdm_virtual_schedule *schedule;
  uint32_t *tasks; /* whose bytes flow now */
  size_t count;
  bool *settled;   /* per flow: its rate is found */
  uint32_t *flows; /* per link: of those not settled */
  double *left;    /* per link: bytes per ns still to give */
  uint32_t *used;  /* links with flows; set by share */
  size_t used_count;
  bool *is_used; /* per link */
} tdm_virtual_flows;

/* Room for every queue's task to flow; of the region. */
tdm_status tdm_virtual_flows_init(tdm_virtual_flows *flows, tdm_virtual_schedule *schedule,
                                  tdm_region *region) TDM_WARN_UNUSED;
void tdm_virtual_flows_clear(tdm_virtual_flows *flows);
/* flowing: its latency is over; before, it occupies its links and takes nothing from others. */
void tdm_virtual_flows_add(tdm_virtual_flows *flows, uint32_t task, bool flowing);
/* Gives every flow its rate, in bytes per ns, at its task's place in `rate`. */
void tdm_virtual_flows_share(tdm_virtual_flows *flows, double *rate);
/* Time passes at these rates: the links in use were busy. */
void tdm_virtual_flows_pass(tdm_virtual_flows *flows, double ns);
/* A copy has ended: its links carried its bytes. */
void tdm_virtual_flows_count(tdm_virtual_flows *flows, const tdm_virtual_task *task);

#endif
