/* See devices/context/kernel_registry.h. */
#include "devices/context/kernel_registry.h"

#include <string.h>

#include "core/hash.h"
#include "core/status.h"

tdm_status tdm_kernel_registry_init(tdm_kernel_registry *registry, const tdm_allocator *allocator) {
  *registry = (tdm_kernel_registry){0};
  if (pthread_mutex_init(&registry->mutex, NULL) != 0)
    return tdm_fail(TDM_OUT_OF_MEMORY, "no mutex for the table of kernels");
  tdm_table_init(&registry->table, allocator);
  registry->ready = true;
  return TDM_OK;
}

void tdm_kernel_registry_deinit(tdm_kernel_registry *registry) {
  if (!registry->ready) return;
  tdm_table_deinit(&registry->table);
  (void)pthread_mutex_destroy(&registry->mutex);
  *registry = (tdm_kernel_registry){0};
}

/* The place of a kernel. */
typedef struct kernel_key {
  const char *operation;
  const char *executes;
  tdm_dtype dtype;
} kernel_key;

static uint64_t hash_of(const kernel_key *key) {
  return tdm_hash_string(key->operation, tdm_hash_string(key->executes, (uint64_t)key->dtype));
}

static bool is_at(const void *key, const void *sought) {
  const tdm_kernel *kernel = key;
  const kernel_key *at = sought;
  return kernel->dtype == at->dtype && strcmp(kernel->operation, at->operation) == 0 &&
         strcmp(kernel->executes, at->executes) == 0;
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
  if (tdm_dtype_bytes(kernel->dtype) == 0)
    return tdm_fail(TDM_INVALID_ARGUMENT, "the kernel of %s has no dtype", kernel->operation);
  if (!kernel->execute)
    return tdm_fail(TDM_INVALID_ARGUMENT, "the kernel of %s has no execute", kernel->operation);
  return TDM_OK;
}

tdm_status tdm_kernel_registry_add(tdm_kernel_registry *registry, const tdm_kernel *kernel) {
  TDM_TRY(tdm_kernel_check(kernel));
  (void)pthread_mutex_lock(&registry->mutex);
  const kernel_key key = {kernel->operation, kernel->executes, kernel->dtype};
  const uint64_t hash = hash_of(&key);
  tdm_status status =
      tdm_table_reserve(&registry->table, registry->table.count + 1, "the table of kernels");
  if (status == TDM_OK && tdm_table_find(&registry->table, hash, &key, is_at)) {
    status = tdm_fail(TDM_INVALID_ARGUMENT, "%s has a kernel of %s for %s already",
                      kernel->executes, kernel->operation, tdm_dtype_name(kernel->dtype));
  }
  if (status == TDM_OK) tdm_table_put(&registry->table, hash, kernel, NULL);
  (void)pthread_mutex_unlock(&registry->mutex);
  return status;
}

const tdm_kernel *tdm_kernel_registry_find(tdm_kernel_registry *registry, const char *operation,
                                           const char *executes, tdm_dtype dtype) {
  const kernel_key key = {operation, executes, dtype};
  const uint64_t hash = hash_of(&key);
  (void)pthread_mutex_lock(&registry->mutex);
  const tdm_table_slot *slot = tdm_table_find(&registry->table, hash, &key, is_at);
  const tdm_kernel *kernel = slot ? slot->key : NULL;
  (void)pthread_mutex_unlock(&registry->mutex);
  return kernel;
}
