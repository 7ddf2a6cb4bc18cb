/* Splitting and concatenating as operations: for the passes and gradient rules that append them. */
#ifndef TANDEM_GRAPH_PASSES_PARTS_H
#define TANDEM_GRAPH_PASSES_PARTS_H

#include "graph/ir/rewriter.h"

extern const tdm_operation tdm_operation_split;
extern const tdm_operation tdm_operation_split_view; /* no kernel: parts lie one after the other */
extern const tdm_operation tdm_operation_concat;

/* Which of the two splits serves a value of this shape. */
const tdm_operation *tdm_split_operation(const tdm_shape *whole, int64_t dimension);

/* sizes and outputs: count, at most TDM_MAX_PARTS; dimension >= 0. */
void tdm_append_split(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                      const tdm_dim *sizes, size_t count, tdm_value *outputs);
tdm_value tdm_append_concat(tdm_graph *graph, const char *name, const tdm_value *parts,
                            size_t count, int dimension);

/* Puts the parts of a batch together, in the batch's order also where their rows lie in `outer`
 * stretches each; 0, with the graph's error, on failure. */
uint32_t tdm_insert_joined(tdm_graph *graph, const tdm_insertion *at, const tdm_shape *whole,
                           tdm_cut cut, const uint32_t *parts, size_t count);

/* The rule `chunk` of a view in another shape of as many elements. */
tdm_status tdm_chunk_view(tdm_chunked *chunked) TDM_WARN_UNUSED;
/* Inserts such a view of a value; shape: one dimension may be TDM_INFER. 0, with the graph's error,
 * on failure. */
uint32_t tdm_insert_view(tdm_graph *graph, const tdm_insertion *at, uint32_t value,
                         const tdm_shape *shape);
/* The shape of a part whose rows are cut so, with a row for each of its stretches. */
tdm_shape tdm_stretches_of(const tdm_shape *part, tdm_cut cut);

#endif
