/* A batch that is computed in parts: the state that rules `chunk` (chunked.c) share with the passes
 * that split the batch, in time (micro_batch.c) or over devices (data_parallel.c). Invariant: an
 * original value has either one version, or one version per part. */
#ifndef TANDEM_GRAPH_PASSES_CHUNKED_H
#define TANDEM_GRAPH_PASSES_CHUNKED_H

#include "graph/ir/rewriter.h"
#include "graph/passes/passes.h"

/* Special dimensions of a cut. TORN: each part has a value that is no part of the whole's, because
 * the order of the rows is unknown or rows of one part were mixed; `outer` identifies the node that
 * did this. REPEATED: each part has the whole value, which contains no rows. All results of torn
 * values are torn. */
#define TDM_CUT_TORN (-2)
#define TDM_CUT_REPEATED (-3)

/* Position of an original node relative to the replicas of a parallel region. */
typedef enum tdm_side {
  TDM_SIDE_BEFORE,
  TDM_SIDE_INSIDE,
  TDM_SIDE_AFTER,
  TDM_SIDE_BETWEEN /* consumes results of the region and produces inputs of it */
} tdm_side;

/* The reason why a rule tore the rows of a batch. */
typedef struct tdm_tear tdm_tear;

/* Sets the placement and the owner of a node so that it computes part i. */
typedef void (*tdm_chunked_settle)(const tdm_chunked *chunked, tdm_ir_node *like, size_t i);

struct tdm_chunked {
  tdm_graph *graph;
  size_t count; /* number of parts, at least 2 */
  int64_t rows[TDM_MAX_PARTS];
  uint32_t *versions;         /* per original value, count: its versions; whole: only the first */
  tdm_cut *cuts;              /* per original value */
  size_t value_count;         /* number of original values */
  uint16_t *parallel_regions; /* per part and original region: the region that replaces it */
  size_t region_count;        /* number of original regions */
  tdm_ir_node *node;          /* the node of the rule */
  tdm_ir_node *before;        /* parts are inserted before this node; NULL: at the end */
  tdm_chunked_settle settle;
  const uint8_t *sides; /* per original node, tdm_side; NULL: all are inside */
  tdm_tear *tears;      /* latest element; NULL: none */
};

static inline bool tdm_chunked_is_torn(const tdm_chunked *chunked, uint32_t value) {
  return value && chunked->cuts[value].dimension == TDM_CUT_TORN;
}
static inline uint32_t *tdm_chunked_versions(const tdm_chunked *chunked, uint32_t value) {
  return &chunked->versions[(size_t)value * chunked->count];
}

/* Computes a node that no row reaches in each part. */
tdm_status tdm_chunked_repeat(tdm_chunked *chunked, tdm_ir_node *node) TDM_WARN_UNUSED;
/* Computes a node that rows reach in each part, and sets the cuts of its outputs: by its rule, to
 * which `at` is lent, otherwise by shapes. Outputs are torn if an input is torn or if the rule
 * fails. */
tdm_status tdm_chunked_compute(tdm_chunked *chunked, tdm_ir_node *node,
                               const tdm_insertion *at) TDM_WARN_UNUSED;
/* Fails with INVALID_ARGUMENT, naming the node that tore the rows of the value, and why. The value
 * cannot be read as the whole batch's. */
tdm_status tdm_chunked_fail_torn(const tdm_chunked *chunked, uint32_t value) TDM_WARN_UNUSED;
/* Returns the version of a value in part i; 0 for 0. */
uint32_t tdm_chunked_version(const tdm_chunked *chunked, uint32_t value, size_t i);
/* Returns true if the value is computed once from all parts. Inputs and values that no row reaches
 * are not. */
bool tdm_chunked_is_joined(const tdm_chunked *chunked, uint32_t value);
/* Returns true if the node reads a joined value and no value that contains rows, so that it is
 * computed once, after the parts. */
bool tdm_chunked_joins(const tdm_chunked *chunked, const tdm_ir_node *node);
/* Marks the value as computed once, from values of all parts. */
void tdm_chunked_join(tdm_chunked *chunked, uint32_t value, uint32_t by);

/* ---- Regions within a parallel region (inner_regions.c) -------------------------------------- */

/* Creates the regions inside `region` again for each replica, as in chunked->parallel_regions. */
tdm_status tdm_instantiate_inner(tdm_chunked *chunked, uint16_t region) TDM_WARN_UNUSED;
/* Sets how values enter the inner regions, after all values have their versions. */
tdm_status tdm_settle_inner(tdm_chunked *chunked, uint16_t region) TDM_WARN_UNUSED;

/* ---- Replicas of a parallel region (replica_order.c); node_count: nodes that were there before
 * ---- */

/* Replaces a node outside that represents the gradient of a value in the region by one in each
 * replica (replica_gradients.c). Their results are concatenated, or added if no rows went into the
 * value. The node may be removed. */
tdm_status tdm_ask_replicas(tdm_chunked *chunked, const tdm_parallel_region *region,
                            const int16_t *devices, tdm_ir_node *node) TDM_WARN_UNUSED;
/* Replaces values that enter regions by gathered[value], unless that is 0. */
void tdm_rename_entering(const tdm_chunked *chunked, const uint32_t *gathered);
/* Removes nodes that no row reaches from later replicas if nothing there reads them; the first
 * replica keeps them. */
void tdm_remove_unread_replicas(tdm_chunked *chunked, size_t node_count);
/* Sorts the nodes before chunked->before: the original ones, then one replica after another, with
 * values of all replicas between their stages. Updates come last. */
tdm_status tdm_order_replicas(const tdm_chunked *chunked, size_t node_count) TDM_WARN_UNUSED;

#endif
