/* The log of touched rows of a table's entry. Invariant: from its creation, a piece contains
 * indices of the table or -1, so that it is always legal to move the rows that it names. */
#include <string.h>

#include "graph/store/store.h"

enum { PIECES = TDM_LOGGED_VERSIONS + 1 };

tdm_address tdm_row_log_piece(const tdm_store_entry *entry, uint64_t version) {
  const uint64_t window = atomic_load(&entry->log.window);
  return entry->log.storage->memory.address + version % PIECES * window * sizeof(int64_t);
}

uint64_t tdm_row_log_bytes(const tdm_store_entry *entry) {
  return PIECES * atomic_load(&entry->log.window) * sizeof(int64_t);
}

uint64_t tdm_row_log_reach(const tdm_store_entry *entry, uint64_t version) {
  if (!entry->log.storage || version < entry->log.since || version >= entry->version) return 0;
  const uint64_t behind = entry->version - version;
  return behind <= TDM_LOGGED_VERSIONS ? behind : 0;
}

void tdm_store_entry_rewritten(tdm_store_entry *entry) {
  entry->version++;
  entry->log.since = entry->version;
}

/* Fills at once if the host can address the memory, because its device's queues may be full of
 * runs. */
static tdm_status fill_with_none(tdm_store *store, const tdm_memory *memory, size_t bytes) {
  void *data = memory->device->ops->host_pointer(memory->device, memory->address);
  if (data) {
    memset(data, 0xff, bytes);
    return TDM_OK;
  }
  void *none = tdm_allocate(store->allocator, bytes, "log of rows");
  if (!none) return TDM_OUT_OF_MEMORY;
  memset(none, 0xff, bytes);
  const tdm_memory from = {.device = tdm_context_host(store->context),
                           .address = (tdm_address)(uintptr_t)none,
                           .bytes = bytes};
  const tdm_status status = tdm_context_copy(store->context, &from, memory, bytes);
  tdm_release(store->allocator, none, bytes);
  return status;
}

tdm_status tdm_row_log_make(tdm_store *store, tdm_device *home, uint64_t window,
                            tdm_storage **out_storage) {
  const size_t bytes = PIECES * (size_t)window * sizeof(int64_t);
  TDM_TRY(tdm_storage_create(store->context, home, NULL, bytes, out_storage));
  if (home->described) return TDM_OK; /* a described device has no contents */
  const tdm_status status = fill_with_none(store, &(*out_storage)->memory, bytes);
  if (status == TDM_OK) return TDM_OK;
  tdm_storage_release(*out_storage);
  *out_storage = NULL;
  return status;
}
