/* Ids sorted with their positions, as the gradients of tables need them: a key is
 * id << position_bits | position. Invariant: keys are distinct, so equal ids stay in the order of
 * their positions. */
#ifndef TANDEM_DEVICES_KERNELS_TABLES_CPU_SORTED_IDS_H
#define TANDEM_DEVICES_KERNELS_TABLES_CPU_SORTED_IDS_H

#include "devices/kernels/cpu/family.h"

typedef struct tdm_cpu_sorting {
  int position_bits;
  int digits; /* digits of an id */
  int digit_bits;
} tdm_cpu_sorting;

/* Chooses the sort of up to count ids of a table of that many rows. UNSUPPORTED if a key would not
 * fit. */
tdm_status tdm_cpu_sorting_of(int64_t rows, int64_t count, tdm_cpu_sorting *out) TDM_WARN_UNUSED;
/* Sorts keys (count) by a radix sort. scratch: (count). Returns keys or scratch, whichever holds
 * the sorted keys. */
const uint64_t *tdm_cpu_keys_sort(const tdm_cpu_sorting *sorting, uint64_t *keys, uint64_t *scratch,
                                  int64_t count);

static inline uint64_t tdm_cpu_key(const tdm_cpu_sorting *sorting, int64_t id, int64_t position) {
  return (uint64_t)id << sorting->position_bits | (uint64_t)position;
}
static inline int64_t tdm_cpu_key_id(const tdm_cpu_sorting *sorting, uint64_t key) {
  return (int64_t)(key >> sorting->position_bits);
}
static inline int64_t tdm_cpu_key_position(const tdm_cpu_sorting *sorting, uint64_t key) {
  return (int64_t)(key & (((uint64_t)1 << sorting->position_bits) - 1));
}

#endif
