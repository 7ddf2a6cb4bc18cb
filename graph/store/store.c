/* Entries of the store. Invariant: an entry that was bound (binding.c) has memory at its home and
 * holds values. */
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
  (void)pthread_mutex_init(&store->lock, NULL);
  (void)pthread_cond_init(&store->granted, NULL);
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
  tdm_storage_release(entry->log.larger);
  tdm_storage_release(entry->log.retired);
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
  (void)pthread_cond_destroy(&store->granted);
  (void)pthread_mutex_destroy(&store->lock);
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
  (void)pthread_mutex_lock(&store->lock);
  const uint64_t steps = store->steps;
  (void)pthread_mutex_unlock(&store->lock);
  return steps;
}

void tdm_store_add_trainer(tdm_store *store, tdm_store_trainer *trainer) {
  (void)pthread_mutex_lock(&store->lock);
  tdm_store_trainer **last = &store->trainers;
  while (*last)
    last = &(*last)->next;
  *last = trainer;
  (void)pthread_mutex_unlock(&store->lock);
}

void tdm_store_remove_trainer(tdm_store *store, tdm_store_trainer *trainer) {
  (void)pthread_mutex_lock(&store->lock);
  tdm_store_trainer **link = &store->trainers;
  while (*link && *link != trainer)
    link = &(*link)->next;
  if (*link) *link = trainer->next;
  (void)pthread_mutex_unlock(&store->lock);
}

tdm_status tdm_store_status(tdm_store *store) {
  if (!store) return tdm_fail_null("tdm_store_status: the store");
  TDM_TRY(tdm_context_check(store->context));
  (void)pthread_mutex_lock(&store->lock);
  const tdm_status status =
      store->broken == TDM_OK ? TDM_OK : tdm_fail(store->broken, "%s", store->message);
  (void)pthread_mutex_unlock(&store->lock);
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
