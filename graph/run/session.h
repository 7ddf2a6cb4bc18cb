/* A session's internals: the frozen graph, its plans, the slots of runs. Invariants: plans are
 * created and looked up under `lock`. A slot's arenas are accessed only by the run that holds it.
 * Slots are taken and released under the store's lock. */
#ifndef TANDEM_GRAPH_RUN_SESSION_H
#define TANDEM_GRAPH_RUN_SESSION_H

#include "graph/plan/plan.h"
#include "graph/run/micro_tune.h"
#include "graph/run/run_table.h"

typedef struct tdm_output_pool tdm_output_pool;

/* A request whose names are resolved. */
typedef struct tdm_resolved_run {
  const tdm_feed **feeds;  /* per input of the graph: what it is fed; NULL: nothing */
  tdm_feed_spec *specs;    /* per input of the graph */
  uint32_t *targets;       /* (target_count) values to deliver; in training the loss is last */
  int16_t *target_devices; /* (target_count) as tdm_plan_request.target_devices */
  size_t target_count;
  bool training;
  tdm_plan_key key;
} tdm_resolved_run;

typedef struct tdm_slot {
  bool busy;
  tdm_memory *arenas; /* arena of each device of the context; bytes 0: not allocated yet */
  tdm_memory *apart;  /* used instead with red zones: (apart_count), one per value of a run */
  size_t apart_count;
} tdm_slot;

struct tdm_session {
  _Atomic uint32_t
      handles; /* handles that the program holds; after the last is released, no step can begin */
  _Atomic uint32_t references; /* one for all handles together, and one for each submitted run */
  tdm_context *context;        /* retained by graph */
  const tdm_allocator *allocator;
  tdm_graph *graph;          /* retained, frozen */
  tdm_store *store;          /* retained */
  tdm_store_trainer trainer; /* entry in the store's list, if can_train */
  tdm_region region;
  tdm_device_map map;
  tdm_update_groups groups;
  bool can_train;
  uint32_t loss;         /* a value of graph */
  _Atomic uint64_t seed; /* loading sets it concurrently with runs that begin */
  int depth;
  int plan_limit;
  bool profile;
  int trace_runs;
  struct tdm_trace *trace; /* NULL where trace_runs is 0 */
  tdm_observer observer;
  void *observer_user;
  bool strict;
  bool unfused;
  bool unmerged;
  tdm_collective collective;
  int alike_ranks;
  tdm_micro_batching batching;
  bool tunes; /* the number of micro-batches is chosen by measuring */
  tdm_micro_tuner tuner;
  bool check_finite;
  bool deterministic;
  pthread_mutex_t rates_lock; /* protects these two, of which a step copies a consistent state */
  double learning_rates[TDM_MAX_UPDATE_GROUPS];
  double momenta[TDM_MAX_UPDATE_GROUPS]; /* negative: use the optimizer's */
  pthread_mutex_t lock;
  tdm_prepared_cache *prepared;
  int16_t *kept_devices;    /* per kept value of graph */
  bool averages;            /* parameters are replaced by their averages */
  tdm_store_entry **bound;  /* per persistent of graph; NULL if no target uses it */
  bool *everywhere;         /* per persistent of graph: all devices have to update it */
  const char *whole_reason; /* why parameters that should be in pieces are whole; NULL: none is */
  tdm_plan *newest;         /* list ordered by latest use */
  tdm_plan *oldest;
  tdm_plan *retired; /* evicted while in use: linked by older, and not found by look-ups */
  int plan_count;
  tdm_plan *last_asked;  /* the plan for tdm_session_explain */
  tdm_resolved_run room; /* arrays of the request that is being resolved */
  tdm_slot *slots;       /* (depth) */
  tdm_output_pool *outputs;
  tdm_keeper keeper;  /* releases idle outputs and slots */
  tdm_run_table runs; /* submitted and not delivered */
  void (*writable)(void *user);
  void *writable_user;
};

typedef struct tdm_run_request {
  const tdm_feed *feeds;
  size_t feed_count;
  const tdm_fetch *fetches;
  size_t fetch_count;
  bool training;
  struct tdm_sequence *sequence; /* NULL: none */
} tdm_run_request;

/* Adds and releases a submitted run's reference to its session; the last reference frees the
 * session. */
void tdm_session_hold(tdm_session *session);
void tdm_session_drop(tdm_session *session);

/* The following functions are called under the session's lock. Resolves the names of a request. The
 * arrays of the result are valid until the next call, of this function or of the next. */
tdm_status tdm_session_resolve(tdm_session *session, const tdm_run_request *request,
                               tdm_resolved_run *out_resolved) TDM_WARN_UNUSED;
