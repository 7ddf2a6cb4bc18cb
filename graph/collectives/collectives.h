/* The pass `collectives`: every sum over devices becomes copies and additions, by the algorithm
 * that the links and the memory ask for. */
#ifndef TANDEM_GRAPH_COLLECTIVES_COLLECTIVES_H
#define TANDEM_GRAPH_COLLECTIVES_COLLECTIVES_H

#include "devices/groups/groups.h"
#include "graph/ir/ir.h"

typedef struct tdm_collective_request {
  tdm_collective asked;
  bool deterministic; /* terms are added in their order: at home or in a chain */
} tdm_collective_request;

/* What was chosen for the sums that only updates need, and why. */
typedef struct tdm_collective_choice {
  tdm_collective algorithm; /* AUTO: there are none over several devices */
  const char *reason;       /* static */
  uint64_t sums;
  uint64_t bytes;       /* of their results */
  uint64_t own_updates; /* sums that every device has in the end, and updates its copy by */
  /* By algorithm: how long the busiest link is busy with gradients and parameters; 0: it is not
   * possible. */
  double predicted_ns[TDM_COLLECTIVE_COUNT];
  /* By which engine their devices make all-reduces themselves, as "NCCL 2.28.9", how many of them,
   * and the reason of the first that cannot, though a device of it is of a kind that could. */
  char engine[24];
  uint64_t on_devices;
  char engine_absence[TDM_GROUP_REASON_BYTES];
} tdm_collective_choice;

/* Of a graph with updates or none, before layout. */
tdm_status tdm_pass_collectives(tdm_graph *graph, const tdm_collective_request *request,
                                tdm_collective_choice *out_choice) TDM_WARN_UNUSED;

/* What the engine's all-reduce of a value of so many bytes over all ranks of a job is predicted to
 * take, once all have come to it. */
double tdm_all_reduce_of_ranks_ns(const tdm_graph *graph, double bytes);
/* The same of what makes it: all ranks or, where there is one, those devices (count). */
double tdm_all_reduce_of_devices_ns(const tdm_graph *graph, const int16_t *devices, uint32_t count,
                                    double bytes);

#endif
