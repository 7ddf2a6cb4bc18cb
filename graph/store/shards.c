/* Tables in shards. Each shard is an entry; outside of the store a table is one object with its own
 * name. Invariant: a store has a table as a whole, or in one set of consecutive shards. */
#include <string.h>

#include "graph/store/store.h"

const char *tdm_store_entry_table(const tdm_store_entry *entry) {
  return entry->shard.table ? entry->shard.table : entry->name;
}

/* Returns true if every shard has all of it, such as a count of steps. */
static bool is_shared(const tdm_store_entry *entry) {
  return entry->shard.table_rows == 0;
}

tdm_spec tdm_store_table_spec(const tdm_store_entry *entry) {
  tdm_spec spec = entry->spec;
  if (entry->shard.table && !is_shared(entry)) spec.shape.dims[0] = entry->shard.table_rows;
  return spec;
}

tdm_store_entry *tdm_store_first_shard(const tdm_store *store, const char *table) {
  return tdm_map_get(&store->tables, table);
}

/* Returns how many shards of the table have memory. */
static uint16_t count_made(const tdm_store *store, const char *table) {
  uint16_t made = 0;
  for (const tdm_store_entry *entry = tdm_store_first_shard(store, table); entry;
       entry = entry->next_shard)
    made += entry->storage != NULL;
  return made;
}

bool tdm_store_stands_for_table(tdm_store *store, const tdm_store_entry *entry) {
  const tdm_table_shard *shard = &entry->shard;
  if (!shard->table) return true;
  return shard->index == 0 && count_made(store, shard->table) == shard->count;
}

size_t tdm_store_shard_offset(const tdm_store_entry *shard) {
  const tdm_spec table = tdm_store_table_spec(shard);
  const int64_t bytes = tdm_shape_bytes(&table.shape, table.dtype);
  if (is_shared(shard) || shard->shard.first == 0) return 0;
  return (size_t)(bytes / shard->shard.table_rows * shard->shard.first);
}

static tdm_status refuse(const tdm_store_entry *entry, const tdm_graph_persistent *wanted) {
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "the store has %s, and %s of %s was asked for: sessions that share a store shard "
                  "its tables alike",
                  entry->name, wanted->shard.table ? wanted->name : "the whole",
                  tdm_persistent_table(wanted));
}

tdm_status tdm_store_check_shard(tdm_store *store, const tdm_graph_persistent *wanted) {
  const char *table = tdm_persistent_table(wanted);
  const tdm_store_entry *whole = wanted->shard.table ? tdm_map_get(&store->names, table) : NULL;
  if (whole && whole->storage) return refuse(whole, wanted);
  for (const tdm_store_entry *entry = tdm_store_first_shard(store, table); entry;
       entry = entry->next_shard)
    if (!wanted->shard.table || entry->shard.count != wanted->shard.count ||
        (entry->shard.index == wanted->shard.index && strcmp(entry->name, wanted->name) != 0))
      return refuse(entry, wanted);
  return TDM_OK;
}

tdm_status tdm_store_name_shard(tdm_store *store, tdm_store_entry *entry,
                                const tdm_table_shard *shard) {
  if (!shard->table || entry->shard.table) return TDM_OK;
  char *table = tdm_string_copy(store->allocator, shard->table);
  if (!table) return TDM_OUT_OF_MEMORY;
  tdm_store_entry *last = tdm_store_first_shard(store, table);
  const tdm_status status = last ? TDM_OK : tdm_map_put(&store->tables, table, entry);
  if (status != TDM_OK) {
    tdm_string_release(store->allocator, table);
    return status;
  }
  while (last && last->next_shard)
    last = last->next_shard;
  if (last) last->next_shard = entry;
  entry->shard = *shard;
  entry->shard.table = table;
  return TDM_OK;
}

void tdm_store_unname_shard(tdm_store *store, tdm_store_entry *entry) {
  const char *table = entry->shard.table;
  if (!table) return;
  tdm_store_entry *before = tdm_store_first_shard(store, table);
  if (before == entry) (void)tdm_map_remove(&store->tables, table);
  while (before != entry && before->next_shard != entry)
    before = before->next_shard;
  if (before != entry) before->next_shard = NULL;
  tdm_string_release(store->allocator, (char *)table);
  entry->shard = (tdm_table_shard){0};
}

tdm_status tdm_store_copy_shard_in(tdm_uploads *uploads, const tdm_tensor *from,
                                   const tdm_store_entry *shard, const tdm_memory *to) {
  const tdm_memory part = {.device = tdm_tensor_owner(from),
                           .address = tdm_tensor_address(from) + tdm_store_shard_offset(shard),
                           .bytes = to->bytes};
  return tdm_uploads_copy(uploads, &part, to);
}

tdm_status tdm_store_copy_shard_out(tdm_store *store, const tdm_store_entry *shard,
                                    const tdm_tensor *to) {
  const tdm_memory *from = &shard->storage->memory;
  const tdm_memory part = {.device = tdm_tensor_owner(to),
                           .address = tdm_tensor_address(to) + tdm_store_shard_offset(shard),
                           .bytes = from->bytes};
  return tdm_context_copy(store->context, from, &part, from->bytes);
}

tdm_tensor *tdm_store_pending_table(tdm_store *store, const tdm_store_entry *shard) {
  const tdm_store_entry *table = tdm_map_get(&store->names, shard->shard.table);
  return table ? table->pending : NULL;
}

void tdm_store_drop_pending_table(tdm_store *store, const tdm_store_entry *shard) {
  tdm_store_entry *table = tdm_map_get(&store->names, shard->shard.table);
  if (!table || count_made(store, shard->shard.table) < shard->shard.count) return;
  tdm_tensor_release(table->pending);
  table->pending = NULL;
}
