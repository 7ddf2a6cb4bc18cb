/* The passes from description to plan, each in the file of its name. They rewrite one concrete
 * graph; schedule, memory and verify work on its combinatorial side (schedule.h), and shard,
 * gradient and collectives have rooms of their own (graph/sharding, graph/gradient,
 * graph/collectives). */
#ifndef TANDEM_GRAPH_PASSES_PASSES_H
#define TANDEM_GRAPH_PASSES_PASSES_H

#include "graph/ir/ir.h"
#include "graph/ir/prepared.h"
#include "graph/schedule/schedule.h"

/* The pipeline: every pass in order, with the requests that it applies to (a function of
 * graph/plan/plan.c). The array of passes there is made from it, and with it reports and
 * switches; a test compares the table of passes in docs/architecture/planning.md with it.
 * GRAPH: the pass is tdm_status tdm_pass_NAME(tdm_graph *graph), and requires nothing else.
 * PLAN: it is run by a function of graph/plan/plan.c.
 *
 * place comes before gradient, because a backward node follows its forward node and adjoints are
 * summed per device. gradient gives the nodes that it appends their devices. */
#define TDM_PIPELINE(GRAPH, PLAN)                                                                  \
  PLAN(lower, always)                                                                              \
  PLAN(micro_batch, has_parts)                                                                     \
  PLAN(data_parallel, always)                                                                      \
  PLAN(observe, is_observed)                                                                       \
  PLAN(place, always)                                                                              \
  PLAN(shard, always)                                                                              \
  PLAN(sink_gather, always)                                                                        \
  PLAN(gradient, always)                                                                           \
  PLAN(common_subexpressions, merges)                                                              \
  PLAN(row_refresh, always)                                                                        \
  PLAN(collectives, always)                                                                        \
  PLAN(layout, always)                                                                             \
  PLAN(micro_order, has_parts)                                                                     \
  PLAN(fuse, fuses)                                                                                \
  PLAN(own_feeds, has_ranks)                                                                       \
  GRAPH(kept_reads, always)                                                                        \
  PLAN(transfer, always)                                                                           \
  GRAPH(concat_in_place, always)                                                                   \
  PLAN(schedule, always)                                                                           \
  PLAN(memory, always)                                                                             \
  PLAN(verify, always)                                                                             \
  PLAN(emit, always)                                                                               \
  PLAN(bind, always)

#define TDM_DECLARE_GRAPH_PASS(name, applies)                                                      \
  tdm_status tdm_pass_##name(tdm_graph *graph) TDM_WARN_UNUSED;
#define TDM_DECLARE_NOTHING(name, applies)
TDM_PIPELINE(TDM_DECLARE_GRAPH_PASS, TDM_DECLARE_NOTHING)

/* ---- lower ---- */

/* What is known of one input of the user's graph. */
typedef struct tdm_feed_spec {
  bool fed;
  bool pinned; /* lies in a pinned staging buffer */
  int16_t device;
  tdm_shape shape;
} tdm_feed_spec;

typedef struct tdm_lowering {
  const tdm_graph *source;
  const tdm_feed_spec *feeds;    /* per input of source; NULL: keep symbolic shapes */
  const uint32_t *targets;       /* values of source that are wanted */
  const int16_t *target_devices; /* (target_count), as tdm_graph_delivery.device; NULL: the hosts */
  size_t target_count;
  bool training;    /* room is made for a backward pass */
  tdm_dim batch;    /* the name of what is cut into micro-batches; 0: "batch", if anything */
  bool keeps_whole; /* parameters of parallel regions that are in pieces otherwise */
} tdm_lowering;

/* Is the parameter handed out, or its gradient asked for? Then it is whole in every session. */
bool tdm_is_asked_for(const tdm_graph *source, uint32_t parameter);

/* Fills out_graph (initialised) with what the targets need, and its deliveries with the targets.
 * INVALID_ARGUMENT if an input that is needed is not fed, or fed with a shape that does not fit. */
tdm_status tdm_lower(const tdm_lowering *lowering, tdm_graph *out_graph) TDM_WARN_UNUSED;

/* ---- micro_batch ---- */

typedef struct tdm_micro_batching {
  const tdm_graph *source; /* whose inputs name their dimensions */
  tdm_dim batch;           /* the name of the one that is cut */
  size_t count;            /* of parts, at most TDM_MAX_PARTS; below 2: none */
} tdm_micro_batching;

