/* The tables that table.c defines, one for each instruction set that the build compiles. */
#ifndef TANDEM_DEVICES_CPU_KERNELS_TABLES_H
#define TANDEM_DEVICES_CPU_KERNELS_TABLES_H

#include "devices/devices.h"

typedef struct tdm_cpu_table {
  const tdm_kernel *kernels;
  size_t count;
} tdm_cpu_table;

extern const tdm_cpu_table tdm_cpu_table_of_baseline;
extern const tdm_cpu_table tdm_cpu_table_of_avx2;   /* x86-64 only */
extern const tdm_cpu_table tdm_cpu_table_of_avx512; /* x86-64 only */

#endif
