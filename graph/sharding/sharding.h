/* The pass `shard`: rows of a sharded table are looked up where they lie, and parameters in pieces
 * are put together. */
#ifndef TANDEM_GRAPH_SHARDING_SHARDING_H
#define TANDEM_GRAPH_SHARDING_SHARDING_H

#include "graph/ir/ir.h"

/* ids (...) -> taken, summed int64 (n); ids (...) -> places int64 (...). */
extern const tdm_operation tdm_operation_shard_ids;
extern const tdm_operation tdm_operation_shard_places;

/* What a run does with tables that are sharded by rows. */
typedef struct tdm_shard_traffic {
  uint64_t look_ups;
  uint64_t id_bytes;     /* that shards on other devices than the look-up's read */
  uint64_t row_bytes;    /* that these answer, padding among them */
  uint64_t padded_bytes; /* zeros that shards answer for ids of others; each counts all its ids */
  uint64_t gathered;     /* parameters that lie in pieces */
} tdm_shard_traffic;

/* Of a placed graph, before gradients: each look-up of a sharded table becomes one at every shard's
 * home, and what picks the rows from all of their answers. A table that is sharded as a whole is
 * looked up where it lives. INVALID_ARGUMENT, naming both, where something else reads a table in
 * shards, or it is delivered. A parameter of a parallel region that lies in pieces is put together
 * on each device, for each of its replicas, right before the first node there that reads it; with
 * `deterministic` once for all nodes of a replica, on the device of the first, so that where they
 * are does not change the order of sums. */
tdm_status tdm_pass_shard(tdm_graph *graph, bool deterministic,
                          tdm_shard_traffic *out_traffic) TDM_WARN_UNUSED;

#endif
