/* A plan: all decisions about runs with one set of shapes, verified and ready for submission.
 * Invariant: immutable after creation, except its bookkeeping, which the session's lock
 * protects. */
#ifndef TANDEM_GRAPH_PLAN_PLAN_H
#define TANDEM_GRAPH_PLAN_PLAN_H

#include "devices/links/links.h"
#include "devices/staging/staged_memory.h"
#include "devices/tensors/tensor.h"
#include "graph/collectives/collectives.h"
#include "graph/gradient/gradient.h"
#include "graph/passes/passes.h"
#include "graph/plan/profile.h"
#include "graph/sharding/sharding.h"
#include "graph/store/store.h"

/* The identity of a plan as words: training, the fetches, and for each input whether it is fed, its
 * device and its shape. */
typedef struct tdm_plan_key {
  uint64_t *words;
  size_t count;
  uint64_t hash;
} tdm_plan_key;

/* The order of operand bases: arenas, inputs, deliveries, persistents, derived copies, logs. Within
 * each, the order is that of the concrete graph. */
typedef struct tdm_base_layout {
  uint32_t arenas;
  uint32_t inputs;
  uint32_t deliveries;
  uint32_t persistents;
  uint32_t deriveds;
  uint32_t logs;
  uint32_t count;
} tdm_base_layout;

/* Time of a pass, without the preparation of kernels. */
typedef struct tdm_pass_time {
  uint64_t ns;
  bool applied; /* the pass was applied to the plan's request; false: it was skipped */
} tdm_pass_time;

/* Records how a plan refreshes a derived copy. */
typedef struct tdm_copy_refresh {
  uint32_t ages; /* maximum number of updates refreshed by rows; 0: only as a whole */
  uint32_t from; /* 1 + source of the whole copy, a derived copy; 0: the home */
  bool updated;  /* the plan's updates write it too; refreshed only if another run wrote */
  bool passes;   /* used only as a source of other copies, and refreshed only with one of them */
  bool usual;    /* a run after one update copies the whole */
} tdm_copy_refresh;

typedef struct tdm_condition_traffic {
  uint64_t transfers;
  uint64_t bytes;
} tdm_condition_traffic;

/* Traffic between this rank and others. */
typedef struct tdm_network_traffic {
  uint64_t sent_messages;
  uint64_t sent_bytes;
  uint64_t received_messages;
  uint64_t received_bytes;
  uint64_t reduced_sums; /* all-reduces by hosts, whose engine chooses the transfers */
  uint64_t reduced_bytes;
  uint64_t device_sums; /* all-reduces that devices of this rank take part in directly */
  uint64_t device_bytes;
  uint64_t exchanges; /* messages sent or received directly by devices of this rank */
  uint64_t exchanged_bytes;
} tdm_network_traffic;

typedef struct tdm_plan {
  struct tdm_plan *newer; /* next newer plan in the session's list, which is sorted by latest use */
  struct tdm_plan *older;
  tdm_plan_key key;
  uint32_t uses; /* runs that hold it, so it is not evicted */
  bool training;
  tdm_graph graph; /* concrete, after the passes */
  tdm_lowered lowered;
  tdm_region region;     /* memory of programs, commands and the lists below */
  tdm_program *programs; /* main phase, early ones first; then update phase */
  uint32_t program_count;
  uint32_t early_program_count; /* number of programs that may be submitted before the previous run
                                 * ends */
  uint32_t main_program_count;  /* number of programs of the main phase: all unless two_phase */
  uint32_t command_count;       /* ids: one per step, and one for the vote */
  uint64_t digest;              /* jobs: of the graph, equal on all ranks */
  const char *head;             /* jobs: the properties of the plan as a whole */
  bool agreed;                  /* all ranks have the same plan; always true for one rank */
  tdm_group **groups;           /* (group_count) for sums, in the order of the sums */
  size_t group_count;
  tdm_network_traffic network; /* traffic of this rank in a run */
  tdm_base_layout layout;
  tdm_device **arena_devices;       /* per arena */
  tdm_device *partner;              /* discrete device near the plan's host memory; or NULL */
  _Atomic bool unpinned;            /* pinned staging memory was refused, so it is pageable */
  size_t delivery_count;            /* per rank: the targets, then observed values */
  struct tdm_micro_tuning *tuning;  /* receives the times of runs; NULL: none */
  size_t micro_asked;               /* requested number of parts of the batch */
  size_t micro_count;               /* number of parts of the batch; 1: not split */
  size_t target_count;              /* number of targets; in training the last one is the loss */
  uint32_t *observed;               /* nodes that produce the deliveries after the targets */
  tdm_store_entry **entries;        /* per persistent of graph */
  bool *updated;                    /* per persistent: the update phase writes it */
  tdm_address *bases;               /* initial table of bases of each run, with the persistents */
  struct tdm_run_state *idle_runs;  /* states of earlier runs, for reuse */
  tdm_store_copy **copies;          /* per derived of graph */
  bool *logged;                     /* per persistent: the update phase logs its rows */
  uint64_t *windows;                /* per persistent: window of its log, as planned */
  tdm_copy_refresh *refreshes;      /* per derived of graph */
  uint32_t *row_copies;             /* per row condition of graph: derived copy; UINT32_MAX: any */
  tdm_condition_traffic *moved;     /* per condition: traffic of its copies */
  uint32_t condition_count;         /* derived copies of graph, then its row conditions */
  _Atomic uint64_t moved_transfers; /* refreshes in the latest run */
  _Atomic uint64_t moved_bytes;
  bool writes_persistent; /* the plan updates persistent values other than kept values */
  bool chained;           /* runs of the plan may overlap (run/life.h) */
  tdm_traffic traffic;
  tdm_common_savings common;  /* savings of the pass for common subexpressions */
  tdm_shard_traffic shards;   /* traffic of tables that are sharded by rows */
  const char *whole_reason;   /* why divided parameters are whole; NULL: they are not */
  tdm_collective_choice sums; /* algorithms of sums over devices */
  double touched_bytes;       /* host memory that a run reads and writes, to estimate caching */
  uint64_t made_ns;           /* duration of the passes, without the preparation of kernels */
  tdm_pass_time *pass_times;  /* duration of each pass in tdm_passes */
  tdm_profile profile;        /* kernel times by command id, if the session profiles */
  bool records;               /* runs record the times of their commands */
  _Atomic uint32_t kept_runs; /* number of runs in timelines of the session; not evicted if > 0 */
} tdm_plan;

