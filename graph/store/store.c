/* Entries of the store: finding, making, initial values, derived copies. Invariant: an entry that
 * was bound has memory at its home and holds values. */
#include "graph/store/store.h"

#include <stdio.h>
#include <string.h>

#include "graph/store/initialize.h"

tdm_store *tdm_store_create(tdm_context *context) {
  if (!context) {
    (void)tdm_fail_null("tdm_store_create: the context");
    return NULL;
  }
  if (tdm_context_check(context) != TDM_OK) return NULL;
  const tdm_allocator *allocator = tdm_context_allocator(context);
  tdm_store *store = tdm_allocate(allocator, sizeof *store, "store");
  if (!store) return NULL;
  store->references = 1;
  store->context = tdm_context_retain(context);
  store->allocator = allocator;
  pthread_mutex_init(&store->lock, NULL);
  pthread_cond_init(&store->granted, NULL);
  tdm_map_init(&store->names, allocator);
  tdm_map_init(&store->tables, allocator);
  return store;
}

tdm_store *tdm_store_retain(tdm_store *store) {
  if (store) atomic_fetch_add_explicit(&store->references, 1, memory_order_relaxed);
  return store;
}

static void destroy_copy(const tdm_store *store, tdm_store_copy *copy) {
  tdm_storage_release(copy->storage);
  tdm_release(store->allocator, copy, sizeof *copy);
}

static void destroy_entry(tdm_store *store, tdm_store_entry *entry) {
  for (tdm_store_copy *copy = entry->copies, *next; copy; copy = next) {
    next = copy->next;
    destroy_copy(store, copy);
  }
  tdm_storage_release(entry->storage);
  tdm_storage_release(entry->log.storage);
  tdm_tensor_release(entry->pending);
  tdm_string_release(store->allocator, entry->name);
  tdm_string_release(store->allocator, (char *)entry->shard.table);
  tdm_release(store->allocator, entry, sizeof *entry);
}

void tdm_store_release(tdm_store *store) {
  if (!store || tdm_context_is_inherited(store->context)) return;
  if (atomic_fetch_sub(&store->references, 1) != 1) return;
  for (tdm_store_entry *entry = store->first, *next; entry; entry = next) {
    next = entry->next;
    destroy_entry(store, entry);
  }
  tdm_map_deinit(&store->names);
  tdm_map_deinit(&store->tables);
  pthread_cond_destroy(&store->granted);
  pthread_mutex_destroy(&store->lock);
  tdm_context *context = store->context;
  tdm_release(store->allocator, store, sizeof *store);
  tdm_context_release(context);
}

uint64_t tdm_store_version(const tdm_store *store) {
  return store ? atomic_load(&store->version) : 0;
}

uint64_t tdm_store_step(tdm_store *store) {
  if (!store) return 0;
  if (tdm_context_is_inherited(store->context)) return store->steps;
  pthread_mutex_lock(&store->lock);
  const uint64_t steps = store->steps;
  pthread_mutex_unlock(&store->lock);
  return steps;
}

void tdm_store_add_trainer(tdm_store *store, tdm_store_trainer *trainer) {
  pthread_mutex_lock(&store->lock);
  tdm_store_trainer **last = &store->trainers;
  while (*last)
    last = &(*last)->next;
  *last = trainer;
  pthread_mutex_unlock(&store->lock);
}

void tdm_store_remove_trainer(tdm_store *store, tdm_store_trainer *trainer) {
  pthread_mutex_lock(&store->lock);
  tdm_store_trainer **link = &store->trainers;
  while (*link && *link != trainer)
    link = &(*link)->next;
  if (*link) *link = trainer->next;
  pthread_mutex_unlock(&store->lock);
}

tdm_status tdm_store_status(tdm_store *store) {
  if (!store) return tdm_fail_null("tdm_store_status: the store");
  TDM_TRY(tdm_context_check(store->context));
  pthread_mutex_lock(&store->lock);
  const tdm_status status =
      store->broken == TDM_OK ? TDM_OK : tdm_fail(store->broken, "%s", store->message);
  pthread_mutex_unlock(&store->lock);
  return status;
}

tdm_store_entry *tdm_store_add_entry(tdm_store *store, const char *name, const tdm_spec *spec) {
  tdm_store_entry *entry = tdm_allocate(store->allocator, sizeof *entry, "parameter");
  if (!entry) return NULL;
  entry->spec = *spec;
  entry->name = tdm_string_copy(store->allocator, name);
  if (!entry->name || tdm_map_put(&store->names, entry->name, entry) != TDM_OK) {
    destroy_entry(store, entry);
    return NULL;
  }
  if (store->last)
    store->last->next = entry;
  else
    store->first = entry;
  store->last = entry;
  return entry;
}

