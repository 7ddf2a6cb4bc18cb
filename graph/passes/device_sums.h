/* Sums over devices as one node, which the pass `collectives` replaces by copies and additions, and
 * views that divide what is sent into pieces. */
#ifndef TANDEM_GRAPH_PASSES_DEVICE_SUMS_H
#define TANDEM_GRAPH_PASSES_DEVICE_SUMS_H

#include "graph/ir/ir.h"

/* Number of buckets of a device. A term that is only added on arrival is sent into the bucket that
 * its addition names. */
#define TDM_BUCKETS 16
#define TDM_HELD_BUCKETS (TDM_BUCKETS - 1) /* buckets whose terms are added later */

typedef struct tdm_device_sum_attributes {
  int64_t owned; /* the first term has no other consumer and may be overwritten */
  int64_t late;  /* only updates use the sum, so it may be computed after other gradients */
} tdm_device_sum_attributes;

/* terms, in order, on any devices -> their sum, on the node's device. */
extern const tdm_operation tdm_operation_device_sum;
/* x -> the sum of all x with the same number, in x's memory. On hosts there is one node per rank,
 * and the rank's network computes it. On other devices there is one per device of a group
 * (devices/groups/groups.h), whose engine computes it. It has no kernel. */
typedef struct tdm_all_reduce_attributes {
  int64_t number; /* position in plan order, from 0, equal on all ranks */
} tdm_all_reduce_attributes;

/* Writes the devices (at most TDM_MAX_PARTS) that compute an all-reduce, ascending. Returns their
 * number; 0: hosts compute it. */
size_t tdm_all_reduce_group(const tdm_graph *graph, const tdm_ir_node *node, int16_t *out_devices);

/* Writes the devices (out_devices: as many as the context has) that send to or receive from devices
 * of other ranks directly, ascending. They are one group. Returns their number; 0: none do. */
size_t tdm_exchange_group(const tdm_graph *graph, int16_t *out_devices);

/* In the plan of one of many identical ranks: x -> the sum of all ranks' x, or, for rows that each
 * rank has, the rows of all ranks in order. It has no kernel and is never executed. Forecasts
 * estimate its time. */
typedef struct tdm_share_attributes {
  int64_t ranks;
  int64_t gathers;
} tdm_share_attributes;

/* Views: x as pieces of one dimension (tdm_parts_attributes); the memory of the first input, after
 * the others exist, with another shape (tdm_shape). */
extern const tdm_operation tdm_operation_pieces;
extern const tdm_operation tdm_operation_whole;

#endif
