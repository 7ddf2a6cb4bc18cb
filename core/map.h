/* A map from strings to pointers: open addressing with linear probing, at most three quarters full.
 * Each map hashes with its own random key, so that names from files cannot be chosen to collide.
 * Invariant: keys and values are borrowed, and a key's text outlives its entry unchanged. A zeroed
 * map may be passed to deinit. One thread may use a map, or any number of threads that only get. */
#ifndef TANDEM_CORE_MAP_H
#define TANDEM_CORE_MAP_H

#include "core/siphash.h"
#include "tandem/core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_map_entry {
  const char *key; /* NULL if the slot is free */
  uint64_t hash;
  void *value;
} tdm_map_entry;

typedef struct tdm_map {
  tdm_allocator allocator;
  tdm_map_entry *entries; /* (capacity), a power of two; NULL while empty */
  size_t capacity;
  size_t count;
  tdm_siphash_key key; /* drawn together with the first allocation */
} tdm_map;

/* Initializes an empty map. It allocates no memory before the first put. */
void tdm_map_init(tdm_map *map, const tdm_allocator *allocator);
/* Releases the table, but not the keys and values. The map is empty afterwards and may be used
 * again. */
void tdm_map_deinit(tdm_map *map);
/* Returns the value of key, or NULL if there is none. */
void *tdm_map_get(const tdm_map *map, const char *key);
/* Like tdm_map_get, for the key that is the first `length` bytes of text. */
void *tdm_map_get_part(const tdm_map *map, const char *text, size_t length);
/* Sets the value (not NULL) of key. An existing key keeps its first text and gets the new value.
 * Fails with OUT_OF_MEMORY, or with UNAVAILABLE if the system provides no random key; the map is
 * then unchanged. */
tdm_status tdm_map_put(tdm_map *map, const char *key, void *value) TDM_WARN_UNUSED;
/* Removes key and returns its value, or NULL if there was none. */
void *tdm_map_remove(tdm_map *map, const char *key);

#ifdef __cplusplus
}
#endif
#endif
