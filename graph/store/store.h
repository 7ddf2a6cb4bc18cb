/* The parameter store: entries at their homes, derived copies with their versions, and the
 * admission of runs. Invariants: an entry's memory, shape and home never change after it is bound.
 * Runs that write persistent values hold the store without readers and without other runs except
 * those of the same chain (run/life.h). The thread that ends a run admits the next ones, in the
 * order of requesting. */
#ifndef TANDEM_GRAPH_STORE_STORE_H
#define TANDEM_GRAPH_STORE_STORE_H

#include <pthread.h>

#include "core/map.h"
#include "devices/tensors/tensor.h"
#include "graph/ir/ir.h"
#include "graph/store/initialize.h"

typedef struct tdm_store_entry tdm_store_entry;

/* A copy of an entry on another device. */
typedef struct tdm_store_copy {
  struct tdm_store_copy *next;
  tdm_store_entry *entry;
  tdm_storage *storage;
  uint64_t version; /* TDM_VERSION_NONE: it has no values */
} tdm_store_copy;
#define TDM_VERSION_NONE UINT64_MAX

/* Which rows of a table the latest updates have touched: TDM_LOGGED_VERSIONS + 1 pieces of `window`
 * indices at the table's home. The update from version v writes piece v modulo their number. */
typedef struct tdm_row_log {
  tdm_storage *storage;            /* NULL: there is no log */
  _Atomic uint64_t window;         /* changes while no run is inside; only grows */
  uint64_t since;                  /* every update after that version is logged */
  _Atomic uint64_t planned_window; /* window that plans are made for: that of `larger` if set,
                                    * otherwise `window` */
  tdm_storage *larger;  /* memory that replaces `storage` as soon as no run is inside; NULL: none */
  tdm_storage *retired; /* previous `storage`, kept until the next binding of a log */
} tdm_row_log;

struct tdm_store_entry {
  tdm_store_entry *next; /* next entry in creation order */
  char *name;
  tdm_table_shard shard;       /* the shard, whose table name the entry owns; NULL: not a shard */
  tdm_store_entry *next_shard; /* next one of its table; NULL: it is the last one, or not a shard */
  tdm_spec spec;
  tdm_storage *storage; /* memory of the value; NULL while the only copy is the loaded value in
                         * `pending` */
  tdm_tensor *pending;
  tdm_initializer initializer; /* initializer of the session that bound it first, with its seed */
  uint64_t seed;
  bool is_state;    /* belongs to an optimizer */
  bool is_constant; /* constant of a graph: neither saved nor loaded */
  bool stale;       /* the value was not loaded again after the store broke */
  bool listed;      /* contained in what is being loaded */
  uint64_t version;
  tdm_store_copy *copies;
  tdm_row_log log;
  tdm_store_entry *next_growing; /* next entry in store->growing */
};

/* A session that trains with the store: a link of store->trainers. Under the store's lock. */
typedef struct tdm_store_trainer {
  struct tdm_store_trainer *next; /* next trainer in creation order */
  struct tdm_session *session;
  uint64_t steps; /* number of its completed training steps */
} tdm_store_trainer;

/* A run that requests admission or, if ready is NULL, a request for exclusive access. */
typedef struct tdm_admission {
  struct tdm_admission *next;
  struct tdm_admission *before; /* previous one in the queue of waiting admissions */
  bool waits;
  bool writes; /* writes persistent values; ready may set it */
  /* Writers, or readers, with the same chain may be inside together, in order. NULL: a writer
   * excludes all others, and a reader has no order. */
  const void *chain;
  uint64_t number;             /* position in the order of the context's requests, from 1 */
  struct tdm_admission *ahead; /* nearest earlier admitted run that writes or has a chain */
  struct tdm_admission *behind;
  /* Returns true if a slot is free, and sets `writes`. These three are called under the store's
   * lock and do not block. */
  bool (*ready)(struct tdm_admission *admission);
  void (*admit)(struct tdm_admission *admission);  /* takes the slot */
  void (*settle)(struct tdm_admission *admission); /* releases it: the run has ended */
  void (*start)(struct tdm_admission *admission);  /* called after the lock was released */
} tdm_admission;

