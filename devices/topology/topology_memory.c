/* Finds the NUMA node near something, and requests memory from it. Invariant: preferences are, in
 * order: a node with memory, ordinary memory over special memory (HBM, CXL), a node near fewer
 * cores, and the lower os index. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hwloc/linux.h>

#include "devices/topology/topology_state.h"

/* ---- Nearest nodes --------------------------------------------------------------------------- */

/* hwloc identifies memory that is not ordinary by a subtype (HBM, MCDRAM, NVM, GPUMemory,
 * CXL-DRAM), or by how Linux attached it. */
static bool is_special(hwloc_obj_t node) {
  if (node->subtype && strcmp(node->subtype, "DRAM") != 0) return true;
  return hwloc_obj_get_info_by_name(node, "DAXDevice") != NULL;
}

static bool is_better(hwloc_obj_t node, hwloc_obj_t than) {
  const bool has_memory = node->attr->numanode.local_memory > 0;
  if (has_memory != (than->attr->numanode.local_memory > 0)) return has_memory;
  const bool special = is_special(node);
  if (special != is_special(than)) return !special;
  const int cores = hwloc_bitmap_weight(node->cpuset);
  const int other_cores = hwloc_bitmap_weight(than->cpuset);
  if (cores != other_cores) return cores < other_cores;
  return node->os_index < than->os_index;
}

hwloc_obj_t tdm_topology_nearest_node(const tdm_topology *topology, hwloc_const_nodeset_t nodes) {
  hwloc_obj_t best = NULL;
  hwloc_obj_t node = NULL;
  while ((node = hwloc_get_next_obj_by_type(topology->hwloc, HWLOC_OBJ_NUMANODE, node))) {
    if (!hwloc_bitmap_isset(nodes, node->os_index)) continue;
    if (!best || is_better(node, best)) best = node;
  }
  return best;
}

/* Cores can be near several nodes; a range's memory comes from the best node of each core. */
static bool add_range_nodes(const tdm_topology *topology, const tdm_core_range *range,
                            hwloc_nodeset_t set) {
  const hwloc_obj_t *objects = range->units ? topology->units : topology->cores;
  for (size_t i = 0; i < range->count; i++) {
    const hwloc_obj_t node =
        tdm_topology_nearest_node(topology, objects[range->first + i]->nodeset);
    if (node && hwloc_bitmap_set(set, node->os_index) != 0) return false;
  }
  return true;
}

int tdm_topology_range_node(const tdm_topology *topology, const tdm_core_range *range) {
  int index = TDM_NODE_UNKNOWN;
  hwloc_nodeset_t set = hwloc_bitmap_alloc();
  if (set && add_range_nodes(topology, range, set) && hwloc_bitmap_weight(set) == 1)
    index = hwloc_bitmap_first(set);
  hwloc_bitmap_free(set);
  return index;
}

/* Returns false unless bus_id is well-formed, so that it cannot be a path to another place.
 * Composes the path of Linux's file `name` about that device. */
static bool pci_path(const char *bus_id, const char *name, char *path, size_t capacity) {
  if (strspn(bus_id, "0123456789abcdefABCDEF:.") != strlen(bus_id)) return false;
  const bool has_domain = strchr(bus_id, ':') != strrchr(bus_id, ':');
  (void)snprintf(path, capacity, "/sys/bus/pci/devices/%s%.32s/%s",
                 has_domain ? "" : "0000:", bus_id, name);
  return true;
}

/* Returns Linux's information for cases where hwloc's tree has none: a container may hide the cores
 * near the device, but not the memory. */
static int linux_pci_node(const tdm_topology *topology, const char *bus_id) {
  char path[96];
  int node = TDM_NODE_UNKNOWN;
  if (!topology->is_this_machine || !pci_path(bus_id, "numa_node", path, sizeof path)) return node;
  FILE *file = fopen(path, "r");
  if (!file) return node;
  if (fscanf(file, "%d", &node) != 1) node = TDM_NODE_UNKNOWN;
  (void)fclose(file);
  if (node < 0 || tdm_topology_node_bytes(topology, node) == 0) return TDM_NODE_UNKNOWN;
  return node;
}

