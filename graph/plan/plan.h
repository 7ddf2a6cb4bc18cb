/* A plan: everything decided about runs of one set of shapes, proven and ready to submit.
 * Invariant: immutable once made, but for its bookkeeping, which the session's lock guards. */
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

/* What tells plans apart, as words: training, the fetches, and per input whether it is fed, its
 * device and its shape. */
typedef struct tdm_plan_key {
  uint64_t *words;
  size_t count;
  uint64_t hash;
} tdm_plan_key;

/* Which operand base belongs to what: arenas first, then inputs, deliveries, persistents and
 * derived copies and logs, in the order of the concrete graph. */
typedef struct tdm_base_layout {
  uint32_t arenas;
  uint32_t inputs;
  uint32_t deliveries;
  uint32_t persistents;
  uint32_t deriveds;
  uint32_t logs;
  uint32_t count;
} tdm_base_layout;

/* How long a pass took, kernels' preparation excluded. */
typedef struct tdm_pass_time {
  uint64_t ns;
  bool applied; /* to the plan's request; false: it did not run */
} tdm_pass_time;

/* How a plan brings a derived copy up to date. */
typedef struct tdm_copy_refresh {
  uint32_t ages; /* as many updates may be made up for by their rows; 0: only the whole is copied */
  uint32_t from; /* 1 + the derived copy that the whole is copied from; 0: from the home */
  bool updated;  /* the plan's updates write it too: it is copied only where another run wrote */
  bool passes;   /* only other copies are made from it: it is copied where one of them is */
  bool usual;    /* a run that finds one update behind it copies the whole */
} tdm_copy_refresh;

typedef struct tdm_condition_traffic {
  uint64_t transfers;
  uint64_t bytes;
} tdm_condition_traffic;

/* What crosses between one rank and the others. */
typedef struct tdm_network_traffic {
  uint64_t sent_messages;
  uint64_t sent_bytes;
  uint64_t received_messages;
  uint64_t received_bytes;
  uint64_t reduced_sums; /* all-reduces by hosts; how their bytes travel is the engine's */
  uint64_t reduced_bytes;
  uint64_t device_sums; /* all-reduces that devices of this rank take part in themselves */
  uint64_t device_bytes;
  uint64_t exchanges; /* sent or received by devices of this rank themselves */
  uint64_t exchanged_bytes;
} tdm_network_traffic;

typedef struct tdm_plan {
  struct tdm_plan *newer; /* in the session's list, by latest use */
  struct tdm_plan *older;
  tdm_plan_key key;
  uint32_t uses; /* runs that hold it: not evicted */
  bool training;
  tdm_graph graph; /* concrete, after the passes */
  tdm_lowered lowered;
  tdm_region region;     /* programs, commands, lists below */
  tdm_program *programs; /* the main phase's, the early ones first, then the update phase's */
  uint32_t program_count;
  uint32_t early_program_count; /* fewer: what a run may submit under the run ahead of it */
  uint32_t main_program_count;  /* all of them unless two_phase */
  uint32_t command_count;       /* ids of commands: one a step, and the ranks' vote */
  uint64_t digest;              /* of several ranks: of the graph, the same on all */
  const char *head;             /* the same: what the plan as a whole goes by */
  bool agreed;                  /* all ranks have the same plan; true where there is one */
  tdm_group **groups;           /* (group_count): of devices that sum, in the order of their sums */
  size_t group_count;
  tdm_network_traffic network; /* what this rank sends and receives in a run */
  tdm_base_layout layout;
  tdm_device **arena_devices; /* per arena */
  tdm_device *partner;   /* the discrete device that host memory of the plan lies near; or NULL */
  _Atomic bool unpinned; /* staging was refused: what should be pinned is pageable */
  size_t delivery_count; /* of each rank: the targets, then what is observed */
  struct tdm_micro_tuning *tuning; /* runs tell it what they took; NULL: none */
  size_t micro_asked;              /* parts that the batch was to be cut into */
  size_t micro_count;              /* parts that the batch is cut into; 1: it is not */
  size_t target_count;             /* the loss of a training plan is the last of them */
  uint32_t *observed;              /* nodes that made the deliveries behind the targets */
  tdm_store_entry **entries;       /* per persistent of graph */
  bool *updated;                   /* per persistent: the update phase writes it */
  tdm_address *bases; /* what every run's table starts from: the persistents filled in */
  struct tdm_run_state *idle_runs; /* of earlier runs, to be used again */
  tdm_store_copy **copies;         /* per derived of graph */
  bool *logged;                    /* per persistent: the update phase logs its rows */
  uint64_t *windows;               /* per persistent: its log's window that the plan is made for */
  tdm_copy_refresh *refreshes;     /* per derived of graph */
  uint32_t *row_copies;         /* per row condition of graph: its derived copy; UINT32_MAX: any */
  tdm_condition_traffic *moved; /* per condition: what its copies move between devices */
  uint32_t condition_count;     /* per derived of graph, then per row condition of graph */
  _Atomic uint64_t moved_transfers; /* by the latest run, to refresh */
  _Atomic uint64_t moved_bytes;
  bool writes_persistent; /* has updates, other than of what a sequence keeps */
  bool chained;           /* its runs may be in flight together, as run/life.h says */
  tdm_traffic traffic;
  tdm_common_savings common;  /* by common subexpressions */
  tdm_shard_traffic shards;   /* of tables that are sharded by rows */
  const char *whole_reason;   /* why what would be in pieces is whole; NULL: it is not */
  tdm_collective_choice sums; /* over devices */
  double touched_bytes;       /* of host memory, by one run: what copies find in caches or not */
  uint64_t made_ns;           /* time of the passes, kernels' prepare apart */
  tdm_pass_time *pass_times;  /* of tdm_passes */
  tdm_profile profile;        /* by command id, where the session profiles */
  bool records;               /* runs record the times of their commands */
  _Atomic uint32_t kept_runs; /* of which the session keeps a timeline: not evicted */
} tdm_plan;