struct tdm_store {
  _Atomic uint32_t references;
  tdm_context *context; /* retained */
  const tdm_allocator *allocator;
  pthread_mutex_t lock;
  pthread_cond_t granted; /* exclusive access was granted */
  tdm_map names;
  tdm_map tables;           /* the first shard of each sharded table */
  tdm_store_entry *growing; /* entries whose logs become larger */
  tdm_store_entry *first;
  tdm_store_entry *last;
  _Atomic uint64_t version;
  uint64_t steps; /* completed training steps of all sessions, used by random operations */
  tdm_store_trainer *trainers;
  tdm_status broken;
  char message[TDM_MESSAGE_BYTES];
  uint32_t readers;             /* runs inside that only read, without a chain */
  tdm_admission *first_chained; /* list of all other runs inside, in order */
  tdm_admission *last_chained;
  tdm_admission *exclusive; /* the exclusive user; no run is inside */
  tdm_admission *waiting;
  tdm_admission *waiting_last;
};

/* A binding of a plan's or a session's values in the store (binding.c). Missing ones are created
 * outside of the store and linked at the end. A binding that fails leaves the store unchanged. No
 * binding waits for a run. Single-threaded; it has to be ended on failure too. */
typedef struct tdm_store_binding {
  tdm_store *store;
  tdm_region region;
  tdm_map names;                 /* maps names of new entries to their tdm_fresh_entry */
  struct tdm_fresh_entry *first; /* first new entry in the order of binding */
  struct tdm_fresh_entry *last;
  struct tdm_fresh_copy *copies;
  struct tdm_fresh_log *logs;
  tdm_uploads uploads; /* the first values of new entries */
} tdm_store_binding;

void tdm_store_begin_binding(tdm_store_binding *binding, tdm_store *store);
/* Binds the entry of that name, or creates it on home with initial or loaded values. *slot is the
 * store's entry after the binding has ended; slot and persistent stay valid until then. Fails with
 * INVALID_ARGUMENT, naming the entry, if shape or dtype differ. */
tdm_status tdm_store_bind(tdm_store_binding *binding, const tdm_graph_persistent *persistent,
                          const tdm_spec *spec, tdm_device *home, uint64_t seed,
                          tdm_store_entry **slot) TDM_WARN_UNUSED;
/* Binds the copy on device of an entry that was bound to *slot. If there is none, an empty one is
 * created. */
tdm_status tdm_store_bind_copy(tdm_store_binding *binding, tdm_store_entry *const *slot,
                               tdm_device *device, tdm_store_copy **out_copy) TDM_WARN_UNUSED;
/* Enlarges the log of an entry that was bound to *slot for updates of at most `window` rows: at
 * once, or as soon as no run is inside. */
tdm_status tdm_store_bind_log(tdm_store_binding *binding, tdm_store_entry *const *slot,
                              uint64_t window) TDM_WARN_UNUSED;
/* Ends the binding: waits for the values of all new entries and links everything. Returns status
 * (the result of the binding so far), or the reason of a failure. */
tdm_status tdm_store_end_binding(tdm_store_binding *binding, tdm_status status) TDM_WARN_UNUSED;

/* Adds an entry without memory; under the lock. Returns NULL if memory is short. */
tdm_store_entry *tdm_store_add_entry(tdm_store *store, const char *name, const tdm_spec *spec);
/* Returns the parameter P of a state "optimizer/P/NAME", the longest match if one name is a prefix
 * of another. Returns NULL for other names, and if there is none. Under the lock. */
const tdm_store_entry *tdm_store_parameter_of(const tdm_store *store, const char *name);
/* Fails with INVALID_ARGUMENT, naming both, if spec differs from that of the entry or of its
 * table. */
