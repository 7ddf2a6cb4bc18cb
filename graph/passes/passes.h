/* The passes from description to plan, each in a file of its name. They rewrite one concrete graph.
 * Schedule, memory and verify work on its combinatorial form (schedule.h). Shard, gradient and
 * collectives have rooms of their own (graph/sharding, graph/gradient, graph/collectives). */
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

/* ---- lower ----------------------------------------------------------------------------------- */

/* Properties of one input of the user's graph. */
typedef struct tdm_feed_spec {
  bool fed;
  bool pinned; /* the feed is in a pinned staging buffer */
  int16_t device;
  tdm_shape shape;
} tdm_feed_spec;

typedef struct tdm_lowering {
  const tdm_graph *source;
  const tdm_feed_spec *feeds;    /* per input of source; NULL: keep symbolic shapes */
  const uint32_t *targets;       /* values of source to compute */
  const int16_t *target_devices; /* (target_count), as tdm_graph_delivery.device; NULL: the hosts */
  size_t target_count;
  bool training;    /* capacity is reserved for a backward pass */
  tdm_dim batch;    /* name that is split into micro-batches; 0: "batch", if any */
  bool keeps_whole; /* parameters of parallel regions stay whole that are divided otherwise */
} tdm_lowering;

/* Returns true if the parameter is delivered or its gradient is requested. It is whole in each
 * session then. */
bool tdm_is_asked_for(const tdm_graph *source, uint32_t parameter);

/* Fills out_graph (initialised) with the nodes that the targets depend on, and its deliveries with
 * the targets. Fails with INVALID_ARGUMENT if a needed input is not fed or its shape does not
 * fit. */
tdm_status tdm_lower(const tdm_lowering *lowering, tdm_graph *out_graph) TDM_WARN_UNUSED;

/* ---- micro_batch ----------------------------------------------------------------------------- */

typedef struct tdm_micro_batching {
  const tdm_graph *source; /* graph whose inputs name their dimensions */
  tdm_dim batch;           /* the name that is split */
  size_t count;            /* number of parts, at most TDM_MAX_PARTS; below 2: not split */
} tdm_micro_batching;

/* Finds the batch's name: that in options (NULL: none), or the only name that all inputs of the
 * last target share (all_targets: of all targets). Otherwise INVALID_ARGUMENT lists the names. */
tdm_status tdm_find_batch(const tdm_graph *source, const char *name, const uint32_t *targets,
                          size_t target_count, bool all_targets,
                          tdm_dim *out_batch) TDM_WARN_UNUSED;
/* Fails with INVALID_ARGUMENT, naming the node, if targets cannot be computed in micro-batches. The
 * check uses arbitrary sizes for names. If those violate a shape rule, the first plan checks
 * instead. */
tdm_status tdm_check_micro_batch(const tdm_micro_batching *batching, const uint32_t *targets,
                                 size_t target_count, bool training) TDM_WARN_UNUSED;
/* Splits the inputs along the batch's dimension and computes part by part; delivered values are
 * concatenated. Writes the number of parts, which is lower if there are fewer rows, to
 * out_count. */
tdm_status tdm_pass_micro_batch(tdm_graph *graph, const tdm_micro_batching *batching,
                                size_t *out_count) TDM_WARN_UNUSED;
/* Reorders a placed graph in micro-batches so that devices alternate between parts. The order stays
 * topological. */
tdm_status tdm_pass_micro_order(tdm_graph *graph) TDM_WARN_UNUSED;

/* ---- data_parallel --------------------------------------------------------------------------- */

/* Gives parameters of the region homes on its devices, if the region requests it. The graph has no
 * devices yet. */
tdm_status tdm_spread_homes(tdm_graph *graph, uint16_t region) TDM_WARN_UNUSED;

/* Replaces each parallel region by scatter, replicas, gather. If shapes are symbolic (not sized),
 * its nodes only get their first device. Fails with INVALID_ARGUMENT if inputs have different
 * numbers of rows, naming both. */