const tdm_store_entry *tdm_store_parameter_of(const tdm_store *store, const char *name) {
  static const char begin[] = "optimizer/";
  const tdm_store_entry *found = NULL;
  size_t longest = 0;
  if (strncmp(name, begin, sizeof begin - 1) != 0) return NULL;
  name += sizeof begin - 1;
  for (const tdm_store_entry *entry = store->first; entry; entry = entry->next) {
    const char *own = tdm_store_entry_table(entry);
    const size_t length = strlen(own);
    if (length <= longest || strncmp(name, own, length) != 0 || name[length] != '/') continue;
    found = entry;
    longest = length;
  }
  return found;
}

static tdm_status check_fit(const char *name, const tdm_spec *own, const tdm_spec *spec) {
  if (own->dtype == spec->dtype && tdm_shape_equal(&own->shape, &spec->shape)) return TDM_OK;
  char has[TDM_SHAPE_TEXT];
  char wants[TDM_SHAPE_TEXT];
  return tdm_fail(TDM_INVALID_ARGUMENT, "parameter %s: the store has %s %s, and %s %s was given",
                  name, tdm_dtype_name(own->dtype), tdm_shape_text(&own->shape, has, sizeof has),
                  tdm_dtype_name(spec->dtype), tdm_shape_text(&spec->shape, wants, sizeof wants));
}

tdm_status tdm_store_check_fit(const tdm_store_entry *entry, const tdm_spec *spec) {
  return check_fit(entry->name, &entry->spec, spec);
}

tdm_status tdm_store_check_table_fit(const tdm_store_entry *entry, const tdm_spec *spec) {
  const tdm_spec table = tdm_store_table_spec(entry);
  return check_fit(tdm_store_entry_table(entry), &table, spec);
}

tdm_status tdm_store_initialize(tdm_uploads *uploads, const tdm_store_entry *entry,
                                const tdm_memory *memory) {
  const tdm_initialized initialized = {tdm_store_entry_table(entry), entry->initializer,
                                       entry->seed, entry->shard.first, NULL};
  return tdm_uploads_initialize(uploads, memory, &entry->spec, &initialized);
}

/* ---- First values ---------------------------------------------------------------------------- */

static tdm_tensor *loaded_for(tdm_store *store, const tdm_store_entry *entry) {
  return entry->shard.table ? tdm_store_pending_table(store, entry) : entry->pending;
}

/* Gives an entry its memory, and its first values (constant, unless it is NULL) by the time the
 * uploads have run. A described device has memory to plan with, and no values. */
static tdm_status settle_entry(tdm_store_binding *binding, tdm_store_entry *entry, tdm_device *home,
                               const void *constant) {
  tdm_store *store = binding->store;
  const int64_t bytes = tdm_shape_bytes(&entry->spec.shape, entry->spec.dtype);
  TDM_TRY(tdm_storage_create(store->context, home, NULL, (size_t)bytes, &entry->storage));
  entry->uploading = true;
  if (home->described) return TDM_OK;
  const tdm_memory to = entry->storage->memory;
  const tdm_initialized given = {.name = entry->name, .elements = constant};
  if (constant) return tdm_uploads_initialize(&binding->uploads, &to, &entry->spec, &given);
  const tdm_tensor *loaded = loaded_for(store, entry);
  if (!loaded) return tdm_store_initialize(&binding->uploads, entry, &to);
  const tdm_spec spec = {loaded->dtype, TDM_FORMAT_DENSE, loaded->shape};
  if (entry->shard.table) TDM_TRY(tdm_store_check_table_fit(entry, &spec));
  return tdm_store_copy_shard_in(&binding->uploads, loaded, entry, &to);
}

/* Entries whose values are there keep no loaded ones; those whose values could not be copied are as
 * they were before. */
static void end_uploading(tdm_store *store, bool arrived) {
  for (tdm_store_entry *entry = store->first; entry; entry = entry->next) {
    if (!entry->uploading) continue;
    entry->uploading = false;
    if (!arrived) {
      tdm_storage_release(entry->storage);
      entry->storage = NULL;
      continue;
    }
    tdm_tensor_release(entry->pending);
    entry->pending = NULL;
    if (entry->shard.table) tdm_store_drop_pending_table(store, entry);
  }
}

/* Runs the uploads. */
static tdm_status upload(tdm_store_binding *binding) {
  const tdm_status status = tdm_uploads_run(&binding->uploads);
  end_uploading(binding->store, status == TDM_OK);
  return status;
}

/* Names of shards are those of nothing else: it would have their memory. */
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

