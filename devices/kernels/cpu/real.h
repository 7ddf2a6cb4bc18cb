/* The numbers that a source is compiled for, once for each precision (TDM_REAL_BITS, set by the
 * build): `stored` is the type in memory, `real` the type of computations, which may be wider.
 * Invariant: a kernel is listed for the dtype of `stored`. */
#ifndef TANDEM_DEVICES_KERNELS_CPU_REAL_H
#define TANDEM_DEVICES_KERNELS_CPU_REAL_H

#include "devices/kernels/cpu/family.h"

#if TDM_REAL_BITS == 64
typedef double real;
typedef int64_t real_bits;
#define STORED_DTYPE TDM_FLOAT64
#else
typedef float real;
typedef int32_t real_bits;
#define STORED_DTYPE TDM_FLOAT32
#endif

#ifdef TDM_STORED_APART /* as for a narrower dtype: the compiler finds where the two are confused  \
                         */
typedef struct stored {
  real value;
} stored;
#define STORED_VALUE(x) ((x).value)
#else
typedef real stored;
#define STORED_VALUE(x) (x)
#endif

static inline real widened(stored x) {
  return STORED_VALUE(x);
}

static inline stored narrowed(real x) {
  stored made;
  STORED_VALUE(made) = x;
  return made;
}

static inline void stored_add(stored *to, real x) {
  *to = narrowed(widened(*to) + x);
}

/* Entries of a source's list of kernels. The part of an ELEMENT_KERNEL computes only some elements
 * (tdm_kernel.execute_part). */
#define KERNEL(operation, prepare, execute)                                                        \
  KERNEL_OF(STORED_DTYPE, operation, prepare, execute, NULL)
#define ELEMENT_KERNEL(operation, prepare, execute, part)                                          \
  KERNEL_OF(STORED_DTYPE, operation, prepare, execute, part)

#endif
