/* The pass `collectives`: replaces every sum over devices with copies and additions, by the
 * algorithm that suits the links and the memory. */
#ifndef TANDEM_GRAPH_COLLECTIVES_COLLECTIVES_H
#define TANDEM_GRAPH_COLLECTIVES_COLLECTIVES_H

#include "devices/groups/groups.h"
#include "graph/ir/ir.h"

typedef struct tdm_collective_request {
  tdm_collective asked;
  bool deterministic; /* terms are added in their order: at home or in a chain */
} tdm_collective_request;

/* The algorithm of the sums that only updates use, and the reason. */
typedef struct tdm_collective_choice {
  tdm_collective algorithm; /* AUTO: no such sum has terms on several devices */
  const char *reason;       /* static */
  uint64_t sums;
  uint64_t bytes;       /* total of their results */
  uint64_t own_updates; /* number of sums that every device gets, and updates its own copy by */
  /* By algorithm: how long the busiest link is busy with gradients and parameters; 0: not
   * possible. */
  double predicted_ns[TDM_COLLECTIVE_COUNT];
  /* The engine of devices that make all-reduces themselves, such as "NCCL 2.28.9", the number of
   * these all-reduces, and the reason of the first one that cannot, although its kind has an
   * engine. */
  char engine[24];
  uint64_t on_devices;
  char engine_absence[TDM_GROUP_REASON_BYTES];
} tdm_collective_choice;

/* Runs on a graph with or without updates, before layout. */
tdm_status tdm_pass_collectives(tdm_graph *graph, const tdm_collective_request *request,
                                tdm_collective_choice *out_choice) TDM_WARN_UNUSED;

/* Returns the predicted time of the engine's all-reduce of a value of that many bytes over all
 * ranks of a job, after all have reached it. */
double tdm_all_reduce_of_ranks_ns(const tdm_graph *graph, double bytes);
/* Returns this time for its participants: all ranks or, with one rank, those devices (count). */
double tdm_all_reduce_of_devices_ns(const tdm_graph *graph, const int16_t *devices, uint32_t count,
                                    double bytes);

#endif
