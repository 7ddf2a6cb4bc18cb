/* See core/map.h. */
#include "core/map.h"

#include <string.h>

#include "core/status.h"

typedef struct part {
  const char *text;
  size_t length;
} part;

void tdm_map_init(tdm_map *map, const tdm_allocator *allocator) {
  *map = (tdm_map){.key = {{0}}};
  tdm_table_init(&map->table, allocator);
}

void tdm_map_deinit(tdm_map *map) {
  tdm_table_deinit(&map->table);
}

static bool is_part(const void *key, const void *sought) {
  const char *text = key;
  const part *of = sought;
  return strncmp(text, of->text, of->length) == 0 && text[of->length] == '\0';
}

static tdm_table_slot *find(const tdm_map *map, const part *key, uint64_t hash) {
  return tdm_table_find(&map->table, hash, key, is_part);
}

void *tdm_map_get_part(const tdm_map *map, const char *text, size_t length) {
  if (map->table.count == 0) return NULL;
  const part key = {text, length};
  const tdm_table_slot *slot = find(map, &key, tdm_siphash(&map->key, text, length));
  return slot ? slot->value : NULL;
}

void *tdm_map_get(const tdm_map *map, const char *key) {
  return tdm_map_get_part(map, key, strlen(key));
}

tdm_status tdm_map_put(tdm_map *map, const char *text, void *value) {
  if (map->table.capacity == 0) TDM_TRY(tdm_siphash_key_draw(&map->key));
  const part key = {text, strlen(text)};
  const uint64_t hash = tdm_siphash(&map->key, text, key.length);
  tdm_table_slot *slot = find(map, &key, hash);
  if (slot) {
    slot->value = value;
    return TDM_OK;
  }
  TDM_TRY(tdm_table_reserve(&map->table, map->table.count + 1, "a map"));
  tdm_table_put(&map->table, hash, text, value);
  return TDM_OK;
}

void *tdm_map_remove(tdm_map *map, const char *text) {
  if (map->table.count == 0) return NULL;
  const part key = {text, strlen(text)};
  const tdm_table_slot *slot = find(map, &key, tdm_siphash(&map->key, text, key.length));
  if (!slot) return NULL;
  void *value = slot->value;
  tdm_table_remove(&map->table, slot->hash, slot->key);
  return value;
}
