/* Tensors and the storage of their memory. Invariant: a tensor holds one reference to its storage,
 * and a storage one to its context. Both may be released on any thread, also after the context was
 * closed. */
#include "devices/tensors/tensor.h"

#include "core/allocate.h"
#include "devices/context/context.h"
#include "devices/staging/staged_memory.h"

/* ---- Storage --------------------------------------------------------------------------------- */

static void free_storage(tdm_storage *storage) {
  tdm_context *context = storage->context;
  tdm_release(tdm_context_allocator(context), storage, sizeof *storage);
  tdm_context_release(context);
}

static void dispose_device_memory(tdm_storage *storage) {
  tdm_memory_give_back(&storage->memory);
  free_storage(storage);
}

/* Returns a storage that retains the context and has no memory yet. */
static tdm_storage *make_storage(tdm_context *context, void (*dispose)(tdm_storage *)) {
  tdm_storage *storage =
      tdm_allocate(tdm_context_allocator(context), sizeof *storage, "a tensor's storage");
  if (!storage) return NULL;
  atomic_init(&storage->references, 1);
  storage->context = tdm_context_retain(context);
  storage->dispose = dispose;
  return storage;
}

tdm_status tdm_storage_create(tdm_context *context, tdm_device *device, tdm_device *partner,
                              size_t bytes, tdm_storage **out_storage) {
  *out_storage = NULL;
  tdm_storage *storage = make_storage(context, dispose_device_memory);
  if (!storage) return TDM_OUT_OF_MEMORY;
  const tdm_status status = tdm_memory_take(device, partner, bytes, &storage->memory);
  if (status != TDM_OK) {
    free_storage(storage);
    return status;
  }
  *out_storage = storage;
  return TDM_OK;
}

void tdm_storage_retain(tdm_storage *storage) {
  (void)atomic_fetch_add_explicit(&storage->references, 1, memory_order_relaxed);
}

void tdm_storage_release(tdm_storage *storage) {
  if (!storage) return;
  if (atomic_fetch_sub_explicit(&storage->references, 1, memory_order_acq_rel) != 1) return;
  storage->dispose(storage);
}

/* ---- Tensors --------------------------------------------------------------------------------- */

tdm_status tdm_tensor_over(tdm_storage *storage, size_t offset_bytes, tdm_dtype dtype,
                           const tdm_shape *shape, tdm_tensor **out_tensor) {
  *out_tensor = NULL;
  tdm_tensor *tensor =
      tdm_allocate(tdm_context_allocator(storage->context), sizeof *tensor, "a tensor");
  if (!tensor) return TDM_OUT_OF_MEMORY;
  atomic_init(&tensor->references, 1);
  tensor->dtype = dtype;
  tensor->shape = *shape;
  tensor->offset_bytes = offset_bytes;
  tensor->bytes = (size_t)tdm_shape_bytes(shape, dtype);
  tensor->storage = storage;
  tdm_storage_retain(storage);
  *out_tensor = tensor;
  return TDM_OK;
}

tdm_status tdm_host_tensor_create(tdm_context *context, tdm_device *near, tdm_dtype dtype,
                                  const tdm_shape *shape, tdm_tensor **out_tensor) {
  *out_tensor = NULL;
  const int64_t bytes = tdm_shape_bytes(shape, dtype);
  if (bytes < 0) return tdm_fail_memory(SIZE_MAX, "a tensor of a batch");
  tdm_device *device = tdm_context_find_device(context, "cpu:0");
  if (!device) return TDM_UNAVAILABLE;
  tdm_storage *storage = NULL;
  tdm_device *partner = !near || near->host_addressable ? NULL : near;
  TDM_TRY(tdm_storage_create(context, device, partner, (size_t)bytes, &storage));
  const tdm_status status = tdm_tensor_over(storage, 0, dtype, shape, out_tensor);
  tdm_storage_release(storage);
  return status;
}

static tdm_tensor *over(tdm_storage *storage, size_t offset_bytes, tdm_dtype dtype,
                        const tdm_shape *shape) {
  tdm_tensor *tensor = NULL;
  const tdm_status status = tdm_tensor_over(storage, offset_bytes, dtype, shape, &tensor);
  return status == TDM_OK ? tensor : NULL;
}

