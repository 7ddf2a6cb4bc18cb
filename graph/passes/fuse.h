/* What the two halves of the pass fuse share: which nodes form groups (fuse.c), and the nodes that
 * stand for them (fuse_nodes.c). Internal to both. */
#ifndef TANDEM_GRAPH_PASSES_FUSE_H
#define TANDEM_GRAPH_PASSES_FUSE_H

#include "devices/fused.h"
#include "graph/passes/passes.h"

#define TDM_FUSE_NONE UINT32_MAX

/* Nodes that are one. Grows towards the front of the order: members are added in reverse. */
typedef struct tdm_fuse_group {
  uint32_t at;                         /* where the last member stands in the order */
  uint32_t members[TDM_FUSED_MEMBERS]; /* nodes, the last one first */
  uint8_t member_count;
  uint8_t output_count;
  uint32_t views; /* of members' outputs, which follow the group: the first; 0: none */
  uint32_t last_view;
} tdm_fuse_group;

/* Who reads the memory of a value; places in the order are those where readers are executed. */
typedef struct tdm_value_use {
  uint32_t first;  /* place of the first reader; TDM_FUSE_NONE: nobody reads it */
  uint32_t last;   /* of the last */
  uint32_t reader; /* the first; a node */
  bool leaves;     /* delivered, or read on another device */
  bool rewritten;  /* somebody overwrites it */
  bool inside;     /* only members of one group read it, of which it is one */
} tdm_value_use;

typedef struct tdm_fusing {
  tdm_graph *graph;
  tdm_prepared_cache *cache;
  tdm_value_use *uses;        /* per value; of roots */
  tdm_fuse_group **groups;    /* per node: the group it is in; NULL: it is no elementwise node */
  uint32_t *steps;            /* per place in the order: steps of its device before it */
  uint32_t *views;            /* per node: the view behind this one that follows the same group */
  uint32_t *moved;            /* per value: what stands for it; 0: itself */
  uint32_t value_count;       /* of those */
  const tdm_kernel **kernels; /* per device: of fused nodes; NULL: it has none */
  tdm_region scratch;
} tdm_fusing;

static inline const tdm_ir_value *tdm_fuse_value(const tdm_fusing *state, uint32_t index) {
  return tdm_ir_value_at(state->graph, index);
}

/* The node that made the memory of a value; 0: none. */
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

/* Adds what a node reads to inputs (count, at most TDM_FUSED_INPUTS), but for what members make,
 * and what the node `joining` makes (0: none does). False: there are more. */
bool tdm_fuse_add_inputs(const tdm_fusing *state, const tdm_fuse_group *group, uint32_t reader,
                         uint32_t joining, uint32_t *inputs, uint32_t *count);

/* Puts one node in the place of every group of several. */
tdm_status tdm_fuse_replace(tdm_fusing *state) TDM_WARN_UNUSED;

#endif
