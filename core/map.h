/* A map from strings to pointers: a table (core/table.h) under a hash with a random key of each
 * map's own, so that names from files cannot be made to collide. Invariant: keys and values are
 * borrowed, and a key's text outlives its entry unchanged. A zeroed map may be passed to deinit.
 * One thread, or any number of threads that only get. */
#ifndef TANDEM_CORE_MAP_H
#define TANDEM_CORE_MAP_H

#include "core/siphash.h"
#include "core/table.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_map {
  tdm_table table;
  tdm_siphash_key key; /* drawn with the first entry */
} tdm_map;

/* Makes an empty map. Allocates nothing. */
void tdm_map_init(tdm_map *map, const tdm_allocator *allocator);
/* Releases the table, not the keys and values. The map is empty and may be used again. */
void tdm_map_deinit(tdm_map *map);
/* Returns the value of key, or NULL if there is none. */
void *tdm_map_get(const tdm_map *map, const char *key);
/* Returns the value of the key that is the first `length` bytes of text, or NULL. */
void *tdm_map_get_part(const tdm_map *map, const char *text, size_t length);
/* Sets the value (not NULL) of key. A key that is there keeps its first text and gets the new
 * value. On failure (OUT_OF_MEMORY, or UNAVAILABLE if the system provides no random key) the map
 * does not change. */
tdm_status tdm_map_put(tdm_map *map, const char *key, void *value) TDM_WARN_UNUSED;
/* Removes key and returns its value, or NULL if there is none. */
void *tdm_map_remove(tdm_map *map, const char *key);

#ifdef __cplusplus
}
#endif
#endif