/* Checks a tensor's parameters. Returns its bytes, or -1 with a message if they are invalid. */
static int64_t check_tensor(tdm_context *context, tdm_dtype dtype, const tdm_shape *shape) {
  if (tdm_context_check(context) != TDM_OK) return -1;
  if (tdm_dtype_bytes(dtype) == 0) {
    (void)tdm_fail(TDM_INVALID_ARGUMENT, "a tensor cannot have dtype %d", (int)dtype);
    return -1;
  }
  const int64_t bytes = tdm_shape_bytes(shape, dtype);
  if (bytes < 0) {
    char text[TDM_SHAPE_TEXT];
    (void)tdm_fail(TDM_INVALID_ARGUMENT,
                   "a tensor cannot have shape %s: each dimension is a size, and all "
                   "elements together fit into memory",
                   tdm_shape_text(shape, text, sizeof(text)));
  }
  return bytes;
}

static tdm_tensor *create(tdm_context *context, tdm_device *device, tdm_device *partner,
                          tdm_dtype dtype, const tdm_shape *shape, int64_t bytes) {
  tdm_storage *storage = NULL;
  if (tdm_storage_create(context, device, partner, (size_t)bytes, &storage) != TDM_OK) return NULL;
  tdm_tensor *tensor = over(storage, 0, dtype, shape);
  tdm_storage_release(storage);
  return tensor;
}

tdm_tensor *tdm_tensor_create(tdm_context *context, const char *device, tdm_dtype dtype,
                              tdm_shape shape) {
  const int64_t bytes = check_tensor(context, dtype, &shape);
  if (bytes < 0) return NULL;
  tdm_device *found = tdm_context_find_device(context, device);
  return !found ? NULL : create(context, found, NULL, dtype, &shape, bytes);
}

tdm_tensor *tdm_tensor_staging(tdm_context *context, const char *near, tdm_dtype dtype,
                               tdm_shape shape) {
  const int64_t bytes = check_tensor(context, dtype, &shape);
  if (bytes < 0) return NULL;
  tdm_device *partner = tdm_context_find_device(context, near);
  if (!partner) return NULL;
  tdm_device *host = tdm_context_host(context);
  return create(context, host, partner->host_addressable ? NULL : partner, dtype, &shape, bytes);
}

typedef struct wrapped_storage {
  tdm_storage storage;
  void (*released)(void *user);
  void *user;
} wrapped_storage;

static void dispose_wrapped(tdm_storage *storage) {
  wrapped_storage *wrapped = (wrapped_storage *)storage;
  tdm_context *context = storage->context;
  if (wrapped->released) wrapped->released(wrapped->user);
  tdm_release(tdm_context_allocator(context), wrapped, sizeof *wrapped);
  tdm_context_release(context);
}

tdm_tensor *tdm_tensor_wrap(tdm_context *context, tdm_dtype dtype, tdm_shape shape, void *data,
                            void (*released)(void *user), void *user) {
  const int64_t bytes = check_tensor(context, dtype, &shape);
  if (bytes < 0) return NULL;
  if (!data && bytes > 0) {
    (void)tdm_fail(TDM_INVALID_ARGUMENT, "the data to wrap is NULL");
    return NULL;
  }
  const tdm_allocator *allocator = tdm_context_allocator(context);
  wrapped_storage *wrapped = tdm_allocate(allocator, sizeof *wrapped, "a wrapped tensor");
  if (!wrapped) return NULL;
  atomic_init(&wrapped->storage.references, 1);
  wrapped->storage.context = tdm_context_retain(context);
  wrapped->storage.memory = (tdm_memory){
      .device = tdm_context_host(context), .address = (tdm_address)data, .bytes = (size_t)bytes};
  wrapped->storage.dispose = dispose_wrapped;
  tdm_tensor *tensor = over(&wrapped->storage, 0, dtype, &shape);
  if (tensor) {
    wrapped->released = released; /* released may be called only from here on */
    wrapped->user = user;
  }
  tdm_storage_release(&wrapped->storage);
  return tensor;
}

