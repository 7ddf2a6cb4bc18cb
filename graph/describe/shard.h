/* Parameters in several pieces, by rows: for the calls that share them out. */
#ifndef TANDEM_GRAPH_DESCRIBE_SHARD_H
#define TANDEM_GRAPH_DESCRIBE_SHARD_H

#include "graph/ir/ir.h"

/* Cuts a parameter into `count` shards of so many rows each, of which none is 0, on devices
 * (count); as a whole where there is one. is_gathered: who reads it reads all of it. */
tdm_status tdm_add_sharding(tdm_graph *graph, uint32_t table, size_t count, const int64_t *sizes,
                            tdm_device *const *devices, bool is_gathered) TDM_WARN_UNUSED;

/* Of a parallel region whose homes are spread: marks the parameters that every device updates for
 * itself, and cuts large ones of the others, where the region asks for that (spread_rows.c). */
tdm_status tdm_share_out_parameters(tdm_graph *graph, uint16_t region) TDM_WARN_UNUSED;

#endif
