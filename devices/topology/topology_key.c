/* Computes a number that identifies the machine. Invariant: it depends on what the process may use
 * (cores, caches, nodes, the processors' model), not on the process, the time or the load. The size
 * of a node's memory is not part of it: virtual machines add and remove memory while they run. */
#include "core/hash.h"
#include "devices/topology/topology_state.h"

static uint64_t hash_set(hwloc_const_bitmap_t set, uint64_t hash) {
  int index = -1;
  while ((index = hwloc_bitmap_next(set, index)) != -1)
    hash = tdm_hash_mix(hash, (uint64_t)index);
  return tdm_hash_mix(hash, UINT64_MAX);
}

static uint64_t hash_object(hwloc_obj_t object, uint64_t hash) {
  hash = tdm_hash_mix(hash, (uint64_t)object->type);
  hash = hash_set(object->cpuset, hash);
  if (hwloc_obj_type_is_cache(object->type)) hash = tdm_hash_mix(hash, object->attr->cache.size);
  if (object->type == HWLOC_OBJ_NUMANODE) {
    hash = tdm_hash_mix(hash, object->os_index);
    hash = tdm_hash_mix(hash, object->attr->numanode.local_memory > 0);
  }
  const char *model = hwloc_obj_get_info_by_name(object, "CPUModel");
  return !model ? hash : tdm_hash_string(model, hash);
}

uint64_t tdm_topology_key(const tdm_topology *topology) {
  static const hwloc_obj_type_t types[] = {HWLOC_OBJ_PACKAGE, HWLOC_OBJ_NUMANODE, HWLOC_OBJ_L3CACHE,
                                           HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L1CACHE,  HWLOC_OBJ_CORE,
                                           HWLOC_OBJ_PU};
  uint64_t hash = 1;
  for (size_t i = 0; i < TDM_COUNT_OF(types); i++) {
    hwloc_obj_t object = NULL;
    while ((object = hwloc_get_next_obj_by_type(topology->hwloc, types[i], object)))
      hash = hash_object(object, hash);
  }
  return hash;
}
