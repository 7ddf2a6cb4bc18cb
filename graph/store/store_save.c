/* Saves a store's state as a list of host tensors. In a job of several ranks all ranks save, each
 * sends the values on its devices, and readers receive them. Invariant: ranks exchange the same
 * amounts whatever fails, and all return the same status. */
#include <string.h>

#include "core/hash.h"
#include "devices/network/network.h"
#include "graph/store/store.h"
#include "tandem/graph/sessions.h"

bool tdm_store_entry_holds_values(const tdm_store_entry *entry) {
  return entry->storage || entry->pending;
}

/* Returns the rank of an entry's values; pending values are on each rank. */
static int home_of(const tdm_store *store, const tdm_store_entry *entry) {
  return entry->pending ? tdm_context_rank(store->context) : entry->storage->memory.device->rank;
}

/* Returns true if it, or one of its table's shards, is on this rank. */
static bool has_own(tdm_store *store, const tdm_store_entry *entry) {
  for (; entry; entry = entry->next_shard)
    if (home_of(store, entry) == tdm_context_rank(store->context)) return true;
  return false;
}

/* ---- Values on this rank --------------------------------------------------------------------- */

static bool is_read_here(const tdm_store *store, int reader) {
  return reader == TDM_EVERY_RANK || reader == tdm_context_rank(store->context);
}

/* Adds the entry's values, or memory for those of another rank. */
static tdm_status add_entry(tdm_store *store, const tdm_saved_entry *saved, tdm_tensor_list *list) {
  const tdm_store_entry *entry = saved->entry;
  if (entry->pending) return tdm_tensor_list_add(list, saved->name, entry->pending);
  const tdm_spec spec = tdm_store_table_spec(entry);
  tdm_tensor *tensor = tdm_tensor_create(store->context, "cpu:0", spec.dtype, spec.shape);
  if (!tensor) return TDM_OUT_OF_MEMORY;
  tdm_status status = TDM_OK;
  for (; entry && status == TDM_OK; entry = entry->next_shard)
    if (home_of(store, entry) == tdm_context_rank(store->context))
      status = tdm_store_copy_shard_out(store, entry, tensor);
  if (status == TDM_OK) status = tdm_tensor_list_add(list, saved->name, tensor);
  tdm_tensor_release(tensor);
  return status;
}

static tdm_status add_entries(tdm_store *store, const tdm_saved_entry *saved, size_t count,
                              int reader, tdm_tensor_list *list) {
  if (!saved || !list) return TDM_OUT_OF_MEMORY; /* the caller has set the message */
  if (store->broken != TDM_OK) return tdm_fail(store->broken, "%s", store->message);
  for (size_t i = 0; i < count; i++) {
    if (has_own(store, saved[i].entry) || is_read_here(store, reader))
      TDM_TRY(add_entry(store, &saved[i], list));
  }
  return TDM_OK;
}

/* ---- Over ranks ------------------------------------------------------------------------------ */

/* Hashes everything that determines what ranks send each other. */
static uint64_t digest_of(tdm_store *store, const tdm_saved_entry *saved, size_t count) {
  uint64_t digest = count;
  for (size_t i = 0; i < count; i++) {
    const tdm_store_entry *entry = saved[i].entry;
    for (; entry; entry = entry->next_shard) {
      const int home = entry->pending ? TDM_EVERY_RANK : home_of(store, entry);
      const int64_t bytes = tdm_shape_bytes(&entry->spec.shape, entry->spec.dtype);
      digest = tdm_hash_string(saved[i].name, tdm_hash_mix(digest, (uint64_t)home));
      digest = tdm_hash_mix(digest, (uint64_t)bytes);
    }
  }
  return digest;
}

