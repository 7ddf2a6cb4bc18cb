/* The table of kernels for one instruction set; this file is compiled once for each. */
#include "core/status.h"
#include "devices/cpu/kernels/family.h"
#include "devices/cpu/kernels/operations.h"
#include "devices/cpu/kernels/tables.h"

#define ENTRY(operation, name, type, dtype)                                                        \
  {sizeof(tdm_kernel),                                                                             \
   operation,                                                                                      \
   "cpu",                                                                                          \
   dtype,                                                                                          \
   TDM_PASTE(tdm_##name##_prepare, type, TDM_ISA),                                                 \
   TDM_PASTE(tdm_##name##_execute, type, TDM_ISA),                                                 \
   tdm_cpu_state_release},
#define REAL_ENTRIES(operation, name)                                                              \
  ENTRY(operation, name, float32, TDM_FLOAT32)                                                     \
  ENTRY(operation, name, float64, TDM_FLOAT64)
#define TYPED_ENTRY(operation, name, dtype) ENTRY(operation, name, any, dtype)

static const tdm_kernel kernels[] = {TDM_REAL_KERNELS(REAL_ENTRIES) TDM_TYPED_KERNELS(TYPED_ENTRY)};

const tdm_cpu_table TDM_PASTE(tdm_cpu_table, of, TDM_ISA) = {
    .kernels = kernels,
    .count = TDM_COUNT_OF(kernels),
};
