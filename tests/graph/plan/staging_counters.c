/* See staging_counters.h. */
#include "tests/graph/plan/staging_counters.h"

#include "devices/context/context.h"
#include "devices/staging/pool.h"

staging_counters staging_counters_of(tdm_context *context) {
  tdm_pool_counters counters;
  tdm_pool_counters_read(tdm_context_pool(context), &counters);
  return (staging_counters){counters.refused_binds, counters.misplaced};
}

bool staging_node_is_known(tdm_context *context) {
  const tdm_device *device = tdm_context_find_device(context, "sim:0");
  return device && device->node >= 0;
}