tdm_status tdm_pass_data_parallel(tdm_graph *graph, bool sized) TDM_WARN_UNUSED;

/* ---- place ----------------------------------------------------------------------------------- */

typedef struct tdm_map_rule {
  const char *pattern; /* a node's path, its prefix that ends before '/', or with ? and * */
  tdm_device *device;
  bool matched;
  const struct tdm_map_rule *stronger; /* rule with the same pattern that takes precedence; NULL:
                                        * none */
} tdm_map_rule;

typedef struct tdm_device_map {
  tdm_map_rule *rules; /* strongest first */
  size_t count;
  tdm_map_rule *
      *plain; /* (plain_count) without wildcards, sorted by pattern; of equal ones the strongest */
  size_t plain_count;
  tdm_map_rule **wild; /* (wild_count) with wildcards, strongest first */
  size_t wild_count;
} tdm_device_map;

/* Parses "a=cpu:0,b/c=sim:0,*=cpu:0" into memory of the region. Fails for devices that do not
 * exist. */
tdm_status tdm_device_map_parse(tdm_context *context, tdm_region *region, const char *environment,
                                const char *map, tdm_device_map *out_map) TDM_WARN_UNUSED;
/* Fails with INVALID_ARGUMENT, naming the first rule that has matched nothing. */
tdm_status tdm_device_map_check(const tdm_device_map *map, const tdm_graph *graph) TDM_WARN_UNUSED;

/* Gives each node a device. An input or persistent value without a device gets that of its first
 * consumer. Fails with UNSUPPORTED for a node without a kernel, naming it. */
tdm_status tdm_pass_place(tdm_graph *graph, tdm_device_map *map) TDM_WARN_UNUSED;
/* Removes inputs that only rules `persist` use, from a placed graph that does not train, since no
 * state is written. Each such input has a device by then, that of the node's other states. */
void tdm_drop_persist_inputs(tdm_graph *graph);
/* Finds the kernel of a placed node. Fails with UNSUPPORTED, naming the node, if its device has
 * none. */
tdm_status tdm_find_kernel(const tdm_graph *graph, const tdm_ir_node *node,
                           const tdm_kernel **out_kernel) TDM_WARN_UNUSED;
/* Fails as tdm_find_kernel does for the first node without a kernel. */
tdm_status tdm_check_kernels(const tdm_graph *graph) TDM_WARN_UNUSED;

/* ---- sink_gather ----------------------------------------------------------------------------- */

/* Applies an operation on rows of a small table to the table first, if the rows have no other
 * consumer. The graph must be placed, with sizes for all dimensions. */
tdm_status tdm_pass_sink_gather(tdm_graph *graph) TDM_WARN_UNUSED;

/* ---- common_subexpressions ------------------------------------------------------------------- */

/* The savings of the pass. */
typedef struct tdm_common_savings {
  uint64_t nodes; /* nodes that are not executed, except views */
  uint64_t bytes; /* bytes that are not written */
} tdm_common_savings;

/* Merges nodes that compute the same from the same inputs. The graph must be placed and have its
 * gradients. */
tdm_status tdm_pass_common_subexpressions(tdm_graph *graph,
                                          tdm_common_savings *out_savings) TDM_WARN_UNUSED;

/* ---- row_refresh ----------------------------------------------------------------------------- */

/* Inserts copies of single rows for nodes that read a table away from its home. They replace the
 * copy of the whole table in runs in which the outdated rows are known. windows has the entries of
 * one log per persistent value; 0: no log. */
tdm_status tdm_pass_row_refresh(tdm_graph *graph, const uint64_t *windows) TDM_WARN_UNUSED;

/* ---- layout, transfer ------------------------------------------------------------------------ */

/* Finds and prepares kernels, selects formats, inserts reorders. Values sent between devices and
 * deliveries are dense. */
