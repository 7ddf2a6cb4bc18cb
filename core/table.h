/* A hash table of borrowed keys and values: open addressing with linear probing. The caller hashes
 * keys and compares them. Invariant: at least a quarter of the slots are free, and no entry is
 * marked as removed, so that a search ends at the first free slot. A zeroed table may be passed to
 * deinit. One thread, or any number of threads that only search. */
#ifndef TANDEM_CORE_TABLE_H
#define TANDEM_CORE_TABLE_H

#include "tandem/core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_table_slot {
  const void *key; /* NULL: free */
  uint64_t hash;
  void *value;
} tdm_table_slot;

typedef struct tdm_table {
  tdm_allocator allocator;
  tdm_table_slot *slots; /* (capacity), a power of two; NULL if capacity is 0 */
  size_t capacity;
  size_t count;
} tdm_table;

/* Returns true if the key of an entry is the one that is searched for. */
typedef bool tdm_table_equal(const void *key, const void *sought);

/* Makes an empty table. Allocates nothing. */
void tdm_table_init(tdm_table *table, const tdm_allocator *allocator);
/* Releases the slots, not the keys and values. The table is empty and may be used again. */
void tdm_table_deinit(tdm_table *table);
/* Makes room for `count` entries in all. `what` names the table in the message. On failure
 * (OUT_OF_MEMORY) the table does not change. */
tdm_status tdm_table_reserve(tdm_table *table, size_t count, const char *what) TDM_WARN_UNUSED;
/* Adds an entry. Its key is in no other entry, and room for it was reserved. */
void tdm_table_put(tdm_table *table, uint64_t hash, const void *key, void *value);
/* Removes the entry of exactly this key pointer, which is in the table. */
void tdm_table_remove(tdm_table *table, uint64_t hash, const void *key);

/* Returns the slot of the entry whose key equals `sought`, or NULL if there is none. */
static inline tdm_table_slot *tdm_table_find(const tdm_table *table, uint64_t hash,
                                             const void *sought, tdm_table_equal *equal) {
  if (table->count == 0) return NULL;
  const size_t mask = table->capacity - 1;
  for (size_t i = (size_t)hash & mask;; i = (i + 1) & mask) {
    tdm_table_slot *slot = &table->slots[i];
    if (!slot->key) return NULL;
    if (slot->hash == hash && equal(slot->key, sought)) return slot;
  }
}

/* Returns the value of the entry whose key equals `sought`, or NULL if there is none. */
static inline void *tdm_table_get(const tdm_table *table, uint64_t hash, const void *sought,
                                  tdm_table_equal *equal) {
  const tdm_table_slot *slot = tdm_table_find(table, hash, sought, equal);
  return slot ? slot->value : NULL;
}

#ifdef __cplusplus
}
#endif
#endif
