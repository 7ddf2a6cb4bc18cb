/* The table of kernels: open addressing with linear probing. Invariant: see the header. */
#include "devices/context/kernel_registry.h"

#include <string.h>

#include "core/hash.h"

tdm_status tdm_kernel_registry_init(tdm_kernel_registry *registry, const tdm_allocator *allocator) {
  *registry = (tdm_kernel_registry){0};
  if (pthread_mutex_init(&registry->mutex, NULL) != 0) {
    return tdm_fail(TDM_OUT_OF_MEMORY, "no mutex for the table of kernels");
  }
  registry->allocator = allocator;
  return TDM_OK;
}

void tdm_kernel_registry_deinit(tdm_kernel_registry *registry) {
  if (!registry->allocator) return;
  tdm_release(registry->allocator, registry->slots, registry->capacity * sizeof(tdm_kernel *));
  (void)pthread_mutex_destroy(&registry->mutex);
  *registry = (tdm_kernel_registry){0};
}

/* Returns the slot of the kernel, or the free slot where it belongs. */
static size_t find_slot(const tdm_kernel_registry *registry, const char *operation,
                        const char *executes, tdm_dtype dtype) {
  const uint64_t hash = tdm_hash_string(operation, tdm_hash_string(executes, (uint64_t)dtype));
  size_t slot = (size_t)hash & (registry->capacity - 1);
  for (;; slot = (slot + 1) & (registry->capacity - 1)) {
    const tdm_kernel *kernel = registry->slots[slot];
    if (!kernel) return slot;
    if (kernel->dtype == dtype && strcmp(kernel->operation, operation) == 0 &&
        strcmp(kernel->executes, executes) == 0) {
      return slot;
    }
  }
}

static void put(tdm_kernel_registry *registry, const tdm_kernel *kernel) {
  registry->slots[find_slot(registry, kernel->operation, kernel->executes, kernel->dtype)] = kernel;
}

static tdm_status reserve_one(tdm_kernel_registry *registry) {
  if ((registry->count + 1) * 4 <= registry->capacity * 3) return TDM_OK;
  const size_t capacity = registry->capacity == 0 ? 256 : registry->capacity * 2;
  const size_t bytes = capacity * sizeof(tdm_kernel *);
  const tdm_kernel **slots = tdm_allocate(registry->allocator, bytes, "the table of kernels");
  if (!slots) return TDM_OUT_OF_MEMORY;
  const tdm_kernel **old_slots = registry->slots;
  const size_t old_capacity = registry->capacity;
  registry->slots = slots;
  registry->capacity = capacity;
  for (size_t i = 0; i < old_capacity; i++) {
    if (old_slots[i]) put(registry, old_slots[i]);
  }
  tdm_release(registry->allocator, old_slots, old_capacity * sizeof(tdm_kernel *));
  return TDM_OK;
}

tdm_status tdm_kernel_check(const tdm_kernel *kernel) {
  if (!kernel) return tdm_fail(TDM_INVALID_ARGUMENT, "the kernel to register is NULL");
  if (kernel->struct_size != sizeof(tdm_kernel)) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "a kernel's struct_size is %zu, not %zu",
                    kernel->struct_size, sizeof(tdm_kernel));
  }
  if (!kernel->operation || kernel->operation[0] == '\0' || !kernel->executes ||
      kernel->executes[0] == '\0') {
    return tdm_fail(TDM_INVALID_ARGUMENT, "a kernel needs the names of its operation and executor");
  }
  if (tdm_dtype_bytes(kernel->dtype) == 0) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "the kernel of %s has no dtype", kernel->operation);
  }
  if (!kernel->execute) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "the kernel of %s has no execute", kernel->operation);
  }
  return TDM_OK;
}

tdm_status tdm_kernel_registry_add(tdm_kernel_registry *registry, const tdm_kernel *kernel) {
  TDM_TRY(tdm_kernel_check(kernel));
  (void)pthread_mutex_lock(&registry->mutex);
  tdm_status status = reserve_one(registry);
  if (status != TDM_OK) goto done;
  const size_t slot = find_slot(registry, kernel->operation, kernel->executes, kernel->dtype);
  if (registry->slots[slot]) {
    status = tdm_fail(TDM_INVALID_ARGUMENT, "%s has a kernel of %s for %s already",
                      kernel->executes, kernel->operation, tdm_dtype_name(kernel->dtype));
    goto done;
  }
  registry->slots[slot] = kernel;
  registry->count++;
done:
  (void)pthread_mutex_unlock(&registry->mutex);
  return status;
}

const tdm_kernel *tdm_kernel_registry_find(tdm_kernel_registry *registry, const char *operation,
                                           const char *executes, tdm_dtype dtype) {
  const tdm_kernel *kernel = NULL;
  (void)pthread_mutex_lock(&registry->mutex);
  if (registry->capacity > 0) {
    kernel = registry->slots[find_slot(registry, operation, executes, dtype)];
  }
  (void)pthread_mutex_unlock(&registry->mutex);
  return kernel;
}
