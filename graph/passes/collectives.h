/* Sums over devices as one node, and how the pass `collectives` makes them. */
#ifndef TANDEM_GRAPH_PASSES_COLLECTIVES_H
#define TANDEM_GRAPH_PASSES_COLLECTIVES_H

#include "graph/passes/passes.h"

/* Pieces of a value that a chain sends one after the other. */
#define TDM_MOST_PIECES 16

typedef struct tdm_device_sum_attributes {
  int64_t owned; /* nobody else needs the first term: it may be overwritten */
  int64_t late;  /* only updates need the sum: it may be made behind other gradients */
} tdm_device_sum_attributes;

/* terms, in order, each on a device of its own or not -> their sum, on the node's device. */
extern const tdm_operation tdm_operation_device_sum;
/* Views: x as pieces of one dimension (tdm_parts_attributes); the memory of the first input, when
 * the others are there, in another shape (tdm_shape). */
extern const tdm_operation tdm_operation_pieces;
extern const tdm_operation tdm_operation_whole;

/* Of a copy between two devices, by all hops of its route, as the links are estimated. */
double tdm_predict_copy_ns(const tdm_graph *graph, int16_t from, int16_t to, double bytes);

#endif
