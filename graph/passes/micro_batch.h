/* Inside of the pass micro_batch: what rules (chunked.c) and the pass share. Invariant: a value
 * that was there before has either one version, or one for each micro-batch. */
#ifndef TANDEM_GRAPH_PASSES_MICRO_BATCH_H
#define TANDEM_GRAPH_PASSES_MICRO_BATCH_H

#include "graph/passes/passes.h"

/* A cut's dimension: the rows went into each micro-batch's value; no rows, but each has its own. */
#define TDM_CUT_REDUCED (-2)
#define TDM_CUT_REPEATED (-3)

struct tdm_chunked {
  tdm_graph *graph;
  size_t count; /* micro-batches, at least 2 */
  int64_t rows[TDM_MAX_PARTS];
  uint32_t *versions; /* per value that was there before, count: its versions; whole: the first */
  tdm_cut *cuts;      /* per value that was there before */
  size_t value_count; /* that were there before */
  uint16_t *parallel_regions; /* per micro-batch and parallel region that was there before: the
                                 parallel region it has instead */
  size_t region_count;        /* that were there before */
  tdm_ir_node *node;          /* whose rule is asked */
};

static inline uint32_t *tdm_chunked_versions(const tdm_chunked *chunked, uint32_t value) {
  return &chunked->versions[(size_t)value * chunked->count];
}

/* Computes a node that no row reaches for every micro-batch. */
tdm_status tdm_chunked_repeat(tdm_chunked *chunked, tdm_ir_node *node) TDM_WARN_UNUSED;
/* What stands for a value in micro-batch i; 0 for 0. */
uint32_t tdm_chunked_version(const tdm_chunked *chunked, uint32_t value, size_t i);

#endif
