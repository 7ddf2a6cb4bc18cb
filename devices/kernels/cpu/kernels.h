/* The library's own CPU kernels: tables for each instruction set they were compiled for, and the
 * choice among them. Invariant: the tables are constant and hold one kernel for each (operation,
 * dtype); a kernel's results do not depend on the team that runs it. */
#ifndef TANDEM_DEVICES_KERNELS_CPU_KERNELS_H
#define TANDEM_DEVICES_KERNELS_CPU_KERNELS_H

#include "devices/kernels/kernel_list.h"

/* Visits the kernels for the best instruction set of this machine, or for the one that the
 * environment variable TANDEM_CPU_ISA names: baseline, avx2 or avx512. Static storage, any thread.
 * UNAVAILABLE when that variable names an instruction set that this machine or build does not have;
 * else what the visitor fails with. */
tdm_status tdm_cpu_each_kernel(tdm_kernel_visitor visit, void *user) TDM_WARN_UNUSED;

/* Does the same for the instruction set called isa; NULL: the best one. */
tdm_status tdm_cpu_each_kernel_of(const char *isa, tdm_kernel_visitor visit,
                                  void *user) TDM_WARN_UNUSED;

/* Returns the name of the instruction set that tdm_cpu_each_kernel visits; static. */
const char *tdm_cpu_instructions(void);

#endif