tdm_status tdm_store_check_fit(const tdm_store_entry *entry, const tdm_spec *spec) TDM_WARN_UNUSED;
tdm_status tdm_store_check_table_fit(const tdm_store_entry *entry,
                                     const tdm_spec *spec) TDM_WARN_UNUSED;
/* Returns the window for new plans, 0 if there is no log. Any thread, without the lock. */
static inline uint64_t tdm_row_log_window(const tdm_store_entry *entry) {
  return atomic_load(&entry->log.planned_window);
}
/* Returns where the update from version stores, or has stored, its rows; entry has a log. */
tdm_address tdm_row_log_piece(const tdm_store_entry *entry, uint64_t version);
/* Returns the size of the entry's log at its home. Any thread, without a lock, even while the log
 * grows. */
uint64_t tdm_row_log_bytes(const tdm_store_entry *entry);
/* Returns how many updates a copy of that version lacks if the log contains the rows of all of
 * them. 0: it lacks none, or they are unknown. */
uint64_t tdm_row_log_reach(const tdm_store_entry *entry, uint64_t version);
/* Allocates a log with that window and without rows. */
tdm_status tdm_row_log_make(tdm_store *store, tdm_device *home, uint64_t window,
                            tdm_storage **out_storage) TDM_WARN_UNUSED;
/* Replaces logs that should become larger if no run is inside. Under the lock. */
void tdm_store_grow_logs(tdm_store *store);
/* Records that the entry's values changed in unknown rows. Under the lock. */
void tdm_store_entry_rewritten(tdm_store_entry *entry);

/* ---- Tables in shards (shards.c): under the lock --------------------------------------------- */

/* Return the name and the spec of the shard's table, or of the entry itself. */
const char *tdm_store_entry_table(const tdm_store_entry *entry);
tdm_spec tdm_store_table_spec(const tdm_store_entry *entry);
/* Returns the first shard of a table, in the order of naming, or NULL if there is none. next_shard
 * links the others. */
tdm_store_entry *tdm_store_first_shard(const tdm_store *store, const char *table);
/* Returns what has that name outside of the store: an entry, or the first shard of a table; NULL:
 * none. */
tdm_store_entry *tdm_store_entry_called(tdm_store *store, const char *name);
/* Returns true if the entry is a shard, and not its table's first. */
static inline bool tdm_store_is_later_shard(const tdm_store_entry *entry) {
  return entry->shard.table && entry->shard.index > 0;
}
/* Returns true if it is not a shard, or the first of a table whose shards all have memory. */
bool tdm_store_stands_for_table(tdm_store *store, const tdm_store_entry *entry);
/* Fails with INVALID_ARGUMENT, naming both, if the store has the table in a different form. */
tdm_status tdm_store_check_shard(tdm_store *store,
                                 const tdm_graph_persistent *wanted) TDM_WARN_UNUSED;
/* Adds a new entry to its table's shards, if it is a shard; the other function undoes that for the
 * last shard of a table. On failure it is not a shard. */
tdm_status tdm_store_name_shard(tdm_store *store, tdm_store_entry *entry,
                                const tdm_table_shard *shard) TDM_WARN_UNUSED;
void tdm_store_unname_shard(tdm_store *store, tdm_store_entry *entry);
/* Returns the offset of the shard's bytes in its table; 0 for an entry that is not a shard. */
size_t tdm_store_shard_offset(const tdm_store_entry *shard);
/* Copy the shard's rows between a tensor of the whole table and its memory. */
tdm_status tdm_store_copy_shard_in(tdm_uploads *uploads, const tdm_tensor *from,
                                   const tdm_store_entry *shard,
                                   const tdm_memory *to) TDM_WARN_UNUSED;
tdm_status tdm_store_copy_shard_out(tdm_store *store, const tdm_store_entry *shard,
                                    const tdm_tensor *to) TDM_WARN_UNUSED;
/* Returns what was loaded for the shard's table before any session used it; NULL: nothing. */
tdm_tensor *tdm_store_pending_table(tdm_store *store, const tdm_store_entry *shard);
/* Releases that after all shards have their rows. */
void tdm_store_drop_pending_table(tdm_store *store, const tdm_store_entry *shard);

