/* The kernels of a kind or an instruction set, collected from its lists, for iteration and search.
 * Invariant: the set has the visited kernels, in that order. */
#ifndef TANDEM_TESTS_DEVICES_KERNELS_KERNEL_SET_H
#define TANDEM_TESTS_DEVICES_KERNELS_KERNEL_SET_H

#include <string.h>

#include "devices/kernels/kernel_list.h"

enum { KERNEL_SET_MOST = 512 };

typedef struct kernel_set {
  const tdm_kernel *kernels[KERNEL_SET_MOST];
  size_t count;
} kernel_set;

/* A tdm_kernel_visitor; user: a kernel_set, which begins zeroed. */
static inline tdm_status kernel_set_add(void *user, const tdm_kernel *kernel) {
  kernel_set *set = (kernel_set *)user;
  if (set->count == KERNEL_SET_MOST) return TDM_OUT_OF_MEMORY;
  set->kernels[set->count++] = kernel;
  return TDM_OK;
}

/* NULL: it has none. */
static inline const tdm_kernel *kernel_set_find(const kernel_set *set, const char *operation,
                                                tdm_dtype dtype) {
  for (size_t i = 0; i < set->count; i++)
    if (set->kernels[i]->dtype == dtype && strcmp(set->kernels[i]->operation, operation) == 0)
      return set->kernels[i];
  return NULL;
}

#endif
