/* The machine as hwloc describes it, and the division of its cores among devices. Invariant: only
 * what the process may run on counts. A division is a pure function of the topology and the
 * requested numbers, so that a recorded machine can be divided on any other. */
#ifndef TANDEM_DEVICES_TOPOLOGY_TOPOLOGY_H
#define TANDEM_DEVICES_TOPOLOGY_TOPOLOGY_H

#include "core/allocate.h"

typedef struct tdm_topology tdm_topology;

/* Cores first..first+count-1, in the machine's order (node by node). */
typedef struct tdm_core_range {
  uint32_t first;
  uint32_t count; /* number of cores and of the team's threads, at least 1 */
  bool units;     /* processing units are counted instead of cores */
  bool shared;    /* other devices run here too: park, never spin */
} tdm_core_range;

/* Reads a topology. description NULL: this machine, restricted to the process's affinity. Otherwise
 * a synthetic one in hwloc's notation ("numa:2 core:4 pu:2") or, beginning with "<", hwloc XML. */
tdm_status tdm_topology_create(const tdm_allocator *allocator, const char *description,
                               tdm_topology **out_topology) TDM_WARN_UNUSED;
void tdm_topology_destroy(tdm_topology *topology);

/* Returns the number of NUMA nodes that provide memory for cores. */
size_t tdm_topology_node_count(const tdm_topology *topology);
size_t tdm_topology_core_count(const tdm_topology *topology);
/* Returns the size of the last cache above a core; 0: unknown. */
size_t tdm_topology_cache_bytes(const tdm_topology *topology);

/* Divides the machine: cpu_count ranges for cpu devices, then sim_count for simulated ones. If
 * there are as many cpu devices as nodes, each gets a node. A sim with its own cores takes them
 * from the cpu device of its index, which keeps the larger part; otherwise it shares one core of
 * it. With more devices than processing units, all are one-thread teams that share. */
void tdm_topology_divide(const tdm_topology *topology, size_t cpu_count, size_t sim_count,
                         bool sims_have_cores, tdm_core_range *out_ranges);

/* Returns all cores that the process may run on. */
tdm_core_range tdm_topology_all_cores(const tdm_topology *topology);
/* Binds the calling thread to the range. Returns false, which is no failure, if the system
 * refuses. */
bool tdm_topology_bind_thread(const tdm_topology *topology, const tdm_core_range *range);
/* Lets the calling thread run on everything that the process was given, if OpenMP's runtime has
 * bound it to a place. For programs that report processors, or start other programs, which inherit
 * the binding. */
void tdm_topology_leave_place(void);
/* Results if there is no single node. */
enum { TDM_NODE_UNKNOWN = -1, TDM_NODE_SEVERAL = -2 };

/* Returns the os index of the node that provides memory for range's cores. Ordinary memory near
 * them is preferred; memory without cores is used only if there is no other. Returns UNKNOWN if
 * their nodes differ. */
int tdm_topology_range_node(const tdm_topology *topology, const tdm_core_range *range);
/* Returns the os index of the node nearest to a PCI device ("0000:3b:00.0"), chosen the same way.
 * Returns UNKNOWN for a device that does not exist, or that is equally near to several nodes. */
int tdm_topology_node_near_pci(const tdm_topology *topology, const char *bus_id);
/* Binds the calling thread to the units nearest to the node's memory that the process may use.
 * Returns false if there are none, or the system refuses. */
bool tdm_topology_bind_thread_to(const tdm_topology *topology, int node);
/* Writes the os indices of those processing units, as "4-7", or "" if there are none; returns
 * text. */
const char *tdm_topology_node_text(const tdm_topology *topology, int node, char *text,
                                   size_t capacity);
/* Returns the memory of the node with this os index; 0: it has none, does not exist, or must not be
 * used. */
uint64_t tdm_topology_node_bytes(const tdm_topology *topology, int node);

/* Gets the memory of the node with this os index, or of all nodes if it is negative, and how much
 * of it is available at the moment. 0: unknown, as for a described machine. */
void tdm_topology_memory(const tdm_topology *topology, int node, uint64_t *out_bytes,
                         uint64_t *out_free_bytes);
/* Returns the system's name of its processors; "": unknown. */
const char *tdm_topology_processor(const tdm_topology *topology);

/* Requests that memory (whole pages, not touched yet) comes from the nodes of range, or from one
 * node. Returns false if that is refused. */
bool tdm_topology_bind_memory(const tdm_topology *topology, const tdm_core_range *range,
                              void *memory, size_t bytes);
bool tdm_topology_bind_memory_to(const tdm_topology *topology, int node, void *memory,
                                 size_t bytes);
/* Returns the node of memory that has been touched, as reported by the kernel; SEVERAL, or UNKNOWN
 * if the kernel does not report it. The time is proportional to the number of pages. */
int tdm_topology_memory_node(const tdm_topology *topology, const void *memory, size_t bytes);
/* Returns a number that identifies the machine, as far as the process may use it, and that is
 * stable over time. */
uint64_t tdm_topology_key(const tdm_topology *topology);
/* Writes the os indices of the range's processing units, as "0-3,8"; returns text. */
const char *tdm_topology_range_text(const tdm_topology *topology, const tdm_core_range *range,
                                    char *text, size_t capacity);

#endif
