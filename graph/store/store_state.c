/* Loads a store's state from a list of host tensors. Invariant: a load that does not fit changes
 * nothing. */
#include <stdio.h>
#include <string.h>

#include "devices/network/network.h"
#include "graph/store/store.h"
#include "tandem/graph/sessions.h"

/* ---- Names, with "module." for wrapped modules in other programs' files ---------------------- */

enum { MODULE_LENGTH = sizeof TDM_MODULE_PART - 1 };

static const char *without_leading(const char *name) {
  return strncmp(name, TDM_MODULE_PART, MODULE_LENGTH) == 0 ? name + MODULE_LENGTH : name;
}

void tdm_store_strip_modules(const char *name, char *plain) {
  bool begins = true;
  while (*name) {
    if (begins && without_leading(name) != name) {
      name = without_leading(name);
      continue;
    }
    begins = *name == '.' || *name == '/';
    *plain++ = *name++;
  }
  *plain = 0;
}

tdm_store_entry *tdm_store_entry_called(tdm_store *store, const char *name) {
  tdm_store_entry *entry = tdm_map_get(&store->names, name);
  if (entry && entry->storage) return entry;
  tdm_store_entry *shard = tdm_store_first_shard(store, name);
  return shard && shard->storage ? shard : entry;
}

/* Finds the entry of that name, or else of the name without its leading "module.", or else without
 * any. *entry is NULL if there is none. */
static tdm_status find_entry(tdm_store *store, const char *name, tdm_store_entry **out_entry) {
  *out_entry = tdm_store_entry_called(store, name);
  if (!*out_entry) *out_entry = tdm_store_entry_called(store, without_leading(name));
  if (*out_entry || !strstr(name, TDM_MODULE_PART)) return TDM_OK;
  const size_t bytes = strlen(name) + 1;
  char *plain = tdm_allocate(store->allocator, bytes, "a parameter's name");
  if (!plain) return TDM_OUT_OF_MEMORY;
  tdm_store_strip_modules(name, plain);
  *out_entry = tdm_store_entry_called(store, plain);
  tdm_release(store->allocator, plain, bytes);
  return TDM_OK;
}

/* Adds an entry for a name that no session has used yet, under the name that it will use. */
static tdm_store_entry *add_plain_entry(tdm_store *store, const char *name, const tdm_spec *spec) {
  const size_t bytes = strlen(name) + 1;
  char *plain = tdm_allocate(store->allocator, bytes, "a parameter's name");
  if (!plain) return NULL;
  tdm_store_strip_modules(name, plain);
  tdm_store_entry *entry = tdm_store_add_entry(store, plain, spec);
  tdm_release(store->allocator, plain, bytes);
  return entry;
}

/* ---- Loading --------------------------------------------------------------------------------- */

static bool is_of_checkpoint(const char *name) {
  return strncmp(name, TDM_CHECKPOINT_PREFIX, sizeof TDM_CHECKPOINT_PREFIX - 1) == 0;
}

static tdm_status refuse_twice(const char *name, const char *other) {
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s and %s are both there, and are the same parameter",
                  name, other);
}

/* A name that no session has used yet is stored without any "module.". Fails if the list also
 * contains that name. */
static tdm_status check_plain(tdm_store *store, const tdm_tensor_list *list, const char *name) {
  if (is_of_checkpoint(name) || !strstr(name, TDM_MODULE_PART)) return TDM_OK;
  const size_t bytes = strlen(name) + 1;
  char *plain = tdm_allocate(store->allocator, bytes, "a parameter's name");
  if (!plain) return TDM_OUT_OF_MEMORY;
  tdm_store_strip_modules(name, plain);
  const bool twice = strcmp(name, plain) != 0 && tdm_tensor_list_find(list, plain);
  const tdm_status status = twice ? refuse_twice(name, plain) : TDM_OK;
  tdm_release(store->allocator, plain, bytes);
  return status;
}

