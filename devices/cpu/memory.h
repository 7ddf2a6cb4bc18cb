/* Memory of a cpu device. Invariant: a block's size determines how it was allocated, so that
 * releasing needs no table. */
#ifndef TANDEM_DEVICES_CPU_MEMORY_H
#define TANDEM_DEVICES_CPU_MEMORY_H

#include "devices/contract/device.h"
#include "devices/topology/topology.h"

/* Allocates memory with undefined contents. Large blocks use huge pages, if the system grants them,
 * on the nodes of cores. Pages of small ones are placed by the first access. OUT_OF_MEMORY names
 * the device. */
tdm_status tdm_cpu_memory_allocate(const tdm_topology *topology, const tdm_core_range *cores,
                                   const char *name, size_t bytes,
                                   tdm_address *out_address) TDM_WARN_UNUSED;
void tdm_cpu_memory_release(tdm_address address, size_t bytes);

#endif
