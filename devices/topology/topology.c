/* Reads the machine with hwloc and divides it. Invariant: `cores` and `units` list what the process
 * may use in the same order, node by node, so that a range of either is compact. */
#include <assert.h>
#include <omp.h>
#include <string.h>

#include "devices/topology/topology_state.h"

/* ---- Reading --------------------------------------------------------------------------------- */

/* Reads PCI devices, for the nodes near them, from a description. On this machine they are looked
 * up one by one on demand: listing them reads the configuration of each, which takes longer than
 * everything else. Moreover, the plug-in that lists them opens a library that never frees its
 * memory. */
static int read_pci(hwloc_topology_t hwloc) {
  (void)hwloc_topology_set_components(hwloc, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "pci");
  (void)hwloc_topology_set_components(hwloc, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "linux:pci");
  return hwloc_topology_set_type_filter(hwloc, HWLOC_OBJ_PCI_DEVICE,
                                        HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
}

static tdm_status load(tdm_topology *topology, const char *description) {
  if (hwloc_topology_init(&topology->hwloc) != 0) {
    topology->hwloc = NULL;
    return tdm_fail(TDM_OUT_OF_MEMORY, "hwloc cannot make a topology");
  }
  int code = read_pci(topology->hwloc);
  if (code == 0 && description && description[0] == '<') {
    code = hwloc_topology_set_xmlbuffer(topology->hwloc, description, (int)strlen(description) + 1);
  } else if (code == 0 && description) {
    code = hwloc_topology_set_synthetic(topology->hwloc, description);
  }
  if (code != 0) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "hwloc does not understand this topology: %.200s",
                    description);
  }
  if (hwloc_topology_load(topology->hwloc) != 0)
    return tdm_fail(TDM_UNAVAILABLE, "hwloc cannot read the machine's topology");
  topology->loaded = true;
  /* hwloc also reads the description in HWLOC_XMLFILE, which may be another machine's. */
  topology->is_this_machine = !description && hwloc_topology_is_thissystem(topology->hwloc) != 0;
  return TDM_OK;
}

/* Adds the processing units of an OpenMP place. Returns false if memory is short. */
static bool add_place(const tdm_topology *topology, int place, hwloc_bitmap_t set) {
  const size_t count = (size_t)omp_get_place_num_procs(place);
  int *units = tdm_allocate(topology->allocator, (count + 1) * sizeof *units, "a place's units");
  if (!units) return false;
  omp_get_place_proc_ids(place, units);
  bool added = true;
  for (size_t i = 0; i < count && added; i++)
    added = hwloc_bitmap_set(set, (unsigned)units[i]) == 0;
  tdm_release(topology->allocator, units, (count + 1) * sizeof *units);
  return added;
}

/* Adds the units of all OpenMP places. If OpenMP's runtime binds threads (OMP_PROC_BIND,
 * OMP_PLACES, GOMP_CPU_AFFINITY), it has bound the program's first thread to a place before main
 * began. So the process's units are those of all places together. If the program has bound itself
 * differently since then, its choice is kept. */
static tdm_status widen_to_places(const tdm_topology *topology, hwloc_bitmap_t allowed) {
  hwloc_bitmap_t all = hwloc_bitmap_alloc(), one = hwloc_bitmap_alloc();
  bool read = all && one, is_bound_to_one = false;
  const int count = omp_get_num_places();
  for (int place = 0; place < count && read; place++) {
    hwloc_bitmap_zero(one);
    read = add_place(topology, place, one) && hwloc_bitmap_or(all, all, one) == 0;
    is_bound_to_one |= hwloc_bitmap_isequal(one, allowed) != 0;
  }
  if (read && is_bound_to_one) read = hwloc_bitmap_or(allowed, allowed, all) == 0;
  hwloc_bitmap_free(one);
  hwloc_bitmap_free(all);
  return read ? TDM_OK : tdm_fail(TDM_OUT_OF_MEMORY, "out of memory for OpenMP's places");
}

/* Removes what the process may not run on. A topology that cannot be restricted stays whole. */
static tdm_status restrict_to_affinity(tdm_topology *topology) {
  hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
  if (!allowed) return tdm_fail(TDM_OUT_OF_MEMORY, "out of memory for the process's units");
  tdm_status status = TDM_OK;
  if (hwloc_get_cpubind(topology->hwloc, allowed, HWLOC_CPUBIND_PROCESS) == 0) {
    status = widen_to_places(topology, allowed);
    /* PCI devices stay in the topology even if no core near them is left. */
    if (status == TDM_OK)
      (void)hwloc_topology_restrict(topology->hwloc, allowed, HWLOC_RESTRICT_FLAG_ADAPT_IO);
  }
  hwloc_bitmap_free(allowed);
  return status;
}

