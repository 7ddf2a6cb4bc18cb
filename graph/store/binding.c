/* Creates what plans and sessions need in the store: entries with their first values, derived
 * copies and larger logs. Everything is created outside of the store, without its lock, and linked
 * at once under the lock. Invariants: a binding that fails leaves the store unchanged. No binding
 * waits for a run. */
#include <string.h>

#include "graph/store/store.h"

/* A bound name that the store lacked. */
struct tdm_fresh_entry {
  struct tdm_fresh_entry *next;
  struct tdm_fresh_entry *before;
  const struct tdm_fresh_entry *same; /* the first of that name in the binding; NULL: this one */
  const tdm_graph_persistent *wanted;
  tdm_store_entry **slot;  /* address that receives the entry */
  tdm_store_entry *made;   /* unless `same` is set */
  tdm_tensor *loaded;      /* retained: the source of its values; NULL: initial values */
  tdm_store_entry *linked; /* entry of the store with the memory of `made`; NULL: none yet */
};

struct tdm_fresh_copy {
  struct tdm_fresh_copy *next;
  tdm_store_entry *const *slot;
  tdm_store_copy *made; /* NULL: linked */
  tdm_store_copy **out;
};

struct tdm_fresh_log {
  struct tdm_fresh_log *next;
  tdm_store_entry *const *slot;
  uint64_t window;
  tdm_storage *storage; /* memory of the log; after binding, memory that the store no longer
                         * requires */
  tdm_storage *retired;
};

void tdm_store_begin_binding(tdm_store_binding *binding, tdm_store *store) {
  *binding = (tdm_store_binding){.store = store, .uploads.context = store->context};
  tdm_region_init(&binding->region, store->allocator);
  tdm_map_init(&binding->names, store->allocator);
}

/* ---- Entries --------------------------------------------------------------------------------- */

/* Checks that a shard's name is not used for anything else, which would share its memory. */
static tdm_status check_name(const tdm_store_entry *entry, const tdm_graph_persistent *wanted) {
  if (entry->storage && entry->is_constant != (wanted->data != NULL))
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "a constant of a graph is called so; give the parameter another name");
  const bool is_shard = entry->shard.table != NULL, wants_shard = wanted->shard.table != NULL;
  if (!entry->storage || is_shard == wants_shard) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "rows of %s, which is in shards, are called so; give what else has that name "
                  "another",
                  is_shard ? entry->shard.table : wanted->shard.table);
}

/* Checks under the lock; entry is the store's entry of that name, or NULL. */
static tdm_status check(tdm_store *store, const tdm_graph_persistent *wanted, const tdm_spec *spec,
                        const tdm_store_entry *entry) {
  if (entry) TDM_TRY(check_name(entry, wanted));
  if (entry) TDM_TRY(tdm_store_check_fit(entry, spec));
  return entry && entry->storage ? TDM_OK : tdm_store_check_shard(store, wanted);
}

/* Returns what was loaded for the entry, or for its table, before it was bound. Under the lock. */
static tdm_tensor *find_loaded(const tdm_store *store, const tdm_graph_persistent *wanted) {
  const tdm_store_entry *entry = tdm_map_get(&store->names, tdm_persistent_table(wanted));
  return entry ? entry->pending : NULL;
}

/* Fills the entry with its first values, at the latest when the uploads have run. A described
 * device has memory only for planning, and no values. */
static tdm_status fill(tdm_store_binding *binding, const struct tdm_fresh_entry *fresh) {
  const tdm_store_entry *entry = fresh->made;
  const tdm_memory to = entry->storage->memory;
  const tdm_initialized constant = {.name = entry->name, .elements = fresh->wanted->data};
  if (to.device->described) return TDM_OK;
  if (fresh->wanted->data)
    TDM_TRY(tdm_uploads_initialize(&binding->uploads, &to, &entry->spec, &constant));
  else if (!fresh->loaded)
    TDM_TRY(tdm_store_initialize(&binding->uploads, entry, &to));
  else {
    const tdm_spec spec = {fresh->loaded->dtype, TDM_FORMAT_DENSE, fresh->loaded->shape};
    if (entry->shard.table) TDM_TRY(tdm_store_check_table_fit(entry, &spec));
    TDM_TRY(tdm_store_copy_shard_in(&binding->uploads, fresh->loaded, entry, &to));
  }
  return tdm_uploads_are_many(&binding->uploads) ? tdm_uploads_run(&binding->uploads) : TDM_OK;
}

