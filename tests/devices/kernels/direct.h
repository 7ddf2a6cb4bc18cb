/* Runs one CPU kernel on arrays of the test, on each instruction set in turn. */
#ifndef TANDEM_TESTS_DEVICES_KERNELS_DIRECT_H
#define TANDEM_TESTS_DEVICES_KERNELS_DIRECT_H

#include "devices/kernels.h"
#include "tandem/devices/devices.h"

/* The instruction sets that the library supports. direct_kernel returns NULL if this machine lacks
 * one. */
extern const char *const direct_isas[];
extern const size_t direct_isa_count;

/* NULL without that instruction set; fails the test if only the kernel is missing. */
const tdm_kernel *direct_kernel(const char *isa, const char *operation, tdm_dtype dtype);

typedef struct direct_operand {
  tdm_dtype dtype; /* TDM_DTYPE_NONE: absent */
  tdm_shape shape;
  void *data; /* array of the test; not written if an input */
} direct_operand;

/* Prepares, as for `deterministic`, and executes kernel. Operands are inputs, then outputs. Returns
 * execute's status. */
tdm_status direct_run(const tdm_kernel *kernel, const void *attributes,
                      const direct_operand *operands, size_t input_count, size_t output_count,
                      tdm_team *team);

#endif
