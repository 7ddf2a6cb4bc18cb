/* Shared by the two parts of the pass fuse: fuse.c selects the groups, fuse_nodes.c replaces each
 * by a node. Internal to both. */
#ifndef TANDEM_GRAPH_PASSES_FUSE_H
#define TANDEM_GRAPH_PASSES_FUSE_H

#include "devices/kernels/elementwise/fused.h"
#include "graph/passes/passes.h"

#define TDM_FUSE_NONE UINT32_MAX

/* Nodes that become one. Members are added from the last to the first. */
typedef struct tdm_fuse_group {
  uint32_t at;                         /* index of the last member in the order */
  uint32_t members[TDM_FUSED_MEMBERS]; /* nodes, the last one first */
  uint8_t member_count;
  uint8_t output_count;
  uint32_t views; /* first of the views of members' outputs that come after the group; 0: none */
  uint32_t last_view;
} tdm_fuse_group;

/* The readers of a value's memory. Places are indices in the order at which readers are
 * executed. */
typedef struct tdm_value_use {
  uint32_t first;  /* place of the first reader; TDM_FUSE_NONE: none */
  uint32_t last;   /* place of the last one */
  uint32_t reader; /* node of the first one */
  bool leaves;     /* delivered, or read on another device */
  bool rewritten;  /* overwritten by a node */
  bool inside;     /* read only by members of the group that contains it */
} tdm_value_use;

typedef struct tdm_fusing {
  tdm_graph *graph;
  tdm_prepared_cache *cache;
  tdm_value_use *uses;        /* per value, for roots */
  tdm_fuse_group **groups;    /* per node: its group; NULL: not elementwise */
  uint32_t *steps;            /* per place in the order: number of earlier steps of its device */
  uint32_t *views;            /* per node: next view after the same group */
  uint32_t *moved;            /* per value: its replacement; 0: itself */
  uint32_t value_count;       /* length of these arrays */
  const tdm_kernel **kernels; /* per device, for fused nodes; NULL: none */
  tdm_region scratch;
} tdm_fusing;

static inline const tdm_ir_value *tdm_fuse_value(const tdm_fusing *state, uint32_t index) {
  return tdm_ir_value_at(state->graph, index);
}

/* Returns the node that produced the memory of a value, or 0. */
static inline uint32_t tdm_fuse_maker(const tdm_fusing *state, uint32_t value) {
  return tdm_fuse_value(state, tdm_fuse_value(state, value)->root)->producer;
}

static inline bool tdm_fuse_is_step(const tdm_ir_node *node) {
  return !node->operation || !node->operation->is_view;
}

static inline bool tdm_fuse_is_inside(const tdm_fusing *state, const tdm_fuse_group *group,
                                      uint32_t value) {
  const uint32_t maker = tdm_fuse_maker(state, value);
  return maker && state->groups[maker] == group;
}

/* Adds the node's inputs to inputs (count, at most TDM_FUSED_INPUTS), except outputs of members and
 * of the node `joining` (0: none). Returns false if there are more. */
bool tdm_fuse_add_inputs(const tdm_fusing *state, const tdm_fuse_group *group, uint32_t reader,
                         uint32_t joining, uint32_t *inputs, uint32_t *count);

/* Replaces each group of several nodes by one node. */
tdm_status tdm_fuse_replace(tdm_fusing *state) TDM_WARN_UNUSED;

#endif
