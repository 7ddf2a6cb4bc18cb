/* See core/table.h. Removing an entry moves the entries after it up. */
#include "core/table.h"

#include "core/allocate.h"

#define FIRST_CAPACITY 16

void tdm_table_init(tdm_table *table, const tdm_allocator *allocator) {
  *table = (tdm_table){.allocator = *allocator};
}

void tdm_table_deinit(tdm_table *table) {
  if (table->slots)
    tdm_release(&table->allocator, table->slots, table->capacity * sizeof(tdm_table_slot));
  table->slots = NULL;
  table->capacity = 0;
  table->count = 0;
}

void tdm_table_put(tdm_table *table, uint64_t hash, const void *key, void *value) {
  const size_t mask = table->capacity - 1;
  size_t i = (size_t)hash & mask;
  while (table->slots[i].key)
    i = (i + 1) & mask;
  table->slots[i] = (tdm_table_slot){.key = key, .hash = hash, .value = value};
  table->count++;
}

tdm_status tdm_table_reserve(tdm_table *table, size_t count, const char *what) {
  if (count <= table->capacity / 4 * 3) return TDM_OK;
  if (count > SIZE_MAX / sizeof(tdm_table_slot) / 4) return tdm_fail_memory(SIZE_MAX, what);
  tdm_table grown = {.allocator = table->allocator,
                     .capacity = table->capacity ? table->capacity * 2 : FIRST_CAPACITY};
  while (count > grown.capacity / 4 * 3)
    grown.capacity *= 2;
  grown.slots = tdm_allocate(&grown.allocator, grown.capacity * sizeof(tdm_table_slot), what);
  if (!grown.slots) return TDM_OUT_OF_MEMORY;
  for (size_t i = 0; i < table->capacity; i++) {
    const tdm_table_slot *slot = &table->slots[i];
    if (slot->key) tdm_table_put(&grown, slot->hash, slot->key, slot->value);
  }
  tdm_table_deinit(table);
  *table = grown;
  return TDM_OK;
}

void tdm_table_remove(tdm_table *table, uint64_t hash, const void *key) {
  const size_t mask = table->capacity - 1;
  tdm_table_slot *slots = table->slots;
  size_t hole = (size_t)hash & mask;
  while (slots[hole].key != key)
    hole = (hole + 1) & mask;
  /* An entry may move up into the hole if its own slot is not between the hole and itself. */
  for (size_t i = (hole + 1) & mask; slots[i].key; i = (i + 1) & mask) {
    const size_t home = (size_t)slots[i].hash & mask;
    if (((i - home) & mask) >= ((i - hole) & mask)) {
      slots[hole] = slots[i];
      hole = i;
    }
  }
  slots[hole] = (tdm_table_slot){.key = NULL};
  table->count--;
}
