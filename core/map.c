/* The string map. Removing an entry leaves no tombstone: the entries after it are moved up, so a
 * probe always ends at the first free slot. Invariant: at least a quarter of the slots are free. */
#include "core/map.h"

#include <string.h>

#include "core/allocate.h"

void tdm_map_init(tdm_map *map, const tdm_allocator *allocator) {
  *map = (tdm_map){.allocator = *allocator};
}

void tdm_map_deinit(tdm_map *map) {
  if (map->entries) {
    tdm_release(&map->allocator, map->entries, map->capacity * sizeof(tdm_map_entry));
  }
  map->entries = NULL;
  map->capacity = 0;
  map->count = 0;
}

static uint64_t hash_of(const tdm_map *map, const char *key) {
  return tdm_siphash(&map->key, key, strlen(key));
}

static bool is_key(const tdm_map_entry *entry, const char *text, size_t length, uint64_t hash) {
  return entry->hash == hash && strncmp(entry->key, text, length) == 0 && entry->key[length] == 0;
}

/* Returns the slot of the key of that length, or the free slot where it belongs. */
static size_t find_slot(const tdm_map_entry *entries, size_t capacity, const char *text,
                        size_t length, uint64_t hash) {
  size_t slot = (size_t)hash & (capacity - 1);
  while (entries[slot].key && !is_key(&entries[slot], text, length, hash)) {
    slot = (slot + 1) & (capacity - 1);
  }
  return slot;
}

void *tdm_map_get_part(const tdm_map *map, const char *text, size_t length) {
  if (map->count == 0) return NULL;
  const uint64_t hash = tdm_siphash(&map->key, text, length);
  return map->entries[find_slot(map->entries, map->capacity, text, length, hash)].value;
}

void *tdm_map_get(const tdm_map *map, const char *key) {
  return tdm_map_get_part(map, key, strlen(key));
}

static tdm_status grow(tdm_map *map) {
  const size_t capacity = map->capacity == 0 ? 16 : map->capacity * 2;
  if (map->capacity == 0) TDM_TRY(tdm_siphash_key_draw(&map->key));
  if (capacity > SIZE_MAX / sizeof(tdm_map_entry)) return tdm_fail_memory(SIZE_MAX, "a map");
  tdm_map_entry *entries = tdm_allocate(&map->allocator, capacity * sizeof(tdm_map_entry), "a map");
  if (!entries) return TDM_OUT_OF_MEMORY;
  for (size_t i = 0; i < map->capacity; i++) {
    const tdm_map_entry *entry = &map->entries[i];
    if (!entry->key) continue;
    entries[find_slot(entries, capacity, entry->key, strlen(entry->key), entry->hash)] = *entry;
  }
  const size_t count = map->count;
  tdm_map_deinit(map);
  map->entries = entries;
  map->capacity = capacity;
  map->count = count;
  return TDM_OK;
}

tdm_status tdm_map_put(tdm_map *map, const char *key, void *value) {
  if (map->count + 1 > map->capacity / 4 * 3) TDM_TRY(grow(map));
  const uint64_t hash = hash_of(map, key);
  tdm_map_entry *entry =
      &map->entries[find_slot(map->entries, map->capacity, key, strlen(key), hash)];
  if (!entry->key) {
    entry->key = key;
    entry->hash = hash;
    map->count++;
  }
  entry->value = value;
  return TDM_OK;
}

void *tdm_map_remove(tdm_map *map, const char *key) {
  if (map->count == 0) return NULL;
  const size_t mask = map->capacity - 1;
  size_t hole = find_slot(map->entries, map->capacity, key, strlen(key), hash_of(map, key));
  void *value = map->entries[hole].value;
  if (!map->entries[hole].key) return NULL;
  /* An entry may move up into the hole unless its own slot is between the hole and itself. */
  for (size_t i = (hole + 1) & mask; map->entries[i].key; i = (i + 1) & mask) {
    const size_t home = (size_t)map->entries[i].hash & mask;
    if (((i - home) & mask) >= ((i - hole) & mask)) {
      map->entries[hole] = map->entries[i];
      hole = i;
    }
  }
  map->entries[hole] = (tdm_map_entry){0};
  map->count--;
  return value;
}
