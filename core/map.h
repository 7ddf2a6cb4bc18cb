/* A map from strings to pointers: open addressing with linear probing, at most three quarters full,
 * by a hash with a random key of each map's own, so that names from files cannot be made to
 * collide. Invariant: keys and values are borrowed, and a key's text outlives its entry unchanged.
 * A zeroed map may be passed to deinit. One thread, or any number of them that only get. */
#ifndef TANDEM_CORE_MAP_H
#define TANDEM_CORE_MAP_H

#include "core/siphash.h"
#include "tandem/core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_map_entry {
  const char *key; /* NULL: free */
  uint64_t hash;
  void *value;
} tdm_map_entry;

typedef struct tdm_map {
  tdm_allocator allocator;
  tdm_map_entry *entries; /* (capacity), a power of two; NULL while empty */
  size_t capacity;
  size_t count;
  tdm_siphash_key key; /* drawn with the first entries */
} tdm_map;

/* Takes no memory before the first put. */
void tdm_map_init(tdm_map *map, const tdm_allocator *allocator);
/* Releases the table, not the keys and values; the map may be used again, empty. */
void tdm_map_deinit(tdm_map *map);
/* The value of key; NULL when there is none. */
void *tdm_map_get(const tdm_map *map, const char *key);
/* The same of a key that is the first `length` bytes of text. */
void *tdm_map_get_part(const tdm_map *map, const char *text, size_t length);
/* Sets the value (not NULL) of key; a key already there keeps its first text and gets the new
 * value. On failure (OUT_OF_MEMORY, or UNAVAILABLE where the system gives no random key) the map is
 * as it was. */
tdm_status tdm_map_put(tdm_map *map, const char *key, void *value) TDM_WARN_UNUSED;
/* Takes key out and returns its value; NULL when there was none. */
void *tdm_map_remove(tdm_map *map, const char *key);

#ifdef __cplusplus
}
#endif
#endif