tdm_tensor *tdm_tensor_retain(tdm_tensor *tensor) {
  if (tensor) (void)atomic_fetch_add_explicit(&tensor->references, 1, memory_order_relaxed);
  return tensor;
}

void tdm_tensor_release(tdm_tensor *tensor) {
  if (!tensor || tdm_context_is_inherited(tensor->storage->context)) return;
  if (atomic_fetch_sub_explicit(&tensor->references, 1, memory_order_acq_rel) != 1) return;
  tdm_storage *storage = tensor->storage;
  tdm_release(tdm_context_allocator(storage->context), tensor, sizeof *tensor);
  tdm_storage_release(storage);
}

/* ---- Properties ------------------------------------------------------------------------------ */

tdm_dtype tdm_tensor_dtype(const tdm_tensor *tensor) {
  return !tensor ? TDM_DTYPE_NONE : tensor->dtype;
}

tdm_shape tdm_tensor_shape(const tdm_tensor *tensor) {
  return !tensor ? (tdm_shape){.rank = -1} : tensor->shape;
}

size_t tdm_tensor_bytes(const tdm_tensor *tensor) {
  return !tensor ? 0 : tensor->bytes;
}

const char *tdm_tensor_device(const tdm_tensor *tensor) {
  return !tensor ? NULL : tdm_tensor_owner(tensor)->name;
}

void *tdm_tensor_host_data(const tdm_tensor *tensor) {
  tdm_device *device = tdm_tensor_owner(tensor);
  return device->ops->host_pointer(device, tdm_tensor_address(tensor));
}

static void *fail_no_tensor(const char *function) {
  (void)tdm_fail_null("%s: the tensor", function);
  return NULL;
}

void *tdm_tensor_data(const tdm_tensor *tensor) {
  if (!tensor) return fail_no_tensor("tdm_tensor_data");
  void *data = tdm_tensor_host_data(tensor);
  if (!data)
    (void)tdm_fail(TDM_INVALID_ARGUMENT,
                   "tdm_tensor_data: the host cannot read the memory of %s; tdm_tensor_read or "
                   "tdm_tensor_to copies it",
                   tdm_tensor_owner(tensor)->name);
  return data;
}

tdm_tensor *tdm_tensor_slice(tdm_tensor *tensor, int64_t begin, int64_t end) {
  if (!tensor) return fail_no_tensor("tdm_tensor_slice");
  char text[TDM_SHAPE_TEXT];
  const int64_t rows = tensor->shape.rank < 1 ? -1 : tensor->shape.dims[0];
  if (begin < 0 || end < begin || end > rows) {
    (void)tdm_fail(TDM_INVALID_ARGUMENT, "rows %lld to %lld are not inside a tensor of shape %s",
                   (long long)begin, (long long)end,
                   tdm_shape_text(&tensor->shape, text, sizeof(text)));
    return NULL;
  }
  tdm_shape shape = tensor->shape;
  shape.dims[0] = end - begin;
  const size_t row_bytes = rows == 0 ? 0 : tensor->bytes / (size_t)rows;
  return over(tensor->storage, tensor->offset_bytes + (size_t)begin * row_bytes, tensor->dtype,
              &shape);
}

tdm_tensor *tdm_tensor_view(tdm_tensor *tensor, tdm_shape shape) {
  if (!tensor) return fail_no_tensor("tdm_tensor_view");
  const int64_t count = tdm_shape_count(&shape);
  if (count < 0 || count != tdm_shape_count(&tensor->shape)) {
    char old_text[TDM_SHAPE_TEXT];
    char new_text[TDM_SHAPE_TEXT];
    (void)tdm_fail(TDM_INVALID_ARGUMENT, "a tensor of shape %s cannot be viewed as %s",
                   tdm_shape_text(&tensor->shape, old_text, sizeof old_text),
                   tdm_shape_text(&shape, new_text, sizeof new_text));
    return NULL;
  }
  return over(tensor->storage, tensor->offset_bytes, tensor->dtype, &shape);
}
