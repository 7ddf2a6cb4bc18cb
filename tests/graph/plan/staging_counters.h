/* Counters of a context's staging pool, for tests of plans. */
#ifndef TANDEM_TESTS_GRAPH_PLAN_STAGING_COUNTERS_H
#define TANDEM_TESTS_GRAPH_PLAN_STAGING_COUNTERS_H

#include "tandem/devices/devices.h"

typedef struct staging_counters {
  uint64_t refused_binds;
  uint64_t misplaced;
} staging_counters;

staging_counters staging_counters_of(tdm_context *context);
/* Returns true if the system reports the NUMA node of the first accelerator. */
bool staging_node_is_known(tdm_context *context);

#endif
