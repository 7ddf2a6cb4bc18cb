/* Splitting and concatenation as operations, for passes and gradient rules. */
#ifndef TANDEM_GRAPH_PASSES_PARTS_H
#define TANDEM_GRAPH_PASSES_PARTS_H

#include "graph/ir/rewriter.h"

extern const tdm_operation tdm_operation_split;
extern const tdm_operation tdm_operation_split_view; /* no kernel: contiguous parts */
extern const tdm_operation tdm_operation_concat;

/* Returns the split operation for a value of this shape. */
const tdm_operation *tdm_split_operation(const tdm_shape *whole, int64_t dimension);

/* Appends a split. sizes and outputs have count elements, at most TDM_MAX_PARTS; dimension >= 0. */
void tdm_append_split(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                      const tdm_dim *sizes, size_t count, tdm_value *outputs);
tdm_value tdm_append_concat(tdm_graph *graph, const char *name, const tdm_value *parts,
                            size_t count, int dimension);

/* Concatenates the parts of a batch in the batch's order, also if their rows are in `outer`
 * stretches each. Returns 0 with the graph's error on failure. */
uint32_t tdm_insert_joined(tdm_graph *graph, const tdm_insertion *at, const tdm_shape *whole,
                           tdm_cut cut, const uint32_t *parts, size_t count);

/* Rule `chunk` of a view with another shape and the same number of elements. */
tdm_status tdm_chunk_view(tdm_chunked *chunked) TDM_WARN_UNUSED;
/* Inserts such a view of a value; one dimension of shape may be TDM_INFER. Returns 0 with the
 * graph's error on failure. */
uint32_t tdm_insert_view(tdm_graph *graph, const tdm_insertion *at, uint32_t value,
                         const tdm_shape *shape);
/* Returns the shape of a part after each stretch of its rows became a row. */
tdm_shape tdm_stretches_of(const tdm_shape *part, tdm_cut cut);

#endif
