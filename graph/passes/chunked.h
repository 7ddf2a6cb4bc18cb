/* A batch that is computed in parts: what rules `chunk` (chunked.c) share with the passes that cut
 * it, in time (micro_batch.c) or over devices (data_parallel.c). Invariant: a value that was there
 * before has either one version, or one for each part. */
#ifndef TANDEM_GRAPH_PASSES_CHUNKED_H
#define TANDEM_GRAPH_PASSES_CHUNKED_H

#include "graph/ir/rewriter.h"
#include "graph/passes/passes.h"

/* A cut's dimension: each part has a value, which is no part of the whole's (torn: rows lie in no
 * known order, or were mixed with those of the same part alone; `outer` tells by whom); each part
 * has the whole value, of no rows. What is torn stays so, whatever goes on with it. */
#define TDM_CUT_TORN (-2)
#define TDM_CUT_REPEATED (-3)

/* Where a node stands that was there before, beside the replicas of a parallel region. */
typedef enum tdm_side {
  TDM_SIDE_BEFORE,
  TDM_SIDE_INSIDE,
  TDM_SIDE_AFTER,
  TDM_SIDE_BETWEEN /* made of what the region makes, and read in it again */
} tdm_side;

/* Why a rule has torn the rows of a batch. */
typedef struct tdm_tear tdm_tear;

/* Makes a node the one that computes part i: where it stands, and on whose behalf. */
typedef void (*tdm_chunked_settle)(const tdm_chunked *chunked, tdm_ir_node *like, size_t i);

struct tdm_chunked {
  tdm_graph *graph;
  size_t count; /* parts, at least 2 */
  int64_t rows[TDM_MAX_PARTS];
  uint32_t *versions; /* per value that was there before, count: its versions; whole: the first */
  tdm_cut *cuts;      /* per value that was there before */
  size_t value_count; /* that were there before */
  uint16_t *parallel_regions; /* per part and parallel region that was there before: the parallel
                                 region it has instead */
  size_t region_count;        /* that were there before */
  tdm_ir_node *node;          /* whose rule is asked */
  tdm_ir_node *before;        /* its parts are inserted before this one; NULL: behind all */
  tdm_chunked_settle settle;
  const uint8_t *sides; /* per node that was there before, tdm_side; NULL: all are inside */
  tdm_tear *tears;      /* the latest; NULL: none */
};

static inline bool tdm_chunked_is_torn(const tdm_chunked *chunked, uint32_t value) {
  return value && chunked->cuts[value].dimension == TDM_CUT_TORN;
}
static inline uint32_t *tdm_chunked_versions(const tdm_chunked *chunked, uint32_t value) {
  return &chunked->versions[(size_t)value * chunked->count];
}

/* Computes a node that no row reaches for every part. */
tdm_status tdm_chunked_repeat(tdm_chunked *chunked, tdm_ir_node *node) TDM_WARN_UNUSED;
/* Computes a node that rows reach for every part, and finds where they are in what it makes: by its
 * rule, to which `at` is lent, else by shapes. What is made of torn values is torn, and so is what
 * the rule refuses. */
tdm_status tdm_chunked_compute(tdm_chunked *chunked, tdm_ir_node *node,
                               const tdm_insertion *at) TDM_WARN_UNUSED;
/* INVALID_ARGUMENT, naming the node that tore the rows of the value, and why: it cannot be read as
 * the whole batch's. */
tdm_status tdm_chunked_fail_torn(const tdm_chunked *chunked, uint32_t value) TDM_WARN_UNUSED;
/* What stands for a value in part i; 0 for 0. */
uint32_t tdm_chunked_version(const tdm_chunked *chunked, uint32_t value, size_t i);
/* Is the value made of all parts, once? Inputs and what no row has reached are not. */
bool tdm_chunked_is_joined(const tdm_chunked *chunked, uint32_t value);
/* Does the node read a value of that kind, and nothing that rows went into: is it computed once,
 * behind the parts? */
bool tdm_chunked_joins(const tdm_chunked *chunked, const tdm_ir_node *node);
/* The value is made once, of what is made of all parts. */
void tdm_chunked_join(tdm_chunked *chunked, uint32_t value, uint32_t by);

/* ---- Regions within a parallel region (inner_regions.c) ---- */

/* Makes those inside `region` once more for every replica: chunked->parallel_regions says which. */
tdm_status tdm_instantiate_inner(tdm_chunked *chunked, uint16_t region) TDM_WARN_UNUSED;
/* How values enter them, once all have their versions. */
tdm_status tdm_settle_inner(tdm_chunked *chunked, uint16_t region) TDM_WARN_UNUSED;

/* ---- Replicas of a parallel region (replica_order.c); node_count: nodes that were there before
 * ---- */

/* A node outside that asks for the gradient of a value of the region (asked.c) asks every replica
 * for its own: these are put together, or, of what no rows went into, added up. The node may be
 * gone. */
tdm_status tdm_ask_replicas(tdm_chunked *chunked, const tdm_parallel_region *region,
                            const int16_t *devices, tdm_ir_node *node) TDM_WARN_UNUSED;
/* Regions that named how a value enters them read gathered[value] in its place, unless that is 0.
 */
void tdm_rename_entering(const tdm_chunked *chunked, const uint32_t *gathered);
/* Of what no row reaches, and nothing reads in a later replica, the first replica's is enough. */
void tdm_remove_unread_replicas(tdm_chunked *chunked, size_t node_count);
/* Sorts the nodes before chunked->before: those that were there, then replica after replica, what
 * is made of all of them between their stages. Updates stand behind all. */
tdm_status tdm_order_replicas(const tdm_chunked *chunked, size_t node_count) TDM_WARN_UNUSED;

#endif