/* Appends the objects of one type whose memory comes from node, in order, to list. Other nodes may
 * be near them as well: HBM in addition to DRAM, or an expander near all of them. */
static size_t append_of(const tdm_topology *topology, hwloc_obj_t node, hwloc_obj_type_t type,
                        hwloc_obj_t *list, size_t count) {
  hwloc_obj_t object = NULL;
  while ((object = hwloc_get_next_obj_by_type(topology->hwloc, type, object)))
    if (tdm_topology_nearest_node(topology, object->nodeset) == node) list[count++] = object;
  return count;
}

static tdm_status list_cores(tdm_topology *topology) {
  const hwloc_topology_t hwloc = topology->hwloc;
  const int unit_count = hwloc_get_nbobjs_by_type(hwloc, HWLOC_OBJ_PU);
  const int core_count = hwloc_get_nbobjs_by_type(hwloc, HWLOC_OBJ_CORE);
  if (unit_count <= 0) return tdm_fail(TDM_UNAVAILABLE, "hwloc finds no processing unit");
  const hwloc_obj_type_t core_type = core_count > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;

  topology->capacity = (size_t)unit_count + 1;
  const size_t bytes = topology->capacity * sizeof(hwloc_obj_t);
  topology->cores = tdm_allocate(topology->allocator, bytes, "the list of cores");
  if (!topology->cores) return TDM_OUT_OF_MEMORY;
  topology->units = tdm_allocate(topology->allocator, bytes, "the list of processing units");
  if (!topology->units) return TDM_OUT_OF_MEMORY;
  topology->node_core_ends = tdm_allocate(
      topology->allocator, topology->capacity * sizeof(uint32_t), "the list of NUMA nodes");
  if (!topology->node_core_ends) return TDM_OUT_OF_MEMORY;

  hwloc_obj_t node = NULL;
  while ((node = hwloc_get_next_obj_by_type(hwloc, HWLOC_OBJ_NUMANODE, node))) {
    const size_t before = topology->core_count;
    topology->core_count =
        append_of(topology, node, core_type, topology->cores, topology->core_count);
    topology->unit_count =
        append_of(topology, node, HWLOC_OBJ_PU, topology->units, topology->unit_count);
    if (topology->core_count == before) continue; /* memory without cores */
    topology->node_core_ends[topology->node_count++] = (uint32_t)topology->core_count;
  }
  if (topology->core_count == 0) return tdm_fail(TDM_UNAVAILABLE, "hwloc finds no core");
  return TDM_OK;
}

tdm_status tdm_topology_create(const tdm_allocator *allocator, const char *description,
                               tdm_topology **out_topology) {
  *out_topology = NULL;
  tdm_topology *topology = tdm_allocate(allocator, sizeof *topology, "the machine's topology");
  if (!topology) return TDM_OUT_OF_MEMORY;
  topology->allocator = allocator;
  tdm_status status = load(topology, description);
  if (status != TDM_OK) goto fail;
  if (topology->is_this_machine) status = restrict_to_affinity(topology);
  if (status != TDM_OK) goto fail;
  status = list_cores(topology);
  if (status != TDM_OK) goto fail;
  *out_topology = topology;
  return TDM_OK;
fail:
  tdm_topology_destroy(topology);
  return status;
}

void tdm_topology_destroy(tdm_topology *topology) {
  if (!topology) return;
  const tdm_allocator *allocator = topology->allocator;
  tdm_release(allocator, topology->node_core_ends, topology->capacity * sizeof(uint32_t));
  tdm_release(allocator, topology->units, topology->capacity * sizeof(hwloc_obj_t));
  tdm_release(allocator, topology->cores, topology->capacity * sizeof(hwloc_obj_t));
  if (topology->hwloc) hwloc_topology_destroy(topology->hwloc);
  tdm_release(allocator, topology, sizeof *topology);
}

size_t tdm_topology_node_count(const tdm_topology *topology) {
  return topology->node_count;
}

size_t tdm_topology_core_count(const tdm_topology *topology) {
  return topology->core_count;
}

size_t tdm_topology_cache_bytes(const tdm_topology *topology) {
  size_t bytes = 0;
  for (hwloc_obj_t object = topology->cores[0]; object != NULL; object = object->parent)
    if (hwloc_obj_type_is_dcache(object->type)) bytes = (size_t)object->attr->cache.size;
  return bytes;
}

/* ---- Dividing -------------------------------------------------------------------------------- */

static tdm_core_range part(tdm_core_range whole, size_t index, size_t parts) {
  assert(parts > 0);
  /* The first parts are the larger ones. */
  const size_t least = whole.count / parts;
  const size_t larger = whole.count % parts;
  const size_t first = index * least + (index < larger ? index : larger);
  whole.first += (uint32_t)first;
  whole.count = (uint32_t)(least + (index < larger ? 1 : 0));
  return whole;
}

