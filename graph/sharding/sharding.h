/* The pass `shard`: looks up rows of a sharded table on the devices of its shards, and assembles
 * parameters in pieces. */
#ifndef TANDEM_GRAPH_SHARDING_SHARDING_H
#define TANDEM_GRAPH_SHARDING_SHARDING_H

#include "graph/ir/ir.h"

/* ids (...) -> taken, summed int64 (n); ids (...) -> places int64 (...). */
extern const tdm_operation tdm_operation_shard_ids;
extern const tdm_operation tdm_operation_shard_places;

/* The traffic of a run for tables that are sharded by rows. */
typedef struct tdm_shard_traffic {
  uint64_t look_ups;
  uint64_t id_bytes;     /* read by shards on other devices than the look-up's */
  uint64_t row_bytes;    /* returned by these shards, including padding */
  uint64_t padded_bytes; /* zeros that shards return for ids of others; each returns a row per id */
  uint64_t gathered;     /* number of parameters in pieces */
} tdm_shard_traffic;

/* Replaces each look-up of a sharded table by one on each shard's device and a selection among
 * their rows. A table that is sharded as a whole is looked up on its device. A parameter of a
 * parallel region that is in pieces is concatenated on each device, for each of its replicas,
 * directly before the first node there that reads it. With `deterministic` this is done once for
 * all nodes of a replica, on the device of the first, so that placement does not change the order
 * of sums. The graph must be placed and have no gradients yet. Fails with INVALID_ARGUMENT, naming
 * both, if another node reads a table in shards, or if it is delivered. */
tdm_status tdm_pass_shard(tdm_graph *graph, bool deterministic,
                          tdm_shard_traffic *out_traffic) TDM_WARN_UNUSED;

#endif
