/* The numbers that a source is compiled for, once for each precision (TDM_REAL_BITS, set by the
 * build): `stored` is what lies in memory, `real` what is computed with, which may be wider.
 * Invariant: a kernel is listed for the dtype of what is stored. */
#ifndef TANDEM_DEVICES_CPU_KERNELS_REAL_H
#define TANDEM_DEVICES_CPU_KERNELS_REAL_H

#include "devices/cpu/kernels/family.h"

#if TDM_REAL_BITS == 64
typedef double real;
typedef int64_t real_bits;
typedef double stored;
#define STORED_DTYPE TDM_FLOAT64
#else
typedef float real;
typedef int32_t real_bits;
typedef float stored;
#define STORED_DTYPE TDM_FLOAT32
#endif

/* Of a source's list: a kernel, and one whose part computes some elements alone
 * (tdm_kernel.execute_part). */
#define KERNEL(operation, prepare, execute)                                                        \
  KERNEL_OF(STORED_DTYPE, operation, prepare, execute, NULL)
#define ELEMENT_KERNEL(operation, prepare, execute, part)                                          \
  KERNEL_OF(STORED_DTYPE, operation, prepare, execute, part)

#endif
