/* The set of names of a header: open addressing with linear probing. Invariant: at least a quarter
 * of the slots are free. */
#include "data/safetensors/name_set.h"

#include <string.h>

void tdm_name_set_init(tdm_name_set *set, const tdm_allocator *allocator, const char *text) {
  *set = (tdm_name_set){.allocator = allocator, .text = text};
}

void tdm_name_set_deinit(tdm_name_set *set) {
  if (!set->slots) return;
  tdm_release(set->allocator, set->slots, set->capacity * sizeof(*set->slots));
  set->slots = NULL;
}

/* Returns the slot of name, or the free slot where it belongs. */
static uint32_t *find_slot(const tdm_name_set *set, const char *name) {
  const size_t mask = set->capacity - 1;
  size_t at = (size_t)tdm_siphash(&set->key, name, strlen(name)) & mask;
  while (set->slots[at] != 0 && strcmp(set->text + set->slots[at] - 1, name) != 0)
    at = (at + 1) & mask;
  return &set->slots[at];
}

static tdm_status grow(tdm_name_set *set) {
  tdm_name_set grown = *set;
  if (set->capacity == 0) TDM_TRY(tdm_siphash_key_draw(&grown.key));
  grown.capacity = set->capacity == 0 ? 16 : set->capacity * 2;
  grown.slots =
      tdm_allocate(set->allocator, grown.capacity * sizeof(*grown.slots), "the names of a header");
  if (!grown.slots) return TDM_OUT_OF_MEMORY;
  for (size_t i = 0; i < set->capacity; i++) {
    if (set->slots[i] != 0) *find_slot(&grown, set->text + set->slots[i] - 1) = set->slots[i];
  }
  tdm_name_set_deinit(set);
  *set = grown;
  return TDM_OK;
}

tdm_status tdm_name_set_add(tdm_name_set *set, size_t place, bool *out_is_new) {
  *out_is_new = false;
  if (set->count + 1 > set->capacity / 4 * 3) TDM_TRY(grow(set));
  uint32_t *slot = find_slot(set, set->text + place);
  if (*slot != 0) return TDM_OK;
  *slot = (uint32_t)place + 1;
  set->count++;
  *out_is_new = true;
  return TDM_OK;
}
