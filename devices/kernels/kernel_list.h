/* Lists of kernels: each source ends with its own list, and a kind's kernels are the concatenation
 * of the lists of all its sources. Invariant: lists and kernels are static and constant. */
#ifndef TANDEM_DEVICES_KERNELS_KERNEL_LIST_H
#define TANDEM_DEVICES_KERNELS_KERNEL_LIST_H

#include "tandem/devices/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_kernel_list {
  const tdm_kernel *kernels;
  size_t count;
} tdm_kernel_list;

/* Called for each kernel. The iteration stops at the first failure. */
typedef tdm_status (*tdm_kernel_visitor)(void *user, const tdm_kernel *kernel);

/* Visits every kernel of the lists, which end with NULL. */
static inline tdm_status tdm_kernel_lists_each(const tdm_kernel_list *const *lists,
                                               tdm_kernel_visitor visit, void *user) {
  for (; *lists; lists++) {
    for (size_t k = 0; k < (*lists)->count; k++) {
      const tdm_status status = visit(user, &(*lists)->kernels[k]);
      if (status != TDM_OK) return status;
    }
  }
  return TDM_OK;
}

#ifdef __cplusplus
}
#endif
#endif
