/* The library's own CPU kernels: one table for each instruction set they were compiled for, and the
 * choice among them. Invariant: the tables are constant and hold one kernel for each (operation,
 * dtype); a kernel's results do not depend on the team that runs it. */
#ifndef TANDEM_DEVICES_CPU_KERNELS_H
#define TANDEM_DEVICES_CPU_KERNELS_H

#include "devices/devices.h"

/* The kernels for the best instruction set of this machine, or for the one that the environment
 * variable TANDEM_CPU_ISA names: baseline, avx2 or avx512. Static storage, *out_count entries, any
 * thread. NULL, with the thread's message set, when that variable names an instruction set that
 * this machine or build does not have. */
const tdm_kernel *tdm_cpu_kernels(size_t *out_count);

/* The same for the instruction set called isa; NULL: the best one. */
const tdm_kernel *tdm_cpu_kernels_for(const char *isa, size_t *out_count);

#endif