/* Also marks the entries that it will set. */
static tdm_status check_list(tdm_store *store, const tdm_tensor_list *list) {
  for (tdm_store_entry *entry = store->first; entry; entry = entry->next)
    entry->listed = false;
  for (size_t i = 0; i < tdm_tensor_list_count(list); i++) {
    tdm_tensor *tensor;
    TDM_TRY(tdm_tensor_list_use(list, i, &tensor));
    tdm_store_entry *entry;
    TDM_TRY(find_entry(store, tdm_tensor_list_name(list, i), &entry));
    const tdm_spec spec = {tensor->dtype, TDM_FORMAT_DENSE, tensor->shape};
    const char *name = tdm_tensor_list_name(list, i);
    if (!entry) {
      TDM_TRY(check_plain(store, list, name));
      continue;
    }
    if (entry->is_constant)
      return tdm_fail(TDM_INVALID_ARGUMENT, "%s is a constant of a graph, and is not loaded", name);
    const char *own = tdm_store_entry_table(entry);
    if (strcmp(name, own) != 0 && tdm_tensor_list_find(list, own)) return refuse_twice(name, own);
    TDM_TRY(tdm_store_check_table_fit(entry, &spec));
    for (; entry; entry = entry->next_shard)
      entry->listed = entry->storage != NULL;
  }
  return TDM_OK;
}

/* Makes a private copy, so that the caller may change or release its own. */
static tdm_tensor *host_copy(tdm_store *store, tdm_tensor *tensor) {
  tdm_tensor *copy = tdm_tensor_create(store->context, "cpu:0", tensor->dtype, tensor->shape);
  if (copy && tdm_tensor_read(tensor, tdm_tensor_data(copy), copy->bytes) != TDM_OK) {
    tdm_tensor_release(copy);
    return NULL;
  }
  return copy;
}

static tdm_status keep_pending(tdm_store *store, const char *name, tdm_tensor *tensor) {
  tdm_store_entry *entry;
  TDM_TRY(find_entry(store, name, &entry));
  const tdm_spec spec = {tensor->dtype, TDM_FORMAT_DENSE, tensor->shape};
  tdm_tensor *copy = host_copy(store, tensor);
  if (!copy) return TDM_OUT_OF_MEMORY;
  if (!entry) entry = add_plain_entry(store, name, &spec);
  if (!entry) {
    tdm_tensor_release(copy);
    return TDM_OUT_OF_MEMORY;
  }
  tdm_tensor_release(entry->pending);
  entry->pending = copy;
  return TDM_OK;
}

static tdm_status set_values(tdm_uploads *uploads, tdm_store_entry *entry,
                             const tdm_tensor *tensor) {
  if (!entry->storage) return TDM_OK; /* creating it failed */
  /* If it belongs to another rank, that rank loads the values. */
  if (!entry->storage->memory.device->described)
    TDM_TRY(tdm_store_copy_shard_in(uploads, tensor, entry, &entry->storage->memory));
  tdm_store_entry_rewritten(entry);
  return TDM_OK;
}

static tdm_status set_entry(tdm_store *store, tdm_uploads *uploads, const char *name,
                            tdm_tensor *tensor) {
  tdm_store_entry *entry;
  TDM_TRY(find_entry(store, name, &entry));
  if (!entry || !entry->storage) return keep_pending(store, name, tensor);
  for (; entry; entry = entry->next_shard)
    TDM_TRY(set_values(uploads, entry, tensor));
  return TDM_OK;
}

/* Runs the uploads if they are many, or if nothing follows. */
static tdm_status upload(tdm_uploads *uploads, bool last) {
  return last || tdm_uploads_are_many(uploads) ? tdm_uploads_run(uploads) : TDM_OK;
}

static tdm_status restart_all_states(tdm_store *store, tdm_uploads *uploads) {
  for (tdm_store_entry *entry = store->first; entry; entry = entry->next) {
    if (!entry->stale || !entry->is_state) continue;
    if (!entry->storage->memory.device->described)
      TDM_TRY(tdm_store_initialize(uploads, entry, &entry->storage->memory));
    TDM_TRY(upload(uploads, false));
  }
  return upload(uploads, true);
}

