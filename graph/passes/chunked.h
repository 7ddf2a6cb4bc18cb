/* A batch that is computed in parts: what rules `chunk` (chunked.c) share with the passes that cut
 * it, in time (micro_batch.c) or over devices (data_parallel.c). Invariant: a value that was there
 * before has either one version, or one for each part. */
#ifndef TANDEM_GRAPH_PASSES_CHUNKED_H
#define TANDEM_GRAPH_PASSES_CHUNKED_H

#include "graph/passes/passes.h"

/* A cut's dimension: the rows went into each part's value; no rows, but each part has its own. */
#define TDM_CUT_REDUCED (-2)
#define TDM_CUT_REPEATED (-3)

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
  const uint8_t *is_cut; /* per node: its outputs exist only in parts; NULL: so do all nodes' */
};

static inline uint32_t *tdm_chunked_versions(const tdm_chunked *chunked, uint32_t value) {
  return &chunked->versions[(size_t)value * chunked->count];
}

/* Computes a node that no row reaches for every part. */
tdm_status tdm_chunked_repeat(tdm_chunked *chunked, tdm_ir_node *node) TDM_WARN_UNUSED;
/* What stands for a value in part i; 0 for 0. */
uint32_t tdm_chunked_version(const tdm_chunked *chunked, uint32_t value, size_t i);
/* Is the value made of all parts, once? Inputs and what no row has reached are not. */
bool tdm_chunked_is_joined(const tdm_chunked *chunked, uint32_t value);
/* Does the node read a value of that kind, and nothing that rows went into: is it computed once,
 * behind the parts? */
bool tdm_chunked_joins(const tdm_chunked *chunked, const tdm_ir_node *node);
/* The value is made once, of what is made of all parts. */
void tdm_chunked_join(tdm_chunked *chunked, uint32_t value, uint32_t by);

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
void tdm_remove_unread_replicas(tdm_chunked *chunked, size_t node_count, const uint32_t *deliveries,
                                size_t delivery_count);
/* Sorts the nodes before chunked->before: those that were there, then replica after replica, what
 * is made of all of them between their stages. Updates stand behind all. */
tdm_status tdm_order_replicas(const tdm_chunked *chunked, size_t node_count) TDM_WARN_UNUSED;

#endif