/* Finds the name: that of options (NULL: none), or the one that all inputs share which the last of
 * the targets needs (all_targets: which any needs). INVALID_ARGUMENT says what was found. */
tdm_status tdm_find_batch(const tdm_graph *source, const char *name, const uint32_t *targets,
                          size_t target_count, bool all_targets,
                          tdm_dim *out_batch) TDM_WARN_UNUSED;
/* INVALID_ARGUMENT, naming the node, if targets cannot be computed in micro-batches: tried with
 * sizes made up for what has a name. Where those fit no shape rule, the first plan finds out. */
tdm_status tdm_check_micro_batch(const tdm_micro_batching *batching, const uint32_t *targets,
                                 size_t target_count, bool training) TDM_WARN_UNUSED;
/* Cuts the inputs along the batch's dimension and computes part by part; what is delivered is put
 * together. Returns the number of parts, which is lower if there are fewer rows, in out_count. */
tdm_status tdm_pass_micro_batch(tdm_graph *graph, const tdm_micro_batching *batching,
                                size_t *out_count) TDM_WARN_UNUSED;
/* Reorders a placed graph in micro-batches, so that devices take turns. Keeps it topological. */
tdm_status tdm_pass_micro_order(tdm_graph *graph) TDM_WARN_UNUSED;

/* ---- data_parallel ---- */

/* Gives parameters of the region homes on its devices, where it asks for that. Of a graph without
 * devices. */
tdm_status tdm_spread_homes(tdm_graph *graph, uint16_t region) TDM_WARN_UNUSED;

/* Replaces every parallel region by scatter, replicas, gather. If shapes are symbolic (not sized),
 * the nodes only get their first device. Inputs whose rows differ are INVALID_ARGUMENT, naming
 * both. */
tdm_status tdm_pass_data_parallel(tdm_graph *graph, bool sized) TDM_WARN_UNUSED;

/* ---- place ---- */

typedef struct tdm_map_rule {
  const char *pattern; /* a node's path, a prefix of it that ends before '/', or with * and ? */
  tdm_device *device;
  bool matched;
  const struct tdm_map_rule *stronger; /* of the same pattern; NULL: none */
} tdm_map_rule;

typedef struct tdm_device_map {
  tdm_map_rule *rules; /* strongest first */
  size_t count;
  tdm_map_rule *
      *plain; /* (plain_count) without wildcards, by pattern; of equal ones the strongest */
  size_t plain_count;
  tdm_map_rule **wild; /* (wild_count) the others, strongest first */
  size_t wild_count;
} tdm_device_map;

/* Parses "a=cpu:0,b/c=sim:0,*=cpu:0"; region memory. Devices that are not there are errors. */
tdm_status tdm_device_map_parse(tdm_context *context, tdm_region *region, const char *environment,
                                const char *map, tdm_device_map *out_map) TDM_WARN_UNUSED;
/* INVALID_ARGUMENT naming the first rule that has matched nothing. */
tdm_status tdm_device_map_check(const tdm_device_map *map, const tdm_graph *graph) TDM_WARN_UNUSED;

/* Gives every node a device, and every input and persistent value that has none its first
 * consumer's. A node without a kernel is UNSUPPORTED, naming it. */
tdm_status tdm_pass_place(tdm_graph *graph, tdm_device_map *map) TDM_WARN_UNUSED;
/* Of a placed graph that does not train: nothing will be persisted, so nodes do not read what is
 * there for that alone. It has its device by then, which is that of the nodes' other states. */
void tdm_drop_persist_inputs(tdm_graph *graph);
/* UNSUPPORTED, naming the first node whose device has no kernel for it. */
tdm_status tdm_find_kernels(tdm_graph *graph) TDM_WARN_UNUSED;

/* ---- sink_gather ---- */

/* Does what works on picked rows of a small table on the table first, if nothing else reads them.
 * Of a placed graph whose shapes are sizes. */
tdm_status tdm_pass_sink_gather(tdm_graph *graph) TDM_WARN_UNUSED;

/* ---- common_subexpressions ---- */

/* What is not computed any more. */
typedef struct tdm_common_savings {
  uint64_t nodes; /* but for views */
  uint64_t bytes; /* that they would have written */
} tdm_common_savings;