static tdm_status make_entry(tdm_store_binding *binding, struct tdm_fresh_entry *fresh,
                             const tdm_spec *spec, tdm_device *home, uint64_t seed) {
  tdm_store *store = binding->store;
  const tdm_graph_persistent *wanted = fresh->wanted;
  tdm_store_entry *entry = tdm_allocate(store->allocator, sizeof *entry, "parameter");
  if (!entry) return TDM_OUT_OF_MEMORY;
  fresh->made = entry;
  entry->spec = *spec;
  entry->shard = wanted->shard;
  /* Values that a graph declares itself, such as running statistics, belong to its model. */
  entry->is_state = wanted->is_state && wanted->origin == UINT32_MAX;
  entry->is_constant = wanted->data != NULL;
  entry->initializer = wanted->initializer;
  entry->seed = seed;
  entry->name = tdm_string_copy(store->allocator, wanted->name);
  if (!entry->name) return TDM_OUT_OF_MEMORY;
  TDM_TRY(tdm_map_put(&binding->names, entry->name, fresh));
  const size_t bytes = (size_t)tdm_shape_bytes(&spec->shape, spec->dtype);
  TDM_TRY(tdm_storage_create(store->context, home, NULL, bytes, &entry->storage));
  return fill(binding, fresh);
}

static struct tdm_fresh_entry *add_fresh(tdm_store_binding *binding, tdm_store_entry **slot,
                                         const tdm_graph_persistent *wanted) {
  struct tdm_fresh_entry *fresh = tdm_region_take(&binding->region, sizeof *fresh, "binding");
  if (!fresh) return NULL;
  *fresh = (struct tdm_fresh_entry){.before = binding->last, .slot = slot, .wanted = wanted};
  *(binding->last ? &binding->last->next : &binding->first) = fresh;
  binding->last = fresh;
  return fresh;
}

/* Finds the store's entry of that name, if it has values (*slot), and what was loaded for it. */
static tdm_status find_entry(tdm_store *store, const tdm_graph_persistent *wanted,
                             const tdm_spec *spec, tdm_store_entry **slot,
                             tdm_tensor **out_loaded) {
  (void)pthread_mutex_lock(&store->lock);
  tdm_store_entry *entry = tdm_map_get(&store->names, wanted->name);
  const tdm_status status = check(store, wanted, spec, entry);
  *slot = entry && entry->storage ? entry : NULL;
  *out_loaded = status == TDM_OK && !*slot ? tdm_tensor_retain(find_loaded(store, wanted)) : NULL;
  (void)pthread_mutex_unlock(&store->lock);
  return status;
}

static tdm_status bind(tdm_store_binding *binding, const tdm_graph_persistent *wanted,
                       const tdm_spec *spec, tdm_device *home, uint64_t seed,
                       tdm_store_entry **slot) {
  const struct tdm_fresh_entry *same = tdm_map_get(&binding->names, wanted->name);
  if (same) {
    TDM_TRY(check_name(same->made, wanted));
    TDM_TRY(tdm_store_check_fit(same->made, spec));
    struct tdm_fresh_entry *fresh = add_fresh(binding, slot, wanted);
    if (!fresh) return TDM_OUT_OF_MEMORY;
    fresh->same = same;
    *slot = same->made;
    return TDM_OK;
  }
  tdm_tensor *loaded;
  TDM_TRY(find_entry(binding->store, wanted, spec, slot, &loaded));
  if (*slot) return TDM_OK;
  struct tdm_fresh_entry *fresh = add_fresh(binding, slot, wanted);
  if (!fresh) {
    tdm_tensor_release(loaded);
    return TDM_OUT_OF_MEMORY;
  }
  fresh->loaded = loaded;
  TDM_TRY(make_entry(binding, fresh, spec, home, seed));
  *slot = fresh->made;
  return TDM_OK;
}

tdm_status tdm_store_bind(tdm_store_binding *binding, const tdm_graph_persistent *persistent,
                          const tdm_spec *spec, tdm_device *home, uint64_t seed,
                          tdm_store_entry **slot) {
  const tdm_status status = bind(binding, persistent, spec, home, seed, slot);
  return status == TDM_OK ? TDM_OK : tdm_fail_within(status, "parameter %s", persistent->name);
}

/* ---- Copies and logs ------------------------------------------------------------------------- */

static tdm_store_copy *find_copy(const tdm_store_entry *entry, const tdm_device *device) {
  tdm_store_copy *copy = entry->copies;
  while (copy && copy->storage->memory.device != device)
    copy = copy->next;
  return copy;
}

