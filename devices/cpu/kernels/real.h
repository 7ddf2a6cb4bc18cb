/* The element type that a source is compiled for (TDM_REAL_BITS, set by the build with TDM_ISA),
 * and the suffix that keeps the symbols of its compilations apart. */
#ifndef TANDEM_DEVICES_CPU_KERNELS_REAL_H
#define TANDEM_DEVICES_CPU_KERNELS_REAL_H

#include "devices/cpu/kernels/family.h"
#include "devices/cpu/kernels/operations.h"

#if TDM_REAL_BITS == 64
typedef double real;
typedef int64_t real_bits;
#define TDM_NAME(name) TDM_PASTE(name, float64, TDM_ISA)
#else
typedef float real;
typedef int32_t real_bits;
#define TDM_NAME(name) TDM_PASTE(name, float32, TDM_ISA)
#endif

/* Defines the part (tdm_kernel.execute_part) of an operation whose team's ranges are computed by
 * name_range. */
#define ELEMENT_PART(name)                                                                         \
  tdm_status TDM_NAME(tdm_##name##_part)(const tdm_kernel_call *call, int64_t begin,               \
                                         int64_t end) {                                            \
    name##_range((void *)call, begin, end);                                                        \
    return TDM_OK;                                                                                 \
  }

#endif
