/* The table of kernels for one instruction set; this file is compiled once for each. */
#include "core/status.h"
#include "devices/cpu/kernels/family.h"
#include "devices/cpu/kernels/operations.h"
#include "devices/cpu/kernels/tables.h"

#define ENTRY(operation, name, type, dtype, part)                                                  \
  {sizeof(tdm_kernel),                                                                             \
   operation,                                                                                      \
   "cpu",                                                                                          \
   dtype,                                                                                          \
   TDM_PASTE(tdm_##name##_prepare, type, TDM_ISA),                                                 \
   TDM_PASTE(tdm_##name##_execute, type, TDM_ISA),                                                 \
   tdm_cpu_state_release,                                                                          \
   part,                                                                                           \
   0},
#define REAL_ENTRIES(operation, name)                                                              \
  ENTRY(operation, name, float32, TDM_FLOAT32, NULL)                                               \
  ENTRY(operation, name, float64, TDM_FLOAT64, NULL)
#define ELEMENT_ENTRIES(operation, name)                                                           \
  ENTRY(operation, name, float32, TDM_FLOAT32, TDM_PASTE(tdm_##name##_part, float32, TDM_ISA))     \
  ENTRY(operation, name, float64, TDM_FLOAT64, TDM_PASTE(tdm_##name##_part, float64, TDM_ISA))
#define TYPED_ENTRY(operation, name, dtype) ENTRY(operation, name, any, dtype, NULL)

static const tdm_kernel kernels[] = {TDM_REAL_KERNELS(REAL_ENTRIES) TDM_ELEMENT_KERNELS(
    ELEMENT_ENTRIES) TDM_TYPED_KERNELS(TYPED_ENTRY)};

const tdm_cpu_table TDM_PASTE(tdm_cpu_table, of, TDM_ISA) = {
    .kernels = kernels,
    .count = TDM_COUNT_OF(kernels),
};
