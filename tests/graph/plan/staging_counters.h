/* What the staging pool of a context has counted, for tests of plans. */
#ifndef TANDEM_TESTS_GRAPH_PLAN_STAGING_COUNTERS_H
#define TANDEM_TESTS_GRAPH_PLAN_STAGING_COUNTERS_H

#include "tandem/devices/devices.h"

typedef struct staging_counters {
  uint64_t refused_binds;
  uint64_t misplaced;
} staging_counters;

staging_counters staging_counters_of(tdm_context *context);
/* Does the system tell which NUMA node is the first accelerator's? */
bool staging_node_is_known(tdm_context *context);

#endif
