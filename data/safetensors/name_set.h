/* The set of names of a header that was decoded in place. It stores positions in the header's text
 * instead of copies, so it uses at most 16 bytes per name, even while it grows. Invariant: each
 * name is in the set once. The hash has its own random key, so that no header can make its names
 * collide. */
#ifndef TANDEM_DATA_SAFETENSORS_NAME_SET_H
#define TANDEM_DATA_SAFETENSORS_NAME_SET_H

#include "core/allocate.h"
#include "core/siphash.h"

typedef struct tdm_name_set {
  const tdm_allocator *allocator;
  const char *text; /* smaller than 4 GiB - 1 */
  uint32_t *slots;  /* (capacity), a power of two: 1 + where a name begins; 0: free */
  size_t capacity;
  size_t count;
  tdm_siphash_key key;
} tdm_name_set;

/* Initializes an empty set, which allocates nothing before the first name. text outlives the
 * set. */
void tdm_name_set_init(tdm_name_set *set, const tdm_allocator *allocator, const char *text);
void tdm_name_set_deinit(tdm_name_set *set);
/* Adds the zero-terminated name at text + place. *out_is_new is false if it was there already. */
tdm_status tdm_name_set_add(tdm_name_set *set, size_t place, bool *out_is_new) TDM_WARN_UNUSED;

#endif