tdm_status tdm_pass_layout(tdm_graph *graph, tdm_prepared_cache *cache) TDM_WARN_UNUSED;
/* Prepares the kernel for one node; its outputs get the formats and bytes that prepare returns. */
tdm_status tdm_prepare_node(tdm_graph *graph, tdm_prepared_cache *cache, tdm_ir_node *node,
                            const tdm_kernel *kernel) TDM_WARN_UNUSED;

/* Returns the predicted time of a copy between two devices over all hops of its route, in ns. */
double tdm_predict_copy_ns(const tdm_graph *graph, int16_t from, int16_t to, double bytes);
/* The same while as many bytes are sent in the other direction. */
double tdm_predict_exchange_ns(const tdm_graph *graph, int16_t from, int16_t to, double bytes);
/* Inserts one transfer per (value, destination), after the value's producer. Parameters that are
 * read on other devices get derived copies and a refresh. Each delivery becomes a value with its
 * own memory on its device of each rank. */
tdm_status tdm_pass_transfer(tdm_graph *graph, tdm_collective collective) TDM_WARN_UNUSED;
/* Writes the device on which a rank delivers a value; wanted: as above. Fails with INVALID_ARGUMENT
 * if the value is computed on another rank than 0 and is to stay there, and with UNAVAILABLE if the
 * rank has no such device. The message names the value. */
tdm_status tdm_delivery_device(const tdm_graph *graph, uint32_t value, int16_t wanted, int rank,
                               int16_t *out_device) TDM_WARN_UNUSED;

/* ---- own_feeds ------------------------------------------------------------------------------- */

/* Makes each device read inputs from its own rank, so that no input is sent between the ranks of a
 * job. All ranks are fed the same. The graph must be placed and not have transfers. */
tdm_status tdm_pass_own_feeds(tdm_graph *graph, tdm_prepared_cache *cache) TDM_WARN_UNUSED;

/* ---- fuse ------------------------------------------------------------------------------------ */

/* Replaces elementwise nodes that read one another by one node. Values that other nodes read get
 * new indices, and so do their deliveries. */
tdm_status tdm_pass_fuse(tdm_graph *graph, tdm_prepared_cache *cache) TDM_WARN_UNUSED;

/* ---- concat_in_place ------------------------------------------------------------------------- */

/* Returns true if the node reads its input k in the memory of another device. Only a sum does, for
 * a term that it reads once, between devices that both compute in the host's memory: the term is
 * added as it is read, without a copy. Such a read is a transfer of the input's bytes without a
 * command. */
bool tdm_reads_in_place(const tdm_graph *graph, const tdm_ir_node *node, uint32_t k);
/* Returns true if two devices compute in the same memory, so that a sum reads terms of the other in
 * place. */
bool tdm_shares_memory(const tdm_graph *graph, int16_t from, int16_t reader);

/* ---- steps ----------------------------------------------------------------------------------- */

typedef struct tdm_step_source {
  uint32_t node;
  uint32_t workspace; /* storage; UINT32_MAX: none */
} tdm_step_source;

/* The combinatorial form of a graph, and its relation to the graph. */
typedef struct tdm_lowered {
  tdm_schedule schedule;
  tdm_step_source *sources; /* per step */
  size_t source_count;
  uint32_t *storage_of; /* per value: its storage; UINT32_MAX: none */
  size_t value_count;
  tdm_queue **queues; /* per queue of the schedule */
  size_t queue_capacity;
  uint32_t first_update; /* step; step_count if there is none */
} tdm_lowered;

void tdm_lowered_deinit(tdm_lowered *lowered);
/* Makes the steps of one rank, their accesses and storages. Deliveries of the rank are EXTERNAL
 * storage. A message is a step on either end: a read on one and a write on the other. */
tdm_status tdm_lower_to_steps(const tdm_graph *graph, int rank, uint32_t depth,
                              tdm_lowered *out_lowered) TDM_WARN_UNUSED;

#endif
