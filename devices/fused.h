/* Fused nodes: several elementwise nodes that a device computes together, element by element, so
 * that what only they read is never stored. The pass graph/passes/fuse.c makes them, each kind's
 * kernel of TDM_OP_FUSED executes them. Invariant: an element of a result has the bits that the
 * members by themselves give it. */
#ifndef TANDEM_DEVICES_FUSED_H
#define TANDEM_DEVICES_FUSED_H

#include "tandem/devices/kernel.h"

/* What the members read of others, with as many elements as the result has, or any other number of
 * which each element may read all -> the members' results that others read, all of any dtypes: a
 * kind's kernel of it is the same for float32 and float64. */
#define TDM_OP_FUSED "fused"

#define TDM_FUSED_MEMBERS 12
#define TDM_FUSED_INPUTS 8  /* of the node, and of each member */
#define TDM_FUSED_OUTPUTS 4 /* of the node */
#define TDM_FUSED_ABSENT (TDM_FUSED_INPUTS + TDM_FUSED_MEMBERS) /* an optional operand */

/* A node that was fused. The pointers are those of its kernel prepared by itself, and outlive every
 * kernel that is prepared for the fused node. */
typedef struct tdm_fused_member {
  const struct tdm_operation *operation; /* its record (graph/operations.h) */
  const tdm_kernel *kernel;              /* has execute_part, or element */
  const void *attributes;
  void *state;
  const tdm_spec *specs; /* inputs, then the output: dense */
  /* Below TDM_FUSED_INPUTS: the node's input of that number; from there on: what the member of that
   * number (and TDM_FUSED_INPUTS) makes, an earlier one; or TDM_FUSED_ABSENT. */
  uint8_t inputs[TDM_FUSED_INPUTS];
  uint8_t input_count;
  uint8_t output; /* 1 + the node's output that it makes; 0: nobody else reads it */
  uint8_t splits; /* its kernel by itself would use the device's team */
  uint8_t reserved;
  uint32_t attribute_bytes;
} tdm_fused_member;

typedef struct tdm_fused_attributes {
  int64_t member_count;
  tdm_fused_member members[TDM_FUSED_MEMBERS]; /* each after those it reads */
} tdm_fused_attributes;

#endif