typedef struct tdm_plan_request {
  const tdm_graph *source;
  const tdm_feed_spec *feeds;
  const uint32_t *targets;       /* values of source to deliver; the loss last when training */
  const int16_t *target_devices; /* that they are handed out on, or TDM_NO_DEVICE: where made */
  size_t target_count;
  const tdm_training *training; /* its loss is a value of source; NULL: evaluation */
  tdm_device_map *map;
  tdm_store *store;
  tdm_store_entry *const *bound; /* per persistent of source: its entry */
  const bool *everywhere;        /* per persistent of source: all devices are to update it */
  const char *whole_reason;      /* why what would be in pieces is whole; NULL: it is not */
  tdm_prepared_cache *cache;
  uint32_t depth;
  bool profile;
  bool record;   /* times of commands, also without a profile */
  bool observe;  /* places that are observed are delivered */
  bool strict;   /* pageable transfers are errors */
  bool unfused;  /* elementwise nodes stay by themselves */
  bool unmerged; /* nodes that compute the same stay */
  tdm_collective collective;
  tdm_micro_batching batching;
  struct tdm_micro_tuning *tuning; /* that chose their number; NULL: it is given */
  uint64_t seed;
  bool deterministic;
  /* Called after each pass with its name; may be NULL. */
  void (*after_pass)(void *user, const char *pass, const struct tdm_plan *plan);
  void *user;
} tdm_plan_request;

/* Returns the i-th value that this rank delivers. */
static inline uint32_t tdm_plan_delivery(const tdm_plan *plan, size_t i) {
  const bool of_all_ranks = plan->graph.deliveries.count > plan->delivery_count;
  const size_t rank = of_all_ranks ? (size_t)tdm_context_rank(plan->graph.context) : 0;
  return plan->graph.deliveries.items[rank * plan->delivery_count + i].value;
}

/* A pass. It reports a failure as its status, or as that of the graph (tdm_graph_status); either
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

/* Makes the programs of a scheduled, placed graph. */
tdm_status tdm_pass_emit(tdm_plan *plan) TDM_WARN_UNUSED;

/* Returns how many rows an update of the plan logs: at least 1, as an update of none is logged. */
static inline uint64_t tdm_plan_logged_rows(const tdm_plan *plan, const tdm_graph_log *log) {
  const int64_t rows = tdm_ir_value_at(&plan->graph, log->value)->spec.shape.dims[0];
  return rows > 0 ? (uint64_t)rows : 1;
}
/* Finds or makes in the store what the plan's runs read and write, and the copies that they
 * refresh (plan_bind.c). */