/* Returns the smallest object with all cores near the device that the process may use, or NULL if
 * there is no such device or core. */
static hwloc_obj_t object_near_pci(const tdm_topology *topology, const char *bus_id) {
  const hwloc_obj_t device = hwloc_get_pcidev_by_busidstring(topology->hwloc, bus_id);
  if (device) return hwloc_get_non_io_ancestor_obj(topology->hwloc, device);
  char path[96];
  if (!topology->is_this_machine || !pci_path(bus_id, "local_cpus", path, sizeof path)) return NULL;
  hwloc_bitmap_t cores = hwloc_bitmap_alloc();
  if (!cores) return NULL;
  hwloc_obj_t near = NULL;
  if (hwloc_linux_read_path_as_cpumask(path, cores) == 0 &&
      hwloc_bitmap_and(cores, cores, hwloc_topology_get_topology_cpuset(topology->hwloc)) == 0 &&
      !hwloc_bitmap_iszero(cores)) {
    near = hwloc_get_obj_covering_cpuset(topology->hwloc, cores);
  }
  hwloc_bitmap_free(cores);
  return near;
}

int tdm_topology_node_near_pci(const tdm_topology *topology, const char *bus_id) {
  const hwloc_obj_t near = object_near_pci(topology, bus_id);
  if (!near) return linux_pci_node(topology, bus_id);
  const hwloc_obj_t root = hwloc_get_root_obj(topology->hwloc);
  const hwloc_obj_t node = near == root ? NULL : tdm_topology_nearest_node(topology, near->nodeset);
  if (node) return (int)node->os_index;
  if (topology->node_count == 1)
    return (int)tdm_topology_nearest_node(topology, topology->cores[0]->nodeset)->os_index;
  return linux_pci_node(topology, bus_id);
}

uint64_t tdm_topology_node_bytes(const tdm_topology *topology, int node) {
  if (node < 0) return 0;
  const hwloc_obj_t object = hwloc_get_numanode_obj_by_os_index(topology->hwloc, (unsigned)node);
  return !object ? 0 : object->attr->numanode.local_memory;
}

/* Returns the number after name in a file of "NAME: N kB" lines, in bytes; 0: there is none. */
static uint64_t read_kilobytes(const char *path, const char *name) {
  FILE *file = fopen(path, "re");
  if (!file) return 0;
  char line[160];
  uint64_t bytes = 0;
  while (bytes == 0 && fgets(line, sizeof line, file)) {
    const char *found = strstr(line, name);
    const char *colon = found ? strchr(found, ':') : NULL;
    if (colon && colon == found + strlen(name)) bytes = strtoull(colon + 1, NULL, 10) * 1024;
  }
  (void)fclose(file);
  return bytes;
}

/* Linux reports the available memory of all nodes. For one node, it is the free memory plus what
 * files could release at once. */
static uint64_t read_free_bytes(int node) {
  if (node < 0) return read_kilobytes("/proc/meminfo", "MemAvailable");
  char path[64];
  (void)snprintf(path, sizeof path, "/sys/devices/system/node/node%d/meminfo", node);
  return read_kilobytes(path, "MemFree") + read_kilobytes(path, "Inactive(file)");
}

void tdm_topology_memory(const tdm_topology *topology, int node, uint64_t *out_bytes,
                         uint64_t *out_free_bytes) {
  if (topology->node_count == 1) node = -1;
  uint64_t bytes = node >= 0 ? tdm_topology_node_bytes(topology, node)
                             : hwloc_get_root_obj(topology->hwloc)->total_memory;
  uint64_t free_bytes = 0;
  if (topology->is_this_machine) {
    /* A node's own information may omit memory that was added later. */
    const uint64_t told = node < 0 ? read_kilobytes("/proc/meminfo", "MemTotal") : 0;
    if (told > 0) bytes = told;
    free_bytes = read_free_bytes(node);
  }
  *out_bytes = bytes;
  *out_free_bytes = free_bytes < bytes ? free_bytes : bytes;
}