static tdm_core_range cpu_part(const tdm_topology *topology, bool units, size_t index,
                               size_t cpu_count) {
  if (cpu_count == topology->node_count && !units) {
    const uint32_t first = index == 0 ? 0 : topology->node_core_ends[index - 1];
    return (tdm_core_range){.first = first, .count = topology->node_core_ends[index] - first};
  }
  const size_t count = units ? topology->unit_count : topology->core_count;
  return part((tdm_core_range){.count = (uint32_t)count, .units = units}, index, cpu_count);
}

/* Divides by cores or by units. Returns false if a device would get none. */
static bool divide_by(const tdm_topology *topology, bool units, size_t cpu_count,
                      size_t sims_with_cores, tdm_core_range *out_ranges) {
  const size_t count = units ? topology->unit_count : topology->core_count;
  if (cpu_count + sims_with_cores > count) return false;
  for (size_t i = 0; i < cpu_count; i++) {
    const tdm_core_range whole = cpu_part(topology, units, i, cpu_count);
    const size_t sims = sims_with_cores / cpu_count + (i < sims_with_cores % cpu_count ? 1 : 0);
    if (whole.count < 1 + sims) return false;
    out_ranges[i] = part(whole, 0, 1 + sims);
    for (size_t k = 0; k < sims; k++)
      out_ranges[cpu_count + i + k * cpu_count] = part(whole, 1 + k, 1 + sims);
  }
  return true;
}

void tdm_topology_divide(const tdm_topology *topology, size_t cpu_count, size_t sim_count,
                         bool sims_have_cores, tdm_core_range *out_ranges) {
  assert(cpu_count > 0);
  const size_t sims_with_cores = sims_have_cores ? sim_count : 0;
  const bool divided = divide_by(topology, false, cpu_count, sims_with_cores, out_ranges) ||
                       divide_by(topology, true, cpu_count, sims_with_cores, out_ranges);
  if (!divided) {
    for (size_t i = 0; i < cpu_count + sim_count; i++) {
      out_ranges[i] = (tdm_core_range){
          .first = (uint32_t)(i % topology->unit_count), .count = 1, .units = true, .shared = true};
    }
    return;
  }
  for (size_t i = 0; i < sim_count && !sims_have_cores; i++) {
    tdm_core_range range = out_ranges[i % cpu_count];
    range.first += range.count - 1; /* the last core, because a cpu worker is on the first one */
    range.count = 1;
    range.shared = true;
    out_ranges[cpu_count + i] = range;
  }
}

/* ---- Binding --------------------------------------------------------------------------------- */

/* Returns the range's processing units, or NULL if memory is short. */
static hwloc_bitmap_t range_set(const tdm_topology *topology, const tdm_core_range *range) {
  hwloc_bitmap_t set = hwloc_bitmap_alloc();
  if (!set) return NULL;
  hwloc_obj_t *const objects = range->units ? topology->units : topology->cores;
  for (size_t i = 0; i < range->count; i++) {
    if (hwloc_bitmap_or(set, set, objects[range->first + i]->cpuset) != 0) {
      hwloc_bitmap_free(set);
      return NULL;
    }
  }
  return set;
}

tdm_core_range tdm_topology_all_cores(const tdm_topology *topology) {
  return (tdm_core_range){.count = (uint32_t)topology->core_count};
}

bool tdm_topology_bind_thread(const tdm_topology *topology, const tdm_core_range *range) {
  if (!topology->is_this_machine) return false;
  hwloc_bitmap_t set = range_set(topology, range);
  if (!set) return false;
  const int code = hwloc_set_cpubind(topology->hwloc, set, HWLOC_CPUBIND_THREAD);
  hwloc_bitmap_free(set);
  return code == 0;
}

void tdm_topology_leave_place(void) {
  if (omp_get_num_places() <= 0) return;
  const tdm_allocator allocator = tdm_allocator_default();
  tdm_topology *topology;
  if (tdm_topology_create(&allocator, NULL, &topology) != TDM_OK) return;
  const tdm_core_range all = tdm_topology_all_cores(topology);
  (void)tdm_topology_bind_thread(topology, &all);
  tdm_topology_destroy(topology);
}

const char *tdm_topology_range_text(const tdm_topology *topology, const tdm_core_range *range,
                                    char *text, size_t capacity) {
  if (capacity > 0) text[0] = '\0';
  hwloc_bitmap_t set = range_set(topology, range);
  if (!set) return text;
  (void)hwloc_bitmap_list_snprintf(text, capacity, set);
  hwloc_bitmap_free(set);
  return text;
}
