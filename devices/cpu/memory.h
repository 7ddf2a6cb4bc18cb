/* Memory of a cpu device. Invariant: a block's size alone tells how it was taken, so that releasing
 * needs no table. */
#ifndef TANDEM_DEVICES_CPU_MEMORY_H
#define TANDEM_DEVICES_CPU_MEMORY_H

#include "devices/contract/device.h"
#include "devices/topology/topology.h"

/* Contents undefined. Big blocks lie on huge pages, where the system grants them, and on the nodes
 * of cores; the pages of small ones go where they are first touched. OUT_OF_MEMORY names the device
 * by its name. */
tdm_status tdm_cpu_memory_allocate(const tdm_topology *topology, const tdm_core_range *cores,
                                   const char *name, size_t bytes,
                                   tdm_address *out_address) TDM_WARN_UNUSED;
void tdm_cpu_memory_release(tdm_address address, size_t bytes);

#endif