typedef struct tdm_plan_request {
  const tdm_graph *source;
  const tdm_feed_spec *feeds;
  const uint32_t *targets;       /* values of source to deliver; in training the loss is last */
  const int16_t *target_devices; /* device of each delivery; TDM_NO_DEVICE: the producer's */
  size_t target_count;
  const tdm_training *training; /* the loss is a value of source; NULL: evaluation */
  tdm_device_map *map;
  tdm_store *store;
  tdm_store_entry *const *bound; /* per persistent of source: its entry */
  const bool *everywhere;        /* per persistent of source: each device is to update it */
  const char *whole_reason;      /* why divided parameters are whole; NULL: they are not */
  tdm_prepared_cache *cache;
  uint32_t depth;
  bool profile;
  bool record;   /* record times of commands, also without a profile */
  bool observe;  /* deliver observed values */
  bool strict;   /* pageable transfers are errors */
  bool unfused;  /* no fusion of elementwise nodes */
  bool unmerged; /* no merging of common subexpressions */
  tdm_collective collective;
  tdm_micro_batching batching;
  struct tdm_micro_tuning *tuning; /* chose the number of parts; NULL: it is fixed */
  uint64_t seed;
  bool deterministic;
  /* Called after each pass with its name; may be NULL. */
  void (*after_pass)(void *user, const char *pass, const struct tdm_plan *plan);
  void *user;
} tdm_plan_request;

/* Returns the i-th value that this rank delivers. */
static inline uint32_t tdm_plan_delivery(const tdm_plan *plan, size_t i) {
  const bool of_all_ranks = plan->graph.planned->deliveries.count > plan->delivery_count;
  const size_t rank = of_all_ranks ? (size_t)tdm_context_rank(plan->graph.context) : 0;
  return plan->graph.planned->deliveries.items[rank * plan->delivery_count + i].value;
}

/* A pass. It reports a failure as its status or as that of the graph (tdm_graph_status); either
 * ends planning. */
typedef struct tdm_pass {
  const char *name;
  bool (*applies)(const tdm_plan_request *request);
  tdm_status (*run)(tdm_plan *plan, const tdm_plan_request *request);
} tdm_pass;

/* The pipeline (tdm_pass_count): all passes in the order in which they run, made from TDM_PIPELINE
 * (graph/passes/passes.h). Reports and the documentation's table list them. */
extern const tdm_pass tdm_passes[];
extern const size_t tdm_pass_count;

/* Runs the passes that apply to the request. On failure *out_plan is NULL. */
tdm_status tdm_plan_create(const tdm_plan_request *request, tdm_plan **out_plan) TDM_WARN_UNUSED;
void tdm_plan_destroy(tdm_plan *plan);

/* Makes the programs of a scheduled and placed graph. */
tdm_status tdm_pass_emit(tdm_plan *plan) TDM_WARN_UNUSED;