/* States that are missing in the list start again, together with parameters of a broken store. */
static tdm_status restart_states(tdm_store *store) {
  tdm_uploads uploads = {.context = store->context};
  const tdm_status status = restart_all_states(store, &uploads);
  tdm_uploads_drop(&uploads);
  if (status != TDM_OK) return status;
  for (tdm_store_entry *entry = store->first; entry; entry = entry->next) {
    if (!entry->stale || !entry->is_state) continue;
    entry->stale = false;
    tdm_store_entry_rewritten(entry);
  }
  return TDM_OK;
}

void tdm_store_break(tdm_store *store, tdm_status status, const char *cause) {
  if (store->broken != TDM_OK) return;
  store->broken = status;
  (void)snprintf(store->message, sizeof store->message,
                 "the store is broken until its parameters are loaded again: %s", cause);
}

static tdm_status set_listed(tdm_store *store, tdm_uploads *uploads, const tdm_tensor_list *list) {
  for (size_t i = 0; i < tdm_tensor_list_count(list); i++) {
    const char *name = tdm_tensor_list_name(list, i);
    if (is_of_checkpoint(name)) continue;
    tdm_status status = set_entry(store, uploads, name, tdm_tensor_list_tensor(list, i));
    if (status == TDM_OK) status = upload(uploads, false);
    if (status != TDM_OK) return tdm_fail_within(status, "loading %s", name);
  }
  return upload(uploads, true);
}

static tdm_status set_all(tdm_store *store, const tdm_tensor_list *list) {
  tdm_uploads uploads = {.context = store->context};
  const tdm_status status = set_listed(store, &uploads, list);
  tdm_uploads_drop(&uploads);
  return status;
}

/* After a partial load, some entries have the list's values and some have not: all of them have to
 * be loaded again. */
static void note_set(tdm_store *store, bool whole) {
  for (tdm_store_entry *entry = store->first; entry; entry = entry->next)
    if (entry->listed) entry->stale = !whole;
}

/* Repairs a broken store when none of its entries is stale. */
static tdm_status mend(tdm_store *store) {
  for (const tdm_store_entry *entry = store->first; entry; entry = entry->next)
    /* some value is still stale, so the store stays broken */
    if (entry->stale && !entry->is_state) return TDM_OK;
  TDM_TRY(restart_states(store));
  store->broken = TDM_OK;
  store->steps = 0;
  for (tdm_store_trainer *trainer = store->trainers; trainer; trainer = trainer->next)
    trainer->steps = 0;
  return TDM_OK;
}

/* In a job ranks agree that the list fits on all, on what is broken, and that all have set it. */
tdm_status tdm_store_load_locked(tdm_store *store, const tdm_tensor_list *list) {
  TDM_TRY(tdm_context_agree(store->context, check_list(store, list)));
  TDM_TRY(tdm_store_agree(store));
  const tdm_status set = tdm_context_agree(store->context, set_all(store, list));
  note_set(store, set == TDM_OK);
  if (set != TDM_OK) {
    tdm_store_break(store, set, "loading parameters failed half-way");
    return set;
  }
  atomic_fetch_add(&store->version, 1);
  return store->broken == TDM_OK ? TDM_OK : mend(store);
}

tdm_status tdm_store_load(tdm_store *store, const tdm_tensor_list *list) {
  if (!store || !list) return tdm_fail(TDM_INVALID_ARGUMENT, "tdm_store_load: no store or no list");
  TDM_TRY(tdm_context_check(store->context));
  tdm_admission place;
  tdm_store_enter_alone(store, &place);
  tdm_network *network = tdm_context_network(store->context);
  const char *before = tdm_network_intend(network, "load parameters");
  const tdm_status status = tdm_store_load_locked(store, list);
  (void)tdm_network_intend(network, before);
  tdm_store_leave_alone(store);
  return status;
}