/* Merges nodes that compute the same of the same. Of a placed graph, behind gradient. */
tdm_status tdm_pass_common_subexpressions(tdm_graph *graph,
                                          tdm_common_savings *out_savings) TDM_WARN_UNUSED;

/* ---- row_refresh ---- */

/* Where a node reads a table away from its home: copies of single rows, which stand for copying the
 * whole table where it is known which rows are old. windows: per persistent value, the entries of
 * one log; 0: none is kept. */
tdm_status tdm_pass_row_refresh(tdm_graph *graph, const uint64_t *windows) TDM_WARN_UNUSED;

/* ---- layout, transfer ---- */

/* Finds and prepares kernels, lets them choose formats, inserts reorders. Edges between devices and
 * deliveries are dense. */
tdm_status tdm_pass_layout(tdm_graph *graph, tdm_prepared_cache *cache) TDM_WARN_UNUSED;
/* Prepares one node's kernel, which is known; its outputs get the formats and bytes it answers. */
tdm_status tdm_prepare_node(tdm_graph *graph, tdm_prepared_cache *cache,
                            tdm_ir_node *node) TDM_WARN_UNUSED;

/* What a copy between two devices takes by all hops of its route, as the links are estimated. */
double tdm_predict_copy_ns(const tdm_graph *graph, int16_t from, int16_t to, double bytes);
/* The same while as many bytes go the other way. */
double tdm_predict_exchange_ns(const tdm_graph *graph, int16_t from, int16_t to, double bytes);
/* Inserts one transfer per (value, destination), after the value's producer; parameters read
 * elsewhere get derived copies and a refresh. Each delivery becomes a value with memory of its own
 * on its device of every rank. */
tdm_status tdm_pass_transfer(tdm_graph *graph, tdm_collective collective) TDM_WARN_UNUSED;
/* The device on which a rank hands out a value, wanted there as above. INVALID_ARGUMENT where it is
 * made on another rank than 0 and is to stay there, UNAVAILABLE where the rank has no such device;
 * the message names the value. */
tdm_status tdm_delivery_device(const tdm_graph *graph, uint32_t value, int16_t wanted, int rank,
                               int16_t *out_device) TDM_WARN_UNUSED;

/* ---- own_feeds ---- */

/* Of a job of several ranks, each of which is fed the same: what a device reads of an input it
 * reads of what its own rank was fed, so that no input crosses between ranks. Placed, before
 * transfer. */
tdm_status tdm_pass_own_feeds(tdm_graph *graph, tdm_prepared_cache *cache) TDM_WARN_UNUSED;

/* ---- fuse ---- */

/* Makes one node of elementwise nodes that read one another. Values that others read get new
 * indices, deliveries with them. */
tdm_status tdm_pass_fuse(tdm_graph *graph, tdm_prepared_cache *cache) TDM_WARN_UNUSED;

/* ---- concat_in_place ---- */

/* Does the node read its input k in the memory of another device? Only a sum does, of a term that
 * it reads once, between devices that both compute in the host's memory: what crosses is added as
 * it is read, not copied first. Such a read is a transfer of the input's bytes without a command.
 */
bool tdm_reads_in_place(const tdm_graph *graph, const tdm_ir_node *node, uint32_t k);
/* Do two devices compute in one memory, so that a sum reads what is on the other in place? */
bool tdm_shares_memory(const tdm_graph *graph, int16_t from, int16_t reader);

/* ---- steps ---- */

typedef struct tdm_step_source {
  uint32_t node;
  uint32_t workspace; /* storage; UINT32_MAX: none */
} tdm_step_source;

/* The combinatorial side of a graph, and how to find the way back. */
typedef struct tdm_lowered {
  tdm_schedule schedule;
  tdm_step_source *sources; /* per step */
  size_t source_count;
  uint32_t *storage_of; /* per value: its storage; UINT32_MAX: none */
  size_t value_count;
  tdm_queue **queues; /* per queue of the schedule */
  size_t queue_capacity;
  uint32_t first_update; /* step; step_count when there is none */
} tdm_lowered;

void tdm_lowered_deinit(tdm_lowered *lowered);
/* Makes the steps of one rank, their accesses and storages. What the rank delivers is EXTERNAL
 * storage. A message is a step on either end: one that reads, and one that writes. */
tdm_status tdm_lower_to_steps(const tdm_graph *graph, int rank, uint32_t depth,
                              tdm_lowered *out_lowered) TDM_WARN_UNUSED;

#endif
