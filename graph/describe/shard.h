/* Parameters in several pieces, divided by rows. */
#ifndef TANDEM_GRAPH_DESCRIBE_SHARD_H
#define TANDEM_GRAPH_DESCRIBE_SHARD_H

#include "graph/ir/ir.h"

/* Divides a parameter into `count` shards with the given numbers of rows, each at least 1, on
 * devices (count). One shard keeps it whole. is_gathered: each reader reads the whole parameter. */
tdm_status tdm_add_sharding(tdm_graph *graph, uint32_t table, size_t count, const int64_t *sizes,
                            tdm_device *const *devices, bool is_gathered) TDM_WARN_UNUSED;

/* If the parallel region shards parameters, marks those that every device updates itself, and
 * divides large ones of the others (shard_parameters.c). */
tdm_status tdm_shard_parameters(tdm_graph *graph, uint16_t region) TDM_WARN_UNUSED;

#endif
