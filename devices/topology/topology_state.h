/* The topology's fields, for the files that implement it. Invariant: see topology.h; constant after
 * tdm_topology_create. */
#ifndef TANDEM_DEVICES_TOPOLOGY_TOPOLOGY_STATE_H
#define TANDEM_DEVICES_TOPOLOGY_TOPOLOGY_STATE_H

#include <hwloc.h>

#include "devices/topology/topology.h"

struct tdm_topology {
  const tdm_allocator *allocator;
  hwloc_topology_t hwloc;
  bool loaded;
  bool is_this_machine;
  size_t node_count;
  size_t core_count;
  size_t unit_count;
  hwloc_obj_t *cores;       /* (core_count) */
  hwloc_obj_t *units;       /* (unit_count) */
  uint32_t *node_core_ends; /* (node_count): node i has cores ends[i-1]..ends[i]-1 */
  size_t capacity;          /* capacity of the three arrays */
};

/* Returns the best node of an object's nodeset, or NULL if there is none. */
hwloc_obj_t tdm_topology_nearest_node(const tdm_topology *topology, hwloc_const_nodeset_t nodes);

#endif