/* The part that wrapped modules add to names in other programs' files. */
#define TDM_MODULE_PART "module."
/* Copies name without any "module." at its beginning or after '.' or '/'; plain has room. */
void tdm_store_strip_modules(const char *name, char *plain);
/* An entry to save, and its name. */
typedef struct tdm_saved_entry {
  const tdm_store_entry *entry;
  const char *name;
} tdm_saved_entry;
/* Adds host copies of entries' values to list; the first shard of a table represents all. The
 * caller excludes all runs. In a job all ranks make the same call, and it fails on all if it fails
 * on one. So a caller passes on allocations that failed: saved or list NULL are OUT_OF_MEMORY.
 * reader: the rank that needs them; the lists of other ranks have the values on them. */
enum { TDM_EVERY_RANK = -1 };
tdm_status tdm_store_copy_out(tdm_store *store, const tdm_saved_entry *saved, size_t count,
                              int reader, tdm_tensor_list *list) TDM_WARN_UNUSED;
/* Fills memory with the entry's initial values, at the latest when the uploads run. */
tdm_status tdm_store_initialize(tdm_uploads *uploads, const tdm_store_entry *entry,
                                const tdm_memory *memory) TDM_WARN_UNUSED;
/* Returns false if creating the entry failed half-way. */
bool tdm_store_entry_holds_values(const tdm_store_entry *entry);
/* Like tdm_store_save into a list, and tdm_store_load. The caller excludes all runs. */
tdm_status tdm_store_save_locked(tdm_store *store, bool with_states, int reader,
                                 tdm_tensor_list *list) TDM_WARN_UNUSED;
tdm_status tdm_store_load_locked(tdm_store *store, const tdm_tensor_list *list) TDM_WARN_UNUSED;

/* Add and remove a session that trains; the caller removes it, on any thread, before the session
 * ends. */
void tdm_store_add_trainer(tdm_store *store, tdm_store_trainer *trainer);
void tdm_store_remove_trainer(tdm_store *store, tdm_store_trainer *trainer);

/* In a job, called by all ranks with all runs excluded. Afterwards a store that was broken on one
 * rank is broken on all, with the same parameters and states. Fails with INVALID_ARGUMENT if ranks
 * have different ones. */
tdm_status tdm_store_agree(tdm_store *store) TDM_WARN_UNUSED;

/* Refuses later runs with status until every parameter is loaded again. Under the lock. */
void tdm_store_break(tdm_store *store, tdm_status status, const char *cause);

/* Admits at once and returns true (admit was called, start was not), or queues and returns false.
 * Then start is called later, on the thread that ends another run. */
bool tdm_store_enter(tdm_store *store, tdm_admission *admission);
/* Counts a run that was stopped before it entered, because it may have entered on other ranks. */
void tdm_store_pass_over(tdm_store *store);
/* Ends a run and admits those that can follow, under the lock. The caller has to start the admitted
 * ones after it. */
void tdm_store_end_locked(tdm_store *store, tdm_admission *admission);
tdm_admission *tdm_store_admit_locked(tdm_store *store);
/* Removes a queued admission; false if it was already admitted. Those that can follow are admitted,
 * and the caller has to start them without any lock. */
bool tdm_store_withdraw(tdm_store *store, tdm_admission *admission, tdm_admission **out_admitted);
/* Calls start for each of a list (NULL: none). Within a start on this thread, they are started
 * after it. */
void tdm_store_start(tdm_admission *admitted);
/* Requests exclusive access like a run that writes: waits for earlier requests, and delays later
 * ones. Returns with the lock, and no run inside. place lives until tdm_store_leave_alone, which
 * releases both. Do not call it inside a run of the store. Only such threads allocate memory under
 * the lock. */
void tdm_store_enter_alone(tdm_store *store, tdm_admission *place);
void tdm_store_leave_alone(tdm_store *store);
/* Returns true if this thread has exclusive access. */
bool tdm_store_is_alone(const tdm_store *store);

#endif
