/* The machine as hwloc sees it, and how its cores are divided among devices. Invariant: only what
 * the process may run on counts, and a division is a pure function of the topology and the numbers
 * asked for, so that machines recorded as text are divided on any other. */
#ifndef TANDEM_DEVICES_TOPOLOGY_TOPOLOGY_H
#define TANDEM_DEVICES_TOPOLOGY_TOPOLOGY_H

#include "core/allocate.h"

typedef struct tdm_topology tdm_topology;

/* Cores first..first+count-1, in the machine's order (node by node). */
typedef struct tdm_core_range {
  uint32_t first;
  uint32_t count; /* at least 1: the threads of the device's team */
  bool units;     /* processing units are counted instead of cores */
  bool shared;    /* other devices run here too: park, never spin */
} tdm_core_range;

/* description NULL: this machine, restricted to the process's affinity; else a synthetic one in
 * hwloc's notation ("numa:2 core:4 pu:2") or, beginning with "<", hwloc XML. */
tdm_status tdm_topology_create(const tdm_allocator *allocator, const char *description,
                               tdm_topology **out_topology) TDM_WARN_UNUSED;
void tdm_topology_destroy(tdm_topology *topology);

/* NUMA nodes that cores have their memory from. */
size_t tdm_topology_node_count(const tdm_topology *topology);
size_t tdm_topology_core_count(const tdm_topology *topology);
/* Of the last cache above a core; 0: the system does not tell. */
size_t tdm_topology_cache_bytes(const tdm_topology *topology);

/* Divides the machine: cpu_count ranges for cpu devices, then sim_count for simulated ones. As many
 * cpu devices as nodes get a node each. A sim that is given cores takes them from the cpu device of
 * its index, which keeps the larger part; otherwise it shares one core of it. With more devices
 * than processing units, all are one-thread teams that share. */
void tdm_topology_divide(const tdm_topology *topology, size_t cpu_count, size_t sim_count,
                         bool sims_have_cores, tdm_core_range *out_ranges);

/* All cores that the process may run on. */
tdm_core_range tdm_topology_all_cores(const tdm_topology *topology);
/* Binds the calling thread to the range. Refusal by the system is no failure: false. */
bool tdm_topology_bind_thread(const tdm_topology *topology, const tdm_core_range *range);
/* Lets the calling thread run on all that the process was given, where OpenMP's runtime has bound
 * it to a place: for programs that tell of processors, or start others, which inherit that. */
void tdm_topology_leave_place(void);
/* Where no one node can be named. */
enum { TDM_NODE_UNKNOWN = -1, TDM_NODE_SEVERAL = -2 };

/* The os index of the node that memory for range's cores comes from: ordinary memory near to them,
 * memory that has no cores only where there is no other. UNKNOWN where their nodes differ. */
int tdm_topology_range_node(const tdm_topology *topology, const tdm_core_range *range);
/* The os index of the node nearest to a PCI device ("0000:3b:00.0"), chosen alike. UNKNOWN for a
 * device that the machine does not have, or that is near to all of several nodes. */
int tdm_topology_node_near_pci(const tdm_topology *topology, const char *bus_id);
/* Binds the calling thread to what runs nearest to the node's memory, as far as the process may run
 * there. False where that is nowhere, or the system refuses. */
bool tdm_topology_bind_thread_to(const tdm_topology *topology, int node);
/* The os indices of those processing units, as "4-7"; "" where there are none; returns text. */
const char *tdm_topology_node_text(const tdm_topology *topology, int node, char *text,
                                   size_t capacity);
/* Memory of the node of this os index; 0: it has none, or is not there, or must not be used. */
uint64_t tdm_topology_node_bytes(const tdm_topology *topology, int node);

/* Memory of the node of this os index, or below 0 of all nodes, and how much of it the system could
 * give at the moment; 0: it does not tell, as of a machine that is described. */
void tdm_topology_memory(const tdm_topology *topology, int node, uint64_t *out_bytes,
                         uint64_t *out_free_bytes);
/* What the system calls its processors; "": it does not tell. */
const char *tdm_topology_processor(const tdm_topology *topology);

/* Asks that memory (whole pages, not touched yet) come from the nodes of range, or from one node.
 * False where that is refused. */
bool tdm_topology_bind_memory(const tdm_topology *topology, const tdm_core_range *range,
                              void *memory, size_t bytes);
bool tdm_topology_bind_memory_to(const tdm_topology *topology, int node, void *memory,
                                 size_t bytes);
/* The node that memory, which has been touched, lies on by the kernel's own report; SEVERAL, or
 * UNKNOWN where the kernel does not tell. Time grows with the pages. */
int tdm_topology_memory_node(const tdm_topology *topology, const void *memory, size_t bytes);
/* Names the machine, as far as the process may use it: the same number on the next day. */
uint64_t tdm_topology_key(const tdm_topology *topology);
/* The os indices of the range's processing units, as "0-3,8"; returns text. */
const char *tdm_topology_range_text(const tdm_topology *topology, const tdm_core_range *range,
                                    char *text, size_t capacity);

#endif