/* Resolves the request that a plan was made for, except what inputs are fed. */
void tdm_session_resolve_plan(const tdm_session *session, const tdm_plan *plan,
                              tdm_resolved_run *out_resolved);
/* Returns the request for tdm_plan_create. It refers to the resolved run and to training, which the
 * function fills. */
tdm_plan_request tdm_session_plan_request(tdm_session *session, const tdm_resolved_run *resolved,
                                          tdm_training *training);
/* Finds or creates the plan of a resolved run. */
tdm_status tdm_session_find_plan(tdm_session *session, const tdm_resolved_run *resolved,
                                 tdm_plan **out_plan) TDM_WARN_UNUSED;
/* Frees plans that were evicted while in use and are unused now, or all of them. */
void tdm_session_destroy_retired(tdm_session *session, bool all);
/* Ends one use of the plan. */
void tdm_session_leave_plan(tdm_session *session, tdm_plan *plan);
/* Initializes the rates of the groups from their optimizers, and no replacement of their
 * momenta. */
void tdm_session_begin_rates(tdm_session *session);
/* Get, and set, the rates of every group (TDM_MAX_UPDATE_GROUPS) and its momentum, negative for the
 * optimizer's: a consistent state. */
void tdm_session_get_rates(tdm_session *session, double *rates, double *momenta);
void tdm_session_put_rates(tdm_session *session, const double *rates, const double *momenta);
/* Frees the arenas of all slots, none of which is busy. */
void tdm_slots_release(tdm_session *session);
/* Frees memory of a device that no run uses: activations of free slots, and returned outputs.
 * Returns false if there was none. Not under the store's lock. As a keeper the session does so when
 * the device is full, except for slots while another thread has exclusive access to the store. */
bool tdm_session_free_idle(tdm_session *session, const tdm_device *device);
void tdm_session_begin_keeping(tdm_session *session);
/* Used only with red zones: frees what the slot's last run had, and allocates for count values of
 * the next. Called by the run that holds the slot. */
tdm_status tdm_slot_part(tdm_session *session, int slot, size_t count) TDM_WARN_UNUSED;

/* A session's own numbers in a checkpoint. */
typedef struct tdm_session_numbers {
  uint64_t step; /* training steps done */
  uint64_t seed;
  double rates[TDM_MAX_UPDATE_GROUPS];
  double momenta[TDM_MAX_UPDATE_GROUPS];
} tdm_session_numbers;

/* Adds the numbers of the session, and those of all others that train with its store, to a list to
 * save. This and the next two are called with all runs of the store excluded. */
tdm_status tdm_session_numbers_save(tdm_session *session, tdm_tensor_list *list) TDM_WARN_UNUSED;
/* Reads the numbers of the session and, if the list has them, of all others that train with its
 * store. Fails with INVALID_ARGUMENT if a session that trains with the store is missing in such a
 * list, or the other way round. out_numbers: (trainers), in the order of store->trainers, in
 * region. */
tdm_status tdm_session_numbers_read(tdm_session *session, const tdm_tensor_list *list,
                                    tdm_region *region, uint64_t *out_store_step,
                                    const tdm_session_numbers ***out_numbers) TDM_WARN_UNUSED;
/* Sets what was read. */
void tdm_session_numbers_apply(tdm_session *session, uint64_t store_step,
                               const tdm_session_numbers *const *numbers);

/* Like tdm_session_save and tdm_session_state_dict, if only the rank `reader` of a job needs the
 * list, or TDM_EVERY_RANK; the lists of other ranks have the values on them. All ranks call
 * them. */
tdm_status tdm_session_save_for(tdm_session *session, int reader,
                                tdm_tensor_list **out_list) TDM_WARN_UNUSED;
tdm_status tdm_session_state_dict_for(tdm_session *session,
                                      const struct tdm_state_dict_options *options, int reader,
                                      tdm_tensor_list **out_list) TDM_WARN_UNUSED;

/* Memory of delivered outputs, reused by the next run after the user has released it. */
tdm_status tdm_output_pool_create(tdm_context *context, tdm_output_pool **out_pool) TDM_WARN_UNUSED;
void tdm_output_pool_close(tdm_output_pool *pool); /* frees idle memory */
/* Takes memory of device. partner: a discrete device that is copied from, near which the memory is
 * allocated; NULL: none. */
tdm_status tdm_output_pool_take(tdm_output_pool *pool, tdm_device *device, tdm_device *partner,
                                size_t bytes, tdm_storage **out_storage) TDM_WARN_UNUSED;
/* Frees idle memory of the device. Returns false if there was none. */
bool tdm_output_pool_free_idle(tdm_output_pool *pool, const tdm_device *device);

#endif
