/* Sums over devices as one node, until the pass `collectives` has made copies and additions of
 * them, and the views that cut what travels into pieces. */
#ifndef TANDEM_GRAPH_PASSES_DEVICE_SUMS_H
#define TANDEM_GRAPH_PASSES_DEVICE_SUMS_H

#include "graph/ir/ir.h"

/* Buckets of a device: what an addition adds in passing crosses into the one that it names. */
#define TDM_BUCKETS 16
#define TDM_HELD_BUCKETS (TDM_BUCKETS - 1) /* those that wait for what is added to them */

typedef struct tdm_device_sum_attributes {
  int64_t owned; /* nobody else needs the first term: it may be overwritten */
  int64_t late;  /* only updates need the sum: it may be made behind other gradients */
} tdm_device_sum_attributes;

/* terms, in order, each on a device of its own or not -> their sum, on the node's device. */
extern const tdm_operation tdm_operation_device_sum;
/* x -> the sum of all x of the same number, in its memory. On hosts it is one node a rank, and the
 * rank's network makes it; on other devices one for each of a group (devices/groups/groups.h),
 * whose engine does. It has no kernel. */
typedef struct tdm_all_reduce_attributes {
  int64_t number; /* from 0, in plan order, which is the same on all ranks */
} tdm_all_reduce_attributes;

/* The devices (TDM_MAX_PARTS at most) that make an all-reduce, ascending; 0: hosts do. */
size_t tdm_all_reduce_group(const tdm_graph *graph, const tdm_ir_node *node, int16_t *out_devices);

/* The devices (out_devices: as many as the context has) that send to or receive from those of other
 * ranks by themselves, ascending; 0: none does. They are one group. */
size_t tdm_exchange_group(const tdm_graph *graph, int16_t *out_devices);

/* In a plan that is one of many alike ranks': x -> the sum of all ranks' x; or, of rows that ranks
 * have for themselves, the rows of all, one rank's behind another's. It has no kernel and nothing
 * executes it: forecasts know what it takes. */
typedef struct tdm_share_attributes {
  int64_t ranks;
  int64_t gathers;
} tdm_share_attributes;

/* Views: x as pieces of one dimension (tdm_parts_attributes); the memory of the first input, when
 * the others are there, in another shape (tdm_shape). */
extern const tdm_operation tdm_operation_pieces;
extern const tdm_operation tdm_operation_whole;

#endif
