/* Internal side of tensors. Invariant: a storage is released to its device after its last
 * tensor. */
#ifndef TANDEM_DEVICES_TENSORS_TENSOR_H
#define TANDEM_DEVICES_TENSORS_TENSOR_H

#include "devices/contract/device.h"

/* Reference-counted memory. It is created by tdm_storage_create, or by an owner that reuses blocks:
 * `dispose` is called instead of freeing when the last reference is released. */
typedef struct tdm_storage tdm_storage;
struct tdm_storage {
  _Atomic uint32_t references;
  tdm_context *context; /* retained */
  tdm_memory memory;
  void (*dispose)(tdm_storage *storage); /* frees or reuses; runs on any thread */
  void *user;
};

struct tdm_tensor {
  _Atomic uint32_t references;
  tdm_dtype dtype;
  tdm_shape shape;
  size_t offset_bytes;
  size_t bytes;
  tdm_storage *storage;
};

/* Allocates device memory of at least bytes, with undefined contents. partner: see tdm_memory_take,
 * or NULL. */
tdm_status tdm_storage_create(tdm_context *context, tdm_device *device, tdm_device *partner,
                              size_t bytes, tdm_storage **out_storage) TDM_WARN_UNUSED;
void tdm_storage_retain(tdm_storage *storage);
void tdm_storage_release(tdm_storage *storage);

/* Creates a tensor in storage (retained) at offset_bytes; shape is concrete. */
tdm_status tdm_tensor_over(tdm_storage *storage, size_t offset_bytes, tdm_dtype dtype,
                           const tdm_shape *shape, tdm_tensor **out_tensor) TDM_WARN_UNUSED;
/* Like tdm_tensor_create, for a dense tensor on cpu:0 with undefined contents, but returns a
 * status. near: a device that it will be copied to, as in tdm_tensor_staging; NULL: none. */
tdm_status tdm_host_tensor_create(tdm_context *context, tdm_device *near, tdm_dtype dtype,
                                  const tdm_shape *shape, tdm_tensor **out_tensor) TDM_WARN_UNUSED;

static inline tdm_address tdm_tensor_address(const tdm_tensor *tensor) {
  return tensor->storage->memory.address + tensor->offset_bytes;
}
/* Writes element index of data on the host. For an integer dtype, a number out of range becomes the
 * nearest in range, and NaN becomes 0. Nothing is written for halves. */
void tdm_tensor_put(tdm_dtype dtype, void *data, int64_t index, double value);
/* Appends a description of a tensor without values. Everything that `tensor` points to is
 * copied. */
tdm_status tdm_tensor_list_add_unsupported(tdm_tensor_list *list,
                                           const tdm_listed_tensor *tensor) TDM_WARN_UNUSED;
/* Appends a tensor of another list, supported or not. */
tdm_status tdm_tensor_list_add_listed(tdm_tensor_list *list,
                                      const tdm_listed_tensor *tensor) TDM_WARN_UNUSED;
/* Fails with UNSUPPORTED, naming the tensor and its dtype or number of dimensions. */
tdm_status tdm_listed_tensor_refuse(const tdm_listed_tensor *tensor) TDM_WARN_UNUSED;
/* Gets the tensor at index, which exists. Fails with UNSUPPORTED, naming tensor and dtype, if
 * the list has no values for it. */
tdm_status tdm_tensor_list_use(const tdm_tensor_list *list, size_t index,
                               tdm_tensor **out_tensor) TDM_WARN_UNUSED;
/* Checks that tdm_tensor_list_use would succeed for all tensors of the list. */
tdm_status tdm_tensor_list_check_supported(const tdm_tensor_list *list) TDM_WARN_UNUSED;
/* Returns true if the list has a tensor of that name, supported or not. */
bool tdm_tensor_list_has(const tdm_tensor_list *list, const char *name);
/* Like tdm_tensor_data without a message: returns NULL if the host may not read it. */
void *tdm_tensor_host_data(const tdm_tensor *tensor);
static inline tdm_device *tdm_tensor_owner(const tdm_tensor *tensor) {
  return tensor->storage->memory.device;
}
static inline tdm_memory tdm_tensor_memory(const tdm_tensor *tensor) {
  return (tdm_memory){.device = tdm_tensor_owner(tensor),
                      .address = tdm_tensor_address(tensor),
                      .bytes = tensor->bytes};
}

#endif