static tdm_status bind_locked(tdm_store_binding *binding, const tdm_graph_persistent *persistent,
                              const tdm_spec *spec, tdm_device *home, uint64_t seed,
                              tdm_store_entry **out_entry) {
  tdm_store *store = binding->store;
  tdm_store_entry *entry = tdm_map_get(&store->names, persistent->name);
  if (entry) TDM_TRY(check_name(entry, persistent));
  if (entry) TDM_TRY(tdm_store_check_fit(entry, spec));
  if (!entry || !entry->storage) TDM_TRY(tdm_store_check_shard(store, persistent));
  if (!entry) entry = tdm_store_add_entry(store, persistent->name, spec);
  if (!entry) return TDM_OUT_OF_MEMORY;
  if (!entry->storage) {
    TDM_TRY(tdm_store_name_shard(store, entry, &persistent->shard));
    /* What a graph declares itself, such as running statistics, belongs to its model. */
    entry->is_state = persistent->is_state && persistent->origin == UINT32_MAX;
    entry->initializer = persistent->initializer;
    entry->seed = seed;
    entry->is_constant = persistent->data != NULL;
    TDM_TRY(settle_entry(binding, entry, home, persistent->data));
    if (tdm_uploads_are_many(&binding->uploads)) TDM_TRY(upload(binding));
  }
  *out_entry = entry;
  return TDM_OK;
}

static bool has_values(tdm_store *store, const char *name) {
  pthread_mutex_lock(&store->lock);
  const tdm_store_entry *entry = tdm_map_get(&store->names, name);
  const bool found = entry && entry->storage;
  pthread_mutex_unlock(&store->lock);
  return found;
}

/* Values are copied through queues whose workers may want the lock to end a run: not while one is
 * inside. */
static void go_alone(tdm_store_binding *binding) {
  if (binding->alone) return;
  tdm_store_enter_alone(binding->store, &binding->place);
  binding->alone = true;
  binding->uploads.context = binding->store->context;
}

tdm_status tdm_store_bind(tdm_store_binding *binding, const tdm_graph_persistent *persistent,
                          const tdm_spec *spec, tdm_device *home, uint64_t seed,
                          tdm_store_entry **out_entry) {
  tdm_store *store = binding->store;
  if (!binding->alone && !has_values(store, persistent->name)) go_alone(binding);
  if (!binding->alone) pthread_mutex_lock(&store->lock);
  const tdm_status status = bind_locked(binding, persistent, spec, home, seed, out_entry);
  if (!binding->alone) pthread_mutex_unlock(&store->lock);
  return status == TDM_OK ? TDM_OK : tdm_fail_within(status, "parameter %s", persistent->name);
}

tdm_status tdm_store_reserve_log(tdm_store_binding *binding, tdm_store_entry *entry,
                                 uint64_t window) {
  if (atomic_load(&entry->log.window) >= window) return TDM_OK;
  go_alone(binding); /* runs inside have the old one's address */
  return tdm_row_log_grow(binding->store, entry, window);
}

tdm_status tdm_store_end_binding(tdm_store_binding *binding, tdm_status status) {
  if (!binding->alone) return status;
  if (status == TDM_OK) {
    status = upload(binding);
    if (status != TDM_OK) status = tdm_fail_within(status, "first values of parameters");
  } else {
    tdm_uploads_drop(&binding->uploads);
    end_uploading(binding->store, false);
  }
  tdm_store_leave_alone(binding->store);
  binding->alone = false;
  return status;
}

static tdm_store_copy *find_copy(const tdm_store_entry *entry, const tdm_device *device) {
  tdm_store_copy *copy = entry->copies;
  while (copy && copy->storage->memory.device != device)
    copy = copy->next;
  return copy;
}

/* Without the lock: sessions of the store may have to make room. */
static tdm_status make_copy(tdm_store *store, tdm_store_entry *entry, tdm_device *device,
                            tdm_store_copy **out_copy) {
  tdm_store_copy *copy = tdm_allocate(store->allocator, sizeof *copy, "derived copy");
  if (!copy) return TDM_OUT_OF_MEMORY;
  copy->entry = entry;
  copy->version = TDM_VERSION_NONE;
  const tdm_status status = tdm_storage_create(store->context, device, NULL,
                                               entry->storage->memory.bytes, &copy->storage);
  if (status != TDM_OK) {
    tdm_release(store->allocator, copy, sizeof *copy);
    return status;
  }
  *out_copy = copy;
  return TDM_OK;
}

/* Links one that was made, unless another thread was quicker, whose it is then. */
static tdm_store_copy *add_copy(tdm_store *store, tdm_store_copy *made) {
  tdm_store_entry *entry = made->entry;
  pthread_mutex_lock(&store->lock);
  tdm_store_copy *other = find_copy(entry, made->storage->memory.device);
  if (!other) {
    made->next = entry->copies;
    entry->copies = made;
  }
  pthread_mutex_unlock(&store->lock);
  if (!other) return made;
  destroy_copy(store, made);
  return other;
}

tdm_status tdm_store_copy_on(tdm_store *store, tdm_store_entry *entry, tdm_device *device,
                             tdm_store_copy **out_copy) {
  pthread_mutex_lock(&store->lock);
  *out_copy = find_copy(entry, device);
  pthread_mutex_unlock(&store->lock);
  if (*out_copy) return TDM_OK;
  tdm_store_copy *made;
  TDM_TRY(make_copy(store, entry, device, &made));
  *out_copy = add_copy(store, made);
  return TDM_OK;
}
