/* Kernels by (operation, executing kind, dtype). Invariant: entries are only added, under the
 * registry's lock, and point to structs that outlive the registry. */
#ifndef TANDEM_DEVICES_CONTEXT_KERNEL_REGISTRY_H
#define TANDEM_DEVICES_CONTEXT_KERNEL_REGISTRY_H

#include <pthread.h>

#include "core/table.h"
#include "tandem/devices/devices.h"

typedef struct tdm_kernel_registry {
  bool ready; /* initialized */
  pthread_mutex_t mutex;
  tdm_table table;
} tdm_kernel_registry;

/* Initializes a registry. deinit accepts a zeroed registry. */
tdm_status tdm_kernel_registry_init(tdm_kernel_registry *registry,
                                    const tdm_allocator *allocator) TDM_WARN_UNUSED;
void tdm_kernel_registry_deinit(tdm_kernel_registry *registry);

/* Fails with INVALID_ARGUMENT if a required member is missing. */
tdm_status tdm_kernel_check(const tdm_kernel *kernel) TDM_WARN_UNUSED;
/* Checks and adds a kernel. Fails with INVALID_ARGUMENT if there is one with the same key. Any
 * thread, as for find. */
tdm_status tdm_kernel_registry_add(tdm_kernel_registry *registry,
                                   const tdm_kernel *kernel) TDM_WARN_UNUSED;
const tdm_kernel *tdm_kernel_registry_find(tdm_kernel_registry *registry, const char *operation,
                                           const char *executes, tdm_dtype dtype);

#endif
