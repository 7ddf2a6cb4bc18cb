/* Fused nodes: several elementwise nodes that a device computes together, element by element, so
 * that values used only among them are never stored. The pass graph/passes/fuse.c creates them, and
 * each kind's kernel of TDM_OP_FUSED executes them. Invariant: an element of a result has the same
 * bits as if the members were executed separately. */
#ifndef TANDEM_DEVICES_KERNELS_ELEMENTWISE_FUSED_H
#define TANDEM_DEVICES_KERNELS_ELEMENTWISE_FUSED_H

#include "tandem/devices/kernel.h"

/* Inputs: the values that members read from other nodes. Each has as many elements as the result,
 * or another number if each element may read all of it. Outputs: the members' results that other
 * nodes read. Dtypes are arbitrary: a kind's kernel is the same for float32 and float64. */
#define TDM_OP_FUSED "fused"

#define TDM_FUSED_MEMBERS 12
#define TDM_FUSED_INPUTS 8  /* maximum of the node, and of each member */
#define TDM_FUSED_OUTPUTS 4 /* maximum of the node */
#define TDM_FUSED_ABSENT (TDM_FUSED_INPUTS + TDM_FUSED_MEMBERS) /* an optional operand */

/* A node that was fused. The pointers are those of its separately prepared kernel, and outlive
 * every kernel that is prepared for the fused node. */
typedef struct tdm_fused_member {
  const struct tdm_operation *operation; /* record of its operation (graph/operations.h) */
  const tdm_kernel *kernel;              /* a kernel that has execute_part or element */
  const void *attributes;
  void *state;
  const tdm_spec *specs; /* inputs, then the output: dense */
  /* Operand numbers. Below TDM_FUSED_INPUTS: that input of the node. From there on: the result of
   * member number (value - TDM_FUSED_INPUTS), an earlier one. Or TDM_FUSED_ABSENT. */
  uint8_t inputs[TDM_FUSED_INPUTS];
  uint8_t input_count;
  uint8_t output; /* 1 + the node's output that it produces; 0: only members read it */
  uint8_t splits; /* its separate kernel would use the device's team */
  uint8_t reserved;
  uint32_t attribute_bytes;
} tdm_fused_member;

typedef struct tdm_fused_attributes {
  int64_t member_count;
  tdm_fused_member members[TDM_FUSED_MEMBERS]; /* sorted: each after its inputs */
} tdm_fused_attributes;

#endif
