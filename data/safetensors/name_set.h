/* The set of names of a header that was decoded in place: places in its text, not copies, so that
 * it takes 16 bytes a name at most, also while it grows. Invariant: each name stands in it once,
 * under a hash with a random key of the set's own, so that no header makes its names collide. */
#ifndef TANDEM_DATA_SAFETENSORS_NAME_SET_H
#define TANDEM_DATA_SAFETENSORS_NAME_SET_H

#include "core/allocate.h"
#include "core/siphash.h"

typedef struct tdm_name_set {
  const tdm_allocator *allocator;
  const char *text; /* below 4 GiB - 1 */
  uint32_t *slots;  /* (capacity), a power of two: where a name begins, plus 1; 0: free */
  size_t capacity;
  size_t count;
  tdm_siphash_key key;
} tdm_name_set;

/* text outlives the set. Takes no memory before the first name. */
void tdm_name_set_init(tdm_name_set *set, const tdm_allocator *allocator, const char *text);
void tdm_name_set_deinit(tdm_name_set *set);
/* Adds the zero-terminated name at text + place. *out_is_new false: it stood there already. */
tdm_status tdm_name_set_add(tdm_name_set *set, size_t place, bool *out_is_new) TDM_WARN_UNUSED;

#endif