tdm_status tdm_plan_bind(tdm_plan *plan, const tdm_plan_request *request) TDM_WARN_UNUSED;

/* ---- In a job of several ranks ---- */

/* Fills plan->digest; the graph has been through its passes (plan_agree.c). */
tdm_status tdm_plan_digest(tdm_plan *plan, const tdm_plan_request *request) TDM_WARN_UNUSED;
/* Compares the plan with that of every other rank, all of which call it, before its first run.
 * INVALID_ARGUMENT, naming what differs first and what it is on both ranks. */
tdm_status tdm_plan_agree(tdm_plan *plan) TDM_WARN_UNUSED;
/* The steps of another rank of the plan's job, and their waits, as that rank makes them itself; the
 * caller deinits them, on failure too. */
tdm_status tdm_plan_lower_rank(const tdm_plan *plan, int rank,
                               tdm_lowered *out_lowered) TDM_WARN_UNUSED;
/* Proves that no copy into a bucket is overwritten before it is read; INTERNAL, with names. */
tdm_status tdm_plan_verify_buckets(const tdm_plan *plan) TDM_WARN_UNUSED;
/* Proves that the programs of all ranks fit one another (verify_ranks.h). */
tdm_status tdm_plan_verify_ranks(const tdm_plan *plan) TDM_WARN_UNUSED;

/* ---- Its transfers (plan_transfers.c) ---- */

/* Host memory that a transfer node reads or writes. */
typedef enum tdm_host_memory {
  TDM_HOST_NONE,     /* none, or both sides are the host's */
  TDM_HOST_PINNED,   /* a staging buffer */
  TDM_HOST_STAGED,   /* pageable; the device copies it through staging buffers */
  TDM_HOST_PAGEABLE, /* the driver's own detour */
} tdm_host_memory;
tdm_host_memory tdm_plan_host_memory(const tdm_plan *plan, const tdm_ir_node *node);
const char *tdm_host_memory_name(tdm_host_memory memory); /* "pinned"; of NONE "host memory" */
/* What the link of a transfer node costs, and whether that is modelled or calibrated. */
void tdm_plan_link(const tdm_plan *plan, const tdm_ir_node *node, tdm_link_estimate *out_link);
/* Does a run that finds one update behind it do what the node does? */
bool tdm_plan_is_usual(const tdm_plan *plan, const tdm_ir_node *node);
/* Predicted time of a transfer node in ns, by its link. */
double tdm_plan_predict_ns(const tdm_plan *plan, const tdm_ir_node *node);
/* All under the store's lock. Decides what a run has to refresh, filling conditions
 * (condition_count); true: there is something. follows: a run of the same plan is in its update
 * phase, whose reads and update count as done. */
bool tdm_plan_find_old(const tdm_plan *plan, bool follows, uint8_t *conditions);
/* The run has refreshed those: they are as new as what it read. */
void tdm_plan_note_copies(tdm_plan *plan, const uint8_t *conditions);
/* The run's updates have made a new version of what they write: so they have of these copies. */
void tdm_plan_note_updated_copies(tdm_plan *plan);
/* The run that was to refresh those has failed: they hold nothing. */
void tdm_plan_spoil_copies(tdm_plan *plan, const uint8_t *conditions);
/* Fills what the plan keeps about refreshing, and numbers its nodes' conditions as commands do; its
 * graph has been through the transfer pass. */
tdm_status tdm_plan_note_refreshes(tdm_plan *plan) TDM_WARN_UNUSED;
/* Returns true if the logs have the windows that the plan was made for, or are to have them. */
bool tdm_plan_is_current(const tdm_plan *plan);
/* Under the store's lock: returns true if the plan's updates have room in the logs. */
bool tdm_plan_has_logs(const tdm_plan *plan);

/* Fills plan->touched_bytes; the plan has been emitted. */
tdm_status tdm_plan_count_touched(tdm_plan *plan) TDM_WARN_UNUSED;
/* Fills plan->traffic and plan->partner; the graph has been through the transfer pass. */
void tdm_plan_count_transfers(tdm_plan *plan);
/* UNAVAILABLE, naming the first transfer that is pageable. */
tdm_status tdm_plan_refuse_pageable(const tdm_plan *plan) TDM_WARN_UNUSED;

#endif