static tdm_status compare(tdm_store *store, uint64_t digest) {
  tdm_network *network = tdm_context_network(store->context);
  const size_t ranks = (size_t)tdm_context_rank_count(store->context);
  uint64_t *all = tdm_allocate(store->allocator, ranks * sizeof *all, "what ranks save");
  tdm_status status = tdm_network_agree(network, all ? TDM_OK : TDM_OUT_OF_MEMORY);
  if (status == TDM_OK) status = tdm_network_gather(network, &digest, sizeof digest, all);
  for (size_t r = 1; r < ranks && status == TDM_OK; r++)
    if (all[r] != all[0])
      status = tdm_fail(TDM_INVALID_ARGUMENT,
                        "rank %zu saves other parameters than rank 0: all ranks save the same", r);
  tdm_release(store->allocator, all, ranks * sizeof *all);
  return status;
}

/* Copies the values of other ranks to their readers. */
static tdm_status bring(tdm_store *store, const tdm_saved_entry *saved, size_t count, int reader,
                        const tdm_tensor_list *list) {
  for (size_t i = 0; i < count; i++) {
    const tdm_store_entry *entry = saved[i].entry;
    if (entry->pending) continue;
    const tdm_tensor *tensor = tdm_tensor_list_find(list, saved[i].name);
    char *values = tensor ? (char *)tdm_tensor_address(tensor) : NULL;
    for (; entry; entry = entry->next_shard) {
      char *part = values ? values + tdm_store_shard_offset(entry) : NULL;
      const size_t bytes = (size_t)tdm_shape_bytes(&entry->spec.shape, entry->spec.dtype);
      TDM_TRY(tdm_network_pass(tdm_context_network(store->context), home_of(store, entry), reader,
                               part, bytes));
    }
  }
  return TDM_OK;
}

tdm_status tdm_store_copy_out(tdm_store *store, const tdm_saved_entry *saved, size_t count,
                              int reader, tdm_tensor_list *list) {
  const tdm_status own = add_entries(store, saved, count, reader, list);
  tdm_network *network = tdm_context_network(store->context);
  if (!network) return own;
  TDM_TRY(tdm_network_agree(network, own));
  TDM_TRY(compare(store, digest_of(store, saved, count)));
  return bring(store, saved, count, reader, list);
}

/* ---- The whole store ------------------------------------------------------------------------- */

/* For a value that was only loaded, no session has declared whether it is a state. */
static bool is_state(const tdm_store *store, const tdm_store_entry *entry) {
  return entry->storage ? entry->is_state : tdm_store_parameter_of(store, entry->name) != NULL;
}

tdm_status tdm_store_save_locked(tdm_store *store, bool with_states, int reader,
                                 tdm_tensor_list *list) {
  size_t capacity = 1, count = 0;
  for (const tdm_store_entry *entry = store->first; entry; entry = entry->next)
    capacity++;
  tdm_saved_entry *saved =
      tdm_allocate(store->allocator, capacity * sizeof *saved, "names of parameters");
  for (const tdm_store_entry *entry = store->first; saved && entry; entry = entry->next)
    if (!entry->is_constant && tdm_store_entry_holds_values(entry) &&
        (with_states || !is_state(store, entry)) && tdm_store_stands_for_table(store, entry))
      saved[count++] = (tdm_saved_entry){entry, tdm_store_entry_table(entry)};
  const tdm_status status = tdm_store_copy_out(store, saved, count, reader, list);
  tdm_release(store->allocator, saved, capacity * sizeof *saved);
  return status;
}

tdm_tensor_list *tdm_store_save(tdm_store *store, bool with_states) {
  if (!store) {
    (void)tdm_fail_null("tdm_store_save: the store");
    return NULL;
  }
  if (tdm_context_check(store->context) != TDM_OK) return NULL;
  tdm_tensor_list *list = tdm_tensor_list_create(store->context);
  tdm_admission place;
  tdm_store_enter_alone(store, &place);
  tdm_network *network = tdm_context_network(store->context);
  const char *before = tdm_network_intend(network, "save parameters");
  const tdm_status status = tdm_store_save_locked(store, with_states, TDM_EVERY_RANK, list);
  (void)tdm_network_intend(network, before);
  tdm_store_leave_alone(store);
  if (status == TDM_OK) return list;
  tdm_tensor_list_release(list);
  return NULL;
}