const char *tdm_topology_processor(const tdm_topology *topology) {
  hwloc_obj_t package = hwloc_get_obj_by_type(topology->hwloc, HWLOC_OBJ_PACKAGE, 0);
  const char *model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
  if (!model) model = hwloc_obj_get_info_by_name(hwloc_get_root_obj(topology->hwloc), "CPUModel");
  return model ? model : "";
}

/* ---- Binding threads near memory ------------------------------------------------------------- */

/* Returns the usable units near the node, or NULL if there are none. */
static hwloc_const_bitmap_t node_set(const tdm_topology *topology, int node) {
  if (node < 0) return NULL;
  const hwloc_obj_t object = hwloc_get_numanode_obj_by_os_index(topology->hwloc, (unsigned)node);
  if (!object || hwloc_bitmap_iszero(object->cpuset)) return NULL;
  return object->cpuset;
}

bool tdm_topology_bind_thread_to(const tdm_topology *topology, int node) {
  const hwloc_const_bitmap_t set = node_set(topology, node);
  if (!topology->is_this_machine || !set) return false;
  return hwloc_set_cpubind(topology->hwloc, set, HWLOC_CPUBIND_THREAD) == 0;
}

const char *tdm_topology_node_text(const tdm_topology *topology, int node, char *text,
                                   size_t capacity) {
  if (capacity > 0) text[0] = '\0';
  const hwloc_const_bitmap_t set = node_set(topology, node);
  if (set) (void)hwloc_bitmap_list_snprintf(text, capacity, set);
  return text;
}

/* ---- Placing memory -------------------------------------------------------------------------- */

static bool bind_area(const tdm_topology *topology, hwloc_const_nodeset_t nodes, void *memory,
                      size_t bytes) {
  return hwloc_set_area_membind(topology->hwloc, memory, bytes, nodes, HWLOC_MEMBIND_BIND,
                                HWLOC_MEMBIND_BYNODESET | HWLOC_MEMBIND_STRICT) == 0;
}

bool tdm_topology_bind_memory(const tdm_topology *topology, const tdm_core_range *range,
                              void *memory, size_t bytes) {
  if (!topology->is_this_machine) return false;
  if (topology->node_count <= 1) return true; /* no other node exists */
  hwloc_nodeset_t nodes = hwloc_bitmap_alloc();
  const bool bound =
      nodes && add_range_nodes(topology, range, nodes) && bind_area(topology, nodes, memory, bytes);
  hwloc_bitmap_free(nodes);
  return bound;
}

bool tdm_topology_bind_memory_to(const tdm_topology *topology, int node, void *memory,
                                 size_t bytes) {
  if (!topology->is_this_machine || node < 0) return false;
  hwloc_nodeset_t nodes = hwloc_bitmap_alloc();
  const bool bound = nodes && hwloc_bitmap_set(nodes, (unsigned)node) == 0 &&
                     bind_area(topology, nodes, memory, bytes);
  hwloc_bitmap_free(nodes);
  return bound;
}

int tdm_topology_memory_node(const tdm_topology *topology, const void *memory, size_t bytes) {
  if (!topology->is_this_machine) return TDM_NODE_UNKNOWN;
  hwloc_nodeset_t nodes = hwloc_bitmap_alloc();
  int node = TDM_NODE_UNKNOWN;
  if (nodes && hwloc_get_area_memlocation(topology->hwloc, memory, bytes, nodes,
                                          HWLOC_MEMBIND_BYNODESET) == 0) {
    const int count = hwloc_bitmap_weight(nodes);
    if (count == 1) node = hwloc_bitmap_first(nodes);
    if (count > 1) node = TDM_NODE_SEVERAL;
  }
  hwloc_bitmap_free(nodes);
  return node;
}