/* Returns how many rows an update of the plan logs: at least 1, as an update of none is logged. */
static inline uint64_t tdm_plan_logged_rows(const tdm_plan *plan, const tdm_graph_log *log) {
  const int64_t rows = tdm_ir_value_at(&plan->graph, log->value)->spec->shape.dims[0];
  return rows > 0 ? (uint64_t)rows : 1;
}
/* Finds or creates the plan's entries, logs and derived copies in the store (plan_bind.c). */
tdm_status tdm_plan_bind(tdm_plan *plan, const tdm_plan_request *request) TDM_WARN_UNUSED;

/* ---- In a job of several ranks --------------------------------------------------------------- */

/* Sets plan->digest; the graph must have been through its passes (plan_agree.c). */
tdm_status tdm_plan_digest(tdm_plan *plan, const tdm_plan_request *request) TDM_WARN_UNUSED;
/* Compares the plan with those of all other ranks, each of which calls this before the plan's first
 * run. On a difference fails with INVALID_ARGUMENT, naming the first one and its values on both
 * ranks. */
tdm_status tdm_plan_agree(tdm_plan *plan) TDM_WARN_UNUSED;
/* Computes the steps and waits of another rank of the job, as that rank does itself. The caller
 * deinits them, also after a failure. */
tdm_status tdm_plan_lower_rank(const tdm_plan *plan, int rank,
                               tdm_lowered *out_lowered) TDM_WARN_UNUSED;
/* Verifies that each copy into a bucket is read before it is overwritten. Fails with INTERNAL,
 * naming the nodes. */
tdm_status tdm_plan_verify_buckets(const tdm_plan *plan) TDM_WARN_UNUSED;
/* Verifies that the programs of all ranks match (verify_ranks.h). */
tdm_status tdm_plan_verify_ranks(const tdm_plan *plan) TDM_WARN_UNUSED;

/* ---- Its transfers (plan_transfers.c) -------------------------------------------------------- */

/* The host memory that a transfer node reads or writes. */
typedef enum tdm_host_memory {
  TDM_HOST_NONE,     /* no transfer between host and device memory: both sides are the host's or
                      * neither is */
  TDM_HOST_PINNED,   /* a staging buffer */
  TDM_HOST_STAGED,   /* pageable; the device copies it through staging buffers */
  TDM_HOST_PAGEABLE, /* pageable; the driver copies it internally */
} tdm_host_memory;
tdm_host_memory tdm_plan_host_memory(const tdm_plan *plan, const tdm_ir_node *node);
const char *tdm_host_memory_name(tdm_host_memory memory); /* "pinned"; for NONE "host memory" */
/* Estimates the link of a transfer node; *out_link also states whether it was modelled or
 * calibrated. */
void tdm_plan_link(const tdm_plan *plan, const tdm_ir_node *node, tdm_link_estimate *out_link);
/* Returns true if the node is executed in a run that follows one update. */
bool tdm_plan_is_usual(const tdm_plan *plan, const tdm_ir_node *node);
/* Returns the predicted time of a transfer node in ns, from its link. */
double tdm_plan_predict_ns(const tdm_plan *plan, const tdm_ir_node *node);
/* The caller of these must hold the store's lock. Fills conditions (condition_count) with what a
 * run has to refresh. Returns true if there is any. follows: a run of the same plan is in its
 * update phase; its reads and its update count as done. */
bool tdm_plan_find_old(const tdm_plan *plan, bool follows, uint8_t *conditions);
/* Marks the copies that a run refreshed as up to date with what it read. */
void tdm_plan_note_copies(tdm_plan *plan, const uint8_t *conditions);
/* Marks the copies that a run's updates wrote as up to date with the new version. */
void tdm_plan_note_updated_copies(tdm_plan *plan);
/* Marks the copies that a failed run was to refresh as invalid. */
void tdm_plan_spoil_copies(tdm_plan *plan, const uint8_t *conditions);
/* Fills plan->refreshes, and numbers the nodes' conditions as commands do. The graph must have been
 * through the transfer pass. */
tdm_status tdm_plan_note_refreshes(tdm_plan *plan) TDM_WARN_UNUSED;
/* Returns true if the logs have the windows that the plan was made for, or are to have them. */
bool tdm_plan_is_current(const tdm_plan *plan);
/* Returns true if the plan's updates have room in the logs. The caller must hold the store's
 * lock. */
bool tdm_plan_has_logs(const tdm_plan *plan);

/* Sets plan->touched_bytes; the plan must have been emitted. */
tdm_status tdm_plan_count_touched(tdm_plan *plan) TDM_WARN_UNUSED;
/* Sets plan->traffic and plan->partner; the graph must have been through the transfer pass. */
void tdm_plan_count_transfers(tdm_plan *plan);
/* Fails with UNAVAILABLE if a transfer is pageable, naming the first one. */
tdm_status tdm_plan_refuse_pageable(const tdm_plan *plan) TDM_WARN_UNUSED;

#endif
