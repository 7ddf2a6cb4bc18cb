/* The tables that table.c defines: for each instruction set that the build compiles, one table for
 * each precision, and one of kernels that serve several dtypes. A table is the only symbol of its
 * object that is visible outside (variants.bzl). NULL follows the last list. */
#ifndef TANDEM_DEVICES_KERNELS_CPU_TABLES_H
#define TANDEM_DEVICES_KERNELS_CPU_TABLES_H

#include "devices/kernels/kernel_list.h"

/* Does X(instruction_set, precision) of all tables of an instruction set. */
#define TDM_CPU_TABLES(X, instruction_set)                                                         \
  X(instruction_set, float32)                                                                      \
  X(instruction_set, float64)                                                                      \
  X(instruction_set, typed)

#define TDM_CPU_TABLE(instruction_set, precision)                                                  \
  extern const tdm_kernel_list *const tdm_cpu_##instruction_set##_##precision[];

TDM_CPU_TABLES(TDM_CPU_TABLE, baseline)
TDM_CPU_TABLES(TDM_CPU_TABLE, avx2)
TDM_CPU_TABLES(TDM_CPU_TABLE, avx512)

#endif