tdm_status tdm_store_bind_copy(tdm_store_binding *binding, tdm_store_entry *const *slot,
                               tdm_device *device, tdm_store_copy **out_copy) {
  tdm_store *store = binding->store;
  (void)pthread_mutex_lock(&store->lock);
  *out_copy = find_copy(*slot, device);
  (void)pthread_mutex_unlock(&store->lock);
  if (*out_copy) return TDM_OK;
  struct tdm_fresh_copy *fresh = tdm_region_take(&binding->region, sizeof *fresh, "binding");
  tdm_store_copy *copy = tdm_allocate(store->allocator, sizeof *copy, "derived copy");
  if (!fresh || !copy) {
    tdm_release(store->allocator, copy, sizeof *copy);
    return TDM_OUT_OF_MEMORY;
  }
  copy->version = TDM_VERSION_NONE;
  *fresh = (struct tdm_fresh_copy){binding->copies, slot, copy, out_copy};
  binding->copies = fresh;
  *out_copy = copy;
  return tdm_storage_create(store->context, device, NULL, (*slot)->storage->memory.bytes,
                            &copy->storage);
}

tdm_status tdm_store_bind_log(tdm_store_binding *binding, tdm_store_entry *const *slot,
                              uint64_t window) {
  if (tdm_row_log_window(*slot) >= window) return TDM_OK;
  struct tdm_fresh_log *fresh = tdm_region_take(&binding->region, sizeof *fresh, "binding");
  if (!fresh) return TDM_OUT_OF_MEMORY;
  *fresh = (struct tdm_fresh_log){.next = binding->logs, .slot = slot, .window = window};
  binding->logs = fresh;
  return tdm_row_log_make(binding->store, (*slot)->storage->memory.device, window, &fresh->storage);
}

/* ---- Linking: under the lock ----------------------------------------------------------------- */

static void append(tdm_store *store, tdm_store_entry *entry) {
  *(store->last ? &store->last->next : &store->first) = entry;
  store->last = entry;
}

/* Links an entry, or gives its memory to one that only had loaded values. If another thread has
 * linked one first, binds that instead. *out_again: other values were loaded meanwhile. */
static tdm_status link_entry(tdm_store *store, struct tdm_fresh_entry *fresh, bool *out_again) {
  tdm_store_entry *made = fresh->made;
  tdm_store_entry *entry = tdm_map_get(&store->names, made->name);
  TDM_TRY(check(store, fresh->wanted, &made->spec, entry));
  if (entry && entry->storage) {
    *fresh->slot = entry;
    return TDM_OK;
  }
  *out_again = find_loaded(store, fresh->wanted) != fresh->loaded;
  if (*out_again) return TDM_OK;
  if (!entry) {
    TDM_TRY(tdm_map_put(&store->names, made->name, made));
    append(store, made);
    made->shard = (tdm_table_shard){0};
    entry = made;
  }
  fresh->linked = entry;
  TDM_TRY(tdm_store_name_shard(store, entry, &fresh->wanted->shard));
  entry->is_state = made->is_state;
  entry->is_constant = made->is_constant;
  entry->initializer = made->initializer;
  entry->seed = made->seed;
  entry->storage = made->storage;
  *fresh->slot = entry;
  return TDM_OK;
}

static void unlink_entry(tdm_store *store, struct tdm_fresh_entry *fresh) {
  tdm_store_entry *entry = fresh->linked;
  *fresh->slot = fresh->same ? fresh->same->made : fresh->made;
  if (!entry) return;
  fresh->linked = NULL;
  tdm_store_unname_shard(store, entry);
  if (entry != fresh->made) {
    entry->storage = NULL;
    return;
  }
  (void)tdm_map_remove(&store->names, entry->name);
  entry->shard = fresh->wanted->shard;
}

static tdm_status link_entries(tdm_store_binding *binding, bool *out_again) {
  tdm_store *store = binding->store;
  tdm_store_entry *last = store->last;
  tdm_status status = TDM_OK;
  for (struct tdm_fresh_entry *fresh = binding->first; fresh && status == TDM_OK && !*out_again;
       fresh = fresh->next) {
    if (fresh->same)
      *fresh->slot = *fresh->same->slot;
    else
      status = link_entry(store, fresh, out_again);
    if (status != TDM_OK) status = tdm_fail_within(status, "parameter %s", fresh->wanted->name);
  }
  if (status == TDM_OK && !*out_again) return TDM_OK;
  for (struct tdm_fresh_entry *fresh = binding->last; fresh; fresh = fresh->before)
    unlink_entry(store, fresh);
  *(last ? &last->next : &store->first) = NULL;
  store->last = last;
  return status;
}

/* Drops loaded values, which the entry contains now; the binding still retains them. */
static void drop_loaded(tdm_store *store, struct tdm_fresh_entry *fresh) {
  tdm_store_entry *entry = fresh->linked;
  if (!entry) return;
  tdm_tensor_release(entry->pending);
  entry->pending = NULL;
  if (entry->shard.table) tdm_store_drop_pending_table(store, entry);
}

