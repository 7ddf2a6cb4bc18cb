/* A session's insides: the frozen graph, its plans, the slots that runs occupy. Invariants: plans
 * are made and looked up under `lock`; a slot's arenas are touched only by the run that holds it;
 * slots are taken and given back under the store's lock. */
#ifndef TANDEM_GRAPH_RUN_SESSION_H
#define TANDEM_GRAPH_RUN_SESSION_H

#include "graph/plan/plan.h"
#include "graph/run/micro_tune.h"
#include "graph/run/run_table.h"

typedef struct tdm_output_pool tdm_output_pool;

typedef struct tdm_slot {
  bool busy;
  tdm_memory *arenas; /* per device of the context; bytes 0: none yet */
  tdm_memory *apart;  /* instead of these with red zones: (apart_count), one a value of a run */
  size_t apart_count;
} tdm_slot;

struct tdm_session {
  _Atomic uint32_t handles;    /* of the program: after the last no step can be begun */
  _Atomic uint32_t references; /* of all handles together, and of each run that was submitted */
  tdm_context *context; /* retained by graph */
  const tdm_allocator *allocator;
  tdm_graph *graph; /* retained, frozen */
  tdm_store *store; /* retained */
  tdm_store_trainer trainer; /* in the store's list if can_train */
  tdm_region region;
  tdm_device_map map;
  tdm_update_groups groups;
  bool can_train;
  uint32_t loss;         /* a value of graph */
  _Atomic uint64_t seed; /* loading sets it beside runs that begin */
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
  pthread_mutex_t rates_lock; /* of these two, which a step takes as they are at one moment */
  double learning_rates[TDM_MAX_UPDATE_GROUPS];
  double momenta[TDM_MAX_UPDATE_GROUPS]; /* negative: the optimizer's */
  pthread_mutex_t lock;
  tdm_prepared_cache *prepared;
  int16_t *kept_devices;    /* per kept value of graph */
  bool averages;            /* parameters are read from their averages */
  tdm_store_entry **bound;  /* per persistent of graph; NULL where no target needs it */
  bool *everywhere;         /* per persistent of graph: all devices are to update it */
  const char *whole_reason; /* why parameters that would be in pieces are whole; NULL: none is */
  tdm_plan *newest;         /* by latest use */
  tdm_plan *oldest;
  tdm_plan *retired; /* evicted while they were used: linked by older, and not found */
  int plan_count;
  tdm_plan *last_asked;      /* what tdm_session_explain shows */
  tdm_feed_spec *feed_specs; /* scratch: per input of graph */
  const tdm_feed **fed;      /* scratch: what the latest request feeds it; NULL: nothing */
  uint64_t *key_words;       /* scratch */
  uint32_t *targets;         /* scratch */
  int16_t *target_devices;   /* scratch: where these are handed out */
  tdm_slot *slots;           /* depth */
  tdm_output_pool *outputs;
  tdm_keeper keeper;  /* of idle outputs and slots */
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

/* A submitted run's reference to its session, and its end; the last one frees the session. */
void tdm_session_hold(tdm_session *session);
void tdm_session_drop(tdm_session *session);

/* These under the session's lock. Finds or makes the plan of a request, and resolves what is fed
 * into session->fed. */
tdm_status tdm_session_find_plan(tdm_session *session, const tdm_run_request *request,
                                 tdm_plan **out_plan) TDM_WARN_UNUSED;
/* What a request's outputs, by their numbers, and its loss are to the planner; in the session's
 * scratch. */
void tdm_session_set_targets(tdm_session *session, const uint64_t *outputs, size_t count,
                             bool training, tdm_plan_request *out_request);
/* Of plans that were evicted while they were used those that are not any more, or all. */
void tdm_session_destroy_retired(tdm_session *session, bool all);
/* One use of the plan is over. */
void tdm_session_leave_plan(tdm_session *session, tdm_plan *plan);
/* The rates of the groups' optimizers, and no momentum in place of theirs. */
void tdm_session_begin_rates(tdm_session *session);
/* Those of every group (TDM_MAX_UPDATE_GROUPS), and its momentum, negative where it is the
 * optimizer's: all of one moment; and sets them. */
void tdm_session_get_rates(tdm_session *session, double *rates, double *momenta);
void tdm_session_put_rates(tdm_session *session, const double *rates, const double *momenta);
/* Frees the arenas of all slots, of which none is busy. */
void tdm_slots_release(tdm_session *session);
/* Frees what no run uses of a device's memory: activations of free slots, outputs that came back.
 * False: there was nothing. Not under the store's lock. As a keeper the session does so wherever
 * the device is full, but for slots while another thread has the store exclusively. */
bool tdm_session_free_idle(tdm_session *session, const tdm_device *device);
void tdm_session_begin_keeping(tdm_session *session);
/* Frees what the slot's last run had of its own, and makes room for count values of the next: with
 * red zones only. By the run that holds the slot. */
tdm_status tdm_slot_part(tdm_session *session, int slot, size_t count) TDM_WARN_UNUSED;

/* What each session that trains has of its own in a checkpoint. */
typedef struct tdm_session_numbers {
  uint64_t step; /* training steps done */
  uint64_t seed;
  double rates[TDM_MAX_UPDATE_GROUPS];
  double momenta[TDM_MAX_UPDATE_GROUPS];
} tdm_session_numbers;

/* Adds the numbers of the session, and those of all others that train with its store, to a list
 * that is saved. Under exclusion from all runs of the store, as the next two. */
tdm_status tdm_session_numbers_save(tdm_session *session, tdm_tensor_list *list) TDM_WARN_UNUSED;
/* Reads the numbers of the session, and of all others that train with its store if the list has
 * them. INVALID_ARGUMENT if a session that trains with the store has none in such a list, or the
 * other way round. out_numbers: (trainers), in the order of store->trainers, in region. */
tdm_status tdm_session_numbers_read(tdm_session *session, const tdm_tensor_list *list,
                                    tdm_region *region, uint64_t *out_store_step,
                                    const tdm_session_numbers ***out_numbers) TDM_WARN_UNUSED;
/* Sets what was read. */
void tdm_session_numbers_apply(tdm_session *session, uint64_t store_step,
                               const tdm_session_numbers *const *numbers);

/* tdm_session_save and tdm_session_state_dict, of which that rank alone of a job needs the list, or
 * TDM_EVERY_RANK; the others' have what lives there. All ranks call them. */
tdm_status tdm_session_save_for(tdm_session *session, int reader,
                                tdm_tensor_list **out_list) TDM_WARN_UNUSED;
tdm_status tdm_session_state_dict_for(tdm_session *session,
                                      const struct tdm_state_dict_options *options, int reader,
                                      tdm_tensor_list **out_list) TDM_WARN_UNUSED;

/* Memory of delivered outputs, kept for the next run when the user lets go of it. */
tdm_status tdm_output_pool_create(tdm_context *context, tdm_output_pool **out_pool) TDM_WARN_UNUSED;
void tdm_output_pool_close(tdm_output_pool *pool); /* frees what is idle; the rest when released */
/* Memory of device; partner: a discrete device that it is copied from, near which it lies; NULL:
 * none. */
tdm_status tdm_output_pool_take(tdm_output_pool *pool, tdm_device *device, tdm_device *partner,
                                size_t bytes, tdm_storage **out_storage) TDM_WARN_UNUSED;
/* Frees what is idle of the device's memory; false: nothing was. */
bool tdm_output_pool_free_idle(tdm_output_pool *pool, const tdm_device *device);

#endif