static void link_copy(struct tdm_fresh_copy *fresh) {
  tdm_store_entry *entry = *fresh->slot;
  tdm_store_copy *copy = find_copy(entry, fresh->made->storage->memory.device);
  if (!copy) {
    copy = fresh->made;
    copy->entry = entry;
    copy->next = entry->copies;
    entry->copies = copy;
    fresh->made = NULL;
  }
  *fresh->out = copy;
}

/* Links a log. A first log begins now, because no run inside writes one. A larger one begins when
 * no run with the old one's address is inside. */
static void link_log(tdm_store *store, struct tdm_fresh_log *fresh) {
  tdm_store_entry *entry = *fresh->slot;
  tdm_row_log *log = &entry->log;
  if (tdm_row_log_window(entry) >= fresh->window) return;
  tdm_storage *storage = fresh->storage;
  fresh->storage = log->larger;
  fresh->retired = log->retired;
  log->retired = NULL;
  atomic_store(&log->planned_window, fresh->window);
  if (!log->storage) {
    log->storage = storage;
    log->since = entry->version;
    atomic_store(&log->window, fresh->window);
    return;
  }
  if (!log->larger) {
    entry->next_growing = store->growing;
    store->growing = entry;
  }
  log->larger = storage;
}

static tdm_status link_all(tdm_store_binding *binding, bool *out_again) {
  tdm_store *store = binding->store;
  (void)pthread_mutex_lock(&store->lock);
  const tdm_status status = link_entries(binding, out_again);
  if (status == TDM_OK && !*out_again) {
    for (struct tdm_fresh_entry *fresh = binding->first; fresh; fresh = fresh->next)
      drop_loaded(store, fresh);
    for (struct tdm_fresh_copy *fresh = binding->copies; fresh; fresh = fresh->next)
      link_copy(fresh);
    for (struct tdm_fresh_log *fresh = binding->logs; fresh; fresh = fresh->next)
      link_log(store, fresh);
    tdm_store_grow_logs(store);
  }
  (void)pthread_mutex_unlock(&store->lock);
  return status;
}

/* ---- The end --------------------------------------------------------------------------------- */

/* Fills entries again with values that were loaded meanwhile. */
static tdm_status fill_again(tdm_store_binding *binding) {
  tdm_store *store = binding->store;
  for (struct tdm_fresh_entry *fresh = binding->first; fresh; fresh = fresh->next) {
    if (fresh->same) continue;
    tdm_tensor_release(fresh->loaded);
    (void)pthread_mutex_lock(&store->lock);
    fresh->loaded = tdm_tensor_retain(find_loaded(store, fresh->wanted));
    (void)pthread_mutex_unlock(&store->lock);
    TDM_TRY(fill(binding, fresh));
  }
  return TDM_OK;
}

static tdm_status upload(tdm_store_binding *binding) {
  const tdm_status status = tdm_uploads_run(&binding->uploads);
  return status == TDM_OK ? TDM_OK : tdm_fail_within(status, "first values of parameters");
}

static void release_entry(tdm_store *store, struct tdm_fresh_entry *fresh) {
  tdm_store_entry *made = fresh->made;
  tdm_tensor_release(fresh->loaded);
  if (!made || fresh->linked == made) return;
  if (!fresh->linked) tdm_storage_release(made->storage);
  tdm_string_release(store->allocator, made->name);
  tdm_release(store->allocator, made, sizeof *made);
}

/* Releases what was not linked in the store. */
static void release_rest(tdm_store_binding *binding) {
  tdm_store *store = binding->store;
  tdm_uploads_drop(&binding->uploads);
  for (struct tdm_fresh_copy *fresh = binding->copies; fresh; fresh = fresh->next) {
    if (!fresh->made) continue;
    tdm_storage_release(fresh->made->storage);
    tdm_release(store->allocator, fresh->made, sizeof *fresh->made);
  }
  for (struct tdm_fresh_log *fresh = binding->logs; fresh; fresh = fresh->next) {
    tdm_storage_release(fresh->storage);
    tdm_storage_release(fresh->retired);
  }
  for (struct tdm_fresh_entry *fresh = binding->first; fresh; fresh = fresh->next)
    release_entry(store, fresh);
  tdm_map_deinit(&binding->names);
  tdm_region_deinit(&binding->region);
}

tdm_status tdm_store_end_binding(tdm_store_binding *binding, tdm_status status) {
  bool again = true;
  while (status == TDM_OK && again) {
    again = false;
    status = upload(binding);
    if (status == TDM_OK) status = link_all(binding, &again);
    if (status == TDM_OK && again) status = fill_again(binding);
  }
  release_rest(binding);
  return status;
}
